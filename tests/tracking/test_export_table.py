"""Every value as a line of CSV."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from hpcdist.runs.job_states import Report
from hpcdist.tracking import export
from tests.tracking.made import AT, COMPLETED, logged, made


def test_every_value_is_a_line(tmp_path: Path) -> None:
    run = made(tmp_path / "runs", f"started 7 {AT} 0")
    odd = 'a "b",\n=1+1'
    logged(run, "7/0.0/rank-0", {"step": 0.5, "metrics": {odd: 0.1}}, {"step": 2, "metrics": {odd: "-inf"}})
    logged(run, "7/0.0/rank-3", {"at": 0, "metrics": {"m": 1e300}})
    other = made(tmp_path / "runs", name="train-2")
    found = [item for each in (run, other) for item in export.read(Report(each, COMPLETED), AT)[0]]
    assert export.save_table(found, tmp_path / "all.csv") == 3
    with (tmp_path / "all.csv").open(newline="") as stream:
        assert [*csv.reader(stream)] == [
            ["run", "job", "metric", "rank", "step", "time", "value"],
            ["train-1", "7", odd, "0", "0.5", "2026-11-23T08:00:01.000+00:00", "0.1"],
            ["train-1", "7", odd, "0", "2", "2026-11-23T08:00:02.000+00:00", "-inf"],
            ["train-1", "7", "m", "3", "0", "", "1e+300"],
        ]


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "all.csv"
    file.write_text("the old one")

    def items_of_a_run_that_cannot_be_read() -> list[export.Item]:
        raise OSError(5, "no", "a run")

    with pytest.raises(OSError, match="no: 'a run'"):
        export.save_table((item for _ in "x" for item in items_of_a_run_that_cannot_be_read()), file)
    assert (file.read_text(), [*tmp_path.iterdir()]) == ("the old one", [file])


def test_what_is_no_regular_file_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    export.save_table([], tmp_path / "link")
    assert (tmp_path / "target").read_text().startswith("run,job")
    assert (tmp_path / "link").is_symlink()
    export.save_table([], Path(os.devnull))
    assert not Path(os.devnull).is_file()


def test_a_full_disk_has_the_name_of_the_file() -> None:
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        export.save_table([], Path("/dev/full"))
