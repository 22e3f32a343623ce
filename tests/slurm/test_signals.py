"""The program gets every signal, and as often as one that its user starts by hand with the same launcher."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.slurm import cgroups
from tests.slurm.cluster import Cluster
from tests.slurm.process import until
from tests.slurm.users import ENVIRONMENT, PYTHON, User

pytestmark = [pytest.mark.real, pytest.mark.long]

HEAR: Final = """\
import os, signal, sys, time
names = ("OMPI_COMM_WORLD_RANK", "HOROVOD_RANK", "RANK", "SLURM_PROCID")
rank = next(os.environ[name] for name in names if name in os.environ)
heard = open(f"{sys.argv[1]}.{rank}", "ab", buffering=0)  # a signal may come while another is written
end = time.time() + 300

def hear(number, frame):
    global end
    heard.write(signal.Signals(number).name[3:].encode() + b"\\n")
    if number in {signal.SIGTERM, signal.Signals["SIG" + sys.argv[3]]}:
        end = min(end, time.time() + (float(sys.argv[2]) if rank == "0" else 0))

for name in ("USR1", "USR2", "TERM"):
    signal.signal(signal.Signals["SIG" + name], hear)
heard.write(b"ready\\n")
while time.time() < end:
    time.sleep(0.05)
heard.write(b"saved\\n")
sys.exit(3)
"""
"""What ends by TERM, or by another signal: rank 0 saves for some seconds, the other rank ends at once."""

TWO: Final = {
    "resources": {"cpu": {"requests": 1}},
    "replicas": {"n_workers": 1, "per_node": 1},
}
LAUNCHES: Final[dict[str, dict[str, Any]]] = {
    "srun": {"framework": "pytorch"},
    "lines": {"framework": "pytorch"},
    "torchrun": {"framework": "pytorch", "pytorch": {"launch": "torchrun"}},
    "mpirun": {"framework": "mpi", "batch": {"launcher": "mpirun"}},
    "horovodrun": {"framework": "horovod", "batch": {"launcher": "horovodrun"}},
}
LINES: Final = {"lines": "cd .\n{}\necho over", "wait": "cd .\n{} &\nwait"}
"""Commands of several lines; a shell in `wait` ends at once by TERM, which its program must hear, too."""
SLOW: Final = {"notice-by-TERM": "TERM", "notice-by-USR2": "USR2"}
"""Ways in which rank 0 saves for 12 s, longer than KillWait, when it hears this signal."""
BY_HAND: Final = """\
#!/bin/bash
#SBATCH -p a100 -N 2 -n 2 --ntasks-per-node 1 -c 1 --mem 500 -t 2 -J {name} -o {name}.out --signal=USR2@60
srun {program} {name} 2 TERM
"""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            "cgroup",
            marks=pytest.mark.skipif(cgroups.missing() != "", reason=cgroups.missing()),
        ),
        pytest.param("linuxproc", marks=pytest.mark.extended),
    ],
)
def user(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """Somebody on a cluster that finds the processes of jobs in one of two ways."""
    place = tmp_path_factory.mktemp("signals")
    with Cluster.boot(place, proctrack=request.param, kill_wait=10) as cluster:
        directory = cluster.workdir()
        (directory / "hear.py").write_text(HEAR)
        yield User(cluster, directory)


def submitted(user: User, launch: str, way: str, **batch: Any) -> None:
    name = f"{launch}-{way}"
    more = dict(LAUNCHES.get(launch, LAUNCHES["srun"]))
    # By -K srun gives the other ranks KillWait, not the whole time of the notice, when one has ended.
    program = f"{PYTHON} hear.py {user.directory}/{name} {12 if way in SLOW else 2} {SLOW.get(way, 'TERM')}"
    batch |= {"partition": "a100", "walltime": "2m", **more.pop("batch", {})}
    signal = {"notice": None, **SLOW}
    # Open MPI kills a second after TERM, in which a busy machine may not have run a rank's handler.
    variables = {"env_vars": {"OMPI_MCA_odls_base_sigkill_timeout": "3"}} if launch == "mpirun" else {}
    restart = {"restart": {"notice": "60s", "max": 0, "signal": signal[way]}} if way in signal else {}
    experiment = {
        "environment": TWO | restart | variables,
        "run": {"cmd": LINES.get(launch, "{}").format(program)},
        "batch": batch,
    }
    done = user.hpcdist("submit", user.write(name, more | experiment))
    assert done.returncode == 0, done.stderr


def by_hand(user: User, way: str) -> None:
    name = f"hand-{way}"
    script = BY_HAND.format(name=name, program=f"{PYTHON} hear.py")
    user.cluster.run(
        ["sbatch"], user=user.name, cwd=user.directory, env=ENVIRONMENT, input=script, check=True
    )


def heard(user: User, name: str) -> list[Counter[str]]:
    """Return what each of the two ranks has heard."""
    return [Counter((user.directory / f"{name}.{rank}").read_text().split()) for rank in (0, 1)]


def signal_when_ready(user: User, name: str, *words: str) -> None:
    """Have Slurm signal, or cancel, a job whose ranks are both ready."""
    ranks = [user.directory / f"{name}.{rank}" for rank in (0, 1)]
    until(lambda: all(rank.exists() and rank.stat().st_size for rank in ranks), f"{name} to be ready")
    user.cluster.run(["scancel", *words, "--name", name], user=user.name, check=True)


def test_the_program_gets_every_signal(user: User) -> None:
    limited = ("srun", "lines", "torchrun", "mpirun")
    for launch in limited:
        submitted(user, launch, "limit", signal="USR2@60")
    by_hand(user, "limit")
    for launch in LAUNCHES:
        submitted(user, launch, "cancel")
        submitted(user, launch, "notice")
    for way in SLOW:
        submitted(user, "srun", way)
    submitted(user, "wait", "cancel")
    by_hand(user, "cancel")
    for name in (*(f"{launch}-limit" for launch in limited), "hand-limit"):
        signal_when_ready(user, name, "--signal", "USR1")
    for name in (*(f"{launch}-cancel" for launch in LAUNCHES), "wait-cancel", "hand-cancel"):
        signal_when_ready(user, name)
    user.hpcdist("wait", *(f"{launch}-{way}-1" for launch in LAUNCHES for way in ("cancel", "notice")))
    user.hpcdist("wait", *(f"srun-{way}-1" for way in SLOW))
    user.cluster.wait_idle()
    got = {
        name: heard(user, name) for name in sorted({path.stem for path in user.directory.glob("*-*.[01]")})
    }
    for way in ("limit", "cancel"):  # one by srun is the same by hand
        assert [*map(times, (got[f"srun-{way}"], got[f"lines-{way}"]))] == [times(got[f"hand-{way}"])] * 2, (
            got
        )
    missing = {name: _missing(name, ranks) for name, ranks in got.items() if not name.startswith("hand")}
    assert not any(missing.values()), (missing, got)


def times(ranks: list[Counter[str]]) -> list[dict[str, int]]:
    """Return how often each rank has heard each signal.

    At a limit Slurm sends TERM twice, of which a process that has not yet handled the first gets one.
    """
    assert all(rank["TERM"] in {1, 2} for rank in ranks), ranks
    return [{**rank, "TERM": 1} for rank in ranks]


def _missing(name: str, ranks: list[Counter[str]]) -> list[set[str]]:
    """Return what each rank has not heard of what it should have, once at least.

    Signals that Slurm sends to steps reach the ranks of an mpirun on other nodes only, whoever starts it.
    """
    launch, way = name.split("-", 1)
    wanted = {"ready", SLOW.get(way, "TERM")}
    if way == "limit":
        wanted |= {"USR2"} if launch == "mpirun" else {"USR1", "USR2"}
    elif way == "notice":
        wanted |= set() if launch == "torchrun" else {"USR1"}
    if launch not in {"mpirun", "wait"}:  # whoever starts these: one kills a second after TERM, one is over
        wanted |= {"saved"}
    return [found for rank in ranks if (found := wanted - {*rank})]
