"""What the scripts do, by a real bash: the task wrapper against the plan, hostile values against quoting."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist import __version__
from hpcdist.errors import RenderError
from hpcdist.host.resources import template_folders
from hpcdist.plan.model import Plan
from hpcdist.plan.origin import DEFAULT
from hpcdist.plan.placement import Placement, Task
from hpcdist.plan.values import Variable
from hpcdist.planner.node_sizes import ReplicaGroup
from hpcdist.planner.placement import by_node, place
from hpcdist.script.renderer import render, render_job, runtime
from hpcdist.testing.requests import altered
from tests.experiments import environment, resources
from tests.planner.test_placement import jobs
from tests.plans import LOCAL, changed, planned
from tests.sites import shipped_site, site
from tests.tasks import DEVICES, task_wrapper, told, variables_in
from tests.tiers import examples
from tests.wording import Wording

BASH = shutil.which("bash") or "bash"
SLOW = examples(60)
ONE_PROCESS = changed(LOCAL, launcher="processes")

# --- The task wrapper and the plan agree


def expected_of(placement: Placement, task: Task) -> dict[str, str]:
    sizes = [tasks for nodes, tasks in placement.tasks_per_node() for _ in range(nodes)]
    has_gpus = any(group.gpus for group in placement.groups)
    return {
        "HPCDIST_RANK": str(task.rank),
        "HPCDIST_SIZE": str(placement.size),
        "HPCDIST_ROLE": task.role,
        "HPCDIST_INDEX": str(task.index),
        "HPCDIST_NODE": str(task.node),
        "HPCDIST_NODES": str(placement.nodes),
        "HPCDIST_ADDRESS": f"node{task.node}",
        "HPCDIST_LOCAL_RANK": str(task.local_rank),
        "HPCDIST_LOCAL_SIZE": str(sizes[task.node]),
        "CUDA_VISIBLE_DEVICES": ",".join(DEVICES[gpu] for gpu in task.gpus)
        if has_gpus
        else ",".join(DEVICES),
        "HPCDIST_CPUS": str(len(task.cpus)),
        "POLYAXON_TASK_INFO": f'{{"type": "{task.role}", "index": {task.index}}}',
    }


def found_of(variables: dict[str, str], names: Iterable[str]) -> dict[str, str | None]:
    return {name: variables.get(name) for name in names}


@SLOW
@given(data=st.data(), crowds=jobs(), spread=st.booleans(), a_node=st.booleans())
def test_each_task_finds_its_place_in_the_plan(
    tmp_path: Path, data: st.DataObject, crowds: list[ReplicaGroup], *, spread: bool, a_node: bool
) -> None:
    placement = by_node(place(crowds, spread=spread)) if a_node else place(crowds, spread=spread)
    plan = altered(planned(), placement=placement, starts_processes=a_node)
    chosen = data.draw(
        st.lists(
            st.sampled_from(list(placement.tasks)), min_size=1, max_size=6, unique_by=lambda task: task.rank
        )
    )
    for task, variables in zip(chosen, told(plan, tmp_path, chosen), strict=True):
        expected: dict[str, str | None] = {**expected_of(placement, task)}
        several = any(row.processes > 1 for row in placement.rows)
        expected["HPCDIST_PROCESSES"] = str(task.processes) if several else None
        has_gpus = any(group.gpus for group in placement.groups)
        expected["HPCDIST_GPUS"] = ",".join(map(str, range(len(task.gpus)))) if has_gpus else None
        expected["OMP_NUM_THREADS"] = None if a_node else str(len(task.cpus))
        assert found_of(variables, expected) == expected


def test_gpus_of_the_whole_node_for_each_task(tmp_path: Path) -> None:
    section = environment(1, each=resources(cpu=1, gpu=1))
    plan = planned(framework="pytorch", batch={"gpu_visibility": "node"}, environment=section)
    each = told(plan, tmp_path, CUDA_VISIBLE_DEVICES="4,5")
    assert [variables["CUDA_VISIBLE_DEVICES"] for variables in each] == ["4,5", "4,5"]


def test_a_task_knows_the_name_of_its_own_node(tmp_path: Path) -> None:
    [variables, *_] = told(planned(framework="pytorch", environment=environment(1)), tmp_path, HOSTNAME="n1")
    assert variables["HOSTNAME"] == os.uname().nodename


def test_gpus_that_the_launcher_gave_stay(tmp_path: Path) -> None:
    section = environment(1, each=resources(gpu=1))
    plan = planned(shipped_site("frontier"), framework="pytorch", batch={"account": "A"}, environment=section)
    environ = {"ROCR_VISIBLE_DEVICES": "7", "CUDA_VISIBLE_DEVICES": "untouched"}
    folder = {"MIOPEN_USER_DB_PATH": str(tmp_path / "made by task_setup")}
    for variables in told(plan, tmp_path, list(plan.placement.tasks), **environ, **folder):
        assert found_of(variables, environ) == environ


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
    (variables,) = told(plan, tmp_path, [*plan.placement.tasks], **getent)
    assert variables["HPCDIST_ADDRESS"] == address


def test_tasks_that_are_awaited_say_that_they_ended_well(tmp_path: Path) -> None:
    each = environment(2, ps=1, each=resources(cpu=1))
    plan = planned(framework="tensorflow", tensorflow={"version": "1.15"}, environment=each)
    ended = tmp_path / "ended"
    ended.mkdir()
    told(plan, tmp_path, HPCDIST_ENDED=str(ended))
    assert sorted(file.name for file in ended.iterdir()) == ["0", "1", "2"]


@pytest.mark.parametrize(
    "changes",
    [
        {"SLURM_PROCID": ""},
        {"SLURM_NTASKS": "3"},
        {"CUDA_VISIBLE_DEVICES": "0"},
        {"PMIX_RANK": "0"},
        {"NODES": "elsewhere\n"},
    ],
    ids=str,
)
def test_a_launcher_that_did_something_else(
    tmp_path: Path, changes: dict[str, str], wording: Wording
) -> None:
    plan = planned(framework="mpi", environment=environment(1, each=resources(cpu=1, gpu=1)))
    (tmp_path / "task.sh").write_text(task_wrapper(render(plan)))
    (tmp_path / "nodes").write_text(changes.pop("NODES", "localhost\n"))
    environ = {"PATH": os.environ["PATH"], "SLURM_PROCID": "1", "SLURM_NTASKS": "2", "PMIX_RANK": "1"}
    environ |= {"CUDA_VISIBLE_DEVICES": "0,1", "HPCDIST_JOB_DIR": str(tmp_path), **changes}
    failure = tmp_path / "failure"
    done = subprocess.run(
        [BASH, tmp_path / "task.sh", "true"],
        env={**environ, "HPCDIST_FAILURE": str(failure)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (86, "", "")
    told = failure.read_text()
    node = os.uname().nodename
    assert re.match(rf"86 (1|\?) {re.escape(node)} ", told)
    wording(told.replace(f" {node} ", " NODE ", 1).replace(f"this is {node},", "this is NODE,"))


# --- Whatever is written arrives, byte for byte

NASTY = st.lists(
    st.sampled_from(
        ["'", '"', "$HOME", "`id`", "$(id)", "\\", "\n", "!!", "*", "~", "#", " ", "\t", "\r", "é", "\u2028",
         "😀", "{{ x }}", "{%", "TASK_WRAPPER", "\nTASK_WRAPPER\n", "%s", "-n", "<<EOF", "&", "|", ";", "x"]
    ),
    max_size=6,
).map("".join)  # fmt: skip
TEXTS = NASTY | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)

CATCH = """\
#!{bash}
# Stands for the user's bash: keeps the command and the variables instead of running it.
[[ $1 == */command.sh ]] || exec {bash} "$@"
tail -n +3 "$1" >{folder}/command
env -0 >{folder}/variables
"""


def caught(plan: Plan, folder: Path, run_dir: Path, *, annotate: bool) -> tuple[str, dict[str, str]]:
    """Run the job's script; return the command that bash was given at its end, and its variables."""
    stubs = folder / "stubs"
    stubs.mkdir(exist_ok=True)
    (stubs / "bash").write_text(CATCH.format(bash=BASH, folder=folder))
    (stubs / "bash").chmod(0o755)
    script = folder / "job.sh"
    script.write_text(render(plan, run_dir=str(run_dir), annotate=annotate))
    shutil.rmtree(run_dir, ignore_errors=True)  # a second run of a script there is announced
    subprocess.run([BASH, "-n", script], check=True)
    done = subprocess.run(
        [BASH, script],
        env={"PATH": f"{stubs}:{os.environ['PATH']}"},
        capture_output=True,
        check=False,
        cwd=folder,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return (folder / "command").read_bytes().decode()[:-1], variables_in(folder / "variables")


@SLOW
@given(command=TEXTS, value=TEXTS, param=TEXTS, annotate=st.booleans())
def test_hostile_values_arrive(
    tmp_path: Path, command: str, value: str, param: str, *, annotate: bool
) -> None:
    plan = planned(
        ONE_PROCESS,
        run={"cmd": f"true {command}"},
        params={"p": param},
        environment={"env_vars": {"HOSTILE": value}},
    )
    run_dir = tmp_path / 'it\'s "$HOME" `id` \\ é'
    said, variables = caught(plan, tmp_path, run_dir, annotate=annotate)
    assert said == f"true {command}"
    assert variables["HOSTILE"] == value
    assert json.loads(variables["POLYAXON_PARAMS"]) == {"p": param}
    assert variables["POLYAXON_RUN_OUTPUTS_PATH"] == f"{run_dir}/outputs"


@pytest.mark.parametrize("launcher", ["mpirun", "horovodrun"])
def test_hostile_values_arrive_through_launchers_that_are_not_there(tmp_path: Path, launcher: str) -> None:
    """What the launcher is given as words is what the plan says."""
    stub = tmp_path / "stubs" / launcher
    stub.parent.mkdir()
    stub.write_text(f"#!{BASH}\nprintf '%s\\0' \"$@\" >{tmp_path}/words\nenv -0 >{tmp_path}/variables\n")
    stub.chmod(0o755)
    hostile = "a'b\"c$HOME`id`\\\n!!"
    plan = planned(
        LOCAL,
        framework="horovod",
        batch={"launcher": launcher},
        run={"cmd": hostile},
        environment=environment(1, env_vars={"HOSTILE": hostile}),
    )
    script = tmp_path / "job.sh"
    script.write_text(render(plan, run_dir=str(tmp_path / "run")))
    subprocess.run(
        [BASH, script],
        env={"PATH": f"{stub.parent}:{os.environ['PATH']}"},
        check=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    words = (tmp_path / "words").read_bytes().decode().split("\0")[:-1]
    (command,) = (tmp_path / "run" / "jobs").glob("*/command.sh")
    assert words[-2:] == ["bash", str(command)]
    assert command.read_text().split("\n", 2)[2] == f"{hostile}\n"
    assert variables_in(tmp_path / "variables")["HOSTILE"] == hostile


# --- What the writer refuses, and what it says


def test_a_name_that_no_variable_can_have(wording: Wording) -> None:
    plan = altered(planned(ONE_PROCESS), variables=(Variable(name="A B", value="1", origin=DEFAULT),))
    with pytest.raises(RenderError) as error:
        render(plan)
    wording(str(error.value))


def test_a_site_value_that_would_break_out_of_its_place() -> None:
    plan = altered(planned(environment=environment(each=resources(gpu=1))), suffix="$(id)")
    assert " [suffix]='$(id)'\n" in render_job(plan)


@pytest.mark.parametrize(
    "text",
    ["{{ plan.unknown }}", "{{ plan.request.walltime }}", "{% if %}"],
)
def test_a_template_that_does_not_fit_the_plan(tmp_path: Path, text: str, wording: Wording) -> None:
    (tmp_path / "local.sh.j2").write_text(text)
    with pytest.raises(RenderError) as error:
        render_job(planned(ONE_PROCESS), folders=[tmp_path])
    wording(str(error.value))


def test_ones_own_template_comes_first(tmp_path: Path) -> None:
    (tmp_path / "local.sh.j2").write_text("{{ plan.identity.name }} {{ raw('$HOME') }}\n")
    plan = altered(planned(ONE_PROCESS), name="it's")
    folders = (tmp_path, *template_folders())
    assert render_job(plan, folders=folders) == "'it'\"'\"'s' $HOME\n"
    assert render(plan, folders=folders) == f"'it'\"'\"'s' $HOME\n\n{runtime(folders)}"


def test_the_runtime_is_the_same_in_every_job(tmp_path: Path) -> None:
    servers = planned(framework="mxnet", environment=environment(2, ps=1))
    shared = runtime(template_folders())
    assert f"The runtime of hpcdist {__version__}: " in shared.splitlines()[0]
    for plan in (planned(), planned(ONE_PROCESS), servers):
        assert render(plan) == f"{render_job(plan)}\n{shared}"
    with pytest.raises(RenderError, match=r"there is no template runtime/main\.sh"):
        runtime([tmp_path])


def test_the_first_part_alone_runs_nothing(tmp_path: Path) -> None:
    """Nor does a script that was cut short: it must never look as if it had ended well."""
    plan = planned(ONE_PROCESS, run={"cmd": "touch ran"})
    for text in (render_job(plan), render(plan).rpartition("\nmain\n")[0]):
        done = subprocess.run([BASH], input=text, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, list(tmp_path.iterdir())) == (86, [])
        assert done.stderr == "hpcdist: this script is incomplete: its runtime is missing\n"
    before_the_program = render(plan).removesuffix("hpcdist_finish_main\n")
    done = subprocess.run(
        [BASH], input=before_the_program, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, (tmp_path / "ran").exists()) == (86, False)


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


def started(
    tmp_path: Path, command: str, path: str = os.environ["PATH"], **data: Any
) -> subprocess.Popen[str]:
    plan = planned(
        ONE_PROCESS, **{"framework": "pytorch", "environment": environment(1)} | data, run={"cmd": command}
    )
    script = tmp_path / "job.sh"
    script.write_text(render(plan, run_dir=str(tmp_path / "run")))
    # Under nohup this process ignores HUP, and bash cannot trap what was ignored when it began.
    command_line: list[str | Path] = ["env", "--default-signal=HUP", f"PATH={path}", BASH, script]
    return subprocess.Popen(
        command_line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
    )


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
exit {code}
"""


@pytest.mark.extended
@pytest.mark.parametrize("code", ["0", "$code"])
@pytest.mark.parametrize(
    "job",
    [
        {"framework": "mpi", "environment": environment(2)},
        {"framework": "tensorflow", "environment": environment(1, ps=1)},
    ],
)
def test_common_start_failure_is_reported_once(tmp_path: Path, job: dict[str, Any], code: str) -> None:
    launcher = tmp_path / "mpirun"
    launcher.write_text(KILLS_AT_ONCE.format(bash=BASH, code=code))
    launcher.chmod(0o755)
    data = job | {"batch": {"launcher": "mpirun"}}
    with started(tmp_path, "true", path=f"{tmp_path}:{os.environ['PATH']}", **data) as process:
        output, _ = process.communicate(timeout=50)
    assert process.returncode == 86
    (sentence,) = re.findall("hpcdist: rank .*", output)
    assert sentence.partition(": ")[2].partition(": ")[2] == (
        "mpirun started 9 tasks, the plan has 3; leave the counts in the script as they are, or submit the "
        "experiment again"
    )


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
    assert process.returncode == 1
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
            if "ended well" in line:
                break
        assert process.wait(timeout=50) == 0
    # A server's shell may say `Terminated` before the line by which all know why has come through.
    assert "2: the last worker" in output.splitlines()[:-1]
    assert output.endswith("\nhpcdist: worker ended well; ending those that served\n")
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
