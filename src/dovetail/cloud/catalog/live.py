"""A region as AWS described it at one moment, in a file of the user's: newer than the packaged catalogue.

A record is what EC2 says of an instance type, as far as it matters to nodes.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from dovetail.base.errors import InputError
from dovetail.base.writing import unwritten, write_whole

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
    ena: bool  # True iff its network interfaces are EC2's elastic ones
    cards: tuple[int, ...]  # most interfaces of each network card, by its index
    nested_virtualization: bool  # True iff virtual machines may run on it
    placements: tuple[str, ...]  # strategies of placement groups that take it

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


FORMAT = 3
_REMEDY = "make it with: dovetail catalog refresh --region REGION"


class Row(msgspec.Struct, array_like=True, frozen=True):
    """A type that the region sells. `spot` is in the order of `zones`, 0 where there is no price."""

    record: TypeRecord
    zones: tuple[str, ...]
    price: int  # on demand, nano-dollars per hour; 0 is unknown
    spot: tuple[int, ...]
    estimate: str = ""  # how the price was estimated, if it is packaged and no list has it


class LiveRegion(msgspec.Struct, frozen=True):
    """`asked` is a date; zones are (name, id); `lists` say where prices are from, as in RegionRecord."""

    format: int
    region: str
    asked: str
    zones: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]  # by name of type
    lists: tuple[tuple[str, str, int], ...] = ()

    def spot(self) -> Mapping[tuple[str, str], int]:
        """Spot prices by type and zone; what is not there is not sold as spot."""
        return {
            (row.record.name, zone): price
            for row in self.rows
            for zone, price in zip(row.zones, row.spot, strict=True)
            if price
        }


class _Versioned(msgspec.Struct):
    format: int


def write(found: LiveRegion, path: Path) -> None:
    """Whole or not at all. Raises InputError."""
    packed = gzip.compress(msgspec.json.encode(found), compresslevel=9, mtime=0)
    try:
        write_whole(path, packed)
    except OSError as error:
        raise unwritten(error, path) from None


def read(path: Path) -> LiveRegion:
    """Raises InputError for what is no such file."""
    try:
        text = gzip.decompress(path.read_bytes())
        version = msgspec.json.decode(text, type=_Versioned).format
        found = msgspec.json.decode(text, type=LiveRegion) if version == FORMAT else None
    except OSError as error:
        reason = error.strerror or "it is not compressed"
        raise InputError(f"cannot be read: {reason}", source=str(path), remedy=_REMEDY) from None
    except (EOFError, msgspec.MsgspecError) as error:
        raise InputError(f"is no catalogue: {error}", source=str(path), remedy=_REMEDY) from None
    if found is None:
        message = f"is a catalogue of format {version}, this version reads {FORMAT}"
        raise InputError(message, source=str(path), remedy=_REMEDY)
    return found


def named(text: str) -> Iterator[Path]:
    """The files of a list as in PATH."""
    return (Path(item) for item in text.split(os.pathsep) if item)
