"""YAML that kubectl reads as it was meant: text that would be a number or a truth value to it is quoted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml

_ENDLESS = 2**31 - 1  # characters of a line


class KubernetesDumper(yaml.SafeDumper):
    """PyYAML's, which quotes by YAML 1.1 alone: kubectl reads 1e3, 0o17, 08 and y otherwise."""


KubernetesDumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"(?:[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?|[-+]?0o[0-7_]+)$"),
    list("-+.0123456789"),
)
KubernetesDumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]$"), list("yYnN"))


def written(value: Any, **options: Any) -> str:
    """One document; keys in their order. `options` are those of yaml.dump."""
    return str(yaml.dump(value, Dumper=KubernetesDumper, **{"sort_keys": False, **options}))


def inline(value: Any) -> str:
    """In one line however long, as it may stand after `--set PATH=`."""
    return written(value, default_flow_style=True, width=_ENDLESS).removesuffix("\n...\n").rstrip("\n")


def all_written(values: Iterable[Any], **options: Any) -> str:
    """Several documents, as `written` writes each."""
    return str(yaml.dump_all(values, Dumper=KubernetesDumper, **{"sort_keys": False, **options}))
