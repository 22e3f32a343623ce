"""The plain script: each task is told its place, values arrive byte for byte, and nothing else is in it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.base.resources import template_folders
from hpcdist.experiment.shell_words import with_start
from hpcdist.plan.model import Plan
from hpcdist.plan.placement import Task
from hpcdist.plan.values import DEFAULT, Variable, Word
from hpcdist.planner.placement import ReplicaGroup, by_node, place
from hpcdist.script.renderer import render, render_setup
from hpcdist.testing.contract import altered
from tests.docs.pages import DOCS
from tests.experiments import environment, resources
from tests.layers.containers.sites import boxed, two_tasks
from tests.planner.test_placement import jobs
from tests.plans import LOCAL, changed, planned
from tests.tasks import DEVICES, variables_in
from tests.tiers import examples

SRUN: Final = """\
#!/bin/bash
# Stands for srun, and was composed from srun(1): it starts the tasks that are asked for, one after the other.
code=0
for ((SLURM_PROCID = 0; SLURM_PROCID < SLURM_NTASKS; SLURM_PROCID++)); do
  read -r SLURM_NODEID SLURMD_NODENAME
  export SLURM_PROCID SLURM_NODEID SLURMD_NODENAME PMIX_RANK=$SLURM_PROCID
  while [[ $1 != bash ]]; do shift; done
  [[ " ${CHOSEN-$SLURM_PROCID} " != *" $SLURM_PROCID "* ]] || "$@" </dev/null || code=$?
