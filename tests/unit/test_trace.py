"""Reading a pod trace: the window, the scale, and rows that are broken."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from dovetail.base.clock import SECOND
from dovetail.base.errors import InputError
from dovetail.simulate.scenario.trace import GPU, Row, Trace, read_trace, visits

HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time"
GOOD = f"""{HEADER}
early,1000,512,0,0,0,100
long,2500,1024,1,460,50,5000
late,500,64.5,8,1000,4000,4600
"""
MEBI = 1024 * 1024


def write(folder: Path, text: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["trace.csv", "trace.csv.gz"])
def test_rows(tmp_path: Path, name: str) -> None:
    assert read_trace(write(tmp_path, GOOD, name)) == (
        Row(2, "early", 0, 100, {"cpu": 1000, "memory": 512 * MEBI}),
        Row(3, "long", 50, 5000, {"cpu": 2500, "memory": 1024 * MEBI, GPU: 1}),
        Row(4, "late", 4000, 4600, {"cpu": 500, "memory": 64 * MEBI + MEBI // 2, GPU: 8}),
    )


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        (Trace(), [("early", 0, 100), ("long", 50, 5000)]),
        (Trace(window="2h"), [("early", 0, 100), ("long", 50, 5000), ("late", 4000, 4600)]),
        (Trace(from_="1h", window="1h"), [("long", 0, 1400), ("late", 400, 1000)]),
        (Trace(from_="1h", window="1h", time_scale=4), [("long", 0, 350), ("late", 100, 250)]),
        (Trace(from_="100s", window="1s"), [("early", 0, 0), ("long", 0, 4900)]),
    ],
)
def test_window_and_scale(tmp_path: Path, trace: Trace, expected: list[tuple[str, int, int]]) -> None:
    found = visits(trace, read_trace(write(tmp_path, GOOD)))
    assert [(item.row.name, item.start // SECOND, item.end // SECOND) for item in found] == expected


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("x,1000,512,0,0,0", "row 3, column count"),
        ("x,1000,512,0,0,0,1,9", "row 3, column count"),
        ("x,lots,512,0,0,0,1", "row 3, column cpu_milli: 'lots' is not a number"),
        ("x,-1,512,0,0,0,1", "row 3, column cpu_milli: '-1' is not a number of 0 or more"),
        ("x,1000,nan,0,0,0,1", "row 3, column memory_mib: 'nan'"),
        ("x,1000,512,,0,0,1", "row 3, column num_gpu: '' is not a number"),
        ("x,1000,512,0,0,5,1", "row 3, column deletion_time: 1 is before the creation_time 5"),
        ("Pod_X,1000,512,0,0,0,1", "row 3, column name: 'Pod_X' is not a pod name"),
        ("early,1000,512,0,0,0,1", "row 3, column name: 'early' is also the name of row 2"),
        ('x,"1000,512,0,0,0,1', "not readable as CSV"),
        ("x,1e30,512,0,0,0,1", "row 3, column cpu_milli: 1e30 is more than any node has"),
        ("x,1000,9999999999999,0,0,0,1", "column memory_mib: 9999999999999 is more than any node has"),
        ("x,1000,512,1e99,0,0,1", "column num_gpu: 1e99 is more than any node has"),
        ("x,1000,512,0,0,0,1700000000000", "column deletion_time: 1700000000000 s are after the year 2286"),
        ("x,1000,512,0,0,1700000000000,1700000000001", "column creation_time: 1700000000000 s are after"),
    ],
)
def test_broken_rows(tmp_path: Path, row: str, message: str) -> None:
    path = write(tmp_path, f"{HEADER}\nearly,1000,512,0,0,0,100\n{row}\n")
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert message in str(caught.value)
    assert caught.value.source == str(path)


def test_missing_columns_and_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column num_gpu, deletion_time"):
        read_trace(write(tmp_path, "name,cpu_milli,memory_mib,creation_time\n"))
    with pytest.raises(InputError, match="cannot read the trace"):
        read_trace(tmp_path / "nowhere.csv")
    with pytest.raises(InputError, match="it is a folder"):
        read_trace(tmp_path)
    for nothing in ("", "\n\n"):
        with pytest.raises(InputError, match="no column name, cpu_milli"):
            read_trace(write(tmp_path, nothing))
    with pytest.raises(InputError, match="no column name, cpu_milli"):
        read_trace(Path("/dev/null"))
    with pytest.raises(InputError, match="the trace has no pods"):
        read_trace(write(tmp_path, HEADER))
    with pytest.raises(InputError, match="separated by ';'"):
        read_trace(write(tmp_path, HEADER.replace(",", ";")))
    packed = gzip.compress(GOOD.encode())
    for content in (packed[:-12], packed[:20] + b"damaged" + packed[27:]):
        (tmp_path / "cut.csv.gz").write_bytes(content)
        with pytest.raises(InputError, match="damaged"):
            read_trace(tmp_path / "cut.csv.gz")


@pytest.mark.parametrize(
    ("trace", "path", "message"),
    [
        (Trace(from_="2h"), "trace.window", "no pod of the trace is alive"),
        (Trace(from_="soon"), "trace.from", "not a duration"),
        (Trace(window="0s"), "trace.window", "more than 0s"),
        (Trace(from_="-1s"), "trace.from", "at least 0s"),
        (Trace(time_scale=0.0), "trace.timeScale", "not a time scale"),
    ],
)
def test_broken_windows(tmp_path: Path, trace: Trace, path: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        visits(trace, read_trace(write(tmp_path, GOOD)), source="scenario.yaml")
    assert (caught.value.path, caught.value.source) == (path, "scenario.yaml")
