"""How jobs end on the real Slurm: with whose exit code, how soon, and what hpcdist says of it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.cluster import CHECKOUT, Cluster
from tests.slurm.config import DEFAULT_NODES
from tests.slurm.process import until
from tests.slurm.users import User

pytestmark = [pytest.mark.real, pytest.mark.long]

FOUR_TASKS = {
    "framework": "mpi",
    "environment": {
        "resources": {"cpu": {"limits": 8}},
        "replicas": {"n_workers": 3, "default_worker": {"resources": {"cpu": {"limits": 8}}}},
    },
}


@pytest.fixture(scope="module", autouse=True)
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """Somebody on a cluster of their own, whose job reaches the shortest limit of Slurm meanwhile."""
    with Cluster.boot(tmp_path_factory.mktemp("limited"), nodes=DEFAULT_NODES[:2]) as cluster:
        user = User(cluster, cluster.home())
        done = user.hpcdist("submit", four_tasks(user, "slow", "sleep 600", walltime="1m"))
        assert done.returncode == 0, done.stderr
        yield user


def four_tasks(user: User, name: str, command: str, **batch: Any) -> Path:
    return user.write(name, FOUR_TASKS | {"run": {"cmd": command}, "batch": batch})


def events(user: User, run: str) -> list[tuple[str, int, str]]:
    file = user.directory / "runs" / run / "events"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(what, int(at), value) for what, _, at, value in map(str.split, lines)]


def state(user: User, run: str) -> str:
    """The word of `hpcdist status` for a run."""
    (record,) = user.json("status", run)
    return str(record["state"])


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_a_failing_rank_ends_the_job_with_its_exit_code(user: User, launcher: str) -> None:
    file = four_tasks(user, "fails", "[ $HPCDIST_RANK != 2 ] || exit 7; sleep 600", launcher=launcher)
    done = user.hpcdist("submit", file, "--wait")
    log = user.log("fails-1")
    assert done.returncode == 7, done.stderr + log
    assert "hpcdist: rank 2 on n2 was the first to fail, with exit code 7" in log
    (_, started, _), (_, ended, code) = events(user, "fails-1")
    assert (ended - started < 300, code) == (True, "7")  # and not the ten minutes of the others
    assert state(user, "fails-1") == "failed"


@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_a_killed_rank_is_named(user: User, launcher: str) -> None:
    file = four_tasks(user, "killed", "[ $HPCDIST_RANK != 1 ] || kill -9 $$; sleep 600", launcher=launcher)
    assert user.hpcdist("submit", file, "--wait").returncode == 137
    assert "hpcdist: rank 1 on n1 was the first to end, killed by signal KILL" in user.log("killed-1")


@pytest.mark.extended
def test_no_rank_runs_alone_as_rank_0(user: User) -> None:
    site = (CHECKOUT / "site_configs" / "testbed.yaml").read_text().replace("mpi: pmix", "mpi: none")
    (user.directory / "nopmi.yaml").write_text(site)
    file = four_tasks(user, "nopmi", "sleep 600")
    done = user.hpcdist("submit", file, "--wait", "--site", "./nopmi.yaml")
    assert done.returncode == 86, done.stderr
    said = re.findall(r"hpcdist: rank \d on \w+: (srun gave no PMI: .*)", user.log("nopmi-1"))
    sentence = "each task would run alone, as rank 0; 'srun --mpi=list' shows types for launchers.srun.mpi"
    assert said
    assert {*said} == {f"srun gave no PMI: {sentence}"}


def test_cancel(user: User) -> None:
    file = four_tasks(user, "cancelled", "echo up; sleep 600")
    assert user.hpcdist("submit", file).returncode == 0
    user.await_log("cancelled-1", "up")
    assert user.hpcdist("cancel", "cancelled-1").returncode == 0
    assert user.hpcdist("wait", "cancelled-1").returncode not in (0, None)
    assert state(user, "cancelled-1") == "cancelled"


def test_a_program_hears_the_signal_before_its_end(user: User) -> None:
    command = "trap 'echo saved; exit 0' USR1; echo up; while :; do sleep 0.2; done"
    file = four_tasks(user, "signal", command, signal="B:USR1@60")
    assert user.hpcdist("submit", file).returncode == 0
    until(lambda: user.await_log("signal-1", "up").count("up\n") == 4, "all tasks to be ready for it")
    (job,) = (user.directory / "runs" / "signal-1" / "jobs").iterdir()
    user.cluster.run(["scancel", "--batch", "--signal=USR1", job.name], check=True)
    assert user.hpcdist("wait", "signal-1").returncode == 0
    assert user.log("signal-1").count("saved") == 4


def test_a_node_that_crashes(user: User) -> None:
    nodes = {"srun": "n2", "mpirun": "n4"}
    for launcher in nodes:
        file = four_tasks(user, launcher, "echo up; sleep 600", launcher=launcher)
        assert user.hpcdist("submit", file).returncode == 0
        user.await_log(f"{launcher}-1", ": up")
    for node in nodes.values():  # a silent node is down after 20 s, for both jobs at once
        user.cluster.crash(node, noticed=False)
    for launcher, node in nodes.items():
        done = user.hpcdist("wait", f"{launcher}-1")
        assert done.returncode not in (0, None)
        (record,) = user.json("status", f"{launcher}-1")
        assert (record["state"], record["reason"]) == ("node_fail", f"NodeDown: {node} is down")


def test_an_array_ends_as_its_first_element_that_failed(user: User) -> None:
    command = "exit $((SLURM_ARRAY_TASK_ID == 1 ? 5 : SLURM_ARRAY_TASK_ID == 2 ? 7 : 0))"
    file = user.write("array", {"run": {"cmd": command}, "batch": {"array": "0-3"}})
    assert user.hpcdist("submit", file, "--wait").returncode == 5
    (record,) = user.json("status", "array-1")
    reason = "first in element 1 (NonZeroExitCode); 2 of 4 elements completed"
    assert (record["state"], record["exit_code"], record["reason"]) == ("failed", 5, reason)


@pytest.mark.extended
def test_an_array_of_which_an_element_is_cancelled_has_not_completed(user: User) -> None:
    command = "[ $SLURM_ARRAY_TASK_ID != 2 ] || sleep 600"
    user.hpcdist("submit", user.write("array", {"run": {"cmd": command}, "batch": {"array": "0-2"}}))
    until(
        lambda: len([event for event in events(user, "array-1") if event[0] == "started"]) == 3, "all to run"
    )
    (run,) = user.json("status", "array-1")
    user.cluster.run(["scancel", f"{run['job_id']}_2"], check=True)
    assert user.hpcdist("wait", "array-1").returncode == 143
    (record,) = user.json("status", "array-1")
    assert (record["state"], record["exit_code"]) == ("cancelled", 143)
    assert record["reason"].endswith("2 of 3 elements completed")


@pytest.mark.extended
def test_why_a_job_does_not_start_is_printed_at_once(user: User) -> None:
    user.hpcdist("submit", user.write("fails", {"run": {"cmd": "exit 1"}}), "--wait")
    (first,) = user.json("status", "fails-1")
    file = user.write(
        "never", {"run": {"cmd": "true"}, "batch": {"dependency": f"afterok:{first['job_id']}"}}
    )
    user.hpcdist("submit", file)
    done = user.hpcdist("wait", "never-1", "--timeout", "8")
    assert done.returncode == 124
    assert "never-1 is pending: DependencyNeverSatisfied: what it waits for has failed" in done.stderr


@pytest.mark.extended
def test_restarts_in_the_same_allocation(user: User) -> None:
    command = "cd $POLYAXON_RUN_OUTPUTS_PATH; echo x >>tries; [ $(wc -l <tries) = 3 ]"
    experiment: Mapping[str, Any] = {"environment": {"max_restarts": 2}, "run": {"cmd": command}}
    done = user.hpcdist("submit", user.write("again", experiment), "--wait")
    assert done.returncode == 0, done.stderr + user.log("again-1")
    assert user.log("again-1").count("hpcdist: exit code 1; restart") == 2


@pytest.mark.extended
def test_array_elements_keep_apart(user: User) -> None:
    experiment = {"run": {"cmd": "echo element $SLURM_ARRAY_TASK_ID"}, "batch": {"array": "1-3%2"}}
    done = user.hpcdist("submit", user.write("array", experiment), "--wait")
    assert done.returncode == 0, done.stderr
    logs = user.directory / "runs" / "array-1" / "logs"
    found = sorted(re.findall(r"element \d", "".join(log.read_text() for log in logs.iterdir())))
    assert found == ["element 1", "element 2", "element 3"]


@pytest.mark.extended
def test_options_of_the_login_shell_do_not_reach_the_job(user: User) -> None:
    file = user.write(
        "clean", {"run": {"cmd": 'echo "name=$SLURM_JOB_NAME step=$SLURM_CPUS_PER_TASK mark=$MARK"'}}
    )
    login = {"SBATCH_JOB_NAME": "leak", "SBATCH_TIMELIMIT": "1", "SLURM_CPUS_PER_TASK": "99", "MARK": "kept"}
    assert user.hpcdist("submit", file, "--wait", env=login).returncode == 0
    assert "name=clean step=1 mark=kept" in user.log("clean-1")


def test_follow_shows_the_log_and_ends_with_the_job(user: User) -> None:
    file = four_tasks(
        user, "follow", "echo line $HPCDIST_RANK; sleep 1; [ $HPCDIST_RANK != 3 ] || exit 4; sleep 600"
    )
    begun = time.monotonic()
    done = user.hpcdist("submit", file, "--follow")
    assert done.returncode == 4, done.stderr
    assert sorted(re.findall(r"line \d", done.stdout)) == [f"line {rank}" for rank in range(4)]
    only = user.hpcdist("logs", "follow-1", "--rank", "2")
    assert only.stdout.splitlines()[0].endswith("line 2")
    assert time.monotonic() - begun < 600


def test_time_limit(limited: User) -> None:
    assert limited.hpcdist("wait", "slow-1").returncode not in (0, None)
    assert state(limited, "slow-1") == "timeout"
