"""Change decisions in small wrong ways, one at a time; each change must make a test fail.

python tests/mutants/run.py [--only dovetail.disrupt.] [--budget 8] [--fresh] [--show]

The tests run once with the statements of the targets marked, each with what it reaches; then every mutant is
tried in a process forked from one that has all of them loaded: only tests that reach the changed statement,
those that are quick and about little first, until one fails. A mutant that no test within `--budget` seconds
of processor time notices has survived. build/mutants.json has the verdicts; a second run tries what changed.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import gc
import hashlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

sys.path.insert(0, str(Path(__file__).parent))

from mutate import Mutant, mutants
from survivors import EQUIVALENT
from targets import ROOT, modules, tests

BUILD = ROOT / "build"
REACHED = BUILD / "mutants-reached.json"
VERDICTS = BUILD / "mutants.json"
SCORE = 0.95
_MARKS = "_reached_"
_MOST_MARKS = 100_000
_FILE_SECONDS = 25  # of processor time for all tests of a file, when what they reach is looked at
_GENEROUS = 5  # times what a test took without a mutant
_GRACE = 4.0  # seconds more
_WALL = 10  # seconds on the clock for each of processor time: the machine may be busy
_KNOWN = (
    0.1  # a test that killed another mutant of the function may cost ten times as much as others in front
)
_MEMORY = 3 * 2**30  # bytes more than at the start
PASSED, FAILED, ENDED, SKIPPED = "survived", "failed", "ended", "not applied"


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


def _write(path: Path, document: object) -> None:
    path.parent.mkdir(exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(document, indent=1), "utf-8")
    beside.replace(path)


# ---------------------------------------------------------------- what each test reaches


class Marker(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the targets with a mark before each statement of their functions."""

    def __init__(self, found: Mapping[str, Path]) -> None:
        self._found = found
        self.places: list[tuple[str, int]] = []  # mark -> module and line

    def find_spec(self, name: str, _path: Sequence[str] | None, _target: Any = None) -> Any:
        """Only for targets."""
        if name not in self._found:
            return None
        folders = [str(self._found[name].parent)] if self._found[name].name == "__init__.py" else None
        spec = importlib.util.spec_from_loader(name, self, origin=str(self._found[name]))
        if spec is not None and folders:
            spec.submodule_search_locations = folders
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Run the marked text."""
        path = self._found[module.__name__]
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._mark(module.__name__, node)
        code = compile(ast.fix_missing_locations(tree), str(path), "exec", dont_inherit=True)
        module.__file__ = str(path)
        exec(code, module.__dict__)

    def _mark(self, name: str, node: ast.AST) -> None:
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            block = getattr(node, field, None)
            if not isinstance(block, list):
                continue
            if field in ("handlers", "cases"):
                for item in block:
                    self._mark(name, item)
                continue
            marked: list[ast.stmt] = []
            for statement in block:
                marked += [self._set(name, statement.lineno), statement]
                if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    self._mark(name, statement)
            setattr(node, field, marked)

    def _set(self, name: str, line: int) -> ast.stmt:
        self.places.append((name, line))
        where = ast.Subscript(ast.Name(_MARKS, ast.Load()), ast.Constant(len(self.places) - 1), ast.Store())
        return ast.Assign([where], ast.Constant(1))


class Look:
    """A plugin: runs each file of tests in a process of its own and notes what every test reaches."""

    def __init__(self, marker: Marker, keep: dict[str, Any]) -> None:
        self._marker = marker
        self._keep = keep

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        files: dict[Path, list[pytest.Item]] = defaultdict(list)
        for item in session.items:
            files[item.path].append(item)
        gc.collect()
        gc.freeze()
        found = modules()
        for path, items in files.items():
            began = time.monotonic()
            tests = {}
            lines = _forked(lambda items=items: self._run(items), _FILE_SECONDS)
            for line in lines:
                one = json.loads(line)
                tests[one.pop("test")] = one
            name = str(path.relative_to(ROOT))
            touched = {module for test in tests.values() for module in test["lines"]}
            sources = {module: _hash(found[module]) for module in sorted(touched)}
            self._keep[name] = {"hash": _hash(path), "sources": sources, "tests": tests}
            _write(REACHED, self._keep)
            _say(f"{name}: {len(tests)} of {len(items)} tests, {time.monotonic() - began:.0f} s")
        return True

    def _run(self, items: Sequence[pytest.Item]) -> Iterator[str]:
        marks: bytearray = getattr(builtins, _MARKS)
        for place, item in enumerate(items):
            marks[:] = bytes(_MOST_MARKS)
            began = time.process_time()
            after = items[place + 1] if place + 1 < len(items) else None
            reports = runtestprotocol(item, log=False, nextitem=after)
            passed = all(report.outcome == "passed" for report in reports)
            lines: dict[str, list[int]] = defaultdict(list)
            found = marks.find(1)
            while found >= 0:
                module, line = self._marker.places[found]
                lines[module].append(line)
                found = marks.find(1, found + 1)
            cpu = round(time.process_time() - began, 4)
            yield json.dumps({"test": item.nodeid, "passed": passed, "cpu": cpu, "lines": lines})


def _say(text: str) -> None:
    os.write(_STDERR, f"{text}\n".encode())


_STDERR = os.dup(2)


def _forked(work: Any, seconds: float) -> list[str]:
    """The lines that `work` yields in a forked process, as far as it came within that processor time."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, seconds * _WALL)
        try:
            for line in work():
                os.write(into, line.encode() + b"\n")
        finally:
            os._exit(0)
    os.close(into)
    parts = []
    while part := os.read(out, 1 << 16):
        parts.append(part)
    os.close(out)
    os.waitpid(child, 0)
    return [line.decode() for line in b"".join(parts).split(b"\n")[:-1]]


