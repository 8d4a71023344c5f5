"""Work in a copy of the process: the same result wherever it is done, and no process is left behind."""

from __future__ import annotations

import subprocess
import sys

import pytest

# In a process of its own: that of the tests has threads, and so is not copied.
_BEGIN = """
import os, signal, threading
from dovetail.base import beside as copying
from dovetail.base.beside import beside
copying.cores = lambda: 2
here = os.getpid()
def there():
    return os.getpid() != here
def alone():
    try:
        return os.waitpid(-1, os.WNOHANG) is None
    except ChildProcessError:
        return True
"""
_linux = pytest.mark.skipif(sys.platform != "linux", reason="forks are no copies elsewhere")


def said(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN + code], capture_output=True, text=True, check=True, timeout=60
    )
    assert not done.stderr
    return done.stdout.strip()


@_linux
def test_it_is_done_by_a_copy_whose_result_may_be_long() -> None:
    code = """
print("once", end=" ")  # still in the buffer when the copy is made
with beside(lambda: (there(), "x" * (1 << 20))) as result:
    copied, text = result()
print(copied, len(text), alone())
"""
    assert said(code) == "once True 1048576 True"


@pytest.mark.parametrize(
    "unless",
    [
        "copying.cores = lambda: 1",
        "threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "def full(): raise BlockingIOError('no room')\nos.fork = full",
        "def full(): raise OSError('too many open files')\nos.pipe = full",
        "copying.sys.platform = 'darwin'",
        "beside = lambda work, real=beside: real(work, worth=False)",
    ],
)
def test_it_is_done_here_where_no_copy_can_be_made_or_is_worth_it(unless: str) -> None:
    assert said(f"{unless}\nwith beside(there) as result:\n    print(result(), alone())") == "False True"


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(0)", "raise SystemExit"])
def test_a_copy_that_ends_too_early_is_made_up_for(end: str) -> None:
    code = f"""
def work():
    if there():
        {end}
    return "done"
with beside(work) as result:
    print(result(), alone())
"""
    assert said(code).startswith("done")


def test_what_it_raises_is_raised_here() -> None:
    code = """
try:
    with beside(lambda: 1 // 0) as result:
        result()
except ZeroDivisionError:
    print("raised", alone())
"""
    assert said(code) == "raised True"


def test_a_copy_that_is_not_needed_after_all_is_ended() -> None:
    code = """
try:
    with beside(lambda: there() and signal.pause()):
        raise LookupError
except LookupError:
    print("ended", alone())
"""
    assert said(code) == "ended True"
