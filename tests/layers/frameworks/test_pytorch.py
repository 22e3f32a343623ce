from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hpcdist.base.errors import PlanError
from hpcdist.layers import frameworks
from hpcdist.plan.model import Plan
from hpcdist.plan.values import Origin, Variable, Word
from hpcdist.script.renderer import render
from hpcdist.site.model import Torchrun
from tests.experiments import environment, experiment, resources
from tests.plans import COMMAND, LOCAL, TESTBED, WRAPPED, changed, planned, warnings_of, words
from tests.sites import shipped_site, site
from tests.tasks import told

ORIGIN = Origin("framework", "pytorch")
TWO_GPUS = resources(cpu=8, gpu=2)
TORCHRUN = {"launch": "torchrun"}
NAMES = {
    *("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK"),
    *("GLOO_SOCKET_IFNAME", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"),
}


def of_pytorch(plan: Plan, folder: Path) -> list[dict[str, str]]:
    """Return what each task is told of the others, of its GPUs and of its threads."""
    return [
        {name: value for name, value in variables.items() if name in NAMES or name.startswith("PET_")}
        for variables in told(plan, folder)
    ]


def rank(places: str) -> dict[str, str]:
    """Return what a rank is told, as ``env://`` wants it."""
    names = "RANK WORLD_SIZE NODE_RANK LOCAL_RANK LOCAL_WORLD_SIZE CUDA_VISIBLE_DEVICES OMP_NUM_THREADS"
    shared = {"MASTER_ADDR": "node0", "MASTER_PORT": "20000", "GLOO_SOCKET_IFNAME": "eth0"}
    return shared | dict(zip(names.split(), places.split(), strict=True))


ALL = ",".join(map(str, range(100, 600)))
"""The GPUs of a node in these tests."""


# --- One task a process


def test_without_launch_a_replica_is_one_process_whatever_its_gpus(tmp_path: Path) -> None:
    plan = planned(framework="pytorch", environment=environment(2, each=TWO_GPUS))
    assert of_pytorch(plan, tmp_path) == [
        rank("0 3 0 0 2 100,101 8"),
        rank("1 3 0 0 2 102,103 8"),
        rank("2 3 1 0 1 100,101 8"),
    ]
    assert words(plan)[-2:] == WRAPPED
    assert not plan.launch.needs_pmi
    assert warnings_of(plan) == (
        "each replica is one process for its 2 GPUs; for a process a GPU write `pytorch: {launch: env}`",
    )


def test_launch_env_is_a_process_a_gpu(tmp_path: Path) -> None:
    section = environment(1, each=TWO_GPUS)
    plan = planned(framework="pytorch", pytorch={"launch": "env"}, environment=section)
    assert of_pytorch(plan, tmp_path) == [
        rank(f"0 4 0 0 4 {ALL} 4"),
        rank(f"1 4 0 1 4 {ALL} 4"),
        rank(f"2 4 0 2 4 {ALL} 4"),
        rank(f"3 4 0 3 4 {ALL} 4"),
    ]
    assert (words(plan)[-2:], warnings_of(plan)) == (WRAPPED, ())


@pytest.mark.parametrize(
    "data",
    [
        {"environment": environment(1, each=resources(cpu=4, gpu=1))},
        {"environment": environment(1, each=resources(cpu=16, gpu=4), processes_per_replica=4)},
        {"environment": environment(1, each=resources(cpu=16, gpu=4), processes_per_replica=2)},
        {"environment": environment(1, each=TWO_GPUS), "pytorch": TORCHRUN},
    ],
)
def test_no_advice_where_processes_were_counted(data: dict[str, Any]) -> None:
    assert warnings_of(planned(framework="pytorch", **data)) == ()


def test_processes_of_a_replica() -> None:
    each = environment(1, each=resources(cpu=4, gpu=4), processes_per_replica=4)
    plan = planned(framework="pytorch", environment=each)
    assert [task.gpus for task in plan.placement.tasks] == [(0,), (1,), (2,), (3,)] * 2


def test_the_interface_is_the_sites() -> None:
    found = [
        item
        for item in planned(framework="pytorch").environment.variables
        if item.name == "GLOO_SOCKET_IFNAME"
    ]
    origin = Origin("site", "testbed", "fabric.interface")
    assert found == [Variable(name="GLOO_SOCKET_IFNAME", value="eth0", origin=origin)]
    assert "GLOO_SOCKET_IFNAME" not in {
        item.name for item in planned(site(), framework="pytorch").environment.variables
    }


# --- torchrun, one a node


def torchrun_words(plan: Plan) -> list[str]:
    """Return the words between the task wrapper and the command."""
    found = words(plan)
    return found[found.index(WRAPPED[0]) + 1 : found.index(COMMAND)]


def rendezvous(nodes: int, *processes: str, program: str = "torchrun", restarts: int = 0) -> list[str]:
    return [
        program,
        f"--nnodes={nodes}",
        *processes,
        f"--rdzv-backend={'c10d' if restarts else 'static'}",
        '--rdzv-endpoint="$HPCDIST_HEAD_ADDRESS:$HPCDIST_PORT"',
        '--rdzv-id="$HPCDIST_JOB_ID"',
        f"--max-restarts={restarts}",
        "--no-python",
    ]


def test_one_torchrun_a_node_starts_a_process_a_gpu(tmp_path: Path) -> None:
    section = environment(3, each=TWO_GPUS)
    plan = planned(framework="pytorch", pytorch=TORCHRUN, environment=section)
    assert torchrun_words(plan) == rendezvous(2, "--nproc-per-node=4")
    own = {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "4", "CUDA_VISIBLE_DEVICES": "100,101,102,103"}
    assert of_pytorch(plan, tmp_path) == [
        own | {"PET_LOCAL_ADDR": "node0", "PET_NODE_RANK": "0"},
        own | {"PET_LOCAL_ADDR": "node1", "PET_NODE_RANK": "1"},
    ]


def test_what_fails_under_torchrun_is_recorded_and_ends_the_others(tmp_path: Path) -> None:
    """One that ends well is waited for: rank 0 may write a last checkpoint for minutes."""
    plan = planned(framework="pytorch", pytorch=TORCHRUN, environment=environment(3, each=TWO_GPUS))
    assert {"--kill-on-bad-exit=1", "--wait=0"} <= {*words(plan)}
    files = [
        variables["TORCHELASTIC_ERROR_FILE"].rpartition("/logs/")[2] for variables in told(plan, tmp_path)
    ]
    assert [file.partition(".")[2] for file in files] == ["0.json", "1.json"]
    goes_on = planned(
        framework="pytorch",
        pytorch=TORCHRUN,
        environment=environment(3, each=TWO_GPUS),
        batch={"kill_on_failure": False},
    )
    assert {"--kill-on-bad-exit=0", "--wait=0"} <= {*words(goes_on)}


def test_on_uneven_nodes_each_torchrun_is_told_how_many_it_starts(tmp_path: Path) -> None:
    section = environment(2, each=TWO_GPUS)
    plan = planned(framework="pytorch", pytorch=TORCHRUN, environment=section)
    assert torchrun_words(plan) == rendezvous(2)
    threads = {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "4"}
    assert of_pytorch(plan, tmp_path) == [
        threads
        | {"CUDA_VISIBLE_DEVICES": "100,101,102,103", "PET_NPROC_PER_NODE": "4"}
        | {"PET_LOCAL_ADDR": "node0", "PET_NODE_RANK": "0"},
        threads
        | {"CUDA_VISIBLE_DEVICES": "100,101", "PET_NPROC_PER_NODE": "2"}
        | {"PET_LOCAL_ADDR": "node1", "PET_NODE_RANK": "1"},
    ]


def test_torchrun_without_gpus_starts_a_process_a_replica(tmp_path: Path) -> None:
    section = environment(3, each=resources(cpu=3), processes_per_replica=2)
    plan = planned(framework="pytorch", pytorch=TORCHRUN, environment=section)
    assert torchrun_words(plan) == rendezvous(1, "--nproc-per-node=8")
    (variables,) = of_pytorch(plan, tmp_path)
    assert variables["OMP_NUM_THREADS"] == "1"


def test_restarts_are_torchruns() -> None:
    plan = planned(framework="pytorch", pytorch={**TORCHRUN, "max_restarts": 3})
    assert torchrun_words(plan) == rendezvous(1, "--nproc-per-node=1", restarts=3)
    assert plan.completion.max_restarts == 0


def test_the_torchrun_of_the_site() -> None:
    machine = changed(TESTBED, torchrun=site(torchrun={"program": "mytorchrun", "args": ["-v"]}).torchrun)
    plan = planned(machine, framework="pytorch", pytorch=TORCHRUN)
    at = words(plan).index("mytorchrun")
    assert plan.words[at] == Word(text="mytorchrun", origin=Origin("site", "testbed", "torchrun.program"))
    assert plan.words[-3] == Word(text="-v", origin=Origin("site", "testbed", "torchrun.args"))
    assert plan.words[at + 1] == Word(text="--nnodes=1", origin=ORIGIN)


def test_torchrun_jsc() -> None:
    section = environment(1, each=resources(gpu=4))
    batch = {"account": "A"}
    plan = planned(
        shipped_site("juwels-booster"),
        framework="pytorch",
        pytorch=TORCHRUN,
        batch=batch,
        environment=section,
    )
    assert torchrun_words(plan) == rendezvous(2, "--nproc-per-node=4", program="torchrun_jsc")


def test_a_site_that_advises_against_torchrun() -> None:
    advice = "site frontier advises against torchrun: all processes of a node would sit in one task"
    frontier, section = shipped_site("frontier"), environment(1, each=resources(gpu=8))
    for launch, advised in (("torchrun", True), ("env", False)):
        plan = planned(
            frontier,
            framework="pytorch",
            pytorch={"launch": launch},
            batch={"account": "A"},
            environment=section,
        )
        assert any(text.startswith(advice) for text in warnings_of(plan)) == advised


# --- The user's own torchrun


def test_the_users_own_torchrun_starts_once_a_node(tmp_path: Path) -> None:
    run = {"cmd": "torchrun --nproc_per_node=2 train.py"}
    plan = planned(framework="pytorch", run=run, environment=environment(3, each=TWO_GPUS))
    assert (plan.launch.mode, plan.placement.nodes, plan.placement.size) == ("tasks", 4, 4)
    assert [group.constraint for group in plan.placement.groups] == [None]
    assert [variables["NODE_RANK"] for variables in told(plan, tmp_path)] == ["0", "1", "2", "3"]
    assert warnings_of(plan) == (
        (
            "run.cmd: torchrun runs on each of the 4 nodes, and the line does not say how many nodes "
            "there are, on which of them it is or where they meet: each node trains on its own, or all wait "
            'at the rendezvous; write `torchrun --nproc_per_node=2 --nnodes=4 --node_rank="$HPCDIST_NODE" '
            '--master_addr="$HPCDIST_HEAD_ADDRESS" --master_port="$HPCDIST_PORT" train.py`, or the script '
            "alone with `pytorch: {launch: torchrun}`, and hpcdist starts it"
        ),
    )


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --nnodes=2 --nproc-per-node=2 --rdzv-backend=c10d --rdzv-endpoint=$MASTER_ADDR:1 t.py",
        "python -m torch.distributed.launch --nproc_per_node=2 --nnodes 1:2 --node_rank $R --master_addr=$A",
        "accelerate launch --num_processes 4 --num_machines 2 --machine_rank $R --main_process_ip $A t.py",
        "export PET_NNODES=2 PET_NODE_RANK=$R PET_MASTER_ADDR=$A PET_NPROC_PER_NODE=2\ntorchrun train.py",
        "PET_NNODES=2 PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=$A:1 torchrun --nproc-per-node 2 train.py",
    ],
)
def test_ones_own_torchrun_that_says_where_it_meets(command: str) -> None:
    section = environment(1, each=TWO_GPUS)
    assert warnings_of(planned(framework="pytorch", run={"cmd": command}, environment=section)) == ()