done <"$FOLDER/places"
exit "$code"
"""
SCONTROL: Final = '#!/bin/bash\nprintf "%s\\n" ${3//,/ }\n'


def run(
    plan: Plan, folder: Path, environ: Mapping[str, str] | None = None, places: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a script on nodes that are called node0, node1, ..., by the stand-in of srun."""
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    planned_places = (f"{task.node} node{task.node}\n" for task in plan.placement.tasks)
    (folder / "places").write_text(places or "".join(planned_places))
    names = [f"node{node}" for node in range(plan.placement.nodes)]
    return subprocess.run(
        ["bash"],
        input=render(plan),
        cwd=folder,
        env={
            "PATH": f"{folder}:{os.environ['PATH']}",
            "FOLDER": str(folder),
            "SLURM_JOB_ID": "7",
            "SLURM_JOB_NODELIST": ",".join(names),
            "SLURM_JOB_NUM_NODES": str(len(names)),
            "SLURM_NTASKS": str(plan.placement.size),
            "CUDA_VISIBLE_DEVICES": ",".join(DEVICES),
            **(environ or {}),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def told(plan: Plan, folder: Path, tasks: Sequence[Task], **environ: str) -> list[dict[str, str]]:
    """Return the variables of these tasks."""
    done = run(plan, folder, environ={"CHOSEN": " ".join(str(task.rank) for task in tasks), **environ})
    assert (done.returncode, done.stderr) == (0, "")
    return [variables_in(folder / f"told.{task.rank}") for task in tasks]


TELLS: Final = (
    'env -0 >"told.$HPCDIST_RANK"; : "$HPCDIST_ROLE" "$HPCDIST_GPUS" "$HPCDIST_NODES" "$HPCDIST_ADDRESS"'
)


def expected_of(plan: Plan, task: Task) -> dict[str, str | None]:
    sizes = [tasks for nodes, tasks in plan.placement.tasks_per_node() for _ in range(nodes)]
    has_gpus = any(group.gpus for group in plan.placement.groups)
    return {
        "HPCDIST_RANK": str(task.rank),
        "HPCDIST_SIZE": str(plan.placement.size),
        "HPCDIST_ROLE": task.role,
        "HPCDIST_INDEX": str(task.index),
        "HPCDIST_NODE": str(task.node),
        "HPCDIST_NODES": str(plan.placement.nodes),
        "HPCDIST_ADDRESS": f"node{task.node}",
        "HPCDIST_LOCAL_RANK": str(task.local_rank),
        "HPCDIST_LOCAL_SIZE": str(sizes[task.node]),
        "HPCDIST_GPUS": ",".join(map(str, range(len(task.gpus)))) if has_gpus else None,
        "OMP_NUM_THREADS": str(len(task.cpus)),
        "CUDA_VISIBLE_DEVICES": ",".join(DEVICES[gpu] for gpu in task.gpus)
        if has_gpus
        else ",".join(DEVICES),
    }


@examples(60)
@given(data=st.data(), crowds=jobs(), spread=st.booleans(), a_node=st.booleans())
def test_each_task_finds_its_place_in_the_plan(
    tmp_path: Path, data: st.DataObject, crowds: list[ReplicaGroup], *, spread: bool, a_node: bool
) -> None:
    placement = by_node(place(crowds, spread=spread)) if a_node else place(crowds, spread=spread)
    plan = altered(planned(run={"cmd": TELLS}), placement=placement)
    chosen = data.draw(
        st.lists(
            st.sampled_from(list(placement.tasks)), min_size=1, max_size=6, unique_by=lambda task: task.rank
        )
    )
    for task, variables in zip(chosen, told(plan, tmp_path, chosen), strict=True):
        expected = expected_of(plan, task)
        assert {name: variables.get(name) for name in expected} == expected


NASTY: Final = st.lists(
    st.sampled_from(
        ["'", '"', "$HOME", "`id`", "$(id)", "\\", "\n", "!!", "*", "~", "#", " ", "\t", "\r", "é", "\u2028",
         "😀", "{{ x }}", "{%", "TASK_WRAPPER", "\nTASK_WRAPPER\n", "%s", "-n", "<<EOF", "&", "|", ";", "x"]
    ),
    max_size=6,
).map("".join)  # fmt: skip
TEXTS: Final = NASTY | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)

SAYS: Final = """\
import json, os, sys
json.dump([sys.argv[2:], {name: os.environ[name] for name in sys.argv[1].split()}], open("got", "w"))
"""


@examples(60)
@given(
    values=st.dictionaries(st.from_regex(r"V[A-Z]{0,3}", fullmatch=True), TEXTS, max_size=3),
    words=st.lists(TEXTS, max_size=3),
)
def test_values_and_words_arrive_byte_for_byte(
    tmp_path: Path, values: dict[str, str], words: list[str]
) -> None:
    command = shlex.join([sys.executable, "-c", SAYS, " ".join(values), *words])
    done = run(planned(run={"cmd": command}, environment={"env_vars": values}), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "got").read_text()) == [words, values]


@pytest.mark.parametrize("setup", ["", ": 'a\nb'\nexport PATH=$PATH\n. /dev/null\n", "cd . && "])
def test_words_arrive_behind_what_starts_the_processes(tmp_path: Path, setup: str) -> None:
    (tmp_path / "torchrun").write_text('#!/bin/bash\nwhile [[ $1 == --* ]]; do shift; done\nexec "$@"\n')
    (tmp_path / "torchrun").chmod(0o755)
    nasty = ["it's", "a\n  b\n", "$HOME `id`", "\\", "}"]
    command = setup + shlex.join([sys.executable, "-c", SAYS, "", *nasty])
    keys: dict[str, Any] = {"framework": "pytorch", "pytorch": {"launch": "torchrun"}}
    done = run(planned(run={"cmd": command}, **keys), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "got").read_text()) == [nasty, {}]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"SLURM_JOB_NODELIST": "node0,node1,node2"}, "this job has 3 nodes, and 2 are needed"),
        ({"SLURM_NTASKS": "3"}, "srun started 3 tasks, and 4 are needed"),
        (
            {"CUDA_VISIBLE_DEVICES": "0"},
            "it sees 1 GPUs (CUDA_VISIBLE_DEVICES), and 2 are needed",
        ),
    ],
)
def test_another_allocation_is_refused(tmp_path: Path, changes: dict[str, str], says: str) -> None:
    section = environment(3, each=resources(cpu=1, gpu=1))
    section["replicas"]["per_node"] = 2
    plan = planned(framework="pytorch", environment=section, run={"cmd": "true"})
    done = run(plan, tmp_path, environ=changes)
    assert (done.returncode, says in done.stderr) == (86, True), done.stderr


