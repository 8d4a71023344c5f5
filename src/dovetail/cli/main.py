"""The `dovetail` command: finds the subcommand, turns every error into words and an exit code.

Exit codes: 0 done; 1 a fault of Dovetail's own, or what `check` found; 2 something the user gave is wrong;
3 what --fail-on names holds; 130 interrupted.
"""

from __future__ import annotations

import atexit
import errno
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from cyclopts import App, CoercionError, CycloptsError, Group, Parameter, convert

from dovetail import __version__
from dovetail.base.collector import collect_seldom
from dovetail.base.errors import DovetailError, InputError
from dovetail.cli.messages import choose_form, complain, print_error
from dovetail.cli.misuse import misuse

_CATALOGS = "DOVETAIL_CATALOG"
_FILES = ("-f", "--filename", "--file")
OK, FAULT, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

_GROUPS = {
    "Ask, of manifests or a cluster": {
        "plan": "Show which nodes would be bought for manifests, or for all pods of a cluster.",
        "explain": "Tell why a pod has no place, why a node is what it is, and what rules cost.",
        "check": "Find the mistakes in manifests, in an AWS account, in user data.",
        "rightsize": "Recommend requests by what pods use, and show which nodes that would save.",
        "diff": "Show what changed manifests would do: nodes that drift, pods, cost, the way back.",
        "convert": "Write manifests of older generations of the API in today's.",
        "catalog": "List EC2 instance types as Dovetail sees them: labels, room, prices.",
        "snapshot": "Write what plans need of a cluster to a file, without secrets.",
    },
    "Play, in virtual time": {
        "simulate": "Play a scenario in virtual time and see what it costs and who waits.",
        "compare": "Play a scenario in several ways, and show the difference with its uncertainty.",
        "replay": "Play a real cluster again, from a snapshot and its history.",
        "headroom": "Tell how much room ahead of time a workload needs to grow without waiting.",
        "outage": "Lose the machines of a zone, and show whether the pods come back, how fast, at what cost.",
        "rollout": "Change manifests, and show when the last node is replaced and what decides it.",
        "sweep": "Play a scenario with many settings, and show which are worth having.",
    },
    "Watch": {
        "top": "Watch nodes: what fills them, what they cost, why they stay, what comes next.",
        "cost": "Show what the past cost and who bears it: by namespace, workload, label, node.",
        "serve": "Serve a page of what ran and what it cost, and OpenCost's API.",
    },
    "Operate": {
        "run": "Run the controller on a real cluster.",
        "crds": "Print the CustomResourceDefinitions of NodePool, NodeClaim, EC2NodeClass and the others.",
        "completion": "Print what bash, zsh or fish needs to complete commands and flags.",
    },
}
_COMMANDS = frozenset(name for commands in _GROUPS.values() for name in commands)


def application(*, overview: bool) -> App:
    """The command line. Commands are given as text: their imports are paid for only when they run.

    `overview` describes them in one line each, for the list of all commands; otherwise a command says more
    about itself, in its docstring.
    """
    app = App(
        name="dovetail",
        help="A Kubernetes node autoscaler that proves how good its plans are.\n\n"
        "Begin with: dovetail simulate examples/evening-rush --report evening.html\n\n"
        "dovetail help COMMAND says all about a command.",
        version=f"dovetail {__version__}",
        version_flags=["--version", "-V"],
        suppress_keyboard_interrupt=False,  # `run` says so and gives the exit code
        default_parameter=Parameter(converter=_value),
    )
    for title, commands in _GROUPS.items():
        group = Group.create_ordered(title)
        for place, (name, summary) in enumerate(commands.items()):
            app.command(
                f"dovetail.cli.{name}:{name}",
                name=name,
                help=summary if overview else None,
                group=group,
                sort_key=place,
            )
    flags = Group.create_ordered("Flags")
    app["--help"].group = app["--version"].group = (flags,)
    return app


