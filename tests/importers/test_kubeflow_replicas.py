# ruff: noqa: E501 - a file is written as one line
"""Commands and variables of each replica, as with its operator."""

from __future__ import annotations

import pytest

from hpcdist import importers
from hpcdist.base import source
from tests.importers.remarks import cases, errors_of, remarks_of
from tests.wording import Wording

ROLE = "    {}: {{replicas: {}, template: {{spec: {{containers: [{{image: i, {}}}]}}}}}}\n"
POD = "spec.{}ReplicaSpecs.{}.template.spec.containers[0]"
SPECS = {"MPIJob": "mpi", "TFJob": "tf", "PyTorchJob": "pytorch", "MXJob": "mx"}
GPUS = ", resources: {limits: {nvidia.com/gpu: 8}}"
PET = (
    'export PET_NNODES="$HPCDIST_SIZE" PET_NODE_RANK="$HPCDIST_RANK"\n'
    'export PET_MASTER_ADDR="$MASTER_ADDR" PET_MASTER_PORT="$MASTER_PORT"\n'
)


def job(kind: str, *replicas: tuple[str, int, str]) -> str:
    """Return a job; each kind of its replicas has a name, a number, and what its container says."""
    head = f"apiVersion: kubeflow.org/v1\nkind: {kind}\nmetadata: {{name: j}}\nspec:\n"
    return head + f"  {SPECS[kind]}ReplicaSpecs:\n" + "".join(ROLE.format(*each) for each in replicas)


def command_of(text: str) -> str:
    return str(importers.read(source.parse(text, "f.yml").data).data["run"]["cmd"])


# --- A launch that Kubeflow runs in each pod


def refused(where: str, program: str, replicas: int, hint: str) -> str:
    return f"{where}.command: hpcdist runs a command with {program} once, on the first node, and not in {replicas} replicas; {hint}"


def mpijob(program: str, framework: str) -> str:
    return f"write an MPIJob with `slotsPerWorker`, whose Launcher runs {program} for all of them; or `framework: {framework}`, and the program alone"


TORCHRUN = "write torchrun instead, which runs in each replica"
MASTER, WORKER = POD.format("pytorch", "Master"), POD.format("pytorch", "Worker")
SCRIPT = "command: [bash, -c, 'cd /w; mpirun -np 2 ./a']"


@pytest.mark.parametrize(
    ("spec", "command", "nodes"),
    [
        ("", "[torchrun, --nnodes=2, --nproc_per_node=8, t.py]", 2),
        ("", "[bash, -c, 'pip install x; torchrun --nnodes 2 --nproc_per_node 8 t.py']", 2),
        ("  nprocPerNode: '8'\n", "[torchrun, t.py]", 2),
        ("  nprocPerNode: '8'\n", "[python, t.py]", 2),
        ("  nprocPerNode: '1'\n", "[torchrun, t.py]", None),
        ("", "[torchrun, '--nnodes=1:4', --nproc_per_node=8, t.py]", None),
        ("", "[torchrun, --nnodes=$N, --nproc_per_node=8, t.py]", None),
        ("", "[torchrun, --nproc_per_node=8, t.py]", None),
        ("", "[python, t.py]", None),
    ],
)
def test_replicas_that_the_file_counts_as_nodes_are_nodes(spec: str, command: str, nodes: int | None) -> None:
    text = job("PyTorchJob", ("Master", 1, f"command: {command}"), ("Worker", 1, f"command: {command}"))
    found = importers.read(source.parse(text + spec, "f.yml").data)
    assert found.data.get("batch", {}).get("nodes") == nodes


@pytest.mark.parametrize(
    "text",
    [
        job("PyTorchJob", ("Master", 1, "command: [mpirun, t]"), ("Worker", 0, "command: [t]")),
        job("PyTorchJob", ("Worker", 2, "command: [torchrun, t.py]")),
    ],
    ids=cases(),
)
def test_a_launch_of_one_replica_or_in_each_is_accepted(text: str) -> None:
    assert errors_of(text) == []