def test_a_task_on_another_node_is_refused(tmp_path: Path) -> None:
    plan = planned(environment={"replicas": {"n_workers": 1, "per_node": 1}}, run={"cmd": "echo ran"})
    done = run(plan, tmp_path, places="1 node1\n0 node0\n")
    assert (done.returncode, done.stdout) == (86, "")
    assert "it is on node 1 of the job, and belongs on 0" in done.stderr


def test_a_task_knows_the_name_of_its_own_node(tmp_path: Path) -> None:
    section = {"replicas": {"n_workers": 1, "per_node": 1}}
    plan = planned(environment=section, run={"cmd": TELLS})
    for variables in told(plan, tmp_path, [*plan.placement.tasks], HOSTNAME="first"):
        assert variables["HOSTNAME"] == os.uname().nodename


def test_a_variable_that_bash_expands_may_name_another(tmp_path: Path) -> None:
    plan = planned(run={"cmd": TELLS})
    more = (
        Variable(name="A", value="x", origin=DEFAULT),
        Variable(name="B", value="$A/y", origin=DEFAULT, shell=True),  # noqa: S604 - starts no process
    )
    own = msgspec.structs.replace(plan.environment, variables=more)
    [variables] = told(msgspec.structs.replace(plan, environment=own), tmp_path, [*plan.placement.tasks])
    assert variables["B"] == "x/y"


def test_strange_options_of_the_login_shell(tmp_path: Path) -> None:
    plan = planned(
        environment={"replicas": {"n_workers": 1, "per_node": 1}}, run={"cmd": "echo $HPCDIST_RANK [a-z]"}
    )
    options = {"SHELLOPTS": "braceexpand:errexit:hashall:interactive-comments:noglob:nounset:pipefail"}
    (tmp_path / "x").touch()
    done = run(plan, tmp_path, environ=options)
    assert (done.returncode, done.stdout) == (0, "0 x\n1 x\n"), done.stderr


# --- Only what this plan needs

