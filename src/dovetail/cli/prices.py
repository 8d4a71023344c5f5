"""`--prices FILE`, and the sentence that says where prices are from."""

from __future__ import annotations

from pathlib import Path

from dovetail.base.errors import InputError
from dovetail.cloud.catalog import store
from dovetail.cloud.catalog.pricefile import read_prices


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