@pytest.mark.parametrize(
    "text",
    [
        job("PyTorchJob", ("Master", 1, "command: [mpirun, t]"), ("Worker", 1, "command: [sshd, -D]")),
        job("PyTorchJob", ("Master", 1, SCRIPT), ("Worker", 2, SCRIPT)),
        job("PyTorchJob", ("Worker", 2, "command: [deepspeed, t.py]")),
        job("TFJob", ("Worker", 4, "command: [horovodrun, -np, '8', -H, 'localhost:2', python, t.py]")),
        job(
            "MXJob",
            ("Scheduler", 1, "name: a"),
            ("Server", 1, "name: a"),
            ("Worker", 1, "command: [srun, t]"),
        ),
    ],
    ids=cases(),
)
def test_a_launch_that_runs_once_is_refused_for_several_replicas(text: str, wording: Wording) -> None:
    wording(errors_of(text))


@pytest.mark.parametrize(
    ("kind", "role", "command"),
    [
        ("PyTorchJob", "Master", "mpirun -np 2 ./a"),
        ("PyTorchJob", "Worker", "deepspeed t.py"),
        ("TFJob", "Worker", "horovodrun -np 2 python t.py"),
    ],
)
def test_a_launch_of_a_single_replica_is_kept(kind: str, role: str, command: str) -> None:
    text = job(kind, (role, 1, f"command: [{', '.join(repr(word) for word in command.split())}]"))
    assert (errors_of(text), command_of(text)) == ([], command)


# --- Variables of each replica


@pytest.mark.parametrize(
    ("replicas", "more", "each", "before"),
    [
        (1, "", "", ""),
        (2, "", "", PET),
        (1, GPUS, "", f"{PET}export PET_NPROC_PER_NODE=auto\n"),
        (2, GPUS, "", f"{PET}export PET_NPROC_PER_NODE=auto\n"),
        (2, GPUS, "gpu", f"{PET}export PET_NPROC_PER_NODE=gpu\n"),
        (1, "", "4", f"{PET}export PET_NPROC_PER_NODE=4\nexport WORLD_SIZE=$((HPCDIST_SIZE * 4))\n"),
    ],
)
def test_an_unchanged_torchrun_gets_the_variables_of_the_operator(
    replicas: int, more: str, each: str, before: str
) -> None:
    text = job("PyTorchJob", ("Worker", replicas, f"command: [sh, -c, 'pip install x; torchrun t.py']{more}"))
    text += f"  nprocPerNode: {each}\n" if each else ""
    assert command_of(text) == f"{before}pip install x; torchrun t.py"


def env(**variables: str) -> str:
    listed = [f"{{name: {name}, value: '{value}'}}" for name, value in variables.items()]
    return f"env: [{', '.join(listed)}], command: [t]"


def no_effect(place: str, pod: str, index: int, name: str) -> str:
    return f"warning: f.yml:{place}: {pod}.env[{index}].value: {name} has no effect: hpcdist sets it for each replica"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        (job("PyTorchJob", ("Master", 1, env(RANK="0")), ("Worker", 3, env(RANK="1", LOCAL_RANK="0"))), "t"),
        (
            job(
                "PyTorchJob",
                ("Master", 1, env(MASTER_ADDR="j-master-0", MASTER_PORT="1")),
                ("Worker", 1, env(A="b")),
            ),
            "case $HPCDIST_ROLE in\nmaster)\nt\n;;\nworker)\nexport A=b\nt\n;;\nesac",
        ),
        (
            job("PyTorchJob", ("Master", 1, env(WORLD_SIZE="9") + ", args: ['--of=$(WORLD_SIZE)']")),
            't --of="$WORLD_SIZE"',
        ),
        (job("TFJob", ("Chief", 1, env(TF_CONFIG="{}")), ("Worker", 2, "command: [t]")), "t"),
        (
            job(
                "MXJob",
                ("Scheduler", 1, env(DMLC_ROLE="worker")),
                ("Server", 1, "command: [t]"),
                ("Worker", 1, "command: [t]"),
            ),
            "t",
        ),
    ],
    ids=cases(),
)
def test_variables_of_the_operator_have_no_effect(text: str, command: str, wording: Wording) -> None:
    wording(remarks_of(text))
    assert command_of(text) == command


