"""Real processes of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from hpcdist.base.command import Completed
from hpcdist.base.errors import PlanError
from hpcdist.base.shell import Shell
from hpcdist.experiment.batch import Mail
from hpcdist.plan.values import Origin
from hpcdist.runs import cancelling, job_states, submission, waiting
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.runs.submission import SubmitRequest
from hpcdist.schedulers.job import Job, JobState, Status
from hpcdist.schedulers.local import LOCAL, Local
from hpcdist.testing import contract
from tests import processes
from tests.wording import Wording

from .plans import PLAN, group, plan, site

HERE = site(name="local", scheduler="local", default_partition="local")
WORLD = Services(Shell())
HASTY = Local(grace=1)

HEAD: Final = """\
#!/bin/bash
note() { echo "$1 $$ $(date +%s) $2" >>"$DIR/events"; }
DIR=${0%/*}
note started 0
trap 'note ended $?' EXIT
trap 'exit 143' TERM
"""


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


class Machine:
    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self.submitted: list[Run] = []

    def submit(self, body: str) -> Run:
        def files(_: RunDirectory) -> dict[str, str]:
            return {"job.sh": HEAD + body}

        run = submission.submit(SubmitRequest("a job", "local", "local", body, files), self.runs, WORLD)
        self.submitted.append(run)
        return run

    def status(self, run: Run) -> Status:
        (report,) = job_states.status([run], WORLD)
        return report.status

    def cancel_soon(self, run: Run) -> None:
        """Cancel a job, and kill what is left of it after one second and not ten."""
        assert run.job is not None
        assert WORLD.runner.run(HASTY.cancel([run.job])).ok

    def end(self) -> None:
        for run in self.submitted:
            while found := holders(run.record.token):  # those that are starting have children later
                for pid in found:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)


def holders(token: str) -> list[int]:
    """The living processes that belong to a job."""
    return list(processes.holders("HPCDIST_TOKEN", token))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path / "runs here")
    yield machine
    machine.end()


def test_contract() -> None:
    contract.commands_and_answers(LOCAL, "123\n", "123")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("echo done", Status(JobState.COMPLETED, "ended", 0, "", "events")),
        ("exit 5", Status(JobState.FAILED, "ended", 5, "", "events")),
    ],
)
def test_a_job_runs_to_its_end(machine: Machine, body: str, expected: Status) -> None:
    run = machine.submit(body)
    (report,) = waiting.wait([run], WORLD)
    assert report.status == expected


def test_output_and_what_the_job_is_given(machine: Machine) -> None:
    run = machine.submit(
        'echo "token $HPCDIST_TOKEN in $PWD"; echo bad >&2; cat; trap -p INT; python3 -c "input()"'
    )
    waiting.wait([run], WORLD)
    lines = (run.directory.logs / "job.out").read_text().splitlines()
    assert lines[:2] == [f"token {run.record.token} in {Path.cwd()}", "bad"]
    assert lines[-1] == "EOFError: EOF when reading a line"
    assert (run.directory.logs / "job.out").stat().st_mode & 0o777 == 0o600


def test_states_of_a_living_job(machine: Machine) -> None:
    run = machine.submit("sleep 60")
    until(lambda: len(holders(run.record.token)) > 1)
    assert run.job is not None
    pid = int(run.job.id)
    assert machine.status(run).state is JobState.RUNNING
    os.kill(pid, signal.SIGSTOP)
    until(lambda: machine.status(run) == Status(JobState.SUSPENDED, "T", source="processes"))
    os.kill(pid, signal.SIGCONT)
    until(lambda: machine.status(run).state is JobState.RUNNING)


def test_a_job_survives_its_terminal(machine: Machine) -> None:
    run = machine.submit("sleep 60")
    assert run.job is not None
    pid = int(run.job.id)
    assert os.getsid(pid) == pid != os.getsid(0)
    assert os.getpgid(pid) == pid


def test_interrupts_are_not_ignored_for_good(machine: Machine) -> None:
    run = machine.submit("grep SigIgn /proc/self/status")
    waiting.wait([run], WORLD)
    (word,) = (run.directory.logs / "job.out").read_text().split()[1:]
    assert int(word, 16) & (1 << (signal.SIGINT - 1)) == 0


def test_cancel_ends_a_tree_of_processes(machine: Machine) -> None:
    run = machine.submit("(sleep 60 & sleep 61 & wait) & sleep 62 & wait")
    until(lambda: len(holders(run.record.token)) == 5)
    machine.cancel_soon(run)
    until(lambda: not holders(run.record.token))
    assert machine.status(run) == Status(JobState.CANCELLED, "cancelled", 143, "", "events")


@pytest.mark.extended
def test_cancel_kills_what_does_not_listen(machine: Machine) -> None:
    body = "trap '' TERM; setsid --fork sleep 600 >/dev/null 2>&1; while :; do sleep 1; done"
    run = machine.submit(body)
    until(lambda: len(holders(run.record.token)) >= 3)
    began = time.monotonic()
    cancelling.cancel([run], WORLD)
    assert machine.status(run).state is JobState.RUNNING  # nobody waits for its end
    until(lambda: not holders(run.record.token), seconds=120)
    assert time.monotonic() - began > 8
    assert machine.status(run) == Status(JobState.CANCELLED, "cancelled", None, "", "events")


def test_cancel_gives_a_program_time_to_save(machine: Machine) -> None:
    traps = "trap 'sleep 1; touch \"$DIR/saved\"; exit 9' TERM; echo ready"
    run = machine.submit(f"{traps}; while :; do sleep 0.1; done")
    until(lambda: "ready\n" in (run.directory.logs / "job.out").read_text())
    cancelling.cancel([run], WORLD)
    until(lambda: not holders(run.record.token))
    assert (run.directory.path / "saved").exists()
    assert machine.status(run) == Status(JobState.CANCELLED, "cancelled", 9, "", "events")


def test_cancel_leaves_a_stranger_with_the_same_pid_alone(machine: Machine) -> None:
    stranger = machine.submit("sleep 60")
    assert stranger.job is not None
    mine = Job(stranger.job.id, "b-1", str(machine.runs), "another-token")
    completed = WORLD.runner.run(LOCAL.cancel([mine]))
    assert completed.ok
    assert machine.status(stranger).state is JobState.RUNNING
    (query,) = LOCAL.queries()
    (command,) = query.commands([mine])
    assert query.read(WORLD.runner.run(command), [mine])[mine.id].state is JobState.FAILED


def test_cancel_of_a_job_that_is_over_changes_nothing(machine: Machine) -> None:
    run = machine.submit("exit 3")
    waiting.wait([run], WORLD)
    cancelling.cancel([run], WORLD)
    assert machine.status(run) == Status(JobState.FAILED, "ended", 3, "", "events")


@pytest.mark.parametrize(
    ("body", "count", "listens"),
    [
        pytest.param(
            "bash -c 'setsid --fork sleep 601 >/dev/null 2>&1; sleep 602; :' & wait", 3, False, id="groups"
        ),
        pytest.param(
            "mpirun --oversubscribe --allow-run-as-root -np 2 sleep 603 & wait", 3, True, id="mpirun"
        ),
        pytest.param("(trap '' TERM; sleep 604; sleep 605) & wait", 2, False, id="deaf"),
    ],
)
def test_cancel_ends_what_a_killed_script_left(
    machine: Machine, *, body: str, count: int, listens: bool
) -> None:
    """It is neither running nor completed meanwhile, and other jobs go on."""
    run, other = machine.submit(body), machine.submit("sleep 606")
    assert run.job is not None
    until(lambda: len(holders(run.record.token)) > count)
    os.kill(int(run.job.id), signal.SIGKILL)
    reason = (
        f"its script was killed, and its processes live on ({count} of them): end them by `hpcdist cancel`"
    )
    left = Status(JobState.FAILED, "orphaned", None, reason, "processes")
    until(lambda: machine.status(run) == left)  # some are still starting, or ending, when it is killed
    if listens:
        assert cancelling.cancel([run], WORLD) == [run]
    else:
        machine.cancel_soon(run)
    until(lambda: not holders(run.record.token))
    assert machine.status(run) == Status(JobState.CANCELLED, "cancelled", None, "", "events")
    assert machine.status(other).state is JobState.RUNNING


def test_a_job_that_becomes_another_program_is_not_gone(machine: Machine) -> None:
    run = machine.submit('[[ ${TIMES:=0} == 9999 ]] || TIMES=$((TIMES + 1)) exec bash "$0"\n')
    assert {machine.status(run).state for _ in range(100)} == {JobState.RUNNING}


def test_a_job_that_vanished(machine: Machine) -> None:
    run = machine.submit("sleep 60")
    assert run.job is not None
    machine.end()
    until(lambda: machine.status(run).native == "vanished")
    assert machine.status(run) == Status(
        JobState.FAILED,
        "vanished",
        None,
        "no end was recorded (killed, the machine restarted, or its disk is full)",
        "processes",
    )


def test_a_job_of_another_machine_is_unknown(machine: Machine) -> None:
    run = machine.submit("exit 0")
    assert run.job is not None
    waiting.wait([run], WORLD)
    (run.directory.path / "events").write_text(f"submitted {run.job.id} 1700000000 login9\n")
    assert machine.status(run) == Status(
        JobState.UNKNOWN, "elsewhere", None, "it was started on login9: ask there", "events"
    )
    completed = WORLD.runner.run(LOCAL.cancel([run.job]))
    assert (completed.returncode, completed.stderr) == (
        1,
        f"job {run.job.id} runs on login9: cancel it there\n",
    )


def test_find(machine: Machine) -> None:
    run = machine.submit("(sleep 60 & wait) & wait")
    until(lambda: len(holders(run.record.token)) >= 3)
    (command,) = LOCAL.find()
    assert run.job is not None
    assert LOCAL.read_find(WORLD.runner.run(command))[run.record.token] == run.job.id


def test_many_jobs_cost_one_command(machine: Machine) -> None:
    runs = [machine.submit(f"exit {number}") for number in range(5)]
    until(lambda: all(machine.status(run).state.is_final for run in runs))
    (query,) = LOCAL.queries()
    jobs = [run.job for run in runs if run.job]
    (command,) = query.commands(jobs)
    states = query.read(WORLD.runner.run(command), jobs)
    assert [states[job.id].exit_code for job in jobs] == [0, 1, 2, 3, 4]


def test_an_answer_with_a_time_limit() -> None:
    (query,) = LOCAL.queries()
    job = Job("12", "a-1", "/runs/a-1", "t")
    (command,) = query.commands([job])
    answer = "12 gone here\n12 submitted here\n12 started 0\n12 timeout 0\n12 ended 143\n13 alive S\n"
    assert query.read(Completed(command, 0, answer), [job]) == {
        "12": Status(JobState.TIMEOUT, "timeout", 143, "", "events")
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("account", "x"),
        ("exclusive", True),
        ("array", "0-3"),
        ("dependency", ("12",)),
        ("mail", Mail("me")),
        ("qos", "high"),
        ("requeue", True),
        ("signal", "USR1@60"),
        ("extra_directives", ("--hold",)),
    ],
    ids=["account", "exclusive", "array", "dependency", "mail", "qos", "requeue", "signal", "directives"],
)
def test_batch_settings_are_refused_without_a_batch_system(
    name: str, value: object, wording: Wording
) -> None:
    with pytest.raises(PlanError) as error:
        LOCAL.directives(
            plan(
                group(partition=None, nodes=1), **{name: value}, origins={name: Origin("place", "exp.yml:3")}
            ),
            HERE,
        )
    wording(str(error.value))


def test_partitions_constraints_and_nodes() -> None:
    with pytest.raises(PlanError) as error:
        LOCAL.directives(plan(group(constraint="a100")), HERE)
    fields = [problem.path for problem in error.value.problems]
    assert fields == [("batch", "constraint"), ("batch", "partition"), ("environment", "replicas")]
    origins = {"exclusive": Origin("site", "local", "whole_nodes")}
    harmless = plan(group(partition="local", nodes=1), exclusive=True, requeue=False, origins=origins)
    assert LOCAL.directives(harmless, HERE) == ()
    assert PLAN.request.exclusive is False
