"""A study is its runs: which belong to it, and which are missing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from hpcdist.errors import ConfigError
from hpcdist.runs.rundir import Phase, Run, save
from hpcdist.studies import scaling_runs
from hpcdist.studies.scaling_runs import FILE, Member
from tests.report import made as others
from tests.studies import scaling_made as made
from tests.studies.scaling_made import STUDY


def test_all_sizes_come_once_before_any_is_repeated() -> None:
    assert [(member.nodes, member.repetition) for member in STUDY.members] == [
        (1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (4, 2),
    ]  # fmt: skip
    assert len({member.mark for member in STUDY.members}) == 6


def test_the_runs_of_a_study_are_found_by_any_of_them(tmp_path: Path) -> None:
    other = msgspec.structs.replace(STUDY, token="t1")  # noqa: S106 - no password
    mine = made.study(tmp_path, {(2, 1): 2.0, (1, 1): 1.0})
    made.study(tmp_path, {(1, 1): 1.0}, of=other)
    others.run(tmp_path, "alone", {})
    found, runs = scaling_runs.find_study(tmp_path, mine[0][0].run.name)
    assert found == STUDY
    assert [(one.run.name, one.member) for one in runs] == [
        ("train-1-nodes-1", Member(STUDY, 1, 1)),
        ("train-2-nodes-1", Member(STUDY, 2, 1)),
    ]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "1" * 100_000, '{"study": {}, "nodes": 1, "repetition": 1}', "[" * 100_000]
)
def test_a_damaged_file_is_of_no_study(tmp_path: Path, text: str) -> None:
    report = made.run(tmp_path, Member(STUDY, 1, 1), {})
    report.run.directory.write(FILE, text)
    with pytest.raises(ConfigError, match="train-1-nodes-1 is not a run of a scaling study"):
        scaling_runs.find_study(tmp_path, "train-1-nodes-1")
    assert scaling_runs.study_runs(tmp_path) == []


def test_no_number_of_a_file_is_out_of_bounds(tmp_path: Path) -> None:
    member = Member(STUDY, 1, 1)
    report = made.run(tmp_path, member, {})
    report.run.directory.write(FILE, member.text.replace('"repeat": 2', '"repeat": 1000000000'))
    assert scaling_runs.member_of(report.run) is None


def test_what_was_not_submitted_is_missing(tmp_path: Path) -> None:
    reports = [report for report, _ in made.study(tmp_path, {(1, 1): 1.0, (2, 1): 2.0, (4, 1): 3.0})]
    accepted = reports[1].run
    save(accepted.directory, replace(accepted.record, phase=Phase.ACCEPTED))
    made_only = reports[2].run
    save(made_only.directory, replace(made_only.record, phase=Phase.CREATED, job_id=None))
    every = scaling_runs.study_runs(tmp_path)
    assert scaling_runs.unfinished_study(every, "d0") == STUDY
    assert scaling_runs.unfinished_study(every, "another") is None
    left = scaling_runs.missing_members(STUDY, scaling_runs.runs_of(every, STUDY))
    assert [(one.nodes, one.repetition) for one in left] == [(2, 1), (4, 1), (1, 2), (2, 2), (4, 2)]


def test_a_run_that_has_a_job_comes_before_one_that_has_none(tmp_path: Path) -> None:
    reports = [report for report, _ in made.study(tmp_path, {(1, 1): 1.0})]
    reports += [report for report, _ in made.study(tmp_path, {(1, 1): 1.0})]
    later = reports[1].run
    save(later.directory, replace(later.record, phase=Phase.CREATED, job_id=None))
    chosen = scaling_runs.runs_of(scaling_runs.study_runs(tmp_path), STUDY)
    assert [one.run.name for one in chosen] == ["train-1-nodes-1"]
    assert isinstance(chosen[0].run, Run)