T = "command: [t]"


@pytest.mark.parametrize(
    ("replicas", "section"),
    [
        ([("Worker", 3, T)], {"ends_with": "master"}),
        ([("Chief", 1, T), ("Worker", 2, T)], {"chief": True, "ends_with": "master"}),
        ([("Master", 1, T), ("Worker", 2, T)], {"version": "1", "ends_with": "master"}),
        ([("Worker", 2, T), ("Evaluator", 1, T)], {"chief": False, "ends_with": "master"}),
        ([("Chief", 1, T), ("Worker", 2, T), ("Evaluator", 1, T)], {"ends_with": "master"}),
        ([("Chief", 1, T), ("Worker", 2, T), ("PS", 1, T)], {"ends_with": "master"}),
        ([("Worker", 2, T), ("PS", 1, T)], {"chief": False, "ends_with": "master"}),
        ([("Worker", 1, T), ("PS", 1, T)], {"chief": False, "ends_with": "master"}),
        ([("Chief", 1, T), ("PS", 1, T)], {"ends_with": "master"}),
    ],
)
def test_tf_config_keeps_its_chief_or_has_none(
    replicas: list[tuple[str, int, str]], section: dict[str, object]
) -> None:
    text = job("TFJob", *replicas)
    assert importers.read(source.parse(text, "f.yml").data).data["tensorflow"] == section
    assert remarks_of(text) == []


# --- The hosts of an MPIJob


@pytest.mark.parametrize(
    ("launcher", "variables", "command"),
    [
        (
            "command: [mpirun, t, --hosts, /etc/mpi/hostfile, --of=/etc/mpi/hostfile]",
            {},
            't --hosts "$HPCDIST_HOSTFILE" --of="$HPCDIST_HOSTFILE"',
        ),
        (
            "command: [mpirun, t], env: [{name: A, value: b}, {name: HOSTS, value: /etc/mpi/hostfile}]",
            {"A": "b"},
            'export HOSTS="${HPCDIST_HOSTFILE}"\nt',
        ),
        (
            "command: [mpirun, -x, 'HOSTS=of $5 /etc/mpi/hostfile', t]",
            {},
            'export HOSTS="of \\$5 ${HPCDIST_HOSTFILE}"\nt',
        ),
        (
            """command: [sh, -c, "wc '/etc/mpi/hostfile' \\"/etc/mpi/hostfile\\"; mpirun t"]""",
            {},
            (
                'export OMPI_MCA_orte_default_hostfile="$HPCDIST_HOSTFILE"\n'
                'wc "$HPCDIST_HOSTFILE" "$HPCDIST_HOSTFILE"; mpirun t'
            ),
        ),
    ],
)
def test_the_hostfile_is_replaced(launcher: str, variables: dict[str, str], command: str) -> None:
    text = job("MPIJob", ("Launcher", 1, launcher), ("Worker", 2, "name: w"))
    data = importers.read(source.parse(text, "f.yml").data).data
    assert (data["environment"].get("env_vars", {}), data["run"]["cmd"]) == (variables, command)


def test_discover_hosts_is_refused(wording: Wording) -> None:
    wording(errors_of(job("MPIJob", ("Launcher", 1, "command: [mpirun, t, /etc/mpi/discover_hosts.sh]"))))


# --- Origins


def test_a_program_taken_from_the_worker_has_its_origin_there() -> None:
    servers = [(role, 1, "name: mxnet") for role in ("Scheduler", "Server")]
    text = job("MXJob", *servers, ("Worker", 1, "command: [t], env: [{name: A, value: b}]"))
    found = importers.read(source.parse(text, "f.yml").data)
    container = ("spec", "mxReplicaSpecs", "Worker", "template", "spec", "containers", 0)
    assert found.origins["run", "cmd"] == (*container, "command")
    assert found.origins["environment", "env_vars"] == (*container, "env")
