from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.base.errors import ConfigError
from hpcdist.runs import attempt_files
from hpcdist.runs.attempt_files import Numbered
from hpcdist.runs.rundir import RunDirectory
from tests.wording import Wording


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    (tmp_path / "attempts" / "3").mkdir(parents=True)
    return RunDirectory(tmp_path)


def write(run: RunDirectory, **files: str) -> None:
    for name, text in files.items():
        (run.path / "attempts" / name.replace("_", "/")).write_text(text)


def test_attempts_have_numbers_jobs_and_names(run: RunDirectory) -> None:
    several = {str(number): f"7 0.{number}\n" for number in (0, 1, 2, 10)}
    write(run, **several, **{"0.why": "failure\n", "first": "0\n", "3_0": "9_3 0.0\n"})
    assert attempt_files.numbered(run) == (
        Numbered(0, "7", "0.0"),
        Numbered(0, "9_3", "0.0"),
        *(Numbered(number, "7", f"0.{number}") for number in (1, 2, 10)),
    )
    assert attempt_files.numbered(run, "3") == (Numbered(0, "9_3", "0.0"),)


def test_files_of_earlier_versions_and_damaged_ones_have_no_name(run: RunDirectory) -> None:
    write(run, **{"0": "7\n", "1": "", "2": "7 2\n"})
    assert attempt_files.numbered(run) == (Numbered(0, "7"), Numbered(1, ""), Numbered(2, "7"))


def test_an_attempt_that_never_was(run: RunDirectory, wording: Wording) -> None:
    write(run, **{"0": "7 0.0\n", "1": "7 0.1\n"})
    attempt_files.check(run, 1)
    with pytest.raises(ConfigError) as error:
        attempt_files.check(run, 2)
    wording(str(error.value).replace(run.name, "RUN"))
    with pytest.raises(ConfigError) as error:
        attempt_files.check(run, 0, "4")
    wording(str(error.value).replace(run.name, "RUN"))
