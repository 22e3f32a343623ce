"""What the scripts do, by a real bash: tasks against the plan, hostile values against quoting."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.base.errors import RenderError
from hpcdist.base.resources import template_folders
from hpcdist.plan.model import Plan
from hpcdist.plan.values import DEFAULT, Variable
from hpcdist.planner.placement import ReplicaGroup, by_node, place
from hpcdist.script.renderer import render
from hpcdist.testing.contract import altered
from tests.experiments import environment, resources
from tests.planner.test_placement import jobs
from tests.plans import LOCAL, changed, planned
from tests.script import jobs as submitted
from tests.script.jobs import BASH, ONE_PROCESS
from tests.sites import shipped_site, site
from tests.tasks import told, variables_in
from tests.tiers import examples
from tests.wording import Wording

SLOW = examples(60)

# --- Tasks and the plan agree


@SLOW
@given(data=st.data(), crowds=jobs(), spread=st.booleans())
def test_a_task_that_starts_processes_knows_how_many(
    tmp_path: Path, data: st.DataObject, crowds: list[ReplicaGroup], *, spread: bool
) -> None:
    placement = by_node(place(crowds, spread=spread))
    plan = altered(planned(), placement=placement, starts_processes=True)
    task = data.draw(st.sampled_from(list(placement.tasks)))
    [variables] = told(plan, tmp_path, [task], ["HPCDIST_PROCESSES"])
    assert "OMP_NUM_THREADS" not in variables
    if len({row.processes for row in placement.rows}) > 1:  # else the number is in the words
        assert variables["HPCDIST_PROCESSES"] == str(task.processes)


def test_gpus_of_the_whole_node_for_each_task(tmp_path: Path) -> None:
    section = environment(1, each=resources(cpu=1, gpu=1))
    plan = planned(framework="pytorch", batch={"gpu_visibility": "node"}, environment=section)
    each = told(plan, tmp_path, CUDA_VISIBLE_DEVICES="4,5")
    assert [variables["CUDA_VISIBLE_DEVICES"] for variables in each] == ["4,5", "4,5"]


def test_gpus_that_the_launcher_gave_stay(tmp_path: Path) -> None:
    section = environment(1, each=resources(gpu=1))
    plan = planned(shipped_site("frontier"), framework="pytorch", batch={"account": "A"}, environment=section)
    environ = {"ROCR_VISIBLE_DEVICES": "7", "CUDA_VISIBLE_DEVICES": "untouched"}
    folder = {"MIOPEN_USER_DB_PATH": str(tmp_path / "made by task_setup")}
    modules = {"LMOD_CMD": "lmod", "BASH_FUNC_module%%": "() { :; }"}
    for variables in told(plan, tmp_path, list(plan.placement.tasks), **environ, **folder, **modules):
        assert {name: variables.get(name) for name in environ} == environ


@pytest.mark.extended
@pytest.mark.parametrize(
    ("suffix", "resolve", "answer", "address"),
    [
        ("", False, "10.0.0.9 STREAM", "node0"),
        ("i", False, "10.0.0.9 STREAM", "node0i"),
        ("", True, "10.0.0.9 STREAM", "10.0.0.9"),
        ("i", True, r"127.0.1.1 STREAM\n10.0.0.9 STREAM\n10.0.0.9 DGRAM", "10.0.0.9"),
        ("i", True, "127.0.1.1 STREAM", "node0i"),
    ],
)
def test_the_address_of_a_task(
    tmp_path: Path, suffix: str, answer: str, address: str, *, resolve: bool
) -> None:
    plan = altered(planned(), suffix=suffix, by_address=resolve)
    getent = {"BASH_FUNC_getent%%": f'() {{ [[ $2 == node0{suffix} ]] && printf "{answer}\\n"; }}'}
    (variables,) = told(plan, tmp_path, [*plan.placement.tasks], ["HPCDIST_ADDRESS"], **getent)
    assert variables["HPCDIST_ADDRESS"] == address


@pytest.mark.parametrize(
    "changes",
    [
        {"SLURM_NTASKS": "3"},
        {"CUDA_VISIBLE_DEVICES": "0"},
        {"PMIX_RANK": "0"},
        {"SLURM_NODEID": "1"},
    ],
    ids=str,
)
def test_a_launcher_that_did_something_else(
    tmp_path: Path, changes: dict[str, str], wording: Wording
) -> None:
    section = environment(3, each=resources(cpu=1, gpu=1))
    section["replicas"]["per_node"] = 2
    plan = planned(framework="mpi", environment=section, run={"cmd": "echo ran"})
    (tmp_path / "srun").write_text('#!/bin/bash\nwhile [[ $1 != bash ]]; do shift; done\nexec "$@"\n')
    (tmp_path / "srun").chmod(0o755)
    environ = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_NTASKS": "4", "SLURM_PROCID": "1"}
    environ |= {"SLURM_NODEID": "0", "PMIX_RANK": "1", "CUDA_VISIBLE_DEVICES": "0,1", **changes}
    done = subprocess.run(
        [BASH],
        input=render(plan),
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (86, "")
    wording(done.stderr.replace(f" {os.uname().nodename}", " NODE"))


# --- Whatever is written arrives, byte for byte

NASTY = st.lists(
    st.sampled_from(
        ["'", '"', "$HOME", "`id`", "$(id)", "\\", "\n", "!!", "*", "~", "#", " ", "\t", "\r", "é", "\u2028",
         "😀", "{{ x }}", "{%", "COMMAND", "\nCOMMAND\n", "%s", "-n", "<<EOF", "&", "|", ";", "x"]
    ),
    max_size=6,
).map("".join)  # fmt: skip
TEXTS = NASTY | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)

CATCH = """\
#!{bash}
# Stands for the user's bash: keeps the command and the variables instead of running it.
[[ $1 == -c && $2 != "task "* ]] || exec {bash} "$@"
printf %s "$2" >caught.command
env -0 >caught.variables
"""
TRAPS = "trap 'exit $(($? ? $? : 143))' TERM INT HUP\ntrap : USR1 USR2\n"


def caught(plan: Plan, folder: Path, run_dir: Path, *, annotate: bool) -> tuple[str, dict[str, str]]:
    """Run an attempt of the job's script; return the command that bash is given, and its variables."""
    (folder / "bash").write_text(CATCH.format(bash=BASH))
    (folder / "bash").chmod(0o755)
    script = folder / "job.sh"
    script.write_text(render(plan, run_dir=str(run_dir), annotate=annotate))
    subprocess.run([BASH, "-n", script], check=True)
    done = subprocess.run(
        [BASH, script],
        env={
            "PATH": f"{folder}:{os.environ['PATH']}",
            "HPCDIST_SUPERVISED": f"{run_dir} {os.getpid()}",
        },
        capture_output=True,
        check=False,
        cwd=folder,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    command = (folder / "caught.command").read_bytes().decode()
    return command, variables_in(folder / "caught.variables")


@SLOW
@given(command=TEXTS, value=TEXTS, annotate=st.booleans())
def test_hostile_values_arrive(tmp_path: Path, command: str, value: str, *, annotate: bool) -> None:
    """The command needs a shell, whatever stands behind its first word."""
    plan = planned(ONE_PROCESS, run={"cmd": f"while {command}"}, environment={"env_vars": {"HOSTILE": value}})
    run_dir = tmp_path / 'it\'s "$HOME" `id` \\ é'
    said, variables = caught(plan, tmp_path, run_dir, annotate=annotate)
    assert said.removesuffix("\n") == f"{TRAPS}while {command}".rstrip("\n")
    assert (variables["HOSTILE"], variables["HPCDIST_RUN_DIR"]) == (value, str(run_dir))


@pytest.mark.parametrize("param", ["it's", '"$HOME" `id` \\', "a\nb é"])
def test_hostile_params_arrive_in_a_run_with_a_hostile_name(tmp_path: Path, param: str) -> None:
    folder = tmp_path / 'it\'s "$HOME" `id` \\ é'
    folder.mkdir()
    with submitted.started(folder, run={"cmd": "env -0 >told"}, params={"p": param}) as job:
        out, _ = job.communicate(timeout=60)
    assert job.returncode == 0, out
    variables = variables_in(folder / "told")
    assert json.loads(variables["POLYAXON_PARAMS"]) == {"p": param}
    assert variables["POLYAXON_RUN_OUTPUTS_PATH"] == f"{folder}/run/outputs"


@pytest.mark.parametrize("launcher", ["mpirun", "horovodrun"])
def test_hostile_values_arrive_through_launchers_that_are_not_there(tmp_path: Path, launcher: str) -> None:
    """What the launcher is given as words is what the plan says."""
    stub = tmp_path / launcher
    stub.write_text(f"#!{BASH}\nprintf '%s\\0' \"$@\" >{tmp_path}/words\nenv -0 >{tmp_path}/variables\n")
    stub.chmod(0o755)
    hostile = "while a'b\"c$HOME`id`\\\n!!"
    plan = planned(
        LOCAL,
        framework="horovod",
        batch={"launcher": launcher},
        run={"cmd": hostile},
        environment=environment(1, env_vars={"HOSTILE": hostile}),
    )
    subprocess.run(
        [BASH],
        input=render(plan),
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        cwd=tmp_path,
        text=True,
        check=True,
        capture_output=True,
    )
    words = (tmp_path / "words").read_bytes().decode().split("\0")[:-1]
    assert words[-1].rstrip("\n") == f"{TRAPS}{hostile}"
    assert variables_in(tmp_path / "variables")["HOSTILE"] == hostile


# --- What a script has


@pytest.mark.parametrize(("array", "index"), [("7%2", "7"), ("0", "0"), ("0-3%2", "")])
def test_pbs_has_no_arrays_of_one_element(array: str, index: str) -> None:
    script = render(planned(shipped_site("pbs"), batch={"array": array}))
    assert re.findall("^export PBS_ARRAY_INDEX=([0-9]+) ", script, re.MULTILINE) == [index] * bool(index)


def test_a_hostfile_for_a_line_of_task_setup() -> None:
    machine = changed(LOCAL, launcher="processes", task_setup=('export LIST="$HPCDIST_HOSTFILE"',))
    assert "export HPCDIST_HOSTFILE=" in render(planned(machine))


# --- What the writer refuses, and what it says


def test_a_name_that_no_variable_can_have(wording: Wording) -> None:
    plan = altered(planned(ONE_PROCESS), variables=(Variable(name="A B", value="1", origin=DEFAULT),))
    with pytest.raises(RenderError) as error:
        render(plan)
    wording(str(error.value))


@pytest.mark.parametrize(
    "text",
    ["{{ plan.unknown }}", "{{ plan.request.walltime }}", "{% if %}"],
)
def test_a_template_that_does_not_fit_the_plan(tmp_path: Path, text: str, wording: Wording) -> None:
    own_template(tmp_path, text)
    with pytest.raises(RenderError) as error:
        render(planned(ONE_PROCESS), folders=(tmp_path, *template_folders()))
    wording(str(error.value))


def test_ones_own_template_comes_first(tmp_path: Path) -> None:
    own_template(tmp_path, "{{ plan.identity.name }} {{ raw('$HOME') }}\n")
    plan = altered(planned(ONE_PROCESS), name="it's")
    script = render(plan, folders=(tmp_path, *template_folders()))
    assert script.endswith("\n\n'it'\"'\"'s' $HOME\n")


def own_template(folder: Path, text: str) -> None:
    """Write what stands in the place of the launch."""
    (folder / "job").mkdir()
    (folder / "job/launch.sh.j2").write_text(text)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({}, "1 task by srun, 1 node"),
        (
            {"framework": "mpi", "environment": environment(4, each=resources(cpu=8))},
            "5 tasks by srun, 3 nodes",
        ),
        (
            {"framework": "horovod", "environment": environment(1, each=resources(cpu=4, gpu=4))},
            "8 tasks by srun, 2 nodes, 8 GPUs",
        ),
        ({"environment": environment(each=resources(gpu=1))}, "1 task by srun, 1 node, 1 GPU"),
    ],
)
def test_a_summary(data: dict[str, Any], text: str) -> None:
    assert planned(**data).summary == text


