"""Searches whose trials share nodes, on the real Slurm: one trial after another on each GPU of a node."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from statistics import median
from typing import NamedTuple

import pytest

from tests.slurm.partitions import partition
from tests.slurm.process import until
from tests.slurm.users import User

pytestmark = pytest.mark.real

TIMED = "t=$EPOCHREALTIME; {}; echo took $t $EPOCHREALTIME $(uname -n) $CUDA_VISIBLE_DEVICES"


class Span(NamedTuple):
    """When a trial ran, and where."""

    begin: float
    end: float
    gpu: tuple[str, str]


def spans(user: User, run: str) -> dict[int, list[Span]]:
    """Return what each trial printed of its runs to the end."""
    found = defaultdict(list)
    for log in (user.directory / "runs" / run / "logs").glob("job-*.out"):
        for begin, end, *gpu in re.findall(r"took (\S+) (\S+) (\S+) (\S+)", log.read_text()):
            found[int(log.stem.removeprefix("job-"))].append(Span(float(begin), float(end), (*gpu,)))
    return found


def events(user: User, run: str, what: str) -> list[int]:
    """Return the trials that have such an event, in rising order."""
    logs = (user.directory / "runs" / run).glob("events.*@*")
    lines = (line.split() for log in logs for line in log.read_text().splitlines())
    return sorted(int(line[1].rpartition("_")[2]) for line in lines if line[0] == what)


def overlaps(found: list[Span]) -> Iterator[tuple[Span, Span]]:
    """Yield the trials that had the same GPU at once."""
    by_gpu = defaultdict(list)
    for span in sorted(found):
        by_gpu[span.gpu].append(span)
    for own in by_gpu.values():
        yield from (pair for pair in pairwise(own) if pair[1].begin < pair[0].end)


def pauses(found: list[Span]) -> Iterator[float]:
    """Yield the seconds from the end of each trial to the begin of the next on its GPU."""
    by_gpu = defaultdict(list)
    for span in sorted(found):
        by_gpu[span.gpu].append(span)
    for own in by_gpu.values():
        yield from (then.begin - one.end for one, then in pairwise(own))


@pytest.mark.extended
def test_trials_of_skewed_length_keep_the_gpus_of_four_whole_nodes_busy(user: User) -> None:
    """They take 6 s on average: from one to the next it is 0.2 s, on two CPUs for all nodes."""
    chance = random.Random(1)  # noqa: S311 - for lengths alone
    lengths = [round(3 * chance.lognormvariate(0, 1) + 1.5, 2) for _ in range(80)]
    experiment = {
        "environment": {"resources": {"gpu": {"requests": 1}}},
        "hptuning": {"concurrency": 8, "mapping": [{"length": one} for one in lengths]},
        "run": {"cmd": TIMED.format("sleep {{ length }}")},
        "batch": {"pack": True, "exclusive": True, "constraint": "a100|v100"},
    }
    done = user.hpcdist("submit", user.write("packed", experiment), "--wait", timeout=900)
    assert done.returncode == 0, done.stderr
    found = spans(user, "packed-1")
    assert {trial: len(own) for trial, own in found.items()} == dict.fromkeys(range(1, 81), 1)
    every = [span for own in found.values() for span in own]
    assert (len({span.gpu for span in every}), len({span.gpu[0] for span in every})) == (8, 4)
    assert list(overlaps(every)) == []
    began = sorted(span.begin for span in every)
    last = began[-8]  # until then no worker has run out of trials
    busy = sum(min(span.end, last) - min(span.begin, last) for span in every)
    share = busy / (8 * (last - began[7]) + sum(began[7] - one for one in began[:7]))
    pause = median(pauses(every))
    assert share > 0.95, f"GPUs were busy for {share:.1%} until the last 8 trials; {pause:.3f} s between two"
    shown = user.json("sweep", "status", "packed-1")
    assert shown["states"] == {"completed": 80}
    assert user.json("status", "packed-1")[0]["state"] == "completed"


@pytest.mark.extended
def test_trials_of_a_node_that_crashes_and_of_a_requeued_job_run_again(user: User) -> None:
    experiment = {
        "environment": {"resources": {"gpu": {"requests": 1}}},
        "hptuning": {"concurrency": 4, "matrix": {"n": {"range": [0, 16, 1]}}},
        "run": {"cmd": TIMED.format("sleep 4")},
        "batch": {"pack": True, "exclusive": True, "partition": "v100", "requeue": True},
    }
    assert user.hpcdist("submit", user.write("lost", experiment)).returncode == 0
    until(lambda: len(events(user, "lost-1", "started")) >= 4, "four trials to run")
    number = user.json("status", "lost-1")[0]["job_id"].partition(";")[0]
    user.cluster.crash("n4")
    user.cluster.run(["scontrol", "requeue", f"{number}_1"], user="root", check=True)
    until(lambda: user.cluster.states().get("n4", "").startswith("down"), "n4 to be down")
    user.cluster.restore("n4")
    done = user.hpcdist("wait", "lost-1", timeout=600)
    assert done.returncode == 0, done.stderr
    assert user.json("sweep", "status", "lost-1")["states"] == {"completed": 16}
    assert events(user, "lost-1", "ended") == list(range(1, 17))
    again = events(user, "lost-1", "returned")
    assert len({*again}) >= 4
    # A worker that is killed between its event and the return itself leaves an event for its successor, too.
    claims = (user.directory / "runs" / "lost-1" / "claims").glob("[0-9]*.[0-9]*")
    started = sorted(int(claim.name.partition(".")[0]) for claim in claims)
    assert started == events(user, "lost-1", "started")
    assert {trial for trial in started if started.count(trial) > 1} == {*again}
    assert list(overlaps([span for own in spans(user, "lost-1").values() for span in own])) == []


STEPS = """\
steps=$(cat $HPCDIST_CHECKPOINTS/steps 2>/dev/null) || steps=0
echo "from $steps"
while ((steps++ < {{ steps }})); do
  sleep 0.5
  echo $steps >$HPCDIST_CHECKPOINTS/new && mv $HPCDIST_CHECKPOINTS/new $HPCDIST_CHECKPOINTS/steps
