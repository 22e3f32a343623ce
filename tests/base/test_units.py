from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.base.units import Memory, Walltime


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12:00:00", 43200),
        ("0:0:1", 1),
        ("2-00:00:00", 172800),
        ("1-02:03:04", 93784),
        ("90m", 5400),
        ("1h30m", 5400),
        ("1d", 86400),
        ("2D3H", 183600),
        ("45s", 45),
        (" 2:00:00 ", 7200),
        ("100:00:00", 360000),
    ],
)
def test_walltimes(text: str, seconds: int) -> None:
    assert Walltime.parse(text) == Walltime(seconds)


@pytest.mark.parametrize(
    "value", [60, 2.5, True, None, "", "60", "12:00", "1:60:00", "0:00:00", "0m", "-1h", "1w"]
)
def test_invalid_walltimes(value: object) -> None:
    with pytest.raises(ValueError, match="is not a walltime; write HH:MM:SS, D-HH:MM:SS or a number with"):
        Walltime.parse(value)


@given(st.integers(min_value=1, max_value=10**9))
def test_walltime_round_trip(seconds: int) -> None:
    assert Walltime.parse(str(Walltime(seconds))) == Walltime(seconds)


def test_walltime_is_formatted_as_slurm_formats_it() -> None:
    assert [str(Walltime(seconds)) for seconds in (5400, 86399, 93784)] == [
        "01:30:00",
        "23:59:59",
        "1-02:03:04",
    ]


@pytest.mark.parametrize(
    ("value", "mib"),
    [
        (300, 300),
        (0, 0),
        (0.5, 1),
        ("512M", 512),
        ("512MiB", 512),
        ("4Gi", 4096),
        ("16G", 16384),
        ("16 gb", 16384),
        ("1.5T", 1572864),
        ("1K", 1),
        ("1025K", 2),
        ("64", 64),
        ("1P", 1073741824),
    ],
)
def test_memory(value: object, mib: int) -> None:
    assert Memory.parse(value) == Memory(mib)


@pytest.mark.parametrize("value", ["", "4X", "lots", "G", None, [], float("inf"), float("nan"), True])
def test_invalid_memory(value: object) -> None:
    with pytest.raises(ValueError, match="is not an amount of memory; write MiB as a number, or 4Gi, 16G"):
        Memory.parse(value)


def test_negative_memory() -> None:
    with pytest.raises(ValueError, match="memory cannot be negative: -1"):
        Memory.parse(-1)


@given(st.integers(min_value=0, max_value=10**9))
def test_memory_round_trip(mib: int) -> None:
    assert Memory.parse(str(Memory(mib))) == Memory(mib)