KINDS: Final[Mapping[str, tuple[int, dict[str, Any]]]] = {
    "srun": (60, {"framework": "horovod"}),
    "torchrun": (70, {"framework": "pytorch", "pytorch": {"launch": "torchrun"}}),
    "mpirun": (75, {"framework": "horovod", "batch": {"launcher": "mpirun"}}),
    "horovodrun": (75, {"framework": "horovod", "batch": {"launcher": "horovodrun"}}),
    "uneven": (110, {"framework": "pytorch", "environment": environment(4, each=resources(cpu=1, gpu=1))}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_script_is_short(kind: str) -> None:
    most, data = KINDS[kind]
    more = {"environment": {"replicas": {"n_workers": 3, "per_node": 2}}} | data
    script = render(planned(run={"cmd": "python train.py --lr=0.1"}, **more))
    lines = script.splitlines()
    assert len(lines) <= most
    assert len(script) <= 4096
    assert [line for line in lines if len(line) > 120] == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_function_is_there_that_is_not_called(kind: str) -> None:
    script = render(planned(run={"cmd": "python train.py"}, **KINDS[kind][1]))
    for name in re.findall(r"^ *(\w+)\(\) [{(]", script, re.MULTILINE):
        assert len(re.findall(rf"(?<![\w$-]){name}\b", script)) > 1, name


ONLY_SUBMITTED: Final = {
    *("EXIT_CODE", "TRACKING", "PIDS", "PYTHON", "TASK_NODES", "STAGE"),
    *("TRIAL", "STOP_AT", "POLICIES", "LAUNCH", "SEED"),
}
"""Variables of what only `submit` does, and of plans that have more than tasks."""


def test_each_variable_that_a_command_names_is_set() -> None:
    page = (DOCS / "reference/variables.md").read_text().partition("\n## Variables of tasks\n")[2]
    names = [*dict.fromkeys(re.findall(r"`HPCDIST_([A-Z_]+)`", page.partition("\n## ")[0]))]
    assert len(names) > 20
    for count in (1, 4):
        section = environment(count, each=resources(cpu=1, gpu=1))
        for name in names:
            plan = planned(run={"cmd": f"echo $HPCDIST_{name}"}, framework="pytorch", environment=section)
            script = render(plan)
            assert (f"HPCDIST_{name}=" in script) or name in ONLY_SUBMITTED, (name, script)


def test_the_steps_have_what_they_name() -> None:
    plan = planned(run={"cmd": "a", "beside": [{"cmd": "serve $HPCDIST_PORT"}]}, framework="mpi")
    assert "HPCDIST_PORT=" in render_setup(plan)
    assert "HPCDIST_PORT=" not in render(plan)


def test_a_script_of_many_tasks_is_as_long_as_one_of_few() -> None:
    few, many = (
        render(planned(environment={"replicas": {"n_workers": count - 1, "per_node": 4}}, run={"cmd": "a"}))
        for count in (8, 16)
    )
    assert len(few.splitlines()) == len(many.splitlines())


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        ("echo $HPCDIST_RANK", 0, ["0: 0", "1: 1"]),
        ("sh -c 'exit $((3 * HPCDIST_RANK))'", 3, []),
        ("echo a | cat", 0, ["0: a", "1: a"]),
        ("kill -KILL $$", 137, []),
    ],
)
def test_processes_of_this_machine(tmp_path: Path, command: str, code: int, says: list[str]) -> None:
    one = changed(LOCAL, launcher="processes")
    plan = planned(one, framework="pytorch", environment={"replicas": {"n_workers": 1}}, run={"cmd": command})
    done = run(plan, tmp_path)
    said = [
        line for line in done.stdout.splitlines() if not re.search("Killed|Terminated", line)
    ]  # bash's own
    assert (done.returncode, sorted(said)) == (code, says), done.stderr


# --- What only a run has: trials, shells, and files of the run

SEARCH: Final[Mapping[str, Any]] = {"hptuning": {"concurrency": 1, "matrix": {"lr": {"values": [1, 2]}}}}
ROW: Final = {"HPCDIST_TRIAL": "2", "HPCDIST_VARIABLES": "export LR='it'\\''s 2' POLYAXON_PARAMS={}"}
TORCHRUN: Final = '#!/bin/bash\nwhile [[ $1 == --* ]]; do shift; done\nexec "$@"\n'


def program(folder: Path, name: str, text: str) -> None:
    """Write a program that the script finds before others."""
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def ran(folder: Path) -> dict[str, dict[str, str]]:
    """Return the variables of each task, or trial, that has written them, by the names of their files."""
    return {file.name: variables_in(file) for file in sorted(folder.glob("told.*"))}


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        ('env -0 >"told.$HPCDIST_RANK"', {}),
        ('A=1\n: {{ lr }} | cat\nenv -0 >"told.$HPCDIST_RANK"', {}),
        ('export PATH=$PATH && env -0 >"told.$HPCDIST_RANK"', {"pytorch": {"launch": "torchrun"}}),
        ('. /dev/null\n: a | cat\nenv -0 >"told.$HPCDIST_RANK"', {"pytorch": {"launch": "torchrun"}}),
    ],
)
def test_a_trial_has_the_program_and_the_variables_of_its_row(
    tmp_path: Path, command: str, keys: dict[str, Any]
) -> None:
    program(tmp_path, "torchrun", TORCHRUN)
    one = {"env_vars": {"LR": "1", "C": "c"}, "replicas": {"n_workers": 1, "per_node": 1}}
    made = with_start(command) if keys else command
    plan = planned(run={"cmd": made}, framework="pytorch", environment=one, **SEARCH, **keys)
    own = {"HPCDIST_PROGRAM": made.replace("env -0", "D=d env -0"), **ROW}
    done = run(plan, tmp_path, environ=own)
    assert (done.returncode, done.stderr) == (0, "")
    found = {name: {key: own[key] for key in ("LR", "C", "D")} for name, own in ran(tmp_path).items()}
    assert found == {name: {"LR": "it's 2", "C": "c", "D": "d"} for name in ("told.0", "told.1")}


