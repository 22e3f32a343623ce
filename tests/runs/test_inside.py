"""Which node of a running job a command is for."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hpcdist.base.errors import ConfigError
from hpcdist.runs import inside, rundir
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Phase, Record, Run, RunDirectory
from hpcdist.schedulers.base import Nodes
from hpcdist.schedulers.job import JobState, Status
from tests.wording import Wording

ROWS = [
    {"rank": 0, "tasks": 4, "tasks_per_node": 2, "node": 0},
    {"rank": 4, "tasks": 1, "tasks_per_node": 1, "node": 2},
]


def report(folder: Path, state: JobState = JobState.RUNNING, **pieces: object) -> Report:
    directory: RunDirectory = rundir.create(folder, "a")
    plan = {"placement": {"rows": ROWS}, "launch": {"mode": "tasks"}, **pieces}
    directory.write("plan.json", msgspec.json.encode(plan).decode())
    for name, text in (("jobs/7/nodes", "n1\nn2\nn3\n"), ("jobs/7_2/nodes", "n9\n")):
        file = directory.path / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
    record = Record("a", "t0", "toy", "slurm", "", "2026-01-01T00:00:00+00:00", Phase.SUBMITTED, "7")
    return Report(Run(directory, record), Status(state))


def attempt(found: Report, name: str, line: str) -> None:
    file = found.run.directory.path / "attempts" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(line)


@pytest.mark.parametrize(
    ("rank", "node", "number"),
    [
        (None, None, 0),
        (0, None, 0),
        (1, None, 0),
        (3, None, 1),
        (4, None, 2),
        (None, "n3", 2),
        (None, "1", 1),
    ],
)
def test_the_node_of_a_rank_or_a_name(
    tmp_path: Path, rank: int | None, node: str | None, number: int
) -> None:
    job = inside.running(report(tmp_path))
    assert job.nodes == Nodes("7", ("n1", "n2", "n3"), (0, 1, 2))
    assert inside.node_of(job, rank, node) == number
    assert job.on(number) == Nodes("7", (f"n{number + 1}",), (number,))


@pytest.mark.parametrize(
    ("rank", "node"),
    [(5, None), (None, "n4"), (None, "3")],
)
def test_what_is_not_there_is_refused(
    tmp_path: Path, rank: int | None, node: str | None, wording: Wording
) -> None:
    with pytest.raises(ConfigError) as error:
        inside.node_of(inside.running(report(tmp_path)), rank, node)
    wording(str(error.value))


def test_ranks_of_a_command_that_starts_its_own_tasks_are_not_known(tmp_path: Path, wording: Wording) -> None:
    job = inside.running(report(tmp_path, launch={"mode": "once"}))
    with pytest.raises(ConfigError) as error:
        inside.node_of(job, 0, None)
    wording(str(error.value))


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.RUNNING])
def test_a_job_that_does_not_run_is_refused(tmp_path: Path, state: JobState) -> None:
    with pytest.raises(ConfigError, match=f"a-1 does not run: it is {state.value};"):
        inside.running(report(tmp_path, state))


def test_an_array_needs_an_element_whose_own_id_counts(tmp_path: Path, wording: Wording) -> None:
    found = report(tmp_path, sweep={"trials": 3})
    with pytest.raises(ConfigError) as error:
        inside.running(found)
    wording(str(error.value))
    attempt(found, "2/0", "7_2 0.0 7_1\n")
    job = inside.running(found, "2")
    assert (job.folder, job.nodes) == (
        str(found.run.directory.path / "jobs/7_2"),
        Nodes("7_1", ("n9",), (0,)),
    )


def test_components_are_parts_of_their_own(tmp_path: Path) -> None:
    groups = [{"node": 0, "nodes": 1, "gpus": 0}, {"node": 1, "nodes": 2, "gpus": 1}]
    job = inside.running(report(tmp_path, placement={"rows": ROWS, "groups": groups}))
    assert job.parts == (Nodes("7+0", ("n1",), (0,)), Nodes("7+1", ("n2", "n3"), (1, 2)))
    assert job.on(2) == Nodes("7+1", ("n3",), (2,))


def test_a_packed_trial_is_a_job_of_one_rank_on_the_node_of_its_worker(
    tmp_path: Path, wording: Wording
) -> None:
    found = report(tmp_path, sweep={"trials": 20, "pack": {"workers": 2}})
    path = found.run.directory.path
    (path / "events.7@n2.site").write_text("started 7_16 1 0\nended 7_16 2 0\nstarted 7_17 3 0\n")
    (path / "jobs/7_17").mkdir()
    (path / "jobs/7_17/nodes").write_text("n2\n")
    nodes = Nodes("7", ("n2",), (0,))
    job = inside.running(found, "17")
    assert (job.folder, job.nodes, job.parts, job.tasks) == (str(path / "jobs/7_17"), nodes, (nodes,), 1)
    for trial in ("16", "18"):
        with pytest.raises(ConfigError) as error:
            inside.running(found, trial)
        wording(str(error.value))


def test_a_script_that_has_not_begun_has_no_nodes(tmp_path: Path, wording: Wording) -> None:
    found = report(tmp_path)
    attempt(found, "0", "8 0.0 8\n")
    with pytest.raises(ConfigError) as error:
        inside.running(found)
    wording(str(error.value))
