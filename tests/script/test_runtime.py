"""Functions of the runtime, each by itself, by a real bash."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hpcdist.host.resources import template_folders
from hpcdist.plan.model import Plan
from hpcdist.script.renderer import render, render_job
from tests.experiments import environment, resources
from tests.plans import LOCAL, planned
from tests.sites import site_named
from tests.tasks import called

UNEQUAL: dict[str, Any] = {
    "resources": resources(cpu=1, gpu=1),
    "replicas": {"n_workers": 3, "n_ps": 1, "default_worker": {"resources": resources(cpu=2, gpu=1)}},
}
OWN = ("HPCDIST_HEAD_ADDRESS", "HPCDIST_PORT")


def in_job(plan: Plan, folder: Path, line: str, **environ: str) -> str:
    """Return what a line prints in the shell of a job that begins, on nodes called n0, n1, ..."""
    nodes = " ".join(f"n{node}" for node in range(plan.placement.nodes))
    return called(render(plan), f"hpcdist_nodes=({nodes})\n{line}", HPCDIST_JOB_DIR=str(folder), **environ)


def test_each_function_has_a_name_of_its_own() -> None:
    files = (template_folders()[-1] / "runtime").glob("*.sh")
    names = Counter(name for file in files for name in re.findall(r"(?m)^([a-z_]+)\(\)", file.read_text()))
    assert len(names) > 200
    assert [name for name, times in names.items() if times > 1] == []


@pytest.mark.parametrize(("text", "each"), [("4", "4"), ("4(x2),3", "4 4 3"), ("1,2(x1),1(x3)", "1 2 1 1 1")])
def test_tasks_per_node_are_read_as_slurm_writes_them(tmp_path: Path, text: str, each: str) -> None:
    line = f'hpcdist[tasks_per_node]="{text}"; hpcdist_count_tasks; echo "${{hpcdist_on[*]}}"'
    assert in_job(planned(), tmp_path, line) == f"{each}\n"


def test_a_host_a_task_for_each_component_that_is_uneven(tmp_path: Path) -> None:
    plan = planned(framework="tensorflow", environment=UNEQUAL)
    assert [(group.nodes, group.even) for group in plan.placement.groups] == [(1, False), (1, True)]
    assert in_job(plan, tmp_path, "prepare_srun") == ""
    files = {file.name: file.read_text() for file in tmp_path.glob("ranks.*")}
    assert files == {"ranks.0": "n0\n" * plan.placement.groups[0].tasks}


@pytest.mark.parametrize(("launcher", "line"), [("mpirun", "{} slots={}"), ("hydra", "{}:{}")])
def test_a_hostfile_is_in_the_launchers_form(tmp_path: Path, launcher: str, line: str) -> None:
    plan = planned(
        framework="mpi", batch={"launcher": launcher}, environment=environment(9, each=resources(cpu=5))
    )
    runs = list(plan.placement.tasks_per_node())
    assert (
        in_job(plan, tmp_path, 'hpcdist_write_hostfile && hpcdist_move_files && echo "$HPCDIST_HOSTFILE"')
        == f"{tmp_path}/hostfile\n"
    )
    sizes = [tasks for nodes, tasks in runs for _ in range(nodes)]
    assert (tmp_path / "hostfile").read_text() == "".join(
        f"{line.format(f'n{node}', tasks)}\n" for node, tasks in enumerate(sizes)
    )


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
    assert ("[hostfile]=" in render_job(planned(**data))) is has_one


def test_tasks_on_other_nodes_get_what_the_job_sets(tmp_path: Path) -> None:
    """By name: also what environment() sets to what the login shell had, and what setup() changes."""
    machine = site_named("testbed")
    plan = planned(
        machine,
        framework="mpi",
        batch={"launcher": "mpirun"},
        environment=environment(1, env_vars={"SAME": "a", "OMPI_MCA_btl": "tcp"}),
    )
    line = """
    hpcdist_begin_setup
    export FROM_SETUP=1 LOGIN=changed
    hpcdist_end_setup
    environment
    prepare_mpirun
    printf '%s\\n' "${hpcdist_exports[@]}"
    """
    given = {"SAME": "a", "LOGIN": "x", "OTHER": "y", "HPCDIST_TOKEN": "secret", "HPCDIST_PORT": "20000"}
    names = [name for name in in_job(plan, tmp_path, line, **given).splitlines() if name != "-x"]
    assert {"SAME", "FROM_SETUP", "LOGIN", "PATH", "HPCDIST_PORT", "PYTHONUNBUFFERED"} <= set(names)
    assert not {"OTHER", "HPCDIST_TOKEN", "OMPI_MCA_btl"} & set(names)


@pytest.mark.parametrize(
    ("walltime", "seconds"), [("00:00:09", 9), ("1-02:03:08", 93788), ("08:09:00", 29340)]
)
def test_the_watch_of_a_local_job_reads_its_limit(tmp_path: Path, walltime: str, seconds: int) -> None:
    """It ends at once here: its script is no process."""
    plan = planned(LOCAL, run={"cmd": "true"}, batch={"walltime": walltime})
    assert f"[walltime]={walltime}" in render_job(plan)
    watch = 'kill() { declare -p seconds; exit; }; sleep() { :; }; hpcdist_watch_limit 1 "" ' + walltime
    assert re.findall(r'seconds="(\d+)"', in_job(plan, tmp_path, watch)) == [str(seconds)]


def elastic(folder: Path) -> None:
    """Write the files of an elastic job on this machine to this folder."""
    plan = planned(
        LOCAL,
        framework="horovod",
        horovod={"elastic": {}},
        environment=environment(1),
    )
    assert plan.launch.launcher == "horovodrun-elastic"
    assert in_job(plan, folder, "prepare_horovodrun-elastic") == ""


def test_an_elastic_rank_reports_how_it_ends(tmp_path: Path) -> None:
    elastic(tmp_path)
    (tmp_path / "ended").mkdir()
    failure = tmp_path / "failure"
    environ = {
        "PATH": os.environ["PATH"],
        "HPCDIST_ENDED": str(tmp_path / "ended"),
        "HPCDIST_FAILURE": str(failure),
        "HOROVOD_RANK": "1",
    }
    for code in (0, 3):
        words = ["bash", str(tmp_path / "rank.sh"), "bash", "-c", f"exit {code}"]
        assert subprocess.run(words, env=environ, check=False).returncode == code
        assert [file.name for file in (tmp_path / "ended").iterdir()] == ["well"]
    assert failure.read_text() == f"3 1 {os.uname().nodename}\n"


def test_an_elastic_job_finds_its_nodes(tmp_path: Path) -> None:
    elastic(tmp_path)
    environ = {"PATH": os.environ["PATH"], "HPCDIST_JOB_DIR": str(tmp_path)}
    for _ in range(2):
        words = ["bash", str(tmp_path / "discover.sh")]
        done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "n0:2\n", "")


@pytest.mark.parametrize("reached", [True, False])
def test_a_node_that_ssh_does_not_reach_is_the_cause_of_an_elastic_end(
    tmp_path: Path, *, reached: bool
) -> None:
    """The ranks of the first node are ended then, and so are the first to fail."""
    (tmp_path / "failure").write_text("143 0 n0\n")
    line = """
    ssh() { [[ "$*" == *" n0 true" ]] || REACHED; }
    hpcdist_nodes=(n0 n1) hpcdist_code=1
    hpcdist_find_cause 2>&1
    echo "$hpcdist_code"
    """.replace("REACHED", str(reached).lower())
    plan = planned(LOCAL, framework="horovod", horovod={"elastic": {}}, environment=environment(1))
    said = in_job(plan, tmp_path, line, HPCDIST_FAILURE=str(tmp_path / "failure"))
    here = os.uname().nodename
    assert said == (
        "hpcdist: rank 0 on n0 was the first to end, killed by signal TERM\n143\n"
        if reached
        else f"hpcdist: {here} cannot reach n1 by ssh, by which horovodrun starts ranks there; "
        "let `ssh NODE true` work without a password, if the nodes are not down\n1\n"
    )


def test_a_task_wrapper_that_could_not_be_made_is_no_empty_one(tmp_path: Path) -> None:
    """An empty one would end well, and the run would have completed without its program."""
    killed = "hpcdist_task_text() { kill -KILL $BASHPID; }; (hpcdist_write_task 2>&1 >/dev/null); echo $?"
    said = in_job(planned(), tmp_path, killed, HPCDIST_RUN_DIR=str(tmp_path))
    assert (said.splitlines()[-1], list(tmp_path.glob("task.sh*"))) == ("86", [])


@pytest.mark.parametrize(("why", "idle"), [("failure", "2"), ("timeout", "2"), ("preempt", "1")])
def test_an_attempt_that_had_to_make_room_counts_neither_way(tmp_path: Path, why: str, idle: str) -> None:
    for name in ("checkpoints", "outputs", "tracking", "attempts"):
        (tmp_path / name).mkdir()
    (tmp_path / "attempts" / "0.idle").write_text("1\n")
    (tmp_path / "attempts" / "1").touch()
    line = (
        f"hpcdist_attempts={tmp_path}/attempts HPCDIST_ATTEMPT=1 hpcdist_first=0 hpcdist_why={why}; "
        'hpcdist_count_idle; echo "$hpcdist_idle"'
    )
    folders = {f"HPCDIST_{name.upper()}": str(tmp_path / name) for name in ("checkpoints", "outputs")}
    assert in_job(planned(), tmp_path, line, HPCDIST_RUN_DIR=str(tmp_path), **folders) == f"{idle}\n"
