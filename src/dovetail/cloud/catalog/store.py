"""The packaged data file, made by scripts/make_catalog.py: EC2's types, where they are sold, their prices."""

from __future__ import annotations

import difflib
import gzip
import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources

import msgspec

from dovetail.base.errors import InputError

FORMAT = 1
_NAME = re.compile(r"([a-z]+)(?:-[0-9]+tb)?([0-9]+).*\.(.+)")


class Gpu(msgspec.Struct, array_like=True, frozen=True):
    manufacturer: str
    name: str
    count: int
    memory: int  # MiB per GPU


class Accelerator(msgspec.Struct, array_like=True, frozen=True):
    manufacturer: str
    name: str
    count: int


class Neuron(msgspec.Struct, array_like=True, frozen=True):
    name: str
    devices: int
    cores: int  # per device


class TypeRecord(msgspec.Struct, array_like=True, frozen=True):
    """One type as EC2 describes it; the order of the fields is the order in the file."""

    name: str
    arch: str  # amd64 or arm64
    vcpus: int
    memory: int  # MiB, before anything is taken off
    manufacturer: str
    clock: int  # MHz sustained; 0 where EC2 does not say, which the label then says too
    ebs_bandwidth: int  # Mbps; 0 where not EBS-optimised by default
    network_performance: str  # EC2's words, such as "Up to 10 Gigabit"
    network_baseline: int  # Mbps, over all cards
    hypervisor: str  # "" for bare metal
    encryption_in_transit: bool
    nitro_enclaves: bool
    storage: int  # GB of local disks
    nvme: bool  # True iff the local disks are NVMe
    bare_metal: bool
    burstable: bool
    interfaces: int  # over all network cards
    default_card_interfaces: int
    ipv4_per_interface: int
    efa_interfaces: int
    gpus: tuple[Gpu, ...]
    accelerators: tuple[Accelerator, ...]
    neurons: tuple[Neuron, ...]
    spot: bool  # True iff sold as spot anywhere

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    @property
    def size(self) -> str:
        return self.name.partition(".")[2]

    @property
    def category(self) -> str:
        """The letters before the generation: "m" of m7i-flex.large, "u" of u-12tb1.112xlarge."""
        return self._parts()[0]

    @property
    def generation(self) -> int:
        return int(self._parts()[1])

    def _parts(self) -> tuple[str, ...]:
        match = _NAME.fullmatch(self.name)
        if match is None:
            raise ValueError(f"{self.name!r} is not the name of an instance type, such as m5.large")
        return match.groups()


class RegionRecord(msgspec.Struct, frozen=True):
    """Where types are sold: `masks` and `prices` are in the order of the catalogue's types."""

    zones: tuple[tuple[str, str], ...]  # name and id
    masks: tuple[int, ...]  # bit i: sold in zone i
    prices: tuple[int, ...]  # on demand, nano-dollars per hour; 0 is unknown


class Catalog(msgspec.Struct, frozen=True):
    """The whole file. Regions stay undecoded until asked for."""

    format: int
    sources: dict[str, str]
    types: tuple[TypeRecord, ...]
    regions: dict[str, msgspec.Raw]


@lru_cache(maxsize=1)
def load() -> Catalog:
    """The packaged catalogue, decoded once."""
    packed = (resources.files(__package__) / "data" / "ec2.json.gz").read_bytes()
    catalog = msgspec.json.decode(gzip.decompress(packed), type=Catalog)
    if catalog.format != FORMAT:
        raise RuntimeError(f"the packaged catalogue has format {catalog.format}, not {FORMAT}: make it again")
    return catalog


def regions() -> tuple[str, ...]:
    """Every region of the catalogue, sorted."""
    return tuple(sorted(load().regions))


@lru_cache(maxsize=32)
def region(name: str) -> RegionRecord:
    """One region's offerings. Raises InputError for a region that the catalogue does not have."""
    raw = load().regions.get(name)
    if raw is None:
        guesses = difflib.get_close_matches(name, regions(), n=3, cutoff=0.6)
        guess = f"did you mean {' or '.join(guesses)}? " if guesses else ""
        raise InputError(
            f"there is no region {name!r} in the catalogue",
            remedy=f"{guess}known regions: {', '.join(regions())}",
        )
    return msgspec.json.decode(raw, type=RegionRecord)


def sold(name: str) -> Iterator[tuple[TypeRecord, tuple[str, ...], int]]:
    """(type, names of its zones, on-demand price) of every type that the region sells, by name."""
    place = region(name)
    for record, mask, price in zip(load().types, place.masks, place.prices, strict=True):
        if mask:
            zones = tuple(zone for bit, (zone, _) in enumerate(place.zones) if mask >> bit & 1)
            yield record, zones, price
