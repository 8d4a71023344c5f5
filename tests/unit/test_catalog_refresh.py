"""A region as AWS describes it: asked for, kept in a file, and used in place of the packaged one."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError
from dovetail.cli.main import BAD_INPUT, OK, run
from dovetail.cloud import catalog
from dovetail.cloud.aws.api import SpotPrice
from dovetail.cloud.aws.errors import AwsError
from dovetail.cloud.aws.fake import Account, MemoryAws, Options
from dovetail.cloud.aws.fake.gate import GateOptions
from dovetail.cloud.aws.fake.market import MarketOptions
from dovetail.cloud.aws.instancetype.refresh import ask
from dovetail.cloud.aws.pricing import latest
from dovetail.cloud.catalog import live, store
from dovetail.cloud.catalog.live import LiveRegion
from dovetail.simulate.time.clock import VirtualClock, run_virtual

REGION = "ap-northeast-2"
START = 1_772_409_600 * SECOND
PRICES = "pricing:GetProducts"
FEW = frozenset({"m5.large", "m5a.large", "m7g.large"})


@pytest.fixture(autouse=True)
def _as_packaged() -> Iterator[None]:
    yield
    store.use()


def asked(denied: str = "", only: frozenset[str] = FEW) -> LiveRegion:
    async def main(clock: VirtualClock) -> LiveRegion:
        gate = GateOptions(denied=frozenset({denied}))
        options = Options(gate=gate, market=MarketOptions(only=only))
        found, why = await ask(MemoryAws(clock, 7, Account.usual(REGION, "demo"), options), clock)
        assert bool(why) is (denied == PRICES)
        return found

    return run_virtual(main, start=START)


def test_everything_that_is_sold_with_its_prices() -> None:
    found = asked()
    assert (found.region, found.asked) == (REGION, "2026-03-02")
    assert {row.record.name for row in found.rows} == FEW
    assert dict(found.zones) == catalog.zones(REGION)
    packaged = {record.name: (zones, price) for record, zones, price in store.sold(REGION)}
    for row in found.rows:
        assert (row.zones, row.price) == packaged[row.record.name]
        assert all(0 < price <= row.price for price in row.spot)


def test_without_a_price_list_the_packaged_prices_stay() -> None:
    kept, printed = asked(denied=PRICES), asked()
    assert (kept.rows, kept.zones) == (printed.rows, printed.zones)
    assert kept.lists == (("2025-05-28", "ec2-instances-info", 3),)
    with pytest.raises(AwsError):
        asked(denied="ec2:DescribeInstanceTypes")


def test_prices_that_are_estimates_stay_marked_until_aws_lists_them() -> None:
    few = FEW | {"m8i.large"}
    assert few & store.estimates(REGION).keys() == {"m8i.large"}
    store.use(asked(denied=PRICES, only=few))
    assert store.estimates(REGION) == {"m8i.large": "region"}
    assert store.lists(REGION) == (("2025-05-28", "ec2-instances-info", 3),)
    store.use(asked(only=few))
    assert store.estimates(REGION) == {}
    assert store.lists(REGION) == (("2026-03-02", "AWS", 4),)


def test_a_file_of_it_is_used_in_place_of_the_packaged_region(tmp_path: Path) -> None:
    path = tmp_path / "seoul.json.gz"
    found = asked()
    live.write(found, path)
    assert live.read(path) == found
    elsewhere = catalog.instance_types("us-east-1")
    store.use(live.read(path))
    types = {item.name: item for item in catalog.instance_types(REGION)}
    assert set(types) == FEW
    spot = found.spot()
    for item in types.values():
        for one in item.offerings:
            if one.capacity_type == "spot":
                assert (one.price, one.estimated) == (spot[item.name, one.zone], False)
    assert catalog.instance_types("us-east-1") == elsewhere
    assert REGION in catalog.regions()
    store.use()
    assert len(catalog.instance_types(REGION)) > 100


def test_a_region_that_is_not_packaged() -> None:
    store.use(msgspec.structs.replace(asked(), region="mars-north-1"))
    assert "mars-north-1" in catalog.regions()
    assert {item.name for item in catalog.instance_types("mars-north-1")} == FEW


def test_what_has_no_spot_price_is_not_sold_as_spot() -> None:
    found = asked()
    rows = tuple(msgspec.structs.replace(row, spot=tuple(0 for _ in row.spot)) for row in found.rows)
    store.use(msgspec.structs.replace(found, rows=rows))
    offers = [one for item in catalog.instance_types(REGION) for one in item.offerings]
    assert {one.available for one in offers if one.capacity_type == "spot"} == {False}


def test_the_newest_spot_price_counts() -> None:
    old = SpotPrice("m5.large", "a", 10, 1)
    newest = replace(old, price=20, at=3)
    for same in (replace(newest, price=15), replace(newest, price=20)):
        for history in ([old, newest, replace(old, price=30, at=2), same], [same, newest, old]):
            assert latest(history) == {("m5.large", "a"): 20}


def test_the_command_line_takes_the_files_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "seoul.json.gz"
    live.write(asked(), path)
    monkeypatch.setenv("DOVETAIL_CATALOG", os.pathsep.join((str(path), "")))
    assert run(["catalog", "--region", REGION]) == OK
    shown = capsys.readouterr().out
    assert "AWS of 2026-03-02 (3 types); spot as of 2026-03-02." in " ".join(shown.split())
    assert "sells 3 types" in shown
    assert run(["catalog", "--region", REGION, "-o", "json"]) == OK
    assert '"aws": "2026-03-02"' in capsys.readouterr().out


def packed(text: bytes) -> bytes:
    """The same bytes whenever it is asked for."""
    return gzip.compress(text, mtime=0)


def spoilt(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "bad.json.gz"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is no catalogue"),
        (b"{}", "cannot be read: it is not compressed"),
        (packed(b"{}"), "is no catalogue"),
        (packed(b"[1"), "is no catalogue"),
        (packed(b'{"format":1}')[:-4], "is no catalogue"),
        (
            packed(b'{"format": 9, "region": "x", "asked": "", "zones": [], "rows": []}'),
            "of format 9, this version reads 3",
        ),
    ],
    ids=["empty", "text", "no fields", "no end", "cut off", "newer"],
)
def test_files_that_are_no_catalogue(content: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        live.read(spoilt(tmp_path, content))


def test_a_file_that_is_not_there_is_bad_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOVETAIL_CATALOG", "nowhere.json.gz")
    assert run(["catalog", "--name", "m5.large"]) == BAD_INPUT
    assert "nowhere.json.gz: cannot be read" in capsys.readouterr().err


def test_refreshing_without_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    path = tmp_path / "out.json.gz"
    assert run(["catalog", "refresh", "--region", "eu-west-1", "-o", str(path)]) == BAD_INPUT
    assert "NoCredentials" in capsys.readouterr().err
    assert not path.exists()


def test_a_folder_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        live.write(asked(), tmp_path / "no" / "file")
