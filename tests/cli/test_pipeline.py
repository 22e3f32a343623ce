"""Pipelines by the verbs of jobs, with a Slurm of a few functions."""

from __future__ import annotations

import cProfile
import json
import pstats
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from hpcdist.cli.jobs import exit_codes
from hpcdist.runs import job_states, removing, rundir
from hpcdist.runs.rundir import Run
from hpcdist.schedulers.job import JobState, Status
from hpcdist.studies.pipeline_runs import remove_empty, runs_in_use
from tests.studies.test_pipeline_submit import REPAIRED, Person

from .conftest import Hpcdist


def end(found: Iterable[Run]) -> None:
    """Record that these completed."""
    for run in found:
        over = Status(JobState.COMPLETED, exit_code=0, source="sacct")
        rundir.save(run.directory, replace(run.record, ended=over))


def test_an_operation_that_was_not_needed_is_no_failure(tmp_path: Path) -> None:
    person = Person(tmp_path / "runs", REPAIRED)
    stored, found = person.submit()
    person.queue.jobs |= dict.fromkeys(("100", "102", "104"), "COMPLETED")
    person.queue.jobs |= dict.fromkeys(("101", "103"), "CANCELLED")
    reports = job_states.status([*found.values()], person.queue.services)
    assert exit_codes.of_reports(reports) == 0
    assert (
        exit_codes.of_reports(
            [report for report in reports if report.run.record.operation == "diamond-1/check"]
        )
        == 1
    )
    (stored.directory.path / "pipeline.json").unlink()
    assert exit_codes.of_reports(reports) == 1


def test_runs_are_kept_while_others_of_their_pipeline_may_use_them(tmp_path: Path) -> None:
    person = Person(tmp_path / "runs")
    stored, found = person.submit()
    person.queue.jobs |= {"100": "COMPLETED", "101": "COMPLETED", "102": "COMPLETED", "103": "RUNNING"}
    assert runs_in_use([found["prep"], found["join"]], person.queue.services).keys() == {
        found["prep"].directory
    }
    [error] = runs_in_use([found["prep"]], person.queue.services).values()
    assert str(error) == (
        "diamond-1-prep-1 may be used by diamond-1/join, which is running; "
        "`hpcdist cancel diamond-1-join-1` ends its job"
    )
    person.queue.jobs.clear()
    assert runs_in_use([found["prep"]], person.queue.services).keys() == {found["prep"].directory}
    assert runs_in_use([found["prep"]], person.queue.services, force=True) == {}
    end(found.values())
    assert runs_in_use([*found.values()], person.queue.services) == {}
    assert remove_empty([found["prep"]]) == []
    for run in found.values():
        removing.remove_directory(run.directory)
    assert remove_empty([found["prep"], found["left"]]) == ["diamond-1"]
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
    command = ("rm", "--older", "2100-01-01", "--yes", "--runs-dir", str(person.runs))
    end(found.values())
    assert hpcdist(*command).out.splitlines()[-1].startswith("removed 4 runs")
    assert [*person.runs.glob("[!.]*")] == []


def test_the_verbs_of_one_run_show_each_operation_or_name_them(tmp_path: Path, hpcdist: Hpcdist) -> None:
    person = Person(tmp_path / "runs")
    stored, found = person.submit()
    end(found.values())
    for name in ("left", "join"):
        folder = found[name].directory.outputs
        folder.mkdir(exist_ok=True)
        (folder / f"of-{name}").write_text("x")
    where = ("--runs-dir", str(person.runs))
    titles = [f"==> diamond-1/{name} <==" for name in stored.needs]
    for verb in ("metrics", "outputs", "logs"):
        done = hpcdist(verb, "diamond-1", *where)
        assert (done.code, [line for line in done.out.splitlines() if line.startswith("=")]) == (0, titles)
    lines = hpcdist("outputs", "diamond-1", *where).out.splitlines()
    assert [line.split()[0] for line in lines if "of-" in line] == ["of-left", "of-join"]
    refused = hpcdist("outputs", "diamond-1", "--json", *where)
    assert (refused.code, refused.err.splitlines()[-1]) == (
        2,
        "Error: --json is for one run: name an operation, diamond-1/prep.",
    )
    described = hpcdist("describe", "diamond-1", *where).out.split("\n\n")
    assert described[0].splitlines()[0].split() == ["pipeline", "diamond-1"]
    assert described[1] == hpcdist("status", "diamond-1", *where).out
    data = json.loads(hpcdist("describe", "diamond-1", "--json", *where).out)
    assert data == json.loads(hpcdist("status", "diamond-1", "--json", *where).out) | {
        "site": stored.site,
        "created_at": stored.created_at,
        "directory": str(stored.directory.path),
    }
    for verb, *words in (("restart",), ("debug",), ("exec", "true")):
        done = hpcdist(verb, *where, "diamond-1", *words)
        message, _, names = done.err.strip().partition("; name an operation: ")
        assert (done.code, message) == (2, "error: diamond-1 is a pipeline, where one run is wanted")
        assert sorted(names.split(", ")) == sorted(run.record.operation for run in found.values())


def test_a_report_of_a_pipeline_is_one_page_of_its_runs(tmp_path: Path, hpcdist: Hpcdist) -> None:
    person = Person(tmp_path / "runs")
    _, found = person.submit()
    end(found.values())
    done = hpcdist("report", "diamond-1", "--runs-dir", str(person.runs), "-o", str(tmp_path / "page.html"))
    assert done.code == 0, done.err
    page = (tmp_path / "page.html").read_text()
    assert [run.name for run in found.values() if run.name not in page] == []


def calls(hpcdist: Hpcdist, operations: int) -> dict[str, int]:
    """Return how often what each operation could do again was done for the `check` of so many."""
    rows = [{"name": f"o{number}", "run": {"cmd": "true"}} for number in range(operations)]
    Path("many.yml").write_text(json.dumps({"kind": "pipeline", "name": "many", "operations": rows}))
    profile = cProfile.Profile()
    assert profile.runcall(hpcdist, "check", "many.yml").code == 0
    counted = dict.fromkeys(("search", "_yaml_files", "problems_in", "get_class_annotations"), 0)
    for (file, _, name), (count, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if name in counted and not file.endswith("/re.py") and "/re/" not in file:
            counted[name] += count
    return counted


def test_what_is_the_same_for_all_operations_is_done_once(hpcdist: Hpcdist) -> None:
    """The site of 5,000 was searched for among all site files 5,000 times."""
    calls(hpcdist, 1)
    assert calls(hpcdist, 12) == calls(hpcdist, 2)


def test_warnings_about_the_file_are_printed_where_an_operation_cannot_be_planned(
    folder: Path, hpcdist: Hpcdist
) -> None:
    wrong = {"name": "a", "run": {"cmd": "true"}, "batch": {"walltime": "x"}}
    rows = [wrong, {"name": "b", "run": {"cmd": "true"}}]
    (folder / "two.yml").write_text(json.dumps({"kind": "pipeline", "operations": rows}))
    done = hpcdist("check", "two.yml", "--site", "slurm")
    assert (done.code, "nothing uses the outputs of a" in done.err, "batch.walltime" in done.err) == (
        2,
        True,
        True,
    )
