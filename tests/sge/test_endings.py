"""How jobs end on a real Grid Engine: with whose exit code, how soon, and what hpcdist says of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hpcdist.schedulers.sge.directives import FIELDS, OTHERS, RESERVED
from tests.sge.users import SITE, GridUser
from tests.slurm.process import until

pytestmark = [pytest.mark.real, pytest.mark.extended]

FOUR_TASKS = {
    "framework": "mpi",
    "environment": {
        "resources": {"cpu": {"limits": 8}},
        "replicas": {"n_workers": 3, "default_worker": {"resources": {"cpu": {"limits": 8}}}},
    },
}


def four_tasks(user: GridUser, name: str, command: str, **batch: Any) -> Path:
    return user.write(name, FOUR_TASKS | {"run": {"cmd": command}, "batch": batch})


def test_a_failing_rank_ends_the_job_with_its_exit_code(user: GridUser) -> None:
    file = four_tasks(user, "fails", "[ $HPCDIST_RANK != 2 ] || exit 7; sleep 600")
    done = user.hpcdist("submit", file, "--wait")
    log = user.log("fails-1")
    assert done.returncode == 7, done.stderr + log
    assert re.search(r"hpcdist: rank 2 on n\d was the first to fail, with exit code 7", log)
    assert user.state("fails-1") == "failed"


def test_a_snapshot_is_where_the_tasks_start(user: GridUser) -> None:
    file = four_tasks(user, "copied", "echo at $PWD, $SGE_O_WORKDIR")
    done = user.hpcdist("submit", file, "--wait", "--set", "batch.code=snapshot")
    folder = user.directory / "runs" / "copied-1" / "code"
    log = user.log("copied-1")
    assert (done.returncode, log.count(f"at {folder},")) == (0, 4), done.stderr + log
    assert f"at {folder}, {folder}\n" in log


def test_a_killed_rank_is_named(user: GridUser) -> None:
    file = four_tasks(user, "killed", "[ $HPCDIST_RANK != 1 ] || kill -9 $$; sleep 600")
    assert user.hpcdist("submit", file, "--wait").returncode == 137
    log = user.log("killed-1")
    assert re.search(r"hpcdist: rank 1 on n\d was the first to end, killed by signal KILL", log), log
    assert user.state("killed-1") == "failed"


def test_tasks_sit_where_the_plan_says(user: GridUser) -> None:
    file = four_tasks(user, "places", "echo at $HPCDIST_RANK $(uname -n) $HPCDIST_LOCAL_RANK")
    assert user.hpcdist("submit", file, "--wait").returncode == 0, user.log("places-1")
    (job,) = (user.directory / "runs" / "places-1" / "jobs").iterdir()
    first, second = (job / "nodes").read_text().split()
    found = sorted(re.findall(r"at (\d) (\S+) (\d)", user.log("places-1")))
    assert found == [("0", first, "0"), ("1", first, "1"), ("2", second, "0"), ("3", second, "1")]


def test_the_accounting_has_the_memory(user: GridUser) -> None:
    command = 'python3 -c "import time; held = bytearray(200 << 20); time.sleep(1)"'
    done = user.hpcdist("submit", user.write("held", {"run": {"cmd": command}}), "--wait")
    assert done.returncode == 0, done.stderr

    def most() -> int:
        """It lags behind by some seconds."""
        [attempt] = user.json("describe", "held-1")["attempts"]
        return attempt["max_memory"] or 0

    until(lambda: most() > 200 << 20, "qacct to know the memory")
    assert most() < 300 << 20


def test_cancel_a_running_job_leaves_no_process(user: GridUser) -> None:
    file = four_tasks(user, "cancelled", "echo up; exec -a marked-task sleep 600")
    assert user.hpcdist("submit", file).returncode == 0
    user.await_log("cancelled-1", "up")
    assert user.hpcdist("cancel", "cancelled-1").returncode == 0
    assert user.hpcdist("wait", "cancelled-1").returncode not in (0, None)
    assert user.state("cancelled-1") == "cancelled"

    def gone() -> bool:
        nodes = user.cluster.nodes
        return not any(
            user.cluster.run(["pgrep", "-f", "marked-task"], node=node, user="root").stdout for node in nodes
        )

    until(gone, "all tasks to be gone")


def test_cancel_a_waiting_job(user: GridUser) -> None:
    file = four_tasks(user, "waits", "true", directives=["-h"])
    assert user.hpcdist("submit", file).returncode == 0
    assert user.state("waits-1") == "pending"
    assert user.hpcdist("cancel", "waits-1").returncode == 0
    assert user.hpcdist("wait", "waits-1").returncode not in (0, None)
    assert user.state("waits-1") == "cancelled"


def test_time_limit(user: GridUser) -> None:
    done = user.hpcdist("submit", four_tasks(user, "slow", "sleep 600", walltime="8s"), "--wait")
    assert done.returncode not in (0, None)
    assert user.state("slow-1") == "timeout"


def test_restarts_in_the_same_allocation(user: GridUser) -> None:
    command = "cd $POLYAXON_RUN_OUTPUTS_PATH; echo x >>tries; [ $(wc -l <tries) = 3 ]"
    experiment = {"environment": {"max_restarts": 2}, "run": {"cmd": command}}
    done = user.hpcdist("submit", user.write("again", experiment), "--wait")
    assert done.returncode == 0, done.stderr + user.log("again-1")
    assert user.log("again-1").count("hpcdist: exit code 1; restart") == 2


def test_a_job_that_is_queued_again(user: GridUser) -> None:
    command = (
        "cd $POLYAXON_RUN_OUTPUTS_PATH; [ -e first ] || { touch first; echo up; sleep 600; }; echo second"
    )
    file = user.write("requeued", {"run": {"cmd": command}, "batch": {"requeue": True}})
    assert user.hpcdist("submit", file).returncode == 0
    user.await_log("requeued-1", "up")
    done = user.grid.run("qmod", "-r", user.job("requeued-1"))
    assert done.returncode == 0, done
    assert user.hpcdist("wait", "requeued-1").returncode == 0, user.log("requeued-1")
    assert "second" in user.log("requeued-1")
    events = (user.directory / "runs" / "requeued-1" / "events").read_text()
    assert re.search(r"^started \d+ \d+ 1$", events, re.MULTILINE), events


def test_an_array_ends_as_its_first_task_that_failed(user: GridUser) -> None:
    command = "exit $((SGE_TASK_ID == 2 ? 5 : SGE_TASK_ID == 3 ? 7 : 0))"
    file = user.write("codes", {"run": {"cmd": command}, "batch": {"array": "1-4"}})
    assert user.hpcdist("submit", file, "--wait").returncode == 5
    (record,) = user.json("status", "codes-1")
    reason = "first in element 2; 2 of 4 elements completed"
    assert (record["state"], record["exit_code"], record["reason"]) == ("failed", 5, reason)


def test_array_elements_keep_apart(user: GridUser) -> None:
    command = "echo element $SGE_TASK_ID port $HPCDIST_PORT; [ $SGE_TASK_ID != 5 ] || exit 4"
    experiment = {"run": {"cmd": command}, "batch": {"array": "1-5:2%2"}}
    done = user.hpcdist("submit", user.write("array", experiment), "--wait")
    assert (done.returncode, user.state("array-1")) == (4, "failed"), done.stderr
    logs = user.directory / "runs" / "array-1" / "logs"
    assert sorted(log.name for log in logs.iterdir()) == ["job-1.out", "job-3.out", "job-5.out"]
    found = sorted(re.findall(r"element (\d) port (\d+)", "".join(log.read_text() for log in logs.iterdir())))
    assert [element for element, _ in found] == ["1", "3", "5"]
    assert len({port for _, port in found}) == 3


@pytest.mark.parametrize("pack", [False, True])
def test_trials_of_a_search(user: GridUser, pack: bool) -> None:  # noqa: FBT001
    search = {"matrix": {"n": {"values": [0, 3, 0]}}, "concurrency": 2}
    command = "echo trial $HPCDIST_TRIAL is {{ n }}; exit {{ n }}"
    experiment = {"run": {"cmd": command}, "hptuning": search, "batch": {"pack": pack}}
    done = user.hpcdist("submit", user.write("tune", experiment), "--wait")
    assert (done.returncode, user.state("tune-1")) == (3, "failed"), done.stderr
    shown = user.hpcdist("logs", "tune-1").stdout
    assert sorted(re.findall(r"trial \d is \d", shown)) == ["trial 1 is 0", "trial 2 is 3", "trial 3 is 0"]
    assert user.json("sweep", "status", "tune-1")["states"] == {"completed": 2, "failed": 1}


def test_a_job_in_error_says_why(user: GridUser) -> None:
    assert user.hpcdist("submit", four_tasks(user, "eqw", "true", directives=["-h"])).returncode == 0
    logs = user.directory / "runs" / "eqw-1" / "logs"
    logs.rename(logs.with_name("elsewhere"))
    user.grid.run("qrls", user.job("eqw-1"))

    def reason() -> str:
        (record,) = user.json("status", "eqw-1")
        return str(record["reason"])

    until(lambda: "can't open output file" in reason(), "the error")
    assert "qmod -cj" in reason()
    assert user.state("eqw-1") == "pending"


def test_a_job_for_which_there_will_never_be_room_says_why(user: GridUser) -> None:
    node = {"resources": {"cpu": {"limits": 16}}}
    environment = {**node, "replicas": {"n_workers": 7, "default_worker": node}}
    site = SITE.read_text().replace("{cpu: 3}", "{cpu: 9}")
    (user.directory / "bigger.yaml").write_text(site)
    file = user.write("big", {"framework": "mpi", "run": {"cmd": "true"}, "environment": environment})
    done = user.hpcdist("submit", file, "--site", "./bigger.yaml")
    assert done.returncode == 0, done.stderr

    def said() -> str:
        (record,) = user.json("status", "big-1")
        return str(record["reason"])

    until(lambda: "only offers" in said(), "a reason")


def test_slots_that_are_dealt_out_in_another_way_end_in_one_sentence(user: GridUser) -> None:
    site = SITE.read_text().replace('"16": mpi-16', '"16": robin')
    (user.directory / "robin.yaml").write_text(site)
    done = user.hpcdist("submit", four_tasks(user, "dealt", "true"), "--wait", "--site", "./robin.yaml")
    assert done.returncode == 86, done.stderr
    assert "parallel environment robin deals them out in another way" in user.log("dealt-1")


def test_gpus_are_counted(user: GridUser) -> None:
    node = {"resources": {"gpu": {"requests": 4}, "cpu": {"requests": 16}}}
    environment = {**node, "replicas": {"n_workers": 1, "default_worker": node}}
    experiment = {"framework": "mpi", "environment": environment, "run": {"cmd": "echo up; sleep 600"}}
    done = user.hpcdist("submit", user.write("gpus", experiment), "--set=batch.partition=gpu")
    assert done.returncode == 0, done.stderr
    user.await_log("gpus-1", "up")
    free = re.findall(r"hc:gpu=(\S+)", user.grid.run("qstat", "-F", "gpu").stdout)
    assert [float(number) for number in free] == [0, 0]


def test_gpus_are_counted_once_a_job(user: GridUser) -> None:
    site = (
        SITE.read_text().replace("gpus: gpu\n", "gpus: jobgpu\n").replace("gpus_per: slot", "gpus_per: job")
    )
    (user.directory / "byjob.yaml").write_text(site)
    node = {"resources": {"gpu": {"requests": 4}, "cpu": {"requests": 16}}}
    file = user.write("byjob", {"environment": node, "run": {"cmd": "echo up; sleep 600"}})
    done = user.hpcdist("submit", file, "--set=batch.partition=gpu", "--site=./byjob.yaml")
    assert done.returncode == 0, done.stderr
    user.await_log("byjob-1", "up")
    free = re.findall(r"hc:jobgpu=(\S+)", user.grid.run("qstat", "-F", "jobgpu").stdout)
    assert sorted(map(float, free)) == [0, 4]


def test_every_flag_that_hpcdist_knows_is_one_of_qsub(user: GridUser) -> None:
    known = sorted({flag.partition(" ")[0] for flag in (*FIELDS, *RESERVED, *OTHERS)})
    each = 'for flag; do echo "$flag: $(qsub "$flag" </dev/null 2>&1)"; done'
    said = user.grid.run("bash", "-c", each, "bash", "-colour", *known).stdout
    assert re.findall(r"(\S+): .*invalid option argument", said) == ["-colour"]
    assert said.count("option must have") == len(known) - 9, said


def test_options_of_the_login_shell_reach_the_job_but_not_those_of_another_job(user: GridUser) -> None:
    file = user.write("clean", {"run": {"cmd": 'echo "id=$JOB_ID slurm=${SLURM_JOB_ID-none} mark=$MARK"'}})
    login = {"JOB_ID": "99999", "SLURM_JOB_ID": "5", "MARK": "kept", "SGE_TASK_ID": "3"}
    assert user.hpcdist("submit", file, "--wait", env=login).returncode == 0, user.log("clean-1")
    assert f"id={user.job('clean-1')} slurm=none mark=kept" in user.log("clean-1")


def test_follow_shows_the_log_and_ends_with_the_job(user: GridUser) -> None:
    command = "echo line $HPCDIST_RANK; sleep 1; [ $HPCDIST_RANK != 3 ] || exit 4; sleep 600"
    done = user.hpcdist("submit", four_tasks(user, "follow", command), "--follow")
    assert done.returncode == 4, done.stderr
    assert sorted(re.findall(r"line \d", done.stdout)) == [f"line {rank}" for rank in range(4)]


COUNT = """\
step=0
[[ ! -e $HPCDIST_CHECKPOINTS/step ]] || step=$(<$HPCDIST_CHECKPOINTS/step)
echo attempt $HPCDIST_ATTEMPT from $step
for ((; step < 100; step++)); do
  sleep 0.2
  echo $((step + 1)) >$HPCDIST_CHECKPOINTS/new && mv $HPCDIST_CHECKPOINTS/new $HPCDIST_CHECKPOINTS/step
