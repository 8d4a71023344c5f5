"""NP025: NodeOverlays that count nowhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dovetail.api.karpenter.nodeoverlay import NodeOverlay
from dovetail.cluster.problem import pool_labels
from dovetail.lint import shelf
from dovetail.lint.finding import Remark, Severity, rule
from dovetail.lint.inventory import Inventory, PoolView, nested
from dovetail.model import labels
from dovetail.model.offering import InstanceType
from dovetail.model.overlays import CONFLICT, Supply, evaluate, matched
from dovetail.model.requirement import Requirements
from dovetail.reading import Located, Manifest
from dovetail.reading.paths import at

_GATE = "settings.featureGates.nodeOverlay"
_OF_REGIONS = (labels.ZONE, labels.ZONE_ID, labels.REGION)


@rule("NP025", "overlay-without-effect", Severity.WARNING, "A NodeOverlay that counts nowhere")
def overlay_without_effect(inventory: Inventory) -> Iterator[Remark]:
    given = list(inventory.of(NodeOverlay))
    known: dict[tuple[str, ...], dict[str, str]] = {}
    for manifest, overlay in given:
        peers = [one for one in given if inventory.one_cluster(manifest, one[0])]
        views = [view for view in inventory.pools if inventory.one_cluster(manifest, view.manifest)]
        key = tuple(one.source for one, _ in peers)
        if key not in known:
            known[key] = _conflicts([one for _, one in peers], views)
        remark = _remark(manifest, overlay, views, known[key][overlay.metadata.name])
        if remark is not None:
            yield remark
    if given:
        yield from _shut(inventory)


def _conflicts(overlays: Sequence[NodeOverlay], views: Sequence[PoolView]) -> dict[str, str]:
    """What is wrong with each, by name: CONFLICT or a message.

    All types that are sold count, as for the controller: what no pool buys can stand in conflict too.
    """
    supplies = [_supply(view, tuple(shelf.types(view.region).values())) for view in views if view.types]
    found = evaluate(overlays, supplies).verdicts
    return {
        name: CONFLICT if verdict.reason == CONFLICT else verdict.message for name, verdict in found.items()
    }


def _supply(view: PoolView, types: tuple[InstanceType, ...]) -> Supply:
    return Supply(view.name, pool_labels(view.pool), types)


def _remark(manifest: Manifest, overlay: NodeOverlay, views: Sequence[PoolView], wrong: str) -> Remark | None:
    name, spec = f"NodeOverlay {overlay.metadata.name}", overlay.spec
    if wrong == CONFLICT:
        return Remark(
            manifest.located,
            "spec.weight" if spec.weight else "spec",
            f"{name} stands against another one of its weight",
            "both price the same offering, or set the same resource of a type: the later one counts nowhere",
            "give it another weight, or requirements that the other does not meet",
        )
    if wrong:
        return Remark(
            manifest.located,
            "spec",
            f"{name} is not valid",
            wrong,
            "see docs/guides/overlays.md for what it may say",
        )
    if spec.price is None and spec.price_adjustment is None and not spec.capacity:
        return Remark(
            manifest.located,
            "spec",
            f"{name} sets neither a price nor a resource",
            "nothing comes of it",
            "write price, priceAdjustment or capacity",
        )
    if _looked_at(overlay, views) and not matched(overlay, [_supply(view, view.types) for view in views]):
        return Remark(
            manifest.located,
            "spec.requirements",
            f"{name} matches no type that a NodePool here may buy",
            "its requirements are held against pools' names, the labels of their templates and their types",
            "dovetail catalog shows the types with their labels",
        )
    return None


def _looked_at(overlay: NodeOverlay, views: Sequence[PoolView]) -> bool:
    """False where it may well be for something that no catalogue has, or that is of another region."""
    wanted = Requirements.read(overlay.spec.requirements)
    bought = wanted.get(labels.CAPACITY_TYPE)
    reserved = not any(bought.has(kind) for kind in (labels.SPOT, labels.ON_DEMAND)) or any(
        item.key.startswith(f"{labels.AWS}capacity-reservation") for item in wanted
    )
    local = any(wanted.has(key) for key in _OF_REGIONS) and not all(view.known for view in views)
    return bool(views) and all(view.types for view in views) and not reserved and not local


def _shut(inventory: Inventory) -> Iterator[Remark]:
    """Where values of the chart are given, they are all that opens the gate."""
    for located in inventory.values:
        if not _opens(located):
            yield Remark(
                located,
                _GATE if at(located.value, _GATE) is not None else "",
                "there are NodeOverlays, and these values leave the gate NodeOverlay shut",
                "no overlay counts, and none is told so",
                f"set {_GATE} to true",
            )


def _opens(located: Located) -> bool:
    values = nested(located.value)
    env = at(values, "controller.env")
    given = [str(one.get("value")) for one in env if isinstance(one, dict)] if isinstance(env, list) else []
    gate = str(at(values, _GATE)).lower() == "true"
    return gate or any("NodeOverlay=true" in text for text in given)
