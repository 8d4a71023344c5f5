"""`--prices FILE`, and what is said of types that have no price."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from rich.console import Console

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.base.errors import InputError
from dovetail.cli.messages import note
from dovetail.cloud.catalog import store
from dovetail.cloud.catalog.labels import TENANCY
from dovetail.cloud.catalog.pricefile import read_prices
from dovetail.cloud.catalog.settings import ami_family
from dovetail.model.problem import Pool


def use_prices(path: Path | None, region: str) -> None:
    """From now on the prices of the file count. Raises InputError for one without a price for the region."""
    if path is None:
        store.use_prices()
        return
    found = read_prices(path)
    sold = {record.name for record, _, _ in store.sold(region)}
    given = {*found.on_demand(region), *(name for name, _ in found.spot(region))}
    if not given:
        others = ", ".join(sorted({place for place, _, _, _ in found.listed}))
        remedy = f"it has those of {others}" if others else ""
        raise InputError(f"has no price for {region}", source=str(path), remedy=remedy)
    if not given & sold:
        some = ", ".join(sorted(given)[:3])
        message = f"{region} sells none of the {len(given)} types of the file, such as {some}"
        raise InputError(message, source=str(path), remedy=f"see: dovetail catalog --region {region}")
    store.use_prices(found)


def prices_everywhere(path: Path | None, region: str) -> Callable[[], None] | None:
    """What each process of a pool calls first so that the prices of the file count; None without a file.

    The file is read here as well: what is wrong with it is reported before anything is played.
    """
    if path is None:
        return None
    use_prices(path, region)
    return partial(use_prices, path, region)


_SHOWN = 3


def unpriced(pools: Iterable[Pool]) -> tuple[str, ...]:
    """Names of the types that some pool allows and of which no offering has a price, sorted."""
    found = {
        item.name
        for pool in pools
        for item in pool.instance_types
        if all(one.price == 0 for one in item.offerings)
        and not pool.requirements.intersects(item.requirements)
    }
    return tuple(sorted(found))


def warn_of_unpriced(pools: Iterable[Pool], region: str) -> None:
    """To standard error; nothing where all prices are known."""
    names = unpriced(pools)
    if not names:
        return
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    one = len(names) == 1
    text = (
        f"note: no price is known in {region} of {len(names)} type{'' if one else 's'} that the NodePools "
        f"allow, so {'it is' if one else 'they are'} not bought: {', '.join(names[:_SHOWN])}{more}\n"
        f"  `dovetail catalog refresh --region {region}` asks AWS for today's prices"
    )
    Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(text)


def warn_of_other_terms(pools: Iterable[Pool], classes: Iterable[EC2NodeClass]) -> None:
    """Prices are of Linux on shared machines: of pools that buy something else it is said what is lacking."""
    for text in _other_terms(tuple(pools), {item.metadata.name: item for item in classes}):
        note(text)


def _other_terms(pools: tuple[Pool, ...], classes: dict[str, EC2NodeClass]) -> Iterator[str]:
    for pool in pools:
        node_class = classes.get(pool.node_class_ref.name)
        if node_class is not None and ami_family(node_class).startswith("Windows"):
            yield (
                f"NodePool {pool.name}: EC2NodeClass {node_class.metadata.name} runs Windows; the prices are "
                "those of Linux, without the licence that AWS charges for each vCPU and hour"
            )
        if not pool.requirements.get(TENANCY).has("default"):
            yield (
                f"NodePool {pool.name} asks for dedicated tenancy; the prices are those of shared machines, "
                "AWS's for dedicated ones are higher"
            )