# ---------------------------------------------------------------- planting


class Planter:
    """Puts a mutant into modules that are loaded already. In a forked process: it is never taken out."""

    def __init__(self, found: Mapping[str, Path]) -> None:
        paths = {str(path): name for name, path in found.items()}
        self._functions: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
        for item in gc.get_objects():
            if isinstance(item, FunctionType) and item.__code__.co_filename in paths:
                code = item.__code__
                key = paths[code.co_filename], code.co_qualname, code.co_firstlineno
                self._functions[key].append(item)

    def plant(self, module: str, mutant: Mutant) -> bool:
        """False if nothing of what runs could be changed."""
        if not mutant.first:
            return _replant(sys.modules[module], mutant.code)
        code = _code_of(mutant.code, mutant.function)
        functions = self._functions.get((module, mutant.function, mutant.first), [])
        for function in functions:
            function.__code__ = code
        return bool(functions)


def _code_of(code: CodeType, name: str) -> CodeType:
    for item in code.co_consts:
        if isinstance(item, CodeType):
            if item.co_qualname == name:
                return item
            if name.startswith(f"{item.co_qualname}."):
                return _code_of(item, name)
    raise LookupError(name)


def _replant(module: ModuleType, code: CodeType) -> bool:
    """Run the changed module beside the real one; what differs goes to whatever holds the original."""
    beside: dict[str, Any] = {"__name__": module.__name__, "__package__": module.__package__}
    beside["__file__"] = module.__file__
    exec(code, beside)
    changed = False
    for name, value in beside.items():
        old = module.__dict__.get(name)
        if name.startswith("__") or old is value:
            continue
        if isinstance(value, FunctionType) and isinstance(old, FunctionType):
            changed |= _defaults(old, value)
        elif isinstance(value, type) and isinstance(old, type) and value.__module__ == module.__name__:
            changed |= _class(old, value)
        elif _plain(value) and (value != old or type(value) is not type(old)):
            for other in list(sys.modules.values()):
                if getattr(other, "__dict__", {}).get(name) is old:
                    other.__dict__[name] = value
                    changed = True
        elif (
            not _plain(value) and isinstance(value, dict | tuple | frozenset) and _sizes(value) != _sizes(old)
        ):
            module.__dict__[name] = value
            changed = True
    return changed


def _class(old: type, new: type) -> bool:
    changed = False
    for name, value in vars(new).items():
        before = vars(old).get(name)
        if isinstance(value, FunctionType) and isinstance(before, FunctionType):
            changed |= _defaults(before, value)
        elif not name.startswith("__") and _plain(value) and value != before:
            setattr(old, name, value)
            changed = True
    return changed


