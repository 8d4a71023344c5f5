"""A grammar of hostile objects: every field that others write, at its extremes as the API server admits them.

Three authors can mean harm: a tenant (pods, and what makes or protects pods), a node (its own object and
status), a pool author (NodePools, node classes, NodeClaims by hand, and what else is cluster-scoped). Each
attack is one entry of a table, with what it aims at. `attacks` are all of one author; `hostile` draws them
by seed, and lays two tenants' attacks on one pod where they touch different fields.

What stands in `metadata.deletionTimestamp` is for the harness: it deletes the object once it is there. So is
a status where the kind's status is a subresource. Left out are objects whose rules shut others out by what
Kubernetes itself promises, such as a bound pod with an anti-affinity to every pod of its zone.

attack   what an attack is, and how objects are made
amounts  pods: amounts and metadata
rules    pods: where they may be
parts    pods: ports, volumes, containers and the rest
makers   what makes and protects pods
nodes    nodes
pools    NodePools, NodeClaims, node classes, and other objects of the whole cluster
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from dovetail.base.streams import stream
from dovetail.testing.hostile.amounts import METADATA, QUANTITIES
from dovetail.testing.hostile.attack import AUTHORS, MARK, Attack, Author, Document, Place, pod_document
from dovetail.testing.hostile.makers import MAKERS
from dovetail.testing.hostile.nodes import NODES
from dovetail.testing.hostile.parts import PARTS
from dovetail.testing.hostile.pools import CLASSES, POOLS
from dovetail.testing.hostile.rules import RULES

__all__ = ["AUTHORS", "MARK", "Attack", "Author", "Place", "attacks", "hostile"]

_ALL: tuple[Attack, ...] = (*QUANTITIES, *METADATA, *RULES, *PARTS, *MAKERS, *NODES, *POOLS, *CLASSES)
__DOUBLE = 0.4  # share of the drawn attacks on which a second one is laid, if it can be
_MIB = 1 << 20


def attacks(author: Author | None = None) -> tuple[Attack, ...]:
    """All attacks of one author, or of all, in the order of the tables; those that are refused included."""
    return tuple(one for one in _ALL if author in (None, one.author))


def hostile(
    seed: int,
    count: int,
    place: Place | None = None,
    *,
    authors: tuple[Author, ...] = AUTHORS,
    simulated: bool = False,
) -> Iterator[tuple[str, Document]]:
    """(name of the attack, object) of `count` attacks that the API server admits, drawn by seed.

    `simulated` leaves out those that simulated clusters do not play (see `Attack.twin`). The names of the
    objects begin with the place's, and no two attacks share one.
    """
    where = place or Place()
    draw = stream(seed, ",".join(authors), "hostile objects")
    known = [one for one in _ALL if one.admitted and one.author in authors and not (simulated and one.twin)]
    by_author = {author: [one for one in known if one.author == author] for author in authors}
    for number in range(count):
        author = draw.choice(authors)
        attack = draw.choice(by_author[author])
        here = replace(where, name=f"{where.name}-{number}", many=draw.randint(2, where.many))
        made = attack.make(here)
        second = draw.choice(known)
        if draw.random() < __DOUBLE and _is_pod(made) and _is_pod(other := second.make(here)):
            merged = _laid_on(made[0], other[0], here)
            if merged is not None:
                yield f"{attack.name}, and {second.name}", merged
                continue
        for document in made:
            yield attack.name, document


def _is_pod(made: tuple[Document, ...]) -> bool:
    return len(made) == 1 and made[0]["kind"] == "Pod"


def _laid_on(one: Document, other: Document, place: Place) -> Document | None:
    """The pod with what another has besides; None where both change a field, or it grows too large."""
    plain = pod_document(place, {}, {}, None)
    changed = [
        {
            (part, key)
            for part in ("metadata", "spec")
            for key in item[part]
            if item[part][key] != plain[part].get(key)
        }
        for item in (one, other)
    ]
    if changed[0] & changed[1]:
        return None
    result = {**one, "metadata": dict(one["metadata"]), "spec": dict(one["spec"])}
    for part, key in sorted(changed[1]):
        result[part][key] = other[part][key]
    return result if len(json.dumps(result)) < _MIB else None
