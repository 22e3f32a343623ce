"""The batch system's accounting of a job: what attempts take from it, and when it is kept."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from hpcdist.base.command import Command, Completed
from hpcdist.runs import accounting, attempts
from hpcdist.runs.event_states import Attempt
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Phase, Run
from hpcdist.runs.services import Services
from hpcdist.schedulers.job import JobState, Status, Usage

from .test_event_states import log
from .test_rundir import made

ROWS = (
    "12|NODE_FAIL|1:0|90|98|150||n[1-2]|00:30.500|cpu=8,gres/gpu=8,node=2||52\n"
    "12.0|FAILED|0:9|100|100|150|4K|n1|00:30.500|cpu=8|cpu=00:00:30,mem=7K|50\n"
    "12|COMPLETED|0:0|155|199|230||n3|00:00:00|cpu=8,node=1||31\n12.0|COMPLETED|0:0|200|200|230|3K|n3||||30\n"
)
RUNNING = ROWS.replace("|230|", "|Unknown|").replace("COMPLETED", "RUNNING")
COMPLETED = Status(JobState.COMPLETED)
USAGE = (
    Usage(None, JobState.NODE_FAIL, 90.0, 98.0, 150.0, None, ("n1", "n2"), 4096, 7168, 30.5, 8, 8, 52.0),
    Usage(None, JobState.COMPLETED, 155.0, 199.0, 230.0, 0, ("n3",), 3072, cpus=8, elapsed=31.0),
)


class Sacct:
    """Answers each command with the same rows."""

    def __init__(self, rows: str, code: int = 0) -> None:
        self.rows = rows
        self.code = code
        self.calls = 0

    def run(self, command: Command) -> Completed:
        self.calls += 1
        return Completed(command, self.code, self.rows)


def slurm(folder: Path, *lines: str, ended: Status | None = None) -> Run:
    run = made(folder, scheduler="slurm", ended=ended)
    (run.directory.path / "events").write_bytes(log(*lines))
    (run.directory.path / "plan.json").write_text(
        '{"placement": {"groups": [{"gpus": 4, "nodes": 2}], "rows": []}}'
    )
    return run


def report(run: Run) -> Report:
    return Report(run, Status(JobState.UNKNOWN))


def test_a_start_takes_what_the_event_log_lacks(tmp_path: Path) -> None:
    run = slurm(tmp_path, "started 12 100 0", "started 12 200 1", "restarted 12 210 1", "ended 12 229 0")
    assert attempts.read(report(run), 1000.0, lambda _: USAGE) == (
        Attempt("12", (0, 0), "node_fail", 90.0, 100.0, 150.0, ("n1", "n2"), None, 400.0, 4096, "", USAGE[0]),
        Attempt("12", (1, 0), "failed", 155.0, 200.0, 210.0, None, 1, 80.0, 3072, "failure", USAGE[1]),
        Attempt("12", (1, 1), "completed", 210.0, 210.0, 229.0, ("n3",), 0, 152.0, 3072, "", USAGE[1]),
    )


def test_gpu_hours_take_an_end_that_the_event_log_lacks(tmp_path: Path) -> None:
    run = slurm(tmp_path, "started 12 100 0", "started 12 200 1", "ended 12 230 0", ended=COMPLETED)
    hours = partial(attempts.gpu_hours, run, run.directory.plan(), run.directory.events(), 1000.0)
    assert hours() is None
    accounting.keep([run], Services(Sacct(ROWS), now=lambda: 300.0))
    assert hours() == (8 * 50 + 8 * 30) / 3600


def test_a_start_that_the_accounting_does_not_have_yet_takes_none_of_another(tmp_path: Path) -> None:
    run = slurm(tmp_path, "started 12 100 0", "ended 12 150 143", "started 12 200 1")
    last = attempts.read(report(run), 1000.0, lambda _: USAGE[:1])[-1]
    assert last == Attempt("12", (1, 0), "running", 150.0, 200.0, gpu_seconds=6400.0)


def test_a_start_whose_node_was_lost_at_once_is_not_taken_for_the_next(tmp_path: Path) -> None:
    """The times are whole seconds: the first start has none in common with its own row."""
    run = slurm(tmp_path, "started 12 100 0", "started 12 102 1", "ended 12 102 0", ended=COMPLETED)
    usage = (
        Usage(None, JobState.NODE_FAIL, 90.0, 100.0, 100.0),
        Usage(None, JobState.COMPLETED, 100.0, 101.0, 102.0),
    )
    first, last = attempts.read(report(run), 1000.0, lambda _: usage)
    assert [(each.state, each.usage) for each in (first, last)] == [
        ("node_fail", usage[0]),
        ("completed", usage[1]),
    ]


def test_an_end_without_a_time_leaves_the_gpu_seconds_unknown(tmp_path: Path) -> None:
    run = slurm(tmp_path, "started 12 100 0")
    usage = Usage(state=JobState.FAILED, started=99.0)
    [last] = attempts.read(report(run), 1000.0, lambda _: (usage,))
    assert last == Attempt("12", (0, 0), "failed", None, 100.0, usage=usage)


def test_a_job_that_never_started(tmp_path: Path) -> None:
    run = slurm(tmp_path, ended=Status(JobState.CANCELLED))
    usage = (Usage(None, JobState.CANCELLED, 90.0, None, 95.0),)
    assert attempts.read(report(run), 1000.0, lambda _: usage) == (
        Attempt("12", (0, 0), "cancelled", 90.0, None, 95.0, usage=usage[0]),
    )


def test_elements_and_what_has_no_times(tmp_path: Path) -> None:
    run = slurm(
        tmp_path, "started 12_0 100 0", "ended 12_0 110 143", "started 12_0 120 1", "started 12_1 100 0"
    )
    usage = (Usage(0, JobState.FAILED, max_memory=7), Usage(12, max_memory=8), Usage(max_memory=9))
    shown = {
        (each.job, each.number): (each.state, each.max_memory)
        for each in attempts.read(report(run), 1e3, lambda _: usage)
    }
    assert shown == {
        ("12_0", (0, 0)): ("requeued", None),
        ("12_0", (1, 0)): ("failed", 7),
        ("12_1", (0, 0)): ("running", None),
    }


def test_it_is_kept_when_the_job_has_ended_and_then_not_queried(tmp_path: Path) -> None:
    run = slurm(tmp_path, "started 12 100 0", "started 12 200 1", ended=COMPLETED)
    sacct = Sacct(ROWS)
    assert [accounting.query(run, Services(sacct, now=lambda: 300.0)) for _ in range(2)] == [USAGE, USAGE]
    assert sacct.calls == 1
    assert attempts.read(report(run), 1000.0) == attempts.read(report(run), 1000.0, lambda _: USAGE)


@pytest.mark.parametrize(("rows", "calls"), [(ROWS, 2), (ROWS + ROWS.replace("12", "12_3"), 1)])
def test_it_is_kept_when_it_has_each_element(tmp_path: Path, rows: str, calls: int) -> None:
    run = slurm(tmp_path, "started 12_0 200 0", "started 12_3 200 0", "started 99 900 0", ended=COMPLETED)
    sacct = Sacct(rows.replace("12|", "12_0|").replace("12.", "12_0."))
    for _ in range(2):
        accounting.query(run, Services(sacct, now=lambda: 300.0))
    assert sacct.calls == calls


@pytest.mark.parametrize(
    ("rows", "ended"),
    [
        pytest.param(ROWS, None, id="the job may run on"),
        pytest.param(ROWS.partition("12|COMPLETED")[0], COMPLETED, id="the last start is late"),
        pytest.param(RUNNING, COMPLETED, id="its end is late"),
        pytest.param("", COMPLETED, id="no accounting"),
    ],
)
def test_it_is_not_kept_before_it_is_whole(tmp_path: Path, rows: str, ended: Status | None) -> None:
    run = slurm(tmp_path, "started 12 100 0", "started 12 200 1", ended=ended)
    accounting.query(run, Services(Sacct(rows), now=lambda: 300.0))
    assert accounting.read(run.directory) is None


def test_after_an_hour_it_is_kept_whatever_it_is_unless_nobody_answered(tmp_path: Path) -> None:
    run = slurm(tmp_path, "started 12 100 0", ended=COMPLETED)
    sacct, no_sacct = Sacct(""), Sacct("", code=1)
    for runner, seconds in ((sacct, 300.0), (no_sacct, 9000.0), (sacct, 9000.0), (sacct, 9001.0)):
        accounting.keep([run], Services(runner, now=lambda seconds=seconds: seconds))  # type: ignore[misc]
    assert (sacct.calls, no_sacct.calls) == (2, 1)
    assert attempts.read(report(run), 1000.0) == (Attempt("12", (0, 0), "completed", None, 100.0),)


def test_one_of_several_components_is_not_taken_for_the_job(tmp_path: Path) -> None:
    """The database has it alone for a moment, under the job's own number."""
    run = slurm(tmp_path, "started 12 100 0", ended=COMPLETED)
    groups = '{"node": 0, "nodes": 1, "gpus": 0}, {"node": 1, "nodes": 1, "gpus": 2}'
    (run.directory.path / "plan.json").write_text(f'{{"placement": {{"groups": [{groups}], "rows": []}}}}')
    first = "12|COMPLETED|0:0|90|100|150||n1|00:00:00|cpu=8,node=1||50\n"
    assert accounting.query(run, Services(Sacct(first), now=lambda: 300.0)) == ()
    assert accounting.read(run.directory) is None
    other = "12+1|CANCELLED by 5|0:0|90|100|120||n2|00:00:00|cpu=8,gres/gpu=2,node=1||20\n"
    [both] = accounting.query(run, Services(Sacct(first.replace("12|", "12+0|") + other), now=lambda: 301.0))
    assert (both.hosts, both.gpu_seconds) == (("n1", "n2"), 40)
    assert accounting.read(run.directory) == (both,)