def _defaults(old: FunctionType, new: FunctionType) -> bool:
    """Plain defaults of the new one go to the old one; others, such as a dataclass's factories, stay."""
    before, after = old.__defaults__ or (), new.__defaults__ or ()
    mixed = tuple(a if _plain(a) else b for a, b in zip(after, before, strict=False))
    named = {name: value for name, value in (new.__kwdefaults__ or {}).items() if _plain(value)}
    kept = {**(old.__kwdefaults__ or {}), **named}
    changed = len(before) == len(after) and repr(mixed) != repr(before)
    if changed:
        old.__defaults__ = mixed
    if old.__kwdefaults__ and repr(kept) != repr(old.__kwdefaults__):
        old.__kwdefaults__ = kept
        changed = True
    return changed


def _sizes(value: object) -> object:
    """What distinguishes a table of functions from one that lacks a row, or part of a row."""
    if isinstance(value, Mapping):
        return [(repr(key), _sizes(item)) for key, item in value.items()]
    if isinstance(value, frozenset):
        return len(value)
    return [_sizes(item) for item in value] if isinstance(value, tuple | list) else None


def _plain(value: object) -> bool:
    if isinstance(value, tuple | list | set | frozenset):
        return all(map(_plain, value))
    if isinstance(value, dict):
        return all(_plain(item) for pair in value.items() for item in pair)
    return value is None or isinstance(value, int | float | str | bytes)


# ---------------------------------------------------------------- trying


