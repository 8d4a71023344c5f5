"""Files, folders and pipes -> Inventory: all that can be read, whatever is wrong with it."""

from __future__ import annotations

import textwrap
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dovetail.api.core import Node
from dovetail.api.generations import helm_values
from dovetail.base.errors import InputError
from dovetail.base.words import number_of
from dovetail.lint import shelf
from dovetail.lint.fragments import parts_of_kustomizations, templates
from dovetail.lint.inventory import Fault, Inventory
from dovetail.model import labels
from dovetail.reading import Located, documents, read_leniently
from dovetail.reading.parts import with_changes
from dovetail.reading.paths import at
from dovetail.reading.terraform import is_expression, read_template, read_terraform
from dovetail.reading.yamltext import read_yaml

_CHART_KEYS = frozenset({"settings", "controller", "serviceAccount", "logLevel", "serviceMonitor"})
_CHARTS = ("karpenter", "dovetail")
_LONGEST = 1 << 30  # a line
_NO_PLACE = ("no such file or folder", "cannot be read", "addresses are not fetched")


def survey(
    paths: Sequence[str],
    *,
    recursive: bool = False,
    region: str = "",
    environ: Mapping[str, str] | None = None,
) -> Inventory:
    """Everything that the files hold. Raises InputError only for files that are not there."""
    notes: list[str] = []
    errors: list[InputError] = []
    written: list[Located] = []
    values: list[Located] = []
    terraform: list[tuple[str, Located]] = []
    modules = {path: _text(path) for path in paths if _is_terraform(path)}
    fragments = templates(modules)
    kustomizations, parts = parts_of_kustomizations(paths, recursive=recursive)
    if kustomizations:
        notes.append(
            f"{number_of(kustomizations, 'kustomization')}: the resources are read as "
            "they are written; kubectl kustomize FOLDER | dovetail check -f - checks them as patched"
        )
    left_out = parts | fragments.keys()
    filled = frozenset((*modules, *fragments.values()))

    def objects() -> Iterator[Located]:
        plain = [path for path in paths if path not in modules and Path(path).resolve() not in fragments]
        for located in documents(
            plain, recursive=recursive, note=notes.append, fault=errors.append, left_out=left_out
        ):
            if _is_values(located.value):
                # Those beside a chart are its defaults, which a user's own values fill.
                if not Path(located.source).with_name("Chart.yaml").exists():
                    values.append(located)
                continue
            if _is_record(located):
                continue
            if parts := _of_subcharts(located):
                values.extend(parts)
                continue
            values.extend(_of_releases(located, errors.append))
            written.append(located)
            yield located
        for path, text in modules.items():
            for kind, located in read_terraform(text, path, errors.append):
                terraform.append((kind, located))
                if kind == "helm_release":
                    values.append(located)
                    continue
                written.append(located)
                yield located
        for path in fragments.values():
            for located in read_template(_text(path), path, errors.append):
                terraform.append(("kubectl_manifest", located))
                written.append(located)
                yield located

    found = tuple(with_changes(objects()))
    missing = [error for error in errors if error.line is None and error.message.startswith(_NO_PLACE)]
    if missing:
        raise missing[0]
    reading = read_leniently(found, note=lambda _: None, fault=errors.append)
    nodes = (item.object for item in reading.manifests if isinstance(item.object, Node))
    return Inventory(
        manifests=reading.manifests,
        written=tuple(written),
        faults=tuple(_faults(errors, written, filled)),
        values=tuple(values),
        terraform=tuple(terraform),
        region=region or _region(nodes, environ or {}),
        notes=tuple(notes),
        filled=filled,
    )


def _region(nodes: Iterator[Node], environ: Mapping[str, str]) -> str:
    """What labels of nodes or the environment say."""
    for node in nodes:
        name = node.metadata.labels.get(labels.REGION, "")
        if name in shelf.known_regions():
            return name
    return environ.get("AWS_REGION", "") or environ.get("AWS_DEFAULT_REGION", "")