NO_TORCHRUN = "there is no no-torchrun; load its module, or activate the environment that has it"


def test_a_node_without_torchrun(tmp_path: Path) -> None:
    machine = changed(LOCAL, torchrun=site(torchrun={"program": "no-torchrun"}).torchrun)
    plan = planned(machine, framework="pytorch", pytorch=TORCHRUN, batch={"launcher": "processes"})
    done = subprocess.run(
        ["bash"], input=render(plan), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    node = f"hpcdist: rank 0 on {os.uname().nodename}"
    said = f"{node}: {NO_TORCHRUN}\n{node} was the first to fail, with exit code 86\n"
    assert (done.returncode, done.stdout, done.stderr) == (86, "", said)


def test_programs_in_a_container_are_not_checked_outside() -> None:
    inside = {"build": {"image": "/x.sif"}, "batch": {"account": "project_465000001"}}
    texts = [
        render(planned(shipped_site("lumi"), framework="pytorch", pytorch=TORCHRUN, **more))
        for more in (inside, {"batch": inside["batch"]})
    ]
    assert ["there is no torchrun;" in text for text in texts] == [False, True]


@pytest.mark.parametrize("launch", ["torchrun", "env"])
@pytest.mark.parametrize("program", ["torchrun", "mpirun"])
def test_one_launch_is_enough(launch: str, program: str) -> None:
    with pytest.raises(PlanError) as caught:
        planned(framework="pytorch", pytorch={"launch": launch}, run={"cmd": f"{program} train.py"})
    assert str(caught.value) == (
        f"pytorch.launch: the command is a launch by {program} already; "
        "remove this, or let the command be the program that it starts"
    )


@pytest.mark.parametrize(
    ("section", "sentences"),
    [
        ({"launch": "torchrun", "max_restarts": 1_000_000}, []),
        ({"launch": "torchrum"},
         ["pytorch.launch: 'torchrum' is not a valid value; did you mean 'torchrun'?"]),
        ({"launch": "torchrun", "max_restarts": -1}, ["pytorch.max_restarts: -1 is out of range"]),
        ({"launch": "torchrun", "max_restarts": 1_000_001},
         ["pytorch.max_restarts: 1000001 is out of range"]),
        ({"launch": "env", "args": ["--tee=3"]},
         ["pytorch.args: they are options of torchrun; add `launch: torchrun`"]),
        ({"launch": "torchrun", "args": ["--nnodes=2", "x", "-t", "3", "--tee 3"]},
         ["pytorch.args[0]: --nnodes=2 is set by hpcdist; remove it: the plan sets the nodes",
          "pytorch.args[4]: torchrun gets '--tee 3' as one word; write --tee, 3"]),
        ({"launch": "torchrun", "args": ["x", "--rdzv_backend=static", "--rdzv-conf"]},
         ["pytorch.args[0]: 'x' is not an option; write options such as --tee=3",
          ("pytorch.args[1]: --rdzv_backend=static is set by hpcdist; remove it: hpcdist sets where the "
           "nodes of the job meet"),
          "pytorch.args[2]: --rdzv-conf has no value; write --rdzv-conf=timeout=900"]),
        ({"launch": "torchrun", "args": ["--rdzv-conf=timeout=9,is_host=0", "--rdzv_conf", "is_host=1"]},
         [f"pytorch.args[{at}]: is_host is set by hpcdist; remove it: hpcdist sets where the nodes of the "
          "job meet" for at in (0, 1)]),
        ({"launch": "torchrun", "args": ["-t", "--log-dir=$HOME/x", "--log_dir", "~/x", "--tee"]},
         ["pytorch.args[0]: -t has no value; write -t=VALUE",
          "pytorch.args[1]: variables and ~ are not expanded in '--log-dir=$HOME/x'; write the value itself",
          "pytorch.args[3]: variables and ~ are not expanded in '~/x'; write the value itself",
          "pytorch.args[4]: --tee has no value; write --tee=VALUE"]),
        ({"launch": "env", "max_restarts": 1},
         [("pytorch.max_restarts: it is torchrun that restarts processes; "
          "add `launch: torchrun`, or write `environment: {max_restarts: ...}`")]),
        ({"lunch": "env"}, ["pytorch.lunch: unknown key 'lunch'; did you mean 'launch'?"]),
    ],
)  # fmt: skip
def test_invalid_sections(section: dict[str, Any], sentences: list[str]) -> None:
    exp = experiment(framework="pytorch", pytorch=section)
    assert [str(problem) for problem in frameworks.problems_of(exp)] == sentences


def test_options_of_torchrun_come_after_the_sites(tmp_path: Path) -> None:
    """``--rdzv-conf`` as an option would replace the variable that may say which node is the host."""
    args = ["--tee=3", "--rdzv-conf", "timeout=900,read_timeout=60", "--numa-binding=node"]
    machine = changed(TESTBED, torchrun=Torchrun(args=("--rdzv_conf=join_timeout=30", "--role=site")))
    conf = "join_timeout=30,timeout=900,read_timeout=60"
    for restarts, expected in ((0, conf), (1, f"is_host=1,{conf}")):
        section = {**TORCHRUN, "args": args, "max_restarts": restarts}
        plan = planned(machine, framework="pytorch", environment=environment(1), pytorch=section)
        found = words(plan)
        assert found[found.index(f"--max-restarts={restarts}") + 1 : -1] == [
            *("--role=site", "--tee=3", "--numa-binding=node", "--no-python"),
        ]
        [variables] = of_pytorch(plan, tmp_path)
        assert variables["PET_RDZV_CONF"] == expected
    assert next(word.origin.name for word in plan.words if word.text == "--tee=3") == "exp.yml pytorch.args"


def test_torchrun_waits_as_long_as_processes_may_take_to_save_their_state() -> None:
    section = environment(1, each=TWO_GPUS) | {"restart": {"notice": "10m"}}
    data: dict[str, Any] = {"environment": section, "batch": {"walltime": "24h"}}
    found = {
        launch: [
            item
            for item in planned(framework="pytorch", pytorch={"launch": launch}, **data).environment.variables
            if item.name == "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
        ]
        for launch in ("env", "torchrun")
    }
    waits = Variable(name="TORCH_ELASTIC_SHUTDOWN_TIMEOUT", value="600", origin=ORIGIN)
    assert found == {"env": [], "torchrun": [waits]}