def test_by_hand_a_script_of_all_trials_says_who_starts_them(tmp_path: Path) -> None:
    done = run(planned(run={"cmd": "true"}, **SEARCH), tmp_path)
    assert (done.returncode, "`hpcdist render --trial N`" in done.stderr.replace("'", "`")) == (86, True)


WORKER: Final = """\
import os, subprocess, sys
for trial in "12":
    environ = dict(os.environ, HPCDIST_PROGRAM='env -0 >"told.%s.$HPCDIST_SIZE"' % trial, HPCDIST_TRIAL=trial)
    environ["HPCDIST_VARIABLES"] = "export LR=%s.%s" % (environ["HPCDIST_RANK"], trial)
    subprocess.check_call(["bash", "-c", sys.argv[1]], env=environ)
"""


@pytest.mark.parametrize("keys", [{}, {"pytorch": {"launch": "torchrun"}}])
def test_a_packed_trial_is_a_world_of_its_own(tmp_path: Path, keys: dict[str, Any]) -> None:
    program(tmp_path, "torchrun", TORCHRUN)
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "packed.py").write_text(WORKER)
    search: dict[str, Any] = {"hptuning": {"concurrency": 2, "matrix": {"lr": {"values": [1, 2]}}}}
    own = {"resources": {"gpu": {"requests": 1}}, "env_vars": {"LR": "1"}}
    plan = planned(
        run={"cmd": "true"}, framework="pytorch", environment=own, batch={"pack": True}, **search, **keys
    )
    given = {"HPCDIST_PYTHON": sys.executable, "HPCDIST_RUN_DIR": str(tmp_path), "CHOSEN": "1"}
    done = run(plan, tmp_path, environ=given)
    assert (done.returncode, done.stderr) == (0, "")
    port = str(20000 + 7 % 375 * 32 + 16)
    expected = {
        "HPCDIST_RANK": "0",
        "HPCDIST_SIZE": "1",
        "HPCDIST_LOCAL_RANK": "0",
        "CUDA_VISIBLE_DEVICES": DEVICES[1],
    }
    expected |= {} if keys else {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "node0", "MASTER_PORT": port}
    assert {
        name: {key: found[key] for key in ("LR", *expected)} for name, found in ran(tmp_path).items()
    } == {f"told.{trial}.1": {"LR": f"1.{trial}", **expected} for trial in "12"}


def test_ray_needs_a_file_of_its_run(tmp_path: Path) -> None:
    each = {"resources": {"cpu": {"requests": 2}}, "replicas": {"n_workers": 1, "per_node": 1}}
    plan = planned(framework="ray", environment=each, run={"cmd": "python a.py --b"})
    done = run(plan, tmp_path)
    assert (done.returncode, "only 'hpcdist submit' makes the run directory" in done.stderr) == (86, True)
    (tmp_path / "runtime" / "python").mkdir(parents=True)
    (tmp_path / "runtime" / "python" / "hpcdist_ray.py").write_text(SAYS.replace("sys.argv[1]", '"X"'))
    program(tmp_path, "getent", '#!/bin/bash\necho "10.0.0.${2#node} STREAM"\n')
    names = " ".join(
        f"HPCDIST_{name}" for name in ("NODE", "HEAD_ADDRESS", "ADDRESS", "CPUS", "JOB_DIR", "FAILURE")
    )
    (tmp_path / "runtime" / "python" / "hpcdist_ray.py").write_text(SAYS.replace("sys.argv[1]", repr(names)))
    done = run(plan, tmp_path, environ={"HPCDIST_RUN_DIR": str(tmp_path), "CHOSEN": "1"})
    assert (done.returncode, done.stderr) == (0, "")
    words, variables = json.loads((tmp_path / "got").read_text())
    assert words[words.index("--") :] == ["--", "python", "a.py", "--b"]
    assert [*variables.values()] == ["1", "10.0.0.0", "10.0.0.1", "1", str(tmp_path), f"{tmp_path}/failure.7"]


