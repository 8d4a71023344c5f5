"""The instance types that a node class can have now: the catalogue's, less what lately refused a launch."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass, EC2NodeClassSpec
from dovetail.base.errors import InputError
from dovetail.cloud.choice import Pool
from dovetail.cloud.unavailable import without
from dovetail.model.offering import InstanceType

# What a class could have if nothing were short. May raise InputError for a class that cannot be read.
Source = Callable[[EC2NodeClass | None], tuple[InstanceType, ...]]


@dataclass(slots=True)
class _Known:
    spec: EC2NodeClassSpec | None
    base: tuple[InstanceType, ...]
    avoided: frozenset[Pool]
    types: tuple[InstanceType, ...]


class TypeView:
    """Answers the same tuple as long as neither the class nor the avoided pools changed.

    Types whose offerings are untouched stay the same objects even then.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._known: dict[str, _Known] = {}

    def types(self, node_class: EC2NodeClass | None, avoided: frozenset[Pool]) -> tuple[InstanceType, ...]:
        """The class's types, with `avoided` offerings unavailable; none for a class that cannot be read."""
        name = node_class.metadata.name if node_class else ""
        spec = node_class.spec if node_class else None
        known = self._known.get(name)
        if known is None or known.spec != spec:
            base = self._read(node_class)
            known = _Known(spec, base, frozenset(), base)
            self._known[name] = known
        if known.avoided != avoided:
            known.avoided = avoided
            known.types = without(known.base, avoided)
        return known.types

    def _read(self, node_class: EC2NodeClass | None) -> tuple[InstanceType, ...]:
        try:
            return self._source(node_class)
        except InputError:
            # The class's own conditions say what is wrong with it; it has no types until then.
            return ()


def only(source: Source, names: Collection[str]) -> Source:
    """The source with the types of these names alone; with all of its types if none is named."""
    if not names:
        return source
    return lambda node_class: tuple(item for item in source(node_class) if item.name in names)