def _value(kind: Any, tokens: Any) -> Any:
    """As the parser reads values, but for two that it would take for others: 1.5 of a flag that wants a whole
    number, and the empty text that is left of "$DUMP" where no such variable is set, which is this folder.
    """
    for token in tokens:
        if kind is int and "." in token.value:
            raise CoercionError(token=token, target_type=int)
        if not token.value and (kind is Path or token.keyword is None or token.keyword in _FILES):
            raise InputError(
                f"{token.keyword}: its value is empty" if token.keyword else "an argument is empty",
                remedy="leave it out, or give a value; a variable of the shell that is not set is empty",
            )
    return convert(kind, tokens)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    collect_seldom()
    given = sys.argv[1:] if arguments is None else arguments
    _hold_streams()
    if sys.stdout is None:
        choose_form(given)
        complain(
            InputError("standard output is closed", remedy="send it to /dev/null if the answer is not wanted")
        )
        _leave(BAD_INPUT)
    _leave(run(given))


def _hold_streams() -> None:
    """What is closed of the three streams goes to and comes from nowhere: else the next file that is opened
    would be it, and get what others write there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the least number that is free


def _leave(code: int) -> NoReturn:
    """End the process. It does not take apart first what it holds, which the system gets back anyway.

    That took 0.05 s, of a short command as of a large plan. Where threads have to be waited for, or what is
    still to be written cannot be, Python ends it as ever.
    """
    if threading.active_count() == 1:
        with suppress(OSError, ValueError, AttributeError):  # full, closed, none
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run the command line; answers the exit code."""
    choose_form(arguments)
    try:
        _use_catalogs()
        arguments = _asked_for_help(arguments)
        app = application(overview=not any(argument in _COMMANDS for argument in arguments))
        with readers_may_leave():
            app(_with_stdin(arguments), exit_on_error=False, print_error=False, result_action="return_value")
        return OK
    except CycloptsError as error:
        complain(misuse(error))
        return BAD_INPUT
    except InputError as error:
        complain(error)
        return BAD_INPUT
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else OK
    except OSError as error:
        if "temporary directory" in (error.strerror or ""):
            complain(InputError(error.strerror or "", remedy="make room there, or name another in TMPDIR"))
            return BAD_INPUT
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return _fault(error)
        full = InputError(f"the answer cannot be written: {error.strerror}", remedy="make room on the disk")
        with suppress(OSError):  # where messages go may be as full
            complain(full)
        discard_output()
        return BAD_INPUT
    except KeyboardInterrupt:
        print_error("interrupted")
        return INTERRUPTED
    except Exception as error:
        return _fault(error)


def _fault(error: Exception) -> int:
    """What Dovetail itself did wrong."""
    if os.environ.get("DOVETAIL_DEBUG"):
        raise error
    kind = "" if isinstance(error, DovetailError) else f"{type(error).__name__}: "
    print_error(f"{kind}{error}\n  This is a fault of Dovetail; DOVETAIL_DEBUG=1 shows where it happened.")
    return FAULT


def _asked_for_help(arguments: Sequence[str]) -> Sequence[str]:
    """`help` and `help COMMAND` are the flag of that name."""
    return [*arguments[1:], "--help"] if arguments[:1] in (["help"], ("help",)) else arguments


def _with_stdin(arguments: Sequence[str]) -> list[str]:
    """`-f -` as a path: a lone hyphen is no value to the parser of the command line."""
    given, flag = [], ""
    for word in arguments:
        if word == "-" and flag in _FILES:
            from dovetail.reading.sources import STDIN_PATH

            word = STDIN_PATH
        elif word.startswith("-"):
            flag = word
        given.append(word)
    return given


def _use_catalogs() -> None:
    """Regions as AWS described them, instead of the packaged ones. Costs nothing where there are none."""
    given = os.environ.get(_CATALOGS, "")
    if given:
        from dovetail.cloud.catalog import live, store

        store.use(*map(live.read, live.named(given)))


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