done"""


@pytest.mark.extended
def test_a_packed_search_outlives_its_time_limit(user: User) -> None:
    experiment = {
        "environment": {
            "resources": {"gpu": {"requests": 1}}, "restart": {"on": ["timeout"], "notice": "29s", "max": 2}
        },
        "hptuning": {"concurrency": 2, "mapping": [{"steps": steps} for steps in (1, 80, 80)]},
        "run": {"cmd": STEPS},
        "batch": {"pack": True, "partition": "v100", "walltime": "1m"},
    }  # fmt: skip
    done = user.hpcdist("submit", user.write("longer", experiment), "--wait", timeout=300)
    assert done.returncode == 0, done.stderr
    shown = user.json("sweep", "status", "longer-1")
    assert (shown["states"], len(shown["jobs"])) == ({"completed": 3}, 1)
    assert (events(user, "longer-1", "ended"), events(user, "longer-1", "returned")) == ([1, 2, 3], [2, 3])
    logs = user.directory / "runs" / "longer-1" / "logs"
    begins = [re.findall("(?m)^from (.+)", (logs / f"job-{trial}.out").read_text()) for trial in (1, 2, 3)]
    assert [len(own) for own in begins] == [1, 2, 2]
    assert all(30 < int(own[-1]) < 80 for own in begins[1:]), begins
    assert ("again", "timeout") in user.events("longer-1")


@pytest.mark.extended
@pytest.mark.parametrize("options", ["PreemptMode=REQUEUE GraceTime=0", "PreemptMode=CANCEL GraceTime=15"])
def test_a_packed_search_outlives_a_more_important_job(user: User, options: str) -> None:
    """With or without a time of grace, in which workers return their trials themselves."""
    with partition(user.cluster, f"PriorityTier=0 {options}") as name:
        experiment = {
            "environment": {"resources": {"gpu": {"requests": 1}}, "restart": {"on": ["preempt"], "max": 2}},
            "hptuning": {"concurrency": 2, "mapping": [{"steps": steps} for steps in (1, 16, 16, 1)]},
            "run": {"cmd": STEPS},
            "batch": {"pack": True, "partition": name, "constraint": "v100", "walltime": "10m"},
        }
        assert user.hpcdist("submit", user.write("humble", experiment)).returncode == 0
        folder = user.directory / "runs" / "humble-1"
        kept = [folder / "checkpoints" / trial / "steps" for trial in "23"]
        until(lambda: all(file.exists() for file in kept), "both long trials to have checkpoints")
        [log] = folder.glob("events.*@*")
        words = ["sbatch", "--exclusive", "-p", "all", "-w", log.name.partition("@")[2], "-t", "2"]
        user.cluster.run([*words, "--wrap", "sleep 3"], user=user.name, cwd=user.directory, check=True)
        done = user.hpcdist("wait", "humble-1", timeout=300)
        assert done.returncode == 0, done.stderr
        shown = user.json("sweep", "status", "humble-1")
        assert (shown["states"], len(shown["jobs"])) == ({"completed": 4}, 1)
        logs = [(folder / "logs" / f"job-{trial}.out").read_text() for trial in (1, 2, 3, 4)]
        begins = [[int(step) for step in re.findall("(?m)^from (.+)", log)] for log in logs]
        assert [len(own) for own in begins] == [1, 2, 2, 1]
        assert all(first == 0 < again for first, again in begins[1:3]), begins
        assert events(user, "humble-1", "ended") == [1, 2, 3, 4]
        assert events(user, "humble-1", "returned") == [2, 3]


def test_cancelled_trials_are_returned_and_nothing_has_completed_that_has_not(user: User) -> None:
    experiment = {
        "environment": {"resources": {"gpu": {"requests": 1}}},
        "hptuning": {"concurrency": 2, "matrix": {"n": {"range": [0, 5, 1]}}},
        "run": {"cmd": "(({{ n }} == 0)) || exec sleep 300"},
        "batch": {"pack": True, "partition": "v100"},
    }
    assert user.hpcdist("submit", user.write("cancelled", experiment)).returncode == 0
    until(lambda: len(events(user, "cancelled-1", "started")) == 3, "the third trial to run")
    assert user.hpcdist("cancel", "cancelled-1").returncode == 0
    user.hpcdist("wait", "cancelled-1")
    until(lambda: events(user, "cancelled-1", "returned") == [2, 3], "both to be returned")
    shown = user.json("sweep", "status", "cancelled-1")
    assert [trial["state"] for trial in shown["trials"]] == ["completed", *["cancelled"] * 4]


@pytest.mark.extended
def test_a_trial_of_horovod_is_a_job_of_its_own_under_srun_and_mpirun(user: User) -> None:
    """Without its variables, MPI would take all workers of the launch for one world."""
    imports = "import horovod.torch as h; from mpi4py import MPI; h.init()"
    code = f"{imports}; print('size', h.size(), 'rank', h.rank(), 'mpi', MPI.COMM_WORLD.size)"
    for launcher in ("srun", "mpirun"):
        experiment = {
            "framework": "horovod",
            "environment": {"resources": {"gpu": {"requests": 1}}},
            "hptuning": {"concurrency": 2, "matrix": {"n": {"range": [0, 2, 1]}}},
            "run": {"cmd": f'python -c "{code}"'},
            "batch": {"pack": True, "partition": "v100", "launcher": launcher},
        }
        done = user.hpcdist("submit", user.write(launcher, experiment), "--wait")
        logs = (user.directory / "runs" / f"{launcher}-1" / "logs").glob("job-*.out")
        assert [log.read_text().count("size 1 rank 0 mpi 1") for log in logs] == [1, 1], done.stderr
