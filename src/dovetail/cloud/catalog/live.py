"""A region as AWS told of it at one moment, in a file of the user's: newer than the packaged catalogue."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from dovetail.base.errors import InputError
from dovetail.cloud.catalog.records import TypeRecord

FORMAT = 2
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


def write(found: LiveRegion, path: Path) -> None:
    """Whole or not at all. Raises InputError."""
    packed = gzip.compress(msgspec.json.encode(found), compresslevel=9, mtime=0)
    draft = path.with_name(path.name + ".part")
    try:
        draft.write_bytes(packed)
        draft.replace(path)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", source=str(path)) from None


def read(path: Path) -> LiveRegion:
    """Raises InputError for what is no such file."""
    try:
        found = msgspec.json.decode(gzip.decompress(path.read_bytes()), type=LiveRegion)
    except OSError as error:
        reason = error.strerror or "it is not compressed"
        raise InputError(f"cannot be read: {reason}", source=str(path), remedy=_REMEDY) from None
    except (EOFError, msgspec.MsgspecError) as error:
        raise InputError(f"is no catalogue: {error}", source=str(path), remedy=_REMEDY) from None
    if found.format != FORMAT:
        message = f"is a catalogue of format {found.format}, this version reads {FORMAT}"
        raise InputError(message, source=str(path), remedy=_REMEDY)
    return found


def named(text: str) -> Iterator[Path]:
    """The files of a list as in PATH."""
    return (Path(item) for item in text.split(os.pathsep) if item)