done
"""
"""A training of twenty seconds that goes on from its checkpoint."""


def test_a_training_is_put_into_the_queue_again_before_its_limit(user: GridUser) -> None:
    experiment = {
        "run": {"cmd": COUNT},
        "environment": {"restart": {"notice": "8s"}},
        "batch": {"walltime": "20s"},
    }
    done = user.hpcdist("submit", user.write("again", experiment), "--wait")
    log = user.log("again-1")
    assert done.returncode == 0, done.stderr + log
    found = re.findall(r"attempt (\d) from (\d+)", log)
    attempts, steps = [int(attempt) for attempt, _ in found], [int(step) for _, step in found]
    assert attempts == list(range(max(2, len(found))))  # two at rest, more on a busy machine
    assert steps == sorted({0, *steps})  # each further than the one before
    assert user.state("again-1") == "completed"


def test_a_cancelled_training_is_not_put_into_the_queue_again(user: GridUser) -> None:
    experiment = {
        "run": {"cmd": "echo up; sleep 600"},
        "environment": {"restart": {}},
        "batch": {"walltime": "20m"},
    }
    user.hpcdist("submit", user.write("gone", experiment))
    user.await_log("gone-1", "up")
    user.hpcdist("cancel", "gone-1")
    user.hpcdist("wait", "gone-1")
    assert (user.state("gone-1"), user.log("gone-1").count("up")) == ("cancelled", 1)
