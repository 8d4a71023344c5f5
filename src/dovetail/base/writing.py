"""Files and folders that are written whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dovetail.base.errors import InputError


def write_whole(path: Path, text: str | bytes) -> None:
    """In place of what is there, once all of it is on the disk. Raises OSError; what was there then stays.

    What is no ordinary file (a pipe, /dev/stdout), or in a folder that takes no other, is written as it is.
    """
    raw = text.encode() if isinstance(text, str) else text
    target = path.resolve()  # a link stays one
    there = target.exists()
    if there and (not target.is_file() or not os.access(target.parent, os.W_OK)):
        path.write_bytes(raw)
        return
    if there and not os.access(target, os.W_OK):
        target.open("ab").close()  # says what is wrong
    draft = target.with_name(f".{target.name[:200]}.part")
    try:
        draft.write_bytes(raw)
        if there:
            shutil.copymode(target, draft)
        draft.replace(target)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


@contextmanager
def whole_folder(folder: Path) -> Iterator[None]:
    """What is made in the folder meanwhile, which is new or empty, goes again where it cannot be finished."""
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        yield
    except OSError:
        for child in folder.iterdir() if folder.is_dir() else ():
            if child.is_dir() and not child.is_symlink():
                shutil.rmtree(child, ignore_errors=True)
            else:
                child.unlink()
        for each in made:
            if each.is_dir():
                each.rmdir()
        raise


def unwritten(error: OSError, source: Path | str, remedy: str = "") -> InputError:
    """What is said of a file or folder that was not written; the flag or the path is its source."""
    return InputError(f"cannot be written: {_reason(error)}", source=str(source), remedy=remedy)


def _reason(error: OSError) -> str:
    """In words: copying a folder keeps its reasons in a list, as text."""
    if isinstance(error, shutil.Error) and error.args and error.args[0]:
        return str(error.args[0][0][-1]).rpartition("] ")[2]
    return error.strerror or str(error)