HOROVODRUN: Final = """\
#!/bin/bash
# Stands for an elastic horovodrun: it asks for the nodes, and starts a rank on each.
while [[ $1 == --* || $1 == -np ]]; do
  [[ $1 != --host-discovery-script ]] || discover=$2
  [[ $1 == --gloo ]] || shift
  shift
done
HOROVOD_RANK=0
for node in $(sh -c "$discover"); do echo "$node" && HOROVOD_RANK=$((HOROVOD_RANK++)) "$@"; done
"""


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("echo b", {"alive": "node0:1\nnode1:1\n", "well": ""}),
        ("a() { echo b; }\na | cat\n", {"alive": "node0:1\nnode1:1\n", "well": ""}),
        ("sh -c 'echo b; exit 3'", {"alive": "node0:1\nnode1:1\n"}),
    ],
)
def test_ranks_of_elastic_horovod_record_their_ends(
    tmp_path: Path, command: str, told: dict[str, str]
) -> None:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "elastic.py").write_text(
        (template_folders()[-1] / "runtime" / "elastic.py").read_text()
    )
    program(tmp_path, "horovodrun", HOROVODRUN)
    program(tmp_path, "squeue", "#!/bin/bash\necho node0,node1,node2\n")
    environ = {"HPCDIST_RUN_DIR": str(tmp_path), "HPCDIST_FAILURE": f"{tmp_path}/failure.0.1"}
    one = {"replicas": {"n_workers": 1, "per_node": 1}}
    plan = planned(
        framework="horovod", horovod={"elastic": {"min_np": 1}}, environment=one, run={"cmd": command}
    )
    done = run(plan, tmp_path, environ=environ)
    assert (done.stdout, done.stderr) == ("node0:1\nb\nnode1:1\nb\n", "")
    kept = {file.name: file.read_text() for file in (tmp_path / "ended.0.1").iterdir()}
    assert {name: kept[name] for name in kept if name in ("alive", "well")} == told
    failure = tmp_path / "failure.0.1"
    assert failure.exists() == (done.returncode == 3)
    assert not failure.exists() or failure.read_text() == f"3 0 {os.uname().nodename}\n"


def test_a_shell_launches_the_program_and_others(tmp_path: Path) -> None:
    one = {"replicas": {"n_workers": 1, "per_node": 1}}
    plan = planned(run={"cmd": "echo ran $HPCDIST_RANK $A | cat"}, environment=one)
    script = 'A=x launch; launch sh -c "exit 3"; echo "code $?"; launch printenv HPCDIST_ROLE; exit 4'
    shell = tuple(Word(text=text, origin=DEFAULT) for text in ("bash", "-c", script))
    places = {"JOB_DIR": tmp_path, "TRACKING": tmp_path / "t.0", "FAILURE": tmp_path / "failure.0.0"}
    environ = {f"HPCDIST_{name}": str(path) for name, path in places.items()}
    done = run(msgspec.structs.replace(plan, shell=shell), tmp_path, environ=environ)
    assert (done.returncode, done.stderr) == (4, "")
    assert done.stdout.splitlines() == ["ran 0 x", "ran 1 x", "code 3", "master", "worker"]


