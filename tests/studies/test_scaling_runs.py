"""A study is its runs: which belong to it, and which are missing."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from hpcdist.base.command import Command, Completed
from hpcdist.base.errors import ConfigError, SchedulerError
from hpcdist.loading.planning import ExperimentOptions
from hpcdist.runs.rundir import Phase, Run, save
from hpcdist.runs.submission import SubmitOutput
from hpcdist.studies import scaling_runs
from hpcdist.studies.scaling_plan import plan_sizes
from hpcdist.studies.scaling_runs import FILE, Member, StudyRequest
from hpcdist.testing import FakeShell, failed
from tests.runs.test_submission import Queue
from tests.studies import scaling_made as made
from tests.studies.scaling_made import STUDY
from tests.tracking import made_reports as others


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


REFUSED = failed(1, "sbatch: error: Batch job submission failed: Invalid qos")


class Person:
    """Somebody who submits a study to a Slurm of a few functions; ``waits``: what each job waits for."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("HPCDIST_CONFIG", "")
        (folder / "train.yml").write_text("framework: pytorch\nrun: {cmd: python t.py}\n")
        self.runs, self.queue, self.notes = folder / "runs", Queue(), list[str]()
        self.waits: list[str] = []
        self.refuses_after = 9
        self.accept = self.queue.sbatch
        self.queue.programs |= {"sbatch": self.sbatch, "sh": lambda command: Completed(command, 128)}
        self.queue.shell = FakeShell([((name,), self.queue.answer) for name in self.queue.programs])

    def sbatch(self, command: Command) -> Completed:
        if len(self.waits) >= self.refuses_after:
            return REFUSED._replace(command=command)
        [*words] = (word for word in command.argv if word.startswith("--dependency="))
        self.waits.append(words[0].partition("=")[2] if words else "")
        return self.accept(command)

    def submit(self, request: StudyRequest) -> list[tuple[int, int]]:
        sizes = plan_sizes(ExperimentOptions("train.yml", site="slurm"), request.nodes)
        output = SubmitOutput(note=self.notes.append)
        found = scaling_runs.submit_study(request, sizes, self.runs, self.queue.services, output)
        return [(one.member.nodes, one.member.repetition) for one in found]


def test_in_a_chain_each_run_waits_for_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person(tmp_path, monkeypatch)
    assert person.submit(StudyRequest((1, 2), repeat=2, chain=True)) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert person.waits == ["", "afterany:100", "afterany:101", "afterany:102"]


def test_a_study_that_was_refused_in_part_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person(tmp_path, monkeypatch)
    person.refuses_after = 2
    with pytest.raises(SchedulerError, match="Invalid qos"):
        person.submit(StudyRequest((1, 2, 4)))
    assert person.notes == ["2 of 3 runs are submitted; the same command submits the others"]
    person.refuses_after = 9
    assert person.submit(StudyRequest((1, 2, 4))) == [(1, 1), (2, 1), (4, 1)]
    assert person.notes[1:] == ["an earlier study has 2 of 3 runs; the others are submitted"]
    assert sorted(person.queue.jobs) == ["100", "101", "102"]
    assert len(person.submit(StudyRequest((1, 2, 4)))) == 3  # which is another study
    assert len(person.queue.jobs) == 6
