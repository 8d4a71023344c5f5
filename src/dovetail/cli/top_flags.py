"""What `dovetail top` shall show: its flags, and for what they leave open the file of eks-node-viewer's.

All of it is checked before a cluster is asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dovetail.api.names import label_key_faults
from dovetail.base.errors import InputError
from dovetail.cli.messages import note

if TYPE_CHECKING:
    from dovetail.model.selector import Selector
    from dovetail.views.top.board import Settings

FILE = "~/.eks-node-viewer"
_PLAIN = ("cpu", "memory", "pods", "ephemeral-storage")
_NO_EFFECT = ("style", "attribution", "v", "version")  # of colours and of words about it: ours are others
_BOOLEAN = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}
_SORTS = (
    "give KEY=asc or KEY=dsc; KEY is creation, a label such as karpenter.sh/nodepool, or a computed one such "
    "as eks-node-viewer/node-cpu-usage"
)


@dataclass(frozen=True, slots=True)
class Flags:
    """As they were given; None where they were not."""

    node_selector: str | None = None
    node_sort: str | None = None
    resources: str | None = None
    extra_labels: str | None = None
    disable_pricing: bool | None = None
    kubeconfig: Path | None = None
    context: str | None = None

    def settings(self) -> Settings:
        """Raises InputError for the first that is not valid."""
        from dovetail.views.top.board import Settings
        from dovetail.views.top.order import OLDEST_FIRST, Sort

        if self.node_sort:
            _check_sort(self.node_sort)
        return Settings(
            resources=_resources(self.resources or "") or ("cpu",),
            extra_labels=_labels(self.extra_labels or ""),
            sort=Sort.parse(self.node_sort) if self.node_sort else OLDEST_FIRST,
            selector=_selector(self.node_selector or ""),
            pricing=not self.disable_pricing,
        )


def with_file(given: Flags, *, kubeconfig: bool) -> Flags:
    """What the file says where a flag does not; `kubeconfig`: neither a flag nor the environment names one.

    Raises InputError for a line that it cannot have.
    """
    path = Path(FILE).expanduser()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return given
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", source=str(path)) from None
    said = Flags()
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith("#"):
            said = _with_line(said, text, f"{path}:{number}")
    if not kubeconfig:
        said = replace(said, kubeconfig=None)
    taken = {
        one.name: getattr(said, one.name)
        for one in fields(Flags)
        if getattr(given, one.name) is None and getattr(said, one.name) is not None
    }
    if taken:
        note(
            f"{FILE} says " + ", ".join(f"{name.replace('_', '-')}={value}" for name, value in taken.items())
        )
    return replace(given, **taken)


def _with_line(said: Flags, text: str, source: str) -> Flags:
    name, equals, value = (part.strip() for part in text.partition("="))
    field = name.replace("-", "_")
    known = [one.name.replace("_", "-") for one in fields(Flags)]
    if name in _NO_EFFECT:
        return said
    if not equals or name not in known:
        raise InputError(
            f"{text!r} is no option", source=source, remedy=f"give NAME=VALUE; names are {', '.join(known)}"
        )
    if field == "disable_pricing":
        if value.lower() not in _BOOLEAN:
            raise InputError(f"{value!r} is neither true nor false", source=source)
        return replace(said, disable_pricing=_BOOLEAN[value.lower()])
    if field == "kubeconfig":
        return replace(said, kubeconfig=Path(value).expanduser())
    return replace(said, **{field: value})  # type: ignore[arg-type] # all others are texts


def _names(given: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in (part.strip() for part in given.split(",")) if name))


def _resources(given: str) -> tuple[str, ...]:
    found = _names(given)
    for name in found:
        plain = name in _PLAIN or re.fullmatch(r"hugepages-[1-9][0-9]*[KMG]i", name)
        if not plain and ("/" not in name or label_key_faults(name)):
            raise InputError(
                f"{name!r} is no resource of nodes",
                source="--resources",
                remedy=f"give {', '.join(_PLAIN)}, hugepages-2Mi or the like, or a name with its domain: "
                "nvidia.com/gpu",
            )
    return found


def _labels(given: str) -> tuple[str, ...]:
    found = _names(given)
    for name in found:
        if faults := label_key_faults(name):
            raise InputError(
                f"{name!r} is no label: {faults[0]}",
                source="--extra-labels",
                remedy="such as karpenter.sh/nodepool,topology.kubernetes.io/zone",
            )
    return found


def _check_sort(given: str) -> None:
    key, equals, way = given.partition("=")
    if equals and way not in ("asc", "dsc"):
        raise InputError(f"{way!r} is no order", source="--node-sort", remedy=_SORTS)
    if faults := label_key_faults(key):
        raise InputError(
            f"{key!r} is nothing to sort nodes by: {faults[0]}", source="--node-sort", remedy=_SORTS
        )


def _selector(given: str) -> Selector | None:
    from dovetail.model.selector import Selector

    if not given:
        return None
    try:
        return Selector.parse(given)
    except ValueError as error:
        raise InputError(str(error), source="--node-selector", remedy="such as pool=web,team!=a") from None
