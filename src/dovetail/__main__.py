"""`python -m dovetail`."""

from dovetail.cli.main import main

main()
