"""The script that `hpcdist render` prints, submitted by hand: tasks land as planned, and get each signal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.slurm import cgroups
from tests.slurm.cluster import Cluster
from tests.slurm.process import until
from tests.slurm.test_shapes import SHAPES, needs, placed
from tests.slurm.test_signals import HEAR, LAUNCHES, LINES, TWO, heard, signal_when_ready, times
from tests.slurm.test_signals import by_hand as of_three_lines
from tests.slurm.users import ENVIRONMENT, PROBE, PYTHON, User, probes_in

pytestmark = [pytest.mark.real, pytest.mark.long]


def by_hand(user: User, name: str, experiment: Mapping[str, Any], *options: str) -> Path:
    """Submit the script of an experiment by sbatch, with these options of its own; return its log."""
    file = user.write(name, experiment)
    done = user.hpcdist("render", file)
    assert (done.returncode, "--- The runtime of hpcdist" in done.stdout) == (0, False), done.stderr
    log = user.directory / f"{name}.log"
    words = ["sbatch", "--parsable", f"--output={log}", *options]
    user.cluster.run(
        words, user=user.name, cwd=user.directory, env=ENVIRONMENT, input=done.stdout, check=True
    )
    return log


def all_land_as_planned(
    user: User, experiments: Mapping[str, dict[str, Any]], launcher: str, **batch: Any
) -> None:
    planned, logs = {}, {}
    for name, experiment in experiments.items():
        whole = experiment | {"run": {"cmd": PROBE}, "batch": {"launcher": launcher, **batch}}
        logs[name] = by_hand(user, name, whole)
        planned[name] = [placed(record) for record in user.json("plan", f"{name}.yml")["tasks"]]
    until(lambda: not user.cluster.run(["squeue", "-h"], check=True).stdout, "all jobs to be over", 300)
    texts = {name: log.read_text() for name, log in logs.items()}
    assert {name: _probes(text) for name, text in texts.items()} == planned, texts


def _probes(log: str) -> list[dict[str, Any]]:
    hosts = {line.split()[-3] for line in re.findall(r"probe .*", log)}
    return probes_in(log, sorted(hosts, key=lambda host: int(host[1:])))


@pytest.mark.parametrize("launcher", ["srun", pytest.param("mpirun", marks=pytest.mark.extended)])
def test_shapes(user: User, launcher: str) -> None:
    shapes = {
        name: {"framework": "horovod", "environment": environment} for name, environment in SHAPES.items()
    }
    all_land_as_planned(user, shapes, launcher, exclusive=True)


@pytest.mark.extended
@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_components_on_two_partitions(user: User, launcher: str) -> None:
    environment = {
        "resources": needs(cpu=2),
        "node_selector": {"partition": "cpu"},
        "replicas": {
            "n_workers": 4,
            "default_worker": {"resources": needs(gpu=1), "node_selector": {"partition": "v100"}},
        },
    }
    log = by_hand(
        user,
        "het",
        {
            "framework": "horovod",
            "environment": environment,
            "run": {"cmd": PROBE},
            "batch": {"launcher": launcher},
        },
    )
    until(lambda: log.exists() and log.read_text().count("probe ") == 5, "all tasks to say where they are")
    hosts = [line.split()[4] for line in sorted(re.findall(r"probe .*", log.read_text()))]
    planned = [record["node"] for record in user.json("plan", "het.yml")["tasks"]]
    assert [[*dict.fromkeys(hosts)].index(host) for host in hosts] == planned


SERVES = """\
import os, sys, time
role = os.environ["HPCDIST_ROLE"]
if role == sys.argv[1]:
    time.sleep(1)
    sys.exit(int(sys.argv[2]))