MANY: Final = """\
#!/bin/bash
# Stands for a launcher that starts all tasks at once: the first to fail, or TERM, ends all.
while [[ $1 != bash ]]; do shift; done
set -m
for ((RANK = 0; RANK < 4; RANK++)); do
  OMPI_COMM_WORLD_RANK=$RANK OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=$RANK "$@" </dev/null &
  pids+=("$!")
done
end() { code=${code:-$1} && kill -s TERM -- "${pids[@]/#/-}" 2>/dev/null; }
trap 'end 143' TERM
while [[ $(jobs -rp) ]]; do wait -n || end "$?"; done
exit "${code:-0}"
"""
SERVES: Final = """\
case $HPCDIST_ROLE in
ps) while :; do sleep 0.1; done ;;
master) trap 'echo saved; exit 0' TERM; {} ;;
worker) sleep 0.5; exit $((HPCDIST_INDEX * {})) ;;
esac
"""


@pytest.mark.parametrize(
    ("ends_with", "master", "code", "says"),
    [
        ("workers", "true", 0, "hpcdist: master and worker ended well; ending those that served\n"),
        ("workers", "true", 5, ""),
        ("master", "while :; do sleep 0.1; done", 6, "saved\n"),
    ],
)
def test_a_job_with_servers_under_one_launch_is_over_with_the_others(
    tmp_path: Path, ends_with: str, master: str, code: int, says: str
) -> None:
    program(tmp_path, "mpirun", MANY)
    section = {"replicas": {"n_workers": 2, "n_ps": 1}}
    plan = planned(
        framework="tensorflow",
        tensorflow={"ends_with": ends_with},
        environment=section,
        run={"cmd": SERVES.format(master, code)},
        batch={"launcher": "mpirun"},
    )
    done = run(msgspec.structs.replace(plan, role_launches=()), tmp_path)
    said = re.sub(r"(?m)^.*Terminated\n", "", done.stdout)
    assert (done.returncode, re.sub(r"(?m)^\d: ", "", said)) == (code, says), done.stderr


def test_an_mpirun_for_each_role_shares_the_nodes_with_the_others() -> None:
    """Its daemons are a step; Slurm 22.05 was seen to let a second step of a node wait for ever without."""
    section = {"replicas": {"n_workers": 1, "n_ps": 1}}
    by_role, alone = (
        planned(framework=framework, environment=section, run={"cmd": "a"}, batch={"launcher": "mpirun"})
        for framework in ("mxnet", "mpi")
    )
    assert ("SLURM_OVERLAP=1" in render(by_role), "SLURM_OVERLAP" in render(alone)) == (True, False)


def test_the_shell_of_a_command_is_its_own(tmp_path: Path) -> None:
    program(tmp_path, "mpirun", MANY)
    section = {"replicas": {"n_workers": 3}}
    command = {"cmd": "[ $HPCDIST_RANK != 1 ] || kill -9 $$; sleep 60"}
    plan = planned(framework="mpi", environment=section, run=command, batch={"launcher": "mpirun"})
    done = run(plan, tmp_path)
    assert (done.returncode, "failed, with exit code 137" in done.stderr) == (137, True), done.stderr


def test_an_entrypoint_gets_the_arguments_of_its_role(tmp_path: Path) -> None:
    program(
        tmp_path,
        "apptainer",
        '#!/bin/bash\nwhile [[ $1 != *.sif ]]; do shift; done\nprintf "[%s]" "${@:2}"\necho\n',
    )
    (tmp_path / "x.sif").touch()
    args = {"master": "--lr 'a b'", "worker": "--rank=$HPCDIST_RANK | cat"}
    run_section = {"entrypoint": "image", "args": args}
    plan = two_tasks(boxed("apptainer", gpus=False), str(tmp_path / "x.sif"), None, run=run_section)
    done = run(plan, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    starts = "[/.singularity.d/runscript]"
    assert done.stdout == f"{starts}[--lr][a b]\n{starts}[--rank=1]\n"
