"""Pipelines by the verbs of jobs, with a Slurm of a few functions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hpcdist.cli.jobs.wait import exit_code
from hpcdist.pipelines.removing import in_use, remove_emptied
from hpcdist.runs import removing, rundir, states
from hpcdist.runs.rundir import Run
from hpcdist.schedulers.job import JobState, Status
from tests.pipelines.test_submitting import REPAIRED, Person

from .conftest import Hpcdist


def end(found: Iterable[Run]) -> None:
    """Record that these completed."""
    for run in found:
        over = Status(JobState.COMPLETED, exit_code=0, source="sacct")
        rundir.save(run.directory, run.record._replace(ended=over))


def test_an_operation_that_was_not_needed_is_no_failure(tmp_path: Path) -> None:
    person = Person(tmp_path / "runs", REPAIRED)
    stored, found = person.submit()
    person.queue.jobs |= dict.fromkeys(("100", "102", "104"), "COMPLETED")
    person.queue.jobs |= dict.fromkeys(("101", "103"), "CANCELLED")
    reports = states.status([*found.values()], person.queue.services)
    assert exit_code(reports) == 0
    assert exit_code([report for report in reports if report.run.record.operation == "diamond-1/check"]) == 1
    (stored.directory.path / "pipeline.json").unlink()
    assert exit_code(reports) == 1


def test_runs_are_kept_while_others_of_their_pipeline_may_use_them(tmp_path: Path) -> None:
    person = Person(tmp_path / "runs")
    stored, found = person.submit()
    person.queue.jobs |= {"100": "COMPLETED", "101": "COMPLETED", "102": "COMPLETED", "103": "RUNNING"}
    assert in_use([found["prep"], found["join"]], person.queue.services).keys() == {found["prep"].directory}
    [error] = in_use([found["prep"]], person.queue.services).values()
    assert str(error) == (
        "diamond-1-prep-1 may be used by diamond-1/join, which is running; "
        "`hpcdist cancel diamond-1-join-1` ends its job"
    )
    person.queue.jobs["103"] = "FAILED"
    assert in_use([*found.values()], person.queue.services) == {}
    assert remove_emptied([found["prep"]]) == []
    for run in found.values():
        removing.remove_directory(run.directory)
    assert remove_emptied([found["prep"], found["left"]]) == ["diamond-1"]
    assert ([*person.runs.glob("[!.]*")], stored.directory.path.exists()) == ([], False)


def test_rm_removes_a_pipeline_with_its_runs(tmp_path: Path, hpcdist: Hpcdist) -> None:
    person = Person(tmp_path / "runs")
    stored, found = person.submit()
    end(found.values())
    for run in found.values():
        done = hpcdist("rm", run.name, "--runs-dir", str(person.runs))
        assert (done.code, done.out.partition(",")[0]) == (0, f"{run.name}: removed")
    assert (done.err, [*person.runs.glob("[!.]*")]) == (
        "note: diamond-1: removed, a pipeline without runs\n",
        [],
    )
    stored.directory.path.mkdir()
    stored.save()
    done = hpcdist("status", "diamond-1", "--runs-dir", str(person.runs))
    assert done.out.splitlines()[0] == "diamond-1: 4 unsubmitted"
    done = hpcdist("rm", "diamond-1", "--runs-dir", str(person.runs))
    assert (done.code, done.err) == (0, "note: diamond-1: removed, a pipeline without runs\n")
    done = hpcdist("status", "diamond-1", "--runs-dir", str(person.runs))
    assert (done.code, done.err) == (2, f"error: there is no run 'diamond-1' in {person.runs}\n")


def test_prune_removes_old_pipelines(tmp_path: Path, hpcdist: Hpcdist) -> None:
    person = Person(tmp_path / "runs")
    _, found = person.submit()
    command = ("prune", "--older", "2100-01-01", "--yes", "--runs-dir", str(person.runs))
    end(found.values())
    assert hpcdist(*command).out.splitlines()[-1].startswith("removed 4 runs")
    assert [*person.runs.glob("[!.]*")] == []
