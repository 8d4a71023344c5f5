"""What the volumes of a node cost, at list price; see docs/reference/prices.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import resources

import msgspec

from dovetail.api.karpenter.ec2nodeclass import EC2NodeClass, ElasticBlockStore
from dovetail.cloud.catalog.settings import GIB, ami_family, devices, parse_size
from dovetail.units.money import HOURS_A_MONTH

# Regions and types that the table does not have are priced as here.
_REFERENCE = "us-east-1"
_GP3_FREE_IOPS = 3_000
_GP3_FREE_THROUGHPUT = 125  # MiB/s
# The list price of gp3's IOPS and MiB/s keeps this proportion to its price per GiB in every region.
_GP3_IOPS_SHARE = 16
_GP3_THROUGHPUT_SHARE = 2
# io2: IOPS above each of these cost this many thousandths of the first ones.
_IO2_TIERS = ((0, 1000), (32_000, 700), (64_000, 490))
_MICRO = 1_000  # nano-dollars in a micro-dollar


class VolumePrices(msgspec.Struct, frozen=True):
    """Micro-dollars per GiB and month; `iops` is that of io1 and io2, per IOPS and month."""

    gp3: int
    gp2: int
    io: int
    iops: int
    st1: int
    sc1: int
    standard: int | None = None


class _Table(msgspec.Struct, frozen=True):
    regions: dict[str, VolumePrices]


def volume_price(region: str, node_class: EC2NodeClass | None = None) -> int:
    """Nano-dollars per hour of all volumes that each node of the class gets; None is AL2023's default disk.

    A volume without a type is gp2, as EC2 has it. One without a size, made from a snapshot, counts with the
    size that the device has by default. Raises InputError for a size that cannot be read.
    """
    return _hourly(region, _volumes(node_class))


def block_store_price(region: str, volume: ElasticBlockStore, gib: int) -> int:
    """Nano-dollars per hour of one volume of that size."""
    return _hourly(region, [(volume, gib)])


def _hourly(region: str, volumes: Iterable[tuple[ElasticBlockStore, int]]) -> int:
    prices = _table().get(region) or _table()[_REFERENCE]
    month = sum(_month(volume, gib, prices) for volume, gib in volumes)
    return (month + HOURS_A_MONTH // 2) // HOURS_A_MONTH


def _volumes(node_class: EC2NodeClass | None) -> Iterator[tuple[ElasticBlockStore, int]]:
    """(volume, GiB): those of the class, then those that the image brings on other devices."""
    family = ami_family(node_class) if node_class else "AL2023"
    mapped: set[str] = set()
    by_default = devices(family)
    for index, mapping in enumerate(node_class.spec.block_device_mappings if node_class else ()):
        if mapping.ebs is None:
            continue
        mapped.add(mapping.device_name)
        size = by_default.get(mapping.device_name, 20) * GIB
        if mapping.ebs.volume_size is not None:
            path = f"spec.blockDeviceMappings[{index}].ebs.volumeSize"
            size = parse_size(mapping.ebs.volume_size, path)
        yield mapping.ebs, -(-size // GIB)
    if family == "Custom" and mapped:
        return  # the devices of such an image are unknown
    for device, gib in by_default.items():
        if device not in mapped:
            yield ElasticBlockStore(volume_type="gp3"), gib


def _month(volume: ElasticBlockStore, size: int, prices: VolumePrices) -> int:
    """Nano-dollars per month of a volume of `size` GiB."""
    iops, throughput = volume.iops or 0, volume.throughput or 0
    match volume.volume_type:
        case "gp3":
            rate = prices.gp3 * _MICRO
            fast = max(0, iops - _GP3_FREE_IOPS) * rate // _GP3_IOPS_SHARE
            wide = max(0, throughput - _GP3_FREE_THROUGHPUT) * rate // _GP3_THROUGHPUT_SHARE
            return rate * size + fast + wide
        case "io1":
            return (prices.io * size + prices.iops * iops) * _MICRO
        case "io2":
            return prices.io * size * _MICRO + _tiered(iops, prices.iops)
        case "st1":
            return prices.st1 * size * _MICRO
        case "sc1":
            return prices.sc1 * size * _MICRO
        case "standard":
            found = prices.standard if prices.standard is not None else _table()[_REFERENCE].standard
            return (found or 0) * size * _MICRO
        case _:
            return prices.gp2 * size * _MICRO


def _tiered(iops: int, rate: int) -> int:
    """Nano-dollars per month of provisioned IOPS on io2; `rate` in micro-dollars."""
    ends = [start for start, _ in _IO2_TIERS[1:]] + [max(iops, _IO2_TIERS[-1][0])]
    return sum(
        max(0, min(iops, end) - start) * rate * thousandths
        for (start, thousandths), end in zip(_IO2_TIERS, ends, strict=True)
    )


@lru_cache(maxsize=1)
def _table() -> Mapping[str, VolumePrices]:
    packed = (resources.files(__package__) / "data" / "volumes.json").read_bytes()
    return msgspec.json.decode(packed, type=_Table).regions