# --- Plain processes on one machine

TWO_TASKS = """
echo "$HPCDIST_RANK is $$"
((HPCDIST_RANK == 0)) || {{ trap '' HUP USR1 USR2; exec sleep 60; }}
{rank_0}
"""


MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")


def started(
    tmp_path: Path, command: str, path: str = os.environ["PATH"], **data: Any
) -> subprocess.Popen[str]:
    keys = {"framework": "pytorch", "environment": environment(1)} | data
    return submitted.started(tmp_path, ONE_PROCESS, {"PATH": path}, **keys, run={"cmd": command})


def two_tasks(rank_0: str) -> str:
    """Return a command in which rank 1 sleeps while rank 0 does this."""
    return TWO_TASKS.format(rank_0=rank_0)


def pids(output: str) -> list[int]:
    return [int(line.rpartition(" ")[2]) for line in output.splitlines() if " is " in line]


def is_gone(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"


def test_a_process_that_fails_ends_the_others(tmp_path: Path) -> None:
    with started(tmp_path, two_tasks("sleep 0.3; exit 3")) as process:
        output, _ = process.communicate(timeout=50)
    assert process.returncode == 3
    assert "rank 0 on " in output
    assert "was the first to fail, with exit code 3" in output
    assert len(pids(output)) == 2
    assert all(map(is_gone, pids(output)))


KILLS_AT_ONCE = """\
#!{bash}
while [[ $1 != bash ]]; do shift; done
for rank in 0 1 2; do OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=9 "$@" & done
wait -n
code=$?
kill -KILL %1 %2 %3
exit $code
"""


@pytest.mark.extended
def test_common_start_failure_is_reported_once(tmp_path: Path) -> None:
    launcher = tmp_path / "mpirun"
    launcher.write_text(KILLS_AT_ONCE.format(bash=BASH))
    launcher.chmod(0o755)
    data = {"framework": "mpi", "environment": environment(2), "batch": {"launcher": "mpirun"}}
    with started(tmp_path, "true", path=f"{tmp_path}:{os.environ['PATH']}", **data) as process:
        output, _ = process.communicate(timeout=50)
    assert process.returncode == 86
    [failure] = (tmp_path / "run/jobs").glob("*/failure.0.0")
    text = "mpirun started 9 tasks, and 3 are needed"
    assert failure.read_text() in {f"86 {rank} {os.uname().nodename} {text}\n" for rank in range(3)}
    assert set(re.findall("hpcdist: rank .*: (.*)", output)) == {text}


@pytest.mark.skipif(not os.access(MEMORY_GROUPS, os.W_OK), reason="only root may limit memory, by cgroups 1")
def test_a_program_that_is_killed_for_lack_of_memory(tmp_path: Path) -> None:
    group = MEMORY_GROUPS / f"hpcdist-{os.getpid()}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text("67108864")
    try:
        submitted.write(
            tmp_path / "run", planned(ONE_PROCESS, run={"cmd": "python3 -c 'b\"x\" * (1 << 28)'"})
        )
        enter = f"echo $$ >{group}/cgroup.procs && exec bash {tmp_path}/run/job.sh"
        done = subprocess.run(["bash", "-c", enter], capture_output=True, text=True, check=False)
    finally:
        group.rmdir()
    assert done.returncode == 137
    why = "the kernel killed a process for lack of memory (exit code 137)"
    assert f"hpcdist: rank 0 on {os.uname().nodename}: {why}" in done.stderr


def test_no_launcher_hides_that_a_task_did_not_begin(tmp_path: Path) -> None:
    launcher = tmp_path / "mpirun"
    launcher.write_text(
        '#!/bin/bash\nexport OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=9\n"${@: -3}"; exit 0\n'
    )
    launcher.chmod(0o755)
    data = {"framework": "mpi", "environment": environment(2), "batch": {"launcher": "mpirun"}}
    with started(tmp_path, "touch ran", path=f"{tmp_path}:{os.environ['PATH']}", **data) as job:
        out, _ = job.communicate(timeout=60)
    assert job.returncode == 86, out
    assert "mpirun started 9 tasks, and 3 are needed" in out


@pytest.mark.parametrize("name", ["TERM", "HUP", "USR1", "USR2"])
def test_signals_reach_every_process(tmp_path: Path, name: str) -> None:
    rank_0 = f"trap 'echo heard; exit 4' {name}; echo ready; while :; do sleep 0.1; done"
    with started(tmp_path, two_tasks(rank_0)) as process:
        output = ""
        assert process.stdout
        while output.count(" is ") < 2 or "ready" not in output:
            output += process.stdout.readline()
        process.send_signal(signal.Signals[f"SIG{name}"])
        rest, _ = process.communicate(timeout=50)
    assert "0: heard" in rest
    assert process.returncode != 0
    assert all(map(is_gone, pids(output)))


def test_a_launcher_with_a_code_of_its_own_for_what_was_ended(tmp_path: Path) -> None:
    launcher = tmp_path / "mpirun"
    launcher.write_text(f"#!{BASH}\ntrap 'exit 1' TERM\necho ready\nwhile :; do sleep 0.1; done\n")
    launcher.chmod(0o755)
    data = {"batch": {"launcher": "mpirun"}, "environment": {**environment(1), "max_restarts": 3}}
    path = f"{tmp_path}:{os.environ['PATH']}"
    with started(tmp_path, "true", path=path, **data) as process:
        assert process.stdout
        output = "".join(iter(process.stdout.readline, "ready\n"))
        process.send_signal(signal.SIGTERM)
        output += process.communicate(timeout=50)[0]
    assert process.returncode == 143
    assert "restart" not in output


def test_terminated_job_is_not_retried(tmp_path: Path) -> None:
    command = "trap 'exit 1' TERM; echo ready; while :; do sleep 0.1; done"
    with started(tmp_path, command, environment=environment(max_restarts=3), framework="mpi") as process:
        assert process.stdout
        output = "".join(iter(process.stdout.readline, "ready\n"))
        process.send_signal(signal.SIGTERM)
        output += process.communicate(timeout=50)[0]
    assert process.returncode == 143
    assert "restart" not in output


def test_a_process_that_is_killed(tmp_path: Path) -> None:
    with started(tmp_path, two_tasks("exit 0")) as process:
        assert process.stdout
        pid = 0
        while not pid:
            line = process.stdout.readline()
            pid = int(line.split()[-1]) if line.startswith("1: 1 is ") else 0
        os.kill(pid, signal.SIGKILL)
        output, _ = process.communicate(timeout=50)
    assert process.returncode == 137
    assert "rank 1 on " in output


SERVERS = """
echo "$HPCDIST_RANK is $$"
case $DMLC_ROLE$HPCDIST_INDEX in
worker0) {worker} ;;
worker1) sleep 1.5; echo "the last worker"; sleep 1 ;;
*) exec sleep 60 ;;
esac
"""
WITH_SERVERS: dict[str, Any] = {"framework": "mxnet", "environment": environment(2, ps=1)}


def test_servers_are_ended_when_all_workers_have_ended_well(tmp_path: Path) -> None:
    with started(tmp_path, SERVERS.format(worker="exit 0"), **WITH_SERVERS) as process:
        output = ""
        assert process.stdout
        for line in process.stdout:
            output += line
        assert process.wait(timeout=50) == 0
    assert "2: the last worker" in output.splitlines()
    assert len(pids(output)) == 4
    assert all(map(is_gone, pids(output)))


def test_a_worker_that_fails_ends_the_job_with_its_exit_code(tmp_path: Path) -> None:
    with started(tmp_path, SERVERS.format(worker="sleep 0.5; exit 3"), **WITH_SERVERS) as process:
        output, _ = process.communicate(timeout=40)
    assert process.returncode == 3
    assert "rank 1 on " in output
    assert "was the first to fail, with exit code 3" in output
    assert "ended well" not in output
    assert all(map(is_gone, pids(output)))


def test_each_task_runs_the_lines_of_the_site(tmp_path: Path) -> None:
    machine = site(task_setup=['export FROM_SITE="rank $HPCDIST_RANK"'])
    plan = planned(machine, environment=environment(1, each=resources(cpu=1)), framework="mpi")
    assert [variables["FROM_SITE"] for variables in told(plan, tmp_path)] == ["rank 0", "rank 1"]
