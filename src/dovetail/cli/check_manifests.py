"""`dovetail check`: every mistake in manifests, values and Terraform files, in one run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from dovetail.base.errors import InputError
from dovetail.base.guess import nearest

if TYPE_CHECKING:
    from dovetail.api.generations.editing import Editor
    from dovetail.lint.comments import Silenced
    from dovetail.lint.finding import Finding, Mend, Rule, Severity
    from dovetail.lint.inventory import Inventory

_COMMANDS = ("aws", "cluster", "manifests", "userdata")  # of check
_FOUND = 1  # the exit code of findings that are errors
_ROUNDS = 4  # of looking, after which mending ends: what one fix brings to light, the next may mend
_MENDABLE = (".yaml", ".yml")

Codes = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]


def manifests(
    *paths: Annotated[str, Parameter(show=False)],
    filename: Annotated[
        tuple[str, ...], Parameter(name=("--filename", "--file", "-f"), negative="", show_default=False)
    ] = (),
    recursive: Annotated[bool, Parameter(alias="-R", negative="")] = False,
    output: Annotated[Literal["text", "json", "sarif", "github"], Parameter(alias="-o")] = "text",
    fix: Annotated[bool, Parameter(negative="")] = False,
    select: Codes = (),
    extend_select: Codes = (),
    ignore: Codes = (),
    region: str = "",
    fail_on: Literal["error", "warning", "info", "never"] = "error",
    rules: Annotated[bool, Parameter(name="--list-rules", negative="")] = False,
) -> None:
    """Find the mistakes in manifests, values of the chart and Terraform files, all in one run.

    Every finding has a place, a rule with a page in docs/reference/rules, a reason and what to do:
    FILE:LINE:COLUMN CODE SEVERITY: what: why; fix. Objects of all generations are read. Pools are held
    against the catalogue of instance types, workloads against the pools, and all against what runs where
    nodes are among the objects (`dovetail snapshot`).

    `# noqa: NP001` behind a line, or alone above it, silences a rule there; `# dovetail: noqa: NP001` in a
    file of its own line silences it for the file.

    Ends with code 1 when there are errors, with 2 when a file cannot be found.

    Examples:

    - `dovetail check -f manifests/ -R`
    - `dovetail check pools.yaml values.yaml --select NP,HV --ignore NP008`
    - `helm template my-chart | dovetail check -f - -o github`
    - `dovetail check -f deploy/ --fix`
    - `dovetail check aws --help`, `dovetail check userdata --help`

    Parameters
    ----------
    filename
        Files or folders (YAML, JSON, Terraform), or - for standard input. May be repeated, and -f left out.
    recursive
        Read the sub-folders of folders too.
    output
        Lines to read, JSON, SARIF 2.1.0 for code scanning, or annotations of GitHub Actions.
    fix
        Mend what can be mended without a change of meaning; comments and order stay.
    select
        Only these rules: codes (NP001), beginnings of codes (NP), names, ALL. With commas or repeated.
    extend_select
        These rules besides those of every day.
    ignore
        Not these rules.
    region
        The AWS region that is bought in; that of zones, nodes or AWS_REGION when not given.
    fail_on
        The least severity that ends the command with code 1.
    rules
        Only list the rules.
    """
    from dovetail.cli import messages
    from dovetail.cli.check_findings import FORMS, listed, summary
    from dovetail.cli.region import refuse_unknown_region
    from dovetail.lint.finding import Severity
    from dovetail.lint.table import chosen

    asked = chosen(select, ignore, extend_select)
    if rules:
        print(listed(asked), end="")
        return
    given = [*filename, *paths]
    if not given:
        raise InputError(
            "no manifests are given",
            remedy="give files or folders, such as dovetail check -f manifests/; see check aws --help, too",
        )
    if region:
        refuse_unknown_region(region)
    for name in paths:
        _refuse_a_slip(name)
    names = _files(given, recursive=recursive)
    found, fixed, inventory = _checked(names, recursive, region, asked, fix=fix)
    messages.notes(inventory.notes)
    text = FORMS[output](found, asked)
    if text:
        print(text, end="")
    said = summary(found, fixed, inventory.unseen)
    messages.note(said) if output != "text" else print(said)
    if fail_on != "never" and any(_rank(item.severity) >= _rank(Severity(fail_on)) for item in found):
        raise SystemExit(_FOUND)


def _refuse_a_slip(name: str) -> None:
    """Raises InputError for a word that is nearly a command of check, and no file."""
    near = nearest(name, _COMMANDS)
    if near and not Path(name).exists():
        raise InputError(
            "there is neither such a file nor such a command",
            source=name,
            remedy=f"did you mean dovetail check {near[0]}?",
        )


def _rank(severity: Severity) -> int:
    from dovetail.lint.finding import Severity

    return (Severity.INFO, Severity.WARNING, Severity.ERROR).index(severity)


def _files(given: Sequence[str], *, recursive: bool) -> list[str]:
    """Names of the files and folders to read: those given, and the Terraform files of folders, which kubectl
    would not look at."""
    found: list[str] = []
    for name in given:
        found.append(name)
        path = Path(name)
        if name != "-" and path.is_dir():
            children = path.rglob("*.tf") if recursive else path.glob("*.tf")
            modules = sorted(str(child) for child in children if ".terraform" not in child.parts)
            has_others = any(path.rglob("*.y*ml") if recursive else path.glob("*.y*ml"))
            if modules and not has_others:
                found.pop()
            found.extend(modules)
    return found


def _checked(
    names: list[str], recursive: bool, region: str, rules: tuple[Rule, ...], *, fix: bool
) -> tuple[tuple[Finding, ...], int, Inventory]:
    """The findings, how many more were mended, and what was looked at."""
    from dovetail.lint.check import check
    from dovetail.lint.survey import survey

    fixed = 0
    for turn in range(_ROUNDS if fix else 1):
        inventory = survey(names, recursive=recursive, region=region, environ=os.environ)
        sources = {item.source for item in (*inventory.written, *inventory.values)}
        found = _fixable(check(inventory, rules, _comments(sources)), inventory)
        mends = _mends(found) if fix and turn < _ROUNDS - 1 else {}
        count = sum(_mend(source, at) for source, at in mends.items())
        fixed += count
        if not count:
            break
    return found, fixed, inventory


def _comments(sources: set[str]) -> Mapping[str, Silenced]:
    from dovetail.lint.comments import silenced
    from dovetail.reading.sources import STDIN

    made: dict[str, Silenced] = {}
    for source in sources:
        if source == STDIN or source.endswith(".gz"):
            continue
        try:
            made[source] = silenced(Path(source).read_text("utf-8"))
        except (OSError, UnicodeDecodeError):
            continue
    return made


def _fixable(found: Sequence[Finding], inventory: Inventory) -> tuple[Finding, ...]:
    """Mends are for YAML as it is written, not for what was converted, templated or a part of an object."""
    own = {id(item) for item in (*inventory.written, *inventory.values)}
    return tuple(
        item
        if item.mend is None
        or (id(item.document) in own and not item.document.moved and item.source.endswith(_MENDABLE))
        else replace(item, mend=None)
        for item in found
    )


def _mends(found: Sequence[Finding]) -> dict[str, dict[tuple[int, int], list[Mend]]]:
    """By file and the place of the document."""
    made: dict[str, dict[tuple[int, int], list[Mend]]] = {}
    for item in found:
        if item.mend is not None:
            place = (item.document.line, item.document.column)
            made.setdefault(item.source, {}).setdefault(place, []).append(item.mend)
    return made


def _mend(source: str, at: Mapping[tuple[int, int], Sequence[Callable[[Editor], None]]]) -> int:
    """Write a file anew; answers how many mends took hold."""
    from dovetail.base.writing import unwritten, write_whole
    from dovetail.cli.convert_texts import mended

    path = Path(source)
    text, count = mended(source, path.read_text("utf-8"), at)
    if count:
        try:
            write_whole(path, text)
        except OSError as error:
            raise unwritten(error, source) from None
    return count
