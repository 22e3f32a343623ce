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

from hpcdist.plan.model import Plan
from hpcdist.plan.origin import DEFAULT
from hpcdist.plan.placement import Task
from hpcdist.plan.values import Variable
from hpcdist.planner.node_sizes import ReplicaGroup
from hpcdist.planner.placement import by_node, place
from hpcdist.script.plain import render_plain
from hpcdist.testing.requests import altered
from tests.docs.pages import DOCS
from tests.experiments import environment, resources
from tests.planner.test_placement import jobs
from tests.plans import LOCAL, changed, planned
from tests.script.test_renderer import TEXTS
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
        input=render_plain(plan),
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
    script = render_plain(planned(run={"cmd": "python train.py --lr=0.1"}, **more))
    lines = script.splitlines()
    assert len(lines) <= most
    assert len(script) <= 4096
    assert [line for line in lines if len(line) > 120] == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_function_is_there_that_is_not_called(kind: str) -> None:
    script = render_plain(planned(run={"cmd": "python train.py"}, **KINDS[kind][1]))
    for name in re.findall(r"^ *(\w+)\(\) [{(]", script, re.MULTILINE):
        assert len(re.findall(rf"(?<![\w$-]){name}\b", script)) > 1, name


ONLY_SUBMITTED: Final = {
    *("EXIT_CODE", "TRACKING", "PIDS", "TASK_NODES", "STAGE"),
    *("TRIAL", "STOP_AT", "POLICIES", "LAUNCH", "SEED"),
}
"""Variables of what only `submit` does, and of plans that have more than tasks."""


def test_each_variable_that_a_command_names_is_set() -> None:
    page = (DOCS / "reference/variables.md").read_text().partition("\n## Variables of every task\n")[2]
    names = [*dict.fromkeys(re.findall(r"`HPCDIST_([A-Z_]+)`", page.partition("\n## ")[0]))]
    assert len(names) > 20
    for count in (1, 4):
        section = environment(count, each=resources(cpu=1, gpu=1))
        for name in names:
            plan = planned(run={"cmd": f"echo $HPCDIST_{name}"}, framework="pytorch", environment=section)
            script = render_plain(plan)
            assert (f"HPCDIST_{name}=" in script) or name in ONLY_SUBMITTED, (name, script)


def test_a_script_of_many_tasks_is_as_long_as_one_of_few() -> None:
    few, many = (
        render_plain(
            planned(environment={"replicas": {"n_workers": count - 1, "per_node": 4}}, run={"cmd": "a"})
        )
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