def test_the_accounting_of_jobs_that_run_on_is_not_queried_for_many(tmp_path: Path) -> None:
    sacct = Sacct(ROWS)
    accounting.keep([slurm(tmp_path, "started 12 100 0")], Services(sacct))
    assert sacct.calls == 0


def test_a_time_beyond_all_calendars_is_not_taken(tmp_path: Path) -> None:
    rows = "12|COMPLETED|0:0|155|199|999999999999||n3||||9\n"
    assert accounting.query(slurm(tmp_path), Services(Sacct(rows), now=lambda: 300.0)) == ()


def test_a_scheduler_without_accounting_is_not_queried(tmp_path: Path) -> None:
    sacct = Sacct(ROWS)
    assert accounting.query(made(tmp_path), Services(sacct, now=lambda: 300.0)) == ()
    created = made(tmp_path, scheduler="slurm", job_id=None, phase=Phase.CREATED)
    assert accounting.query(created, Services(sacct, now=lambda: 300.0)) == ()
    assert sacct.calls == 0


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1]", '[{"state": "odd"}]', "{}" * 9, '[{"state": "failed", "hosts": 1}]', "[" * 100_000,
     '[{"state": "failed", "hosts": ["n1\\n"]}]', '[{"state": "failed", "hosts": [], "max_memory": 1e400}]',
     '[{"state": "failed", "hosts": ["a b"]}]',
     '[{"state": "failed", "hosts": [], "ended": 1000000000000.0}]',
     '[{"state": "failed", "hosts": [], "ended": "x"}]', '[{"state": "failed", "hosts": [], "odd": 1}]'],
)  # fmt: skip
def test_a_damaged_file_is_none(tmp_path: Path, text: str) -> None:
    run = made(tmp_path)
    (run.directory.path / accounting.FILE).write_text(text)
    assert accounting.read(run.directory) is None


def test_all_jobs_of_a_run_are_one_query(tmp_path: Path) -> None:
    """Job 12 and 123 are told apart; each has the starts of its own."""
    run = slurm(tmp_path, "started 12 100 0", "started 123 200 0")
    second = Run(run.directory._replace(number=2), replace(run.record, job_id="123"))
    other = "123|RUNNING|0:0|90|98|Unknown||n9|00:00:00|||2\n"
    sacct = Sacct(ROWS + other)
    usage = accounting.of_jobs(run._replace(later=(second,)), Services(sacct, now=lambda: 300.0))
    assert (usage(run), usage(second), sacct.calls) == (
        USAGE,
        (Usage(None, JobState.RUNNING, 90.0, 98.0, hosts=("n9",), elapsed=2.0),),
        1,
    )
