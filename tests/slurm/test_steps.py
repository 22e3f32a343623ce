"""Steps before, beside and after the tasks on the nodes of a real Slurm, which copies data to each node."""

from __future__ import annotations

import pytest

from tests.slurm.process import until
from tests.slurm.test_shapes import needs, shape
from tests.slurm.users import User

pytestmark = pytest.mark.real


@pytest.mark.extended
def test_a_program_has_a_node_of_its_own(user: User) -> None:
    ready = "for _ in {1..100}; do [[ ! -e ready ]] || break; sleep 0.2; done"
    where = "$SLURMD_NODENAME beside $HPCDIST_BESIDE_NODE"
    own = 'echo "serving on $HPCDIST_NODE $SLURMD_NODENAME $(nproc)"; touch ready; exec sleep 1000'
    keys = {
        "framework": "pytorch",
        "pytorch": {"launch": "env"},
        "environment": shape(needs(cpu=4), 1),
        "run": {
            "beside": [{"cmd": own, "on": "own_node"}],
            "cmd": f'{ready}; echo "task $RANK of $WORLD_SIZE on {where}"',
        },
        "batch": {"walltime": "5m"},
    }
    done = user.hpcdist("submit", user.write("own", keys), "--wait")
    logs = user.directory / "runs" / "own-1" / "logs"
    lines = [line for file in logs.glob("*.out") for line in file.read_text().splitlines()]
    assert done.returncode == 0, lines
    assert sorted(line for line in lines if "task" in line and "beside" in line and "of 2" in line) == [
        "0: task 0 of 2 on n1 beside n2",
        "1: task 1 of 2 on n1 beside n2",
    ]
    [log] = logs.glob("job.beside-*.out")
    assert "serving on 1 n2 " in log.read_text()


def test_steps_and_data_on_each_node(user: User) -> None:
    (user.directory / "data.txt").write_text("data\n")
    beside = 'echo "serving on $HPCDIST_NODE"; touch "ready.$HPCDIST_NODE"; exec sleep 1000'
    ready = "for _ in {1..100}; do [[ ! -e ready.1 ]] || break; sleep 0.2; done"
    keys = {
        "framework": "mpi",
        "environment": shape(needs(cpu=9), 1),
        "stage": [{"from": "data.txt"}],
        "run": {
            "prepare": {"cmd": 'echo "before on $HPCDIST_NODE $SLURMD_NODENAME"', "per": "node"},
            "cmd": f'{ready}; echo "task $HPCDIST_RANK has $(< $HPCDIST_STAGE/data.txt)"',
            "beside": [{"cmd": beside, "on": "last_node"}],
            "finish": {"cmd": 'echo "after on $HPCDIST_NODE: $HPCDIST_EXIT_CODE"', "per": "node"},
        },
        "batch": {"output": "mine/%x-%j.out", "error": "mine/%x-%j.err", "walltime": "5m"},
    }
    done = user.hpcdist("submit", user.write("steps", keys), "--wait")
    [own] = (user.directory / "mine").glob("*.out")
    [errors] = (user.directory / "mine").glob("*.err")
    lines = own.read_text().splitlines()
    assert done.returncode == 0, (lines, errors.read_text())
    assert sorted(line for line in lines if line.startswith("before")) == ["before on 0 n1", "before on 1 n2"]
    assert sorted(line for line in lines if line.endswith("has data")) == [
        "0: task 0 has data",
        "1: task 1 has data",
    ]
    assert sorted(line for line in lines if "after" in line) == ["after on 0: 0", "after on 1: 0"]
    served = user.directory / "runs" / "steps-1" / "logs"
    [log] = served.glob("job.beside-*.out")
    assert "serving on 1" in log.read_text().splitlines()
    logs = user.hpcdist("logs", "steps-1")
    assert "task 1 has data" in logs.stdout
    assert "each node copies it" not in own.read_text() + errors.read_text()


@pytest.mark.extended
def test_a_program_with_a_node_of_its_own_that_fails_ends_the_job(user: User) -> None:
    keys = {
        "framework": "pytorch",
        "pytorch": {"launch": "env"},
        "environment": shape(needs(cpu=4), 1),
        "run": {
            "beside": [{"cmd": "sleep 5; exit 9", "on": "own_node"}],
            "cmd": "sleep 600",
            "finish": {"cmd": 'echo "after: $HPCDIST_EXIT_CODE"'},
        },
        "batch": {"walltime": "15m"},
    }
    done = user.hpcdist("submit", user.write("lost", keys), "--wait")
    log = user.log("lost-1")
    assert done.returncode == 9, log
    assert "a program with a node of its own failed, with exit code 9, which ended the job" in log
    assert "after: 9" in log


@pytest.mark.extended
def test_steps_that_were_lost_with_their_node_run_again_and_the_program_does_not(user: User) -> None:
    for by in ("requeue", "follow"):
        finish = f"echo finishing; [[ -e {by} ]] || {{ touch {by}; sleep 600; }}"
        keys = {
            "run": {"cmd": "echo trained", "finish": {"cmd": finish}},
            "environment": {"restart": {"by": by, "max": 2}},
            "batch": {"walltime": "15m"},
        }
        assert user.hpcdist("submit", user.write(by, keys)).returncode == 0
    nodes = set()
    for by in ("requeue", "follow"):
        until((user.directory / by).exists, "the step after the program")
        [job] = (user.directory / f"runs/{by}-1/jobs").iterdir()
        nodes |= {(job / "nodes").read_text().strip()}
    for node in nodes:
        user.cluster.crash(node)
    for by in ("requeue", "follow"):
        run = f"{by}-1"
        assert user.hpcdist("wait", run).returncode == 0, user.log(run)
        log = user.log(run)
        assert (log.count("trained"), log.count("finishing")) == (1, 2)
        found = user.json("describe", run)["attempts"]
        assert [(one["state"], one["exit_code"], one["why"]) for one in found] == [
            ("completed", 0, "completed")
        ]
        assert [job["state"] for job in user.json("status", run)] == ["completed"]
    jobs = user.cluster.run(["squeue", "-h", "-t", "R,PD", "-o", "%A"], user="root", check=True)
    assert jobs.stdout == ""
