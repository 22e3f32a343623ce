"""Which outputs a pattern chooses."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.base.errors import ConfigError
from hpcdist.runs import rundir
from hpcdist.runs.remotes import fetching
from hpcdist.runs.remotes.fetching import Version
from hpcdist.runs.rundir import Record, Run

THERE = dict.fromkeys(("1/model", "2/model", "2/plots/a", "12/model", "log"), Version(1, 2))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    record = Record("tune", "t", "s", "local", "d", "2026-01-01T00:00:00+00:00")
    return Run(rundir.create(tmp_path, "tune"), record)


@pytest.mark.parametrize(
    ("element", "pattern", "found"),
    [
        ("", "*", [*THERE]),
        ("", "2", ["2/model", "2/plots/a"]),
        ("", "*/model", ["1/model", "2/model", "12/model"]),
        ("2", "*", ["2/model", "2/plots/a"]),
        ("2", "model", ["2/model"]),
        ("2", "plots/", ["2/plots/a"]),
        ("2", "2/model", ["2/model"]),
    ],
)
def test_a_pattern_is_that_of_a_path_or_a_folder(
    run: Run, element: str, pattern: str, found: list[str]
) -> None:
    assert [*fetching.matching(THERE, [pattern], run, element)] == found


def test_a_pattern_without_a_file_is_refused(run: Run) -> None:
    with pytest.raises(ConfigError, match=r"no output of tune-1/2 matches 'log'; `hpcdist outputs tune-1/2`"):
        fetching.matching(THERE, ["log"], run, "2")