class Hunt:
    """A plugin: plants each mutant in a forked process and runs the tests that reach it."""

    def __init__(self, given: argparse.Namespace, verdicts: dict[str, Any]) -> None:
        self._budget = given.budget
        self._only = given.only
        self._verdicts = verdicts
        self._reached = _read(REACHED)
        self._hashes = {name: entry["hash"] for name, entry in self._reached.items()}
        self._killers: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._fresh = given.fresh

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        found = modules()
        items = {item.nodeid: item for item in session.items}
        tests = {
            name: test
            for entry in self._reached.values()
            for name, test in entry["tests"].items()
            if test["passed"] and name in items
        }
        by_line: dict[tuple[str, int], list[str]] = defaultdict(list)
        for name in sorted(tests, key=lambda name: (tests[name]["cpu"], name)):
            for module, lines in tests[name]["lines"].items():
                for line in lines:
                    by_line[module, line].append(name)
        gc.collect()
        planter = Planter(found)
        gc.freeze()
        for module, path in found.items():
            if not module.startswith(self._only):
                continue
            text, known = path.read_text("utf-8"), self._verdicts.get(module, {})
            lines = _lines_of_constants(text)
            verdicts = {}
            self._verdicts[module] = {"hash": _hash(path), "mutants": verdicts}
            same = known.get("hash") == _hash(path) and not self._fresh
            before = known.get("mutants", {}) if same else {}
            for mutant in mutants(module, text, str(path)):
                at = [mutant.line] if mutant.first else lines.get(mutant.line, ())
                mine = sorted(
                    {
                        name
                        for line in at or [x for m, x in by_line if m == module]
                        for name in by_line[module, line]
                    },
                    key=lambda name: (tests[name]["cpu"], name),
                )
                old = before.get(mutant.name)
                if old is not None and self._holds(old, mine, tests):
                    verdict = old
                else:
                    verdict = self._try(planter, module, mutant, mine, tests, items)
                verdicts[mutant.name] = {"line": mutant.line, "text": mutant.text, **verdict}
                if verdict["verdict"] in (FAILED, ENDED):
                    self._killers[module, mutant.function][verdict["by"]] += 1
            _write(VERDICTS, self._verdicts)
            count = Counter(item["verdict"] for item in verdicts.values())
            _say(f"{module}: {dict(count)}")
        return True

    def _holds(self, old: Mapping[str, Any], mine: Sequence[str], tests: Mapping[str, Any]) -> bool:
        """Whether a verdict of an earlier run would be the same now."""
        if old["verdict"] in (FAILED, ENDED):
            return old["by"] in tests and self._hashes.get(old["by"].split("::")[0]) == old["key"]
        return bool(old["key"] == self._key(mine))

    def _key(self, mine: Sequence[str]) -> str:
        text = " ".join([str(self._budget), *(f"{name}{self._hashes[name.split('::')[0]]}" for name in mine)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _try(
        self,
        planter: Planter,
        module: str,
        mutant: Mutant,
        mine: Sequence[str],
        tests: Mapping[str, Any],
        items: Mapping[str, pytest.Item],
    ) -> dict[str, Any]:
        killers = self._killers[module, mutant.function]
        order = sorted(
            mine, key=lambda name: (_breadth(tests[name]) * (_KNOWN if name in killers else 1), name)
        )
        chosen, left = [], self._budget
        for name in order:
            if left <= 0:
                break
            chosen.append(name)
            left -= tests[name]["cpu"]

        def work() -> Iterator[str]:
            if not planter.plant(module, mutant):
                yield SKIPPED
                return
            for place, name in enumerate(chosen):
                yield name
                seconds = _GENEROUS * tests[name]["cpu"] + _GRACE
                signal.setitimer(signal.ITIMER_PROF, seconds)
                signal.setitimer(signal.ITIMER_REAL, seconds * _WALL)
                after = items[chosen[place + 1]] if place + 1 < len(chosen) else None
                reports = runtestprotocol(items[name], log=False, nextitem=after)
                if any(report.failed for report in reports):
                    yield FAILED
                    return
            yield PASSED

        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        lines = _forked(work, 60) or [ENDED]
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 3)
        last = lines[-1]
        if last in (PASSED, SKIPPED):
            tried = f"{len(chosen)} of {len(mine)} tests"
            return {"verdict": last, "tried": tried, "cpu": cpu, "key": self._key(mine)}
        by = lines[-2] if last == FAILED else last
        verdict = FAILED if last == FAILED else ENDED
        return {"verdict": verdict, "by": by, "cpu": cpu, "key": self._hashes.get(by.split("::")[0], "")}


def _breadth(test: Mapping[str, Any]) -> float:
    """Smaller for tests that are about little: they notice more than others that pass by here on their way.

    By processor time alone, hundreds of quick simulations came before the table that a module has.
    """
    return float(test["cpu"] * sum(map(len, test["lines"].values())))


def _lines_of_constants(text: str) -> dict[int, tuple[int, ...]]:
    """Statement outside of functions -> lines within functions that use what it makes, by whatever way."""
    tree = ast.parse(text)
    users: dict[str, set[int]] = defaultdict(set)
    makers: dict[int, set[str]] = defaultdict(set)

    def visit(node: ast.AST, line: int, inside: bool, owner: str) -> None:
        for child in ast.iter_child_nodes(node):
            at = child.lineno if isinstance(child, ast.stmt) else line
            if isinstance(child, ast.Name | ast.Attribute | ast.arg):
                name = getattr(child, "id", None) or getattr(child, "attr", None) or getattr(child, "arg", "")
                if inside:
                    users[name].add(at)
                elif isinstance(getattr(child, "ctx", None), ast.Store) or isinstance(child, ast.arg):
                    makers[at].add(name)
                    if owner:
                        makers[at].add(owner)
                else:
                    for made in makers.get(at, ()):
                        indirect[name].add(made)
            here = inside or (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and child in node.body)
            name = child.name if isinstance(child, ast.ClassDef) else owner
            visit(child, at, here, name)

    indirect: dict[str, set[str]] = defaultdict(set)
    visit(tree, 0, False, "")
    answer = {}
    for line, names in makers.items():
        pending, seen = set(names), set()
        while pending:
            name = pending.pop()
            seen.add(name)
            pending |= indirect.get(name, set()) - seen
        answer[line] = tuple(sorted({each for name in seen for each in users.get(name, ())}))
    return answer


# ---------------------------------------------------------------- the whole run


class Quick:
    """A plugin: hypothesis tries fewer examples, and looks for no smaller one."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self) -> None:
        # Imported here: pytest must have rewritten its plugins before.
        from hypothesis import HealthCheck, Phase, settings

        settings.register_profile(
            "mutants",
            deadline=None,
            derandomize=True,
            database=None,
            max_examples=50,
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=[HealthCheck.too_slow],
        )


def _pytest(plugin: object, paths: Sequence[str]) -> int:
    options = ["-o", "addopts=", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--no-header"]
    options += [
        "--continue-on-collection-errors",
        "--hypothesis-profile=mutants",
        f"--rootdir={ROOT}",
        "--types-anew",
    ]
    return int(pytest.main([*options, *paths], plugins=[Quick(), plugin]))


def _stale(keep: Mapping[str, Any], found: Mapping[str, Path]) -> list[str]:
    """Files of tests of which it is not known what they reach now."""
    stale = []
    for path in tests():
        file = str(path.relative_to(ROOT))
        entry = keep.get(file)
        if (
            entry is None
            or entry["hash"] != _hash(path)
            or any(name not in found or _hash(found[name]) != one for name, one in entry["sources"].items())
        ):
            stale.append(file)
    return stale


def look(given: argparse.Namespace) -> None:
    """In this process: what do the tests reach that are new or changed?"""
    found, keep = modules(), {} if given.fresh else _read(REACHED)
    for file in [file for file in keep if not (ROOT / file).exists()]:
        del keep[file]
    stale = [file for file in _stale(keep, found) if re.search(given.tests, file)]
    for file in stale:
        keep.pop(file, None)
    _write(REACHED, keep)
    if stale:
        setattr(builtins, _MARKS, bytearray(_MOST_MARKS))
        marker = Marker(found)
        sys.meta_path.insert(0, marker)
        _pytest(Look(marker, keep), stale)


def hunt(given: argparse.Namespace) -> None:
    """In this process: try the mutants."""
    reached = _read(REACHED)
    wanted = {name for name in modules() if name.startswith(given.only)}
    files = [
        file
        for file, entry in reached.items()
        if any(wanted & test["lines"].keys() for test in entry["tests"].values())
    ]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if files:
        _pytest(Hunt(given, _read(VERDICTS)), files)


def report(only: str, show: bool) -> int:
    """Print the score of each module; the exit code."""
    verdicts, found = _read(VERDICTS), modules()
    total, killed, seconds, wrong = 0, 0, 0.0, []
    print(f"{'module':50} mutants killed equal survived score")
    for module in found:
        entry = verdicts.get(module)
        if entry is None or not entry["mutants"] or not module.startswith(only):
            continue
        ones = entry["mutants"]
        equal = {name for name in ones if name in EQUIVALENT}
        dead = {name for name, one in ones.items() if one["verdict"] in (FAILED, ENDED)}
        wrong += [
            f"{name} is listed as equivalent, and {ones[name]['by']} kills it"
            for name in sorted(equal & dead)
        ]
        of = len(ones) - len(equal - dead)
        counts = f"{len(ones):7} {len(dead):6} {len(equal):5} {of - len(dead):8}"
        print(f"{module:50} {counts} {_share(len(dead), of)}")
        total, killed = total + of, killed + len(dead)
        seconds += sum(one["cpu"] for one in ones.values())
        if show:
            for name, one in ones.items():
                if name not in dead and name not in equal:
                    short, how = name.removeprefix(module), f"{one['verdict']}, {one['tried']}"
                    print(f"    {short} line {one['line']} ({how}): {one['text']}")
    wrong += [
        f"{name} is listed as equivalent, and there is no such mutant"
        for name in sorted(EQUIVALENT)
        if name.split(":")[0].startswith(only)
        and name not in verdicts.get(name.split(":")[0], {}).get("mutants", {})
    ]
    print(
        f"{killed} of {total} mutants are killed: {_share(killed, total)}; {seconds:.0f} s of processor time"
    )
    for text in wrong:
        print(text)
    return 1 if wrong or killed < SCORE * total else 0


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def main() -> int:
    """The exit code: 0 iff enough mutants are killed and the list of equivalent ones is right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="dovetail.", help="modules whose names begin so")
    parser.add_argument("--budget", type=float, default=8.0, help="seconds of tests for each mutant")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs found")
    parser.add_argument("--show", action="store_true", help="list the survivors")
    parser.add_argument("--report", action="store_true", help="only print what is known")
    parser.add_argument("--tests", default="", help="look only at files of tests with this in their names")
    parser.add_argument("--phase", choices=("look", "hunt"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.phase:
        {"look": look, "hunt": hunt}[given.phase](given)
        return 0
    if not given.report:
        for phase in ("look", "hunt"):
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--phase", phase], check=True, cwd=ROOT)
    return report(given.only, given.show)


if __name__ == "__main__":
    sys.exit(main())
