"""A slice of each driver of ``make chaos``, always the same one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import __main__ as chaos

SHARES = {"files": 400, "fields": 180, "values": 300}


@pytest.mark.parametrize("name", chaos.DRIVERS)
def test_a_slice(name: str, tmp_path: Path) -> None:
    result = chaos.DRIVERS[name].run(SHARES[name], 1, tmp_path)
    assert result.wrong == []
    assert result.outcomes.total() >= SHARES[name]
