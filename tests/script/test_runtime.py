"""The run's files: a submitted job begins only where all are as they were written."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hpcdist.script import runtime
from hpcdist.script.renderer import render
from tests.experiments import environment, resources
from tests.plans import TESTBED, changed, planned
from tests.script.jobs import BASH, ONE_PROCESS, started, write

CHANGED = "RUN was changed or cut short{}: submit the experiment again"
FILES_CHANGED = CHANGED.format(" (runtime/files)")
ABSENT = "HOST has no RUN/runtime; is its file system mounted there?"


def test_their_list_has_the_digest_of_each() -> None:
    own = {**runtime.files()}
    lines = own.pop(runtime.LIST).splitlines()
    assert lines == [
        f"{hashlib.sha256(text.encode()).hexdigest()}  runtime/{name}" for name, text in sorted(own.items())
    ]
    assert {"__main__.py", "supervise.sh", "unsupervised.sh", "packed.py", "elastic.py"} <= own.keys()
    assert {"supervisor/main.py", "supervisor/step.sh", "python/hpcdist_tracking.py"} <= own.keys()


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ({}, ""),
        ({"environment": {"max_restarts": 1}}, "restarts"),
        ({"environment": {"restart": {}}}, "restarts"),
        ({"run": {"cmd": "x", "finish": {"cmd": "y"}}}, "steps"),
        ({"hptuning": {"concurrency": 1, "matrix": {"lr": {"values": [1, 2]}}}}, "search"),
    ],
)
def test_what_a_job_needs_the_supervisor_for(data: dict[str, Any], what: str) -> None:
    assert runtime.needs(planned(**data)) == what


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ("rm -r runtime", ABSENT),
        ("rm runtime/supervise.sh", ABSENT),
        ("rm runtime/files", FILES_CHANGED),
        ("rm runtime/supervisor/clock.py", CHANGED.format(" (runtime/supervisor/clock.py)")),
        ("rm runtime/python/hpcdist_tracking.py", CHANGED.format(" (runtime/python/hpcdist_tracking.py)")),
        ("echo >>runtime/supervisor/main.py", CHANGED.format(" (runtime/supervisor/main.py)")),
        ("truncate -s -1 runtime/unsupervised.sh", CHANGED.format(" (runtime/unsupervised.sh)")),
        ("echo >>runtime/packed.py; cd runtime; sha256sum packed.py >files", FILES_CHANGED),
        ("sed -i '/^pids=()/,$d' job.sh", CHANGED.format(" (job.sh)")),
        ("truncate -s 100 plan.json", CHANGED.format(" (plan.json)")),
        ("rm job.sum", CHANGED.format("")),
    ],
)
def test_nothing_runs_where_a_file_is_absent_or_was_changed(tmp_path: Path, changes: str, says: str) -> None:
    run = tmp_path / "run"
    write(run, planned(ONE_PROCESS, run={"cmd": "touch ran"}))
    subprocess.run([BASH, "-c", changes], cwd=run, check=True)
    before = sorted(tmp_path.rglob("*"))
    done = subprocess.run([BASH, "run/job.sh"], cwd=tmp_path, capture_output=True, text=True, check=False)
    said = done.stderr.replace(str(run), "RUN").replace(os.uname().nodename, "HOST")
    sentences = [line for line in said.splitlines() if line.startswith("hpcdist: ")]
    assert (done.returncode, done.stdout, sentences) == (86, "", [f"hpcdist: {says}"])
    assert sorted(tmp_path.rglob("*")) == before


# --- Without a Python for the supervisor


HIDES = 'mount --bind /dev/null "$(readlink -f /usr/bin/python3)" && exec bash run/job.sh'


def started_without_python(folder: Path, **data: Any) -> subprocess.Popen[str]:
    """Start a submitted job on a host without a Python."""
    write(folder / "run", planned(ONE_PROCESS, **data))
    return subprocess.Popen(
        ["/usr/bin/unshare", "--user", "--map-root-user", "--mount", BASH, "-c", HIDES],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def without_python(folder: Path, **data: Any) -> subprocess.CompletedProcess[str]:
    with started_without_python(folder, **data) as job:
        out, err = job.communicate(timeout=60)
    return subprocess.CompletedProcess(job.args, job.returncode, out, err)


@pytest.mark.namespaces
@pytest.mark.parametrize("name", ["TERM", "HUP", "USR1", "USR2"])
def test_its_program_gets_signals_all_the_same(tmp_path: Path, name: str) -> None:
    cmd = f"trap 'echo saved; exit 3' {name}; echo up; while :; do sleep 0.1; done"
    with started_without_python(tmp_path, run={"cmd": cmd}) as job:
        assert job.stdout
        assert job.stdout.readline() == "up\n"
        job.send_signal(getattr(signal, f"SIG{name}"))
        try:
            out, err = job.communicate(timeout=30)
        finally:
            job.kill()
    assert (job.returncode, out) == (3, "saved\n"), err
    assert (tmp_path / "run/events").read_text().split()[-4::3] == ["ended", "3"]


@pytest.mark.namespaces
@pytest.mark.parametrize("code", [0, 7])
def test_its_start_and_its_end_are_recorded_all_the_same(tmp_path: Path, code: int) -> None:
    done = without_python(tmp_path, run={"cmd": f"echo $HPCDIST_JOB_ID; exit {code}"})
    number = done.stdout.strip()
    rows = [line.split() for line in (tmp_path / "run/events").read_text().splitlines()]
    assert [(row[0], row[1], row[3]) for row in rows] == [
        ("started", number, "0"),
        ("ended", number, str(code)),
    ]
    assert (done.returncode, "there is no Python 3.6 or newer on" in done.stderr) == (code, True)


@pytest.mark.namespaces
@pytest.mark.parametrize(
    ("data", "what"),
    [
        ({"environment": {"restart": {}}}, "restarts"),
        ({"run": {"cmd": "touch ran", "finish": {"cmd": "y"}}}, "steps"),
        ({"hptuning": {"concurrency": 1, "matrix": {"lr": {"values": [1, 2]}}}}, "search"),
    ],
)
def test_what_needs_the_supervisor_does_not_begin(tmp_path: Path, data: dict[str, Any], what: str) -> None:
    done = without_python(tmp_path, **{"run": {"cmd": "touch ran"}, **data})
    assert (done.returncode, (tmp_path / "ran").exists(), (tmp_path / "run/events").exists()) == (
        86,
        False,
        False,
    )
    assert done.stderr == (
        f"hpcdist: there is no Python 3.6 or newer on {os.uname().nodename}, which this job needs for its "
        f"{what}; set HPCDIST_PYTHON to one\n"
    )


# --- What the launchers read


@pytest.mark.parametrize(
    ("data", "has_one"),
    [
        ({}, False),
        ({"run": {"cmd": 'cat "$HPCDIST_HOSTFILE"'}}, True),
        ({"environment": {"env_vars": {"LIST": "x"}}}, False),
        ({"framework": "mpi", "batch": {"launcher": "mpirun"}}, True),
        ({"framework": "mpi", "run": {"cmd": "mpirun ./a.out"}}, True),
    ],
)
def test_a_hostfile_is_written_where_something_reads_it(data: dict[str, Any], *, has_one: bool) -> None:
    assert ("/hostfile." in render(planned(**data))) is has_one


TOOL = """\
#!/bin/bash
case ${0##*/} in
scontrol) eval "printf '%s\\n' $3" ;;
*) printf '%s\\n' "$@" >words; cat run/hostfile.7 >hosts ;;
esac
"""


@pytest.mark.parametrize(
    ("launcher", "program", "line"),
    [("mpirun", "mpirun", "{} slots={}"), ("hydra", "mpiexec.hydra", "{}:{}")],
)
def test_a_launcher_gets_its_hosts_and_the_names_of_what_the_job_sets(
    tmp_path: Path, launcher: str, program: str, line: str
) -> None:
    """By name: also what is set to what the login shell had, and what a line of setup changes."""
    for name in ("scontrol", program):
        (tmp_path / name).write_text(TOOL)
        (tmp_path / name).chmod(0o755)
    section = environment(9, each=resources(cpu=5), env_vars={"SAME": "a", "OMPI_MCA_btl": "tcp"})
    machine = changed(TESTBED, setup=("export FROM_SETUP=1 LOGIN=changed",))
    data: dict[str, Any] = {"framework": "mpi", "run": {"cmd": "true"}}
    plan = planned(machine, **data, batch={"launcher": launcher}, environment=section)
    count = plan.placement.nodes
    assert count > 1
    given = {"SAME": "a", "LOGIN": "x", "OTHER": "y", "HPCDIST_TOKEN": "secret"}
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": f"n{{1..{count}}}", "SLURM_JOB_NUM_NODES": str(count)}
    path = f"{tmp_path}:{os.environ['PATH']}"
    with started(
        tmp_path, environ={"PATH": path, **slurm, **given}, machine=machine, **data,
        batch={"launcher": launcher}, environment=section,
    ) as process:  # fmt: skip
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out
    sizes = [tasks for nodes, tasks in plan.placement.tasks_per_node() for _ in range(nodes)]
    hosts = [line.format(f"n{node}", tasks) for node, tasks in enumerate(sizes, 1)]
    assert (tmp_path / "hosts").read_text().splitlines() == hosts
    names = {*(tmp_path / "words").read_text().replace(",", "\n").splitlines()}
    assert {"SAME", "FROM_SETUP", "LOGIN", "PATH", "HPCDIST_RUN_DIR", "PYTHONUNBUFFERED"} <= names
    assert not {"OTHER", "HPCDIST_TOKEN"} & names
