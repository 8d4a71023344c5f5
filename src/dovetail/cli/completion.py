"""`dovetail completion`: what a shell needs to complete commands, flags and values."""

from __future__ import annotations

from typing import Literal


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print what a shell needs to complete Dovetail's commands, their flags and the values that these take.

    Nothing is changed anywhere. For one session of bash: `source <(dovetail completion bash)`. For all:

    - bash: `dovetail completion bash > ~/.local/share/bash-completion/completions/dovetail`
    - zsh: `dovetail completion zsh > "${fpath[1]}/_dovetail"`
    - fish: `dovetail completion fish > ~/.config/fish/completions/dovetail.fish`

    Parameters
    ----------
    shell
        bash, zsh or fish.
    """
    from dovetail.cli.main import application  # it names this command too

    print(application(overview=True).generate_completion(shell=shell), end="")