time.sleep(20 if role == "master" else 300)
"""
"""A master that ends after a moment, and others that never do, but for the role that is named."""


@pytest.mark.parametrize("launcher", ["srun", pytest.param("mpirun", marks=pytest.mark.extended)])
def test_the_job_is_over_when_its_chief_is(user: User, launcher: str) -> None:
    (user.directory / "serves.py").write_text(SERVES)
    ends = {"master-0": 0, "worker-3": 3, "ps-4": 4, "master-5": 5}
    each = {"resources": {"cpu": {"requests": 1}}}
    replicas = {"n_workers": 2, "n_ps": 1, "default_worker": each, "default_ps": each}
    logs = {}
    for end in ends:
        experiment = {"framework": "tensorflow", "environment": {**each, "replicas": replicas}}
        experiment |= {"run": {"cmd": f"{PYTHON} serves.py {end.replace('-', ' ')}"}}
        logs[end] = by_hand(user, end, experiment | {"batch": {"launcher": launcher}})
    until(lambda: not user.cluster.run(["squeue", "-h"], check=True).stdout, "all jobs to be over", 120)
    answered = user.cluster.run(["scontrol", "-o", "show", "jobs"], check=True).stdout
    found = dict(re.findall(r"JobName=(\S+) .*? ExitCode=(\d+):", answered))
    assert {end: found.get(end) for end in ends} == {end: str(code) for end, code in ends.items()}, (
        found,
        {end: log.read_text() for end, log in logs.items()},
    )


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("cgroup", marks=pytest.mark.skipif(cgroups.missing() != "", reason=cgroups.missing())),
        pytest.param("linuxproc", marks=pytest.mark.extended),
    ],
)
def signalled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """Somebody on a cluster that finds the processes of jobs in one of two ways."""
    place = tmp_path_factory.mktemp("signalled")
    with Cluster.boot(place, proctrack=request.param, kill_wait=10) as cluster:
        directory = cluster.workdir()
        (directory / "hear.py").write_text(HEAR)
        yield User(cluster, directory)


def test_the_program_gets_every_signal(signalled: User) -> None:
    for launch, way in (
        *((launch, "limit") for launch in SIGNALLED),
        *((launch, "cancel") for launch in (*LAUNCHES, "wait")),
    ):
        _started(signalled, launch, way)
    for way in ("limit", "cancel"):
        of_three_lines(signalled, way)
    for name in (*(f"{launch}-limit" for launch in ("srun", "lines")), "hand-limit"):
        signal_when_ready(signalled, name, "--signal", "USR1")
    for name in (*(f"{launch}-cancel" for launch in (*LAUNCHES, "wait")), "hand-cancel"):
        signal_when_ready(signalled, name)
    until(lambda: not signalled.cluster.run(["squeue", "-h"]).stdout, "all jobs to be over", 300)
    names = sorted({path.stem for path in signalled.directory.glob("*-*.[01]")})
    got = {name: heard(signalled, name) for name in names}
    for way in ("limit", "cancel"):
        ours = [times(got[f"{launch}-{way}"]) for launch in ("srun", "lines")]
        assert ours == [times(got[f"hand-{way}"])] * 2, got
    assert {name: missing for name, ranks in got.items() if (missing := _missing(name, ranks))} == {}, got


SIGNALLED = ("srun", "lines", "torchrun", "mpirun")
"""Launches that hear of their limit."""


def _started(user: User, launch: str, way: str) -> None:
    name = f"{launch}-{way}"
    more = dict(LAUNCHES.get(launch, LAUNCHES["srun"]))
    program = f"{PYTHON} hear.py {user.directory}/{name} 2 TERM"
    batch = {"partition": "a100", "walltime": "2m", **more.pop("batch", {})}
    batch |= {"signal": "USR2@60"} if way == "limit" else {}
    variables = {"env_vars": {"OMPI_MCA_odls_base_sigkill_timeout": "3"}} if launch == "mpirun" else {}
    command = LINES.get(launch, "{}").format(program)
    experiment = {"environment": TWO | variables, "run": {"cmd": command}, "batch": batch}
    by_hand(user, name, more | experiment)


def _missing(name: str, ranks: list[Any]) -> list[set[str]]:
    launch, way = name.split("-", 1)
    wanted = {"ready", "TERM"}
    wanted |= {"USR2"} if way == "limit" else set()
    wanted |= {"USR1"} if way == "limit" and launch in {"srun", "lines"} else set()
    if launch != "mpirun":  # which kills a second after TERM
        wanted |= {"saved"}
    own = ranks[:1] if launch == "horovodrun" else ranks  # it passes on nothing to other nodes
    return [missing for rank in own if (missing := wanted - {*rank})]