def _faults(errors: list[InputError], written: list[Located], filled: frozenset[str]) -> Iterator[Fault]:
    """Each with the document that begins last before it, without those of what Terraform fills in."""
    starts: dict[str, list[tuple[int, int, int]]] = {}
    for index, located in enumerate(written):
        starts.setdefault(located.source, []).append((located.line, located.column, index))
    for places in starts.values():
        places.sort()
    for error in (single for several in errors for single in several.faults):
        places = starts.get(error.source, [])
        place = bisect_right(places, (error.line or 0, error.column or _LONGEST, len(written)))
        about = written[places[place - 1][2]] if place and (error.kind or error.path) else None
        fault = Fault(error, about)
        if not (error.source in filled and (is_expression(fault.value) or '"<' in error.message)):
            yield fault


def _is_values(value: Any) -> bool:
    """True iff a document is values of one of the charts rather than an object that lacks its kind."""
    if not isinstance(value, dict) or "kind" in value or "apiVersion" in value:
        return False
    return helm_values.is_values(value) or len(_CHART_KEYS & value.keys()) >= 2


def _of_subcharts(located: Located) -> list[Located]:
    """Values of our charts in those of a chart that has them as its parts."""
    value = located.value
    if not isinstance(value, dict) or "kind" in value or "apiVersion" in value:
        return []
    parts = [(name, value.get(name)) for name in _CHARTS]
    return [
        _part(located, name, inner)
        for name, inner in parts
        if isinstance(inner, dict) and helm_values.is_values(inner)
    ]


def _of_releases(located: Located, fault: Callable[[InputError], None]) -> Iterator[Located]:
    """Values in an object that has a controller install a chart: Flux' HelmRelease, Argo CD's Application."""
    value = located.value
    kind, spec = (value.get("kind"), value.get("spec")) if isinstance(value, dict) else (None, None)
    if not isinstance(spec, dict):
        return
    if (
        kind == "HelmRelease"
        and _is_chart(at(spec, "chart.spec.chart"))
        and isinstance(spec.get("values"), dict)
    ):
        yield _part(located, "spec.values", spec["values"])
    if kind != "Application":
        return
    several = spec.get("sources")
    sources = (
        [(f"spec.sources[{index}]", item) for index, item in enumerate(several)]
        if isinstance(several, list)
        else [("spec.source", spec.get("source"))]
    )
    for path, source in sources:
        helm = source.get("helm") if isinstance(source, dict) and _is_chart(source.get("chart")) else None
        if not isinstance(helm, dict):
            continue
        if isinstance(helm.get("valuesObject"), dict):
            yield _part(located, f"{path}.helm.valuesObject", helm["valuesObject"])
        if isinstance(helm.get("values"), str):
            yield from _of_block(located, f"{path}.helm.values", helm["values"], fault)


def _is_chart(name: Any) -> bool:
    return isinstance(name, str) and name.rpartition("/")[2] in _CHARTS


def _part(located: Located, path: str, value: dict[str, Any]) -> Located:
    return located.with_value(value, tuple((key, f"{path}.{key}") for key in value))


def _of_block(
    located: Located, path: str, text: str, fault: Callable[[InputError], None]
) -> Iterator[Located]:
    """What a block of text holds, each line of it in its place in the file."""
    above = located.line_of(path)
    lines = located.text().split("\n")[above - located.line + 1 :]
    first = next((line for line in lines if line.strip()), "")
    indented = textwrap.indent(text, " " * (len(first) - len(first.lstrip())))
    try:
        for item in read_yaml("\n" * above + indented, located.source):
            if isinstance(item.value, dict):
                # Every field is where it was written, and a part of an object: no file's, to be mended.
                yield item.with_value(item.value, tuple((key, key) for key in item.value))
    except InputError as error:
        fault(error)


def _is_record(located: Located) -> bool:
    """True iff it is a line of JSON that is no object: a trace of a scenario, a log."""
    lines = located.source.removesuffix(".gz").endswith((".jsonl", ".ndjson"))
    return lines and isinstance(located.value, dict) and not {"apiVersion", "kind"} & located.value.keys()


def _is_terraform(path: str) -> bool:
    return path.endswith(".tf")


def _text(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 text: byte {error.start} is invalid", source=path) from None
    except OSError as error:
        message = "no such file or folder" if isinstance(error, FileNotFoundError) else "cannot be read"
        raise InputError(message, source=path, remedy="name a file or a folder with manifests") from None
