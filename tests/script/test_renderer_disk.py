"""A job whose files cannot be written, or are not what was written: it must run nothing, and say so."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hpcdist.script.renderer import render
from tests.experiments import environment, resources
from tests.plans import LOCAL, changed, planned
from tests.sites import shipped_site
from tests.tasks import task_wrapper

BASH = shutil.which("bash") or "bash"
ONE_PROCESS = changed(LOCAL, launcher="processes")
LONG = f"echo one >>ran\n# {'é' * 4000}\necho rm -r important/ >>ran\necho end >>ran"


def job(folder: Path, before: str = "", **data: Any) -> subprocess.CompletedProcess[str]:
    """Run a job's script in this folder, ``before`` being a line of the shell that starts it."""
    machine = data.pop("machine", ONE_PROCESS)
    (folder / "job.sh").write_text(render(planned(machine, **data), run_dir=str(folder / "run")))
    return subprocess.run(
        [BASH, "-c", f"{before}\nexec {BASH} job.sh"],
        cwd=folder,
        env={"PATH": f"{folder}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def ends(folder: Path) -> list[str]:
    """Return the codes that the event log has."""
    lines = (folder / "run" / "events").read_text().splitlines()
    return [line.rpartition(" ")[2] for line in lines if line.startswith("ended ")]


@pytest.mark.parametrize("launcher", ["processes", "once"])
@pytest.mark.parametrize("blocks", range(1, 8))
def test_truncated_files_are_not_run(tmp_path: Path, blocks: int, launcher: str) -> None:
    """No file may be longer than this many KiB: a write comes back short, as on a full disk."""
    cmd = LONG if launcher == "processes" else f"# mpirun\n{LONG}\nmpirun --version"
    data: dict[str, Any] = {"framework": "pytorch", "environment": environment(1)}
    if launcher == "once":
        data = {"framework": "mpi", "backend": "mpi"}
    done = job(tmp_path, f"trap '' XFSZ; ulimit -f {blocks}", run={"cmd": cmd}, **data)
    assert (done.returncode, (tmp_path / "ran").exists()) == (86, False), done.stderr
    assert "is the disk full, or your quota used up?" in done.stderr
    assert ends(tmp_path) == ["86"]


def test_files_of_an_earlier_start_stay_intact(tmp_path: Path) -> None:
    """Its processes may still read it: a restart of the job moves files into place or leaves the old ones."""
    cmd = f"echo ran >>ran\n{LONG}"
    folder = tmp_path / "run" / "jobs" / "7"
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n1", "SLURM_JOB_NUM_NODES": "1"}
    start = "".join(f"export {name}={value}; " for name, value in slurm.items())
    (tmp_path / "srun").write_text(f"#!{BASH}\nexit 3\n")
    (tmp_path / "srun").chmod(0o755)
    assert job(tmp_path, start, machine=shipped_site("testbed"), run={"cmd": cmd}).returncode == 3
    before = {file.name: (file.stat().st_ino, file.read_text()) for file in folder.iterdir()}
    full = f"{start}trap '' XFSZ; ulimit -f 4"
    assert job(tmp_path, full, machine=shipped_site("testbed"), run={"cmd": cmd}).returncode == 86
    assert all((folder / name).read_text() == text for name, (_, text) in before.items())
    assert job(tmp_path, start, machine=shipped_site("testbed"), run={"cmd": cmd}).returncode == 3
    after = {file.name: (file.stat().st_ino, file.read_text()) for file in folder.iterdir() if file.is_file()}
    nodes = dict.fromkeys(("nodes.1", "nodes.2"), "n1\n")  # of these starts alone
    assert {name: text for name, (_, text) in after.items()} == {
        name: text for name, (_, text) in before.items()
    } | nodes
    assert {name for name in before if after[name][0] == before[name][0]} == {"nodes.0"}


def test_an_event_log_that_cannot_be_begun(tmp_path: Path) -> None:
    (tmp_path / "run" / "events").mkdir(parents=True)
    done = job(tmp_path, run={"cmd": "touch ran"})
    assert (done.returncode, (tmp_path / "ran").exists()) == (86, False)
    assert "is the disk full, or your quota used up?" in done.stderr


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_is_right_where_the_end_cannot_be_written(tmp_path: Path, code: int) -> None:
    done = job(tmp_path, run={"cmd": f"rm run/events; mkdir run/events; exit {code}"})
    assert done.returncode == code
    said = (
        f"hpcdist: the end (exit code {code}) cannot be written to {tmp_path}/run/events; is the disk full?"
    )
    assert said in done.stderr.splitlines()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_run_directory_that_is_a_link(tmp_path: Path, *, is_there: bool) -> None:
    """Nothing is made where it leads to."""
    if is_there:
        (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to("elsewhere")
    done = job(tmp_path, run={"cmd": "touch ran"})
    assert (done.returncode, (tmp_path / "ran").exists()) == (86, False)
    assert f"hpcdist: {tmp_path}/run is not your own" in done.stderr
    assert [*tmp_path.rglob("elsewhere/*")] == []


# Starts tasks as on two nodes, of which the second sees other files; it gives the highest code, as srun does.
TWO_NODES = """\
#!{bash}
while [[ $1 != bash ]]; do shift; done
cd "$HPCDIST_JOB_DIR" || exit
export OMPI_COMM_WORLD_SIZE=2
OMPI_COMM_WORLD_RANK=0 "$@" &
sleep 0.5
{second}
OMPI_COMM_WORLD_RANK=1 "$@" || code=$?
kill -TERM %1
wait %1
last=$?
exit $((last > ${{code:-0}} ? last : code))
"""


@pytest.mark.extended
@pytest.mark.parametrize(
    ("second", "file"),
    [
        ("rm task.sh", "task.sh"),
        (": >task.sh", "task.sh"),
        ("truncate -s -1 task.sh", "task.sh"),
        ("rm command.sh", "command.sh"),
        ("truncate -s -1 command.sh", "command.sh"),
        ("truncate -s 4 command.sh; truncate -s 80 command.sh", "command.sh"),
    ],
)
def test_a_node_that_does_not_see_the_files(tmp_path: Path, second: str, file: str) -> None:
    (tmp_path / "mpirun").write_text(TWO_NODES.format(bash=BASH, second=second))
    (tmp_path / "mpirun").chmod(0o755)
    cmd = "echo $HPCDIST_RANK >>ran; sleep 2 # é"
    data: dict[str, Any] = {"framework": "mpi", "environment": environment(1)}
    done = job(tmp_path, machine=LOCAL, run={"cmd": cmd}, batch={"launcher": "mpirun"}, **data)
    (folder,) = (tmp_path / "run" / "jobs").iterdir()
    assert (done.returncode, ends(tmp_path)) == (86, ["86"]), done.stderr
    node = os.uname().nodename
    assert (
        f"hpcdist: rank 1 on {node}: {folder}/{file} is missing, cut short or not your own; " in done.stderr
    )
    assert "first to" not in done.stderr


def test_a_node_that_is_lost(tmp_path: Path) -> None:
    """What the launcher then does to the other tasks is not the cause."""
    (tmp_path / "mpirun").write_text(TWO_NODES.format(bash=BASH, second="kill -TERM %1; wait %1; exit 205"))
    (tmp_path / "mpirun").chmod(0o755)
    data: dict[str, Any] = {"framework": "mpi", "environment": environment(1)}
    done = job(tmp_path, machine=LOCAL, run={"cmd": "sleep 2"}, batch={"launcher": "mpirun"}, **data)
    assert (done.returncode, ends(tmp_path)) == (205, ["205"])
    assert (
        "hpcdist: mpirun ended with exit code 205, and no task recorded why: a node or a task" in done.stderr
    )


def test_a_failure_that_cannot_be_recorded_is_printed(tmp_path: Path) -> None:
    """The plan's own checks fail on a node where the run directory cannot be written."""
    data: dict[str, Any] = {"framework": "mpi", "environment": environment(1)}
    cut = 'mv nodes n; touch nodes; HPCDIST_FAILURE=/nowhere/x OMPI_COMM_WORLD_RANK=1 "$@"; exit 86'
    (tmp_path / "mpirun").write_text(TWO_NODES.format(bash=BASH, second=cut))
    (tmp_path / "mpirun").chmod(0o755)
    done = job(tmp_path, machine=LOCAL, run={"cmd": "sleep 1"}, batch={"launcher": "mpirun"}, **data)
    assert done.returncode == 86
    assert f"hpcdist: rank 1 on {os.uname().nodename}: this is " in done.stderr
    assert "the plan has this rank on no node; " in done.stderr


def test_memory_that_ran_out_is_named(tmp_path: Path) -> None:
    """By the kernel's count of this cgroup, for which files stand here."""
    plan = planned(ONE_PROCESS, framework="mpi", environment=environment(), run={"cmd": "exit 137"})
    script = render(plan)
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    paths = [line.split(":", 2) for line in lines]
    file = next(
        tmp_path / (f"memory{path}/memory.oom_control" if kind else f"{path[1:]}/memory.events")
        for _, kind, path in paths
        if kind in ("", "memory")
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("low 0\noom_kill 2\n")
    (tmp_path / "task.sh").write_text(task_wrapper(script).replace("/sys/fs/cgroup", str(tmp_path)))
    (tmp_path / "nodes").write_text("localhost\n")
    environ = {"PATH": os.environ["PATH"], "HPCDIST_JOB_DIR": str(tmp_path), "HPCDIST_START_RANK": "0"}
    environ |= {"HPCDIST_START_SIZE": "1"}
    for number, count in enumerate((2, 3)):
        failure = tmp_path / f"failure{number}"
        done = subprocess.run(
            [BASH, tmp_path / "task.sh", "bash", "-c", f"echo oom_kill {count} >{file}; exit 137"],
            env=environ | {"HPCDIST_FAILURE": str(failure)},
            check=False,
        )
        assert done.returncode == 137
    said = "the kernel killed a process for lack of memory (exit code 137); ask for more by "
    assert [said in (tmp_path / f"failure{number}").read_text() for number in range(2)] == [False, True]


SRUN = """\
#!{bash}
[[ -v HOSTILE ]] && printf %s "$HOSTILE" >hostile
exit 3
"""


def test_the_script_of_a_heterogeneous_job_without_its_empty_lines(tmp_path: Path) -> None:
    """Slurm 22.05's sbatch leaves them out; what the job writes from its script has them all the same."""
    (tmp_path / "srun").write_text(SRUN.format(bash=BASH))
    (tmp_path / "srun").chmod(0o755)
    gpu = resources(gpu=1)
    section = {
        "resources": gpu,
        "replicas": {"n_workers": 1, "n_ps": 1, "default_worker": {"resources": gpu}},
        "env_vars": {"HOSTILE": "it's\n\n\na value\n"},
    }
    command = "\ncat <<END\n\n\nEMPTY_LINE\nEND\n\n"
    plan = planned(framework="tensorflow", environment=section, run={"cmd": command})
    assert len(plan.placement.groups) == 2
    script = render(plan, run_dir=str(tmp_path / "run"))
    (tmp_path / "job.sh").write_text("".join(f"{line}\n" for line in script.split("\n") if line))
    nodes = {f"SLURM_JOB_NODELIST_HET_GROUP_{n}": f"n{n}" for n in range(2)}
    done = subprocess.run(
        [BASH, "job.sh"],
        cwd=tmp_path,
        env=nodes | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    folder = tmp_path / "run" / "jobs" / "7"
    assert (folder / "task.sh").read_text() == task_wrapper(script)
    assert (folder / "command.sh").read_text().split("\n", 2)[2] == f"{command}\n"
    assert (tmp_path / "hostile").read_text() == "it's\n\n\na value\n"
