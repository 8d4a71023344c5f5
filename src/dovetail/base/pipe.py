"""Output to a program that may stop reading, such as head or less."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def readers_may_leave() -> Iterator[None]:
    """For the whole of a command: once its reader has gone it is done, without a word, with exit code 0."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except SystemExit as stop:
        # Tables are printed by a library that ends the process with 1 for the same reason.
        if not isinstance(stop.__context__, BrokenPipeError):
            raise
        discard_output()


def discard_output() -> None:
    """What is still buffered has nowhere to go."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
