"""Write src/dovetail/api/data/kubernetes.json: the kinds of Kubernetes and the fields of every type in them.

Run it with the PyPI package `kubernetes` installed; Dovetail itself does not need that package:

    python -m venv build/kubernetes && build/kubernetes/bin/pip install kubernetes
    build/kubernetes/bin/python scripts/make_field_tables.py

The file has two tables. `kinds`: "apiVersion Kind" -> type name. `types`: type name -> field -> type, where
s is text, i whole numbers, n numbers, b booleans, q quantities, x numbers or text, a anything; `[t` is a list
of t, `{t` a map to t, and a leading `!` marks a required field.
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

from kubernetes import __version__, client

TARGET = Path(__file__).parents[1] / "src" / "dovetail" / "api" / "data" / "kubernetes.json"

SCALARS = {
    "str": "s",
    "int": "i",
    "float": "n",
    "bool": "b",
    "date": "s",
    "datetime": "s",
    "object": "a",
    "file": "s",
    "bytearray": "s",
}

# The package types quantities as text, and int-or-string as anything; these fields are known by name.
QUANTITY_FIELDS = {
    "allocatable",
    "allocatedResources",
    "capacity",
    "consumedCapacity",
    "default",
    "defaultRequest",
    "hard",
    "limits",
    "max",
    "maxLimitRequestRatio",
    "min",
    "overhead",
    "podFixed",
    "requests",
    "sizeLimit",
    "step",
    "used",
    "averageValue",
    "divisor",
}
# Types whose `value` is one.
QUANTITY_VALUES = re.compile(r"V1(beta\d+)?(Counter|DeviceCapacity)|V2MetricTarget")
INT_OR_STRING_FIELDS = {"maxSurge", "maxUnavailable", "minAvailable", "targetPort"}
# Types that contain themselves are not looked into.
RECURSIVE = {"V1JSONSchemaProps"}


def field_type(name: str, text: str) -> str:
    """One entry of the table from the package's notation."""
    listed = re.fullmatch(r"list\[(.+)\]", text)
    if listed:
        return "[q" if name == "validValues" else "[" + field_type("", listed[1])
    mapped = re.fullmatch(r"dict\[str, (.+)\]", text)
    if mapped:
        return "{" + ("q" if name in QUANTITY_FIELDS and mapped[1] == "str" else field_type("", mapped[1]))
    if name in INT_OR_STRING_FIELDS and text == "object":
        return "x"
    if name in QUANTITY_FIELDS and text == "str":
        return "q"
    return "a" if text in RECURSIVE else SCALARS.get(text, text)


def fields(model: type[Any]) -> dict[str, str]:
    """JSON field -> type of one model."""
    table = {}
    for attribute, text in sorted(model.openapi_types.items()):
        name = model.attribute_map[attribute]
        setter = inspect.getsource(getattr(model, attribute).fset)
        required = "must not be `None`" in setter
        amount = name == "value" and QUANTITY_VALUES.fullmatch(model.__name__)
        entry = "q" if amount else field_type(name, text)
        table[name] = ("!" if required else "") + entry
    return table


def kinds() -> dict[str, str]:
    """ "apiVersion Kind" -> type of everything that can be created, without sub-resources."""
    found = {}
    for api_name in sorted(dir(client)):
        if not re.fullmatch(r"\w+V\d+((alpha|beta)\d+)?Api", api_name):
            continue
        for method, function in sorted(vars(getattr(client, api_name)).items()):
            source = inspect.getsource(function) if method.startswith("create_") else ""
            path = re.search(r"'(/apis?/[^']+)', 'POST'", source)
            body = re.search(r":type body: (\w+)", source)
            if path is None or body is None or "{name}" in path[1]:
                continue
            parts = path[1].split("/")
            version = parts[2] if parts[1] == "api" else f"{parts[2]}/{parts[3]}"
            kind = re.sub(r"^(?:[A-Z][a-z]+)?V\d+(?:(?:alpha|beta)\d+)?", "", body[1])
            found[f"{version} {kind}"] = body[1]
    return found


def reachable(roots: list[str]) -> dict[str, dict[str, str]]:
    """The field tables of the roots and of all that they hold."""
    tables: dict[str, dict[str, str]] = {}
    queue = list(roots)
    while queue:
        name = queue.pop()
        if name in tables:
            continue
        tables[name] = fields(getattr(client, name))
        queue += [kind for text in tables[name].values() if hasattr(client, kind := text.lstrip("![{"))]
    return tables


def main() -> None:
    """Write the file, one kind or type per line, so that a diff between versions can be read."""
    by_kind = kinds()
    tables = reachable(sorted(by_kind.values()))
    TARGET.parent.mkdir(exist_ok=True)
    with TARGET.open("w", encoding="utf-8") as out:
        out.write(f'{{"source":"PyPI kubernetes {__version__}",\n"kinds":{{\n')
        out.write(",\n".join(f'"{name}":"{by_kind[name]}"' for name in sorted(by_kind)))
        out.write('\n},\n"types":{\n')
        lines = (f'"{name}":{json.dumps(tables[name], separators=(",", ":"))}' for name in sorted(tables))
        out.write(",\n".join(lines))
        out.write("\n}}\n")
    print(f"{TARGET}: {len(by_kind)} kinds, {len(tables)} types, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
