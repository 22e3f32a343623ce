"""Jobs of SkyPilot, dstack and TorchX: one command on each node becomes replicas, or hpcdist's own launch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.importers.dstack import IMPORTER as DSTACK
from hpcdist.importers.skypilot import IMPORTER as SKYPILOT
from hpcdist.importers.torchx import IMPORTER as TORCHX
from hpcdist.loading import recognition
from hpcdist.loading.load import load_experiment
from tests.importers.remarks import cases, errors_of, remarks_of
from tests.wording import Wording

SKY = """\
name: gpt
num_nodes: 2
resources: {infra: aws, accelerators: "A100-80GB:8", cpus: 32+, memory: 200+, disk_size: 512}
workdir: ./code
envs: {LR: 1e-3, HF_TOKEN: null}
file_mounts: {/data: "s3://bucket"}
setup: pip install -r requirements.txt
run: |
  MASTER=$(echo "$SKYPILOT_NODE_IPS" | head -n1)
  torchrun --nnodes=$SKYPILOT_NUM_NODES --nproc_per_node=$SKYPILOT_NUM_GPUS_PER_NODE \\
    --node_rank=${SKYPILOT_NODE_RANK} --master_addr=$MASTER main.py --lr $LR --id $SKYPILOT_CLUSTER_INFO
"""
ONE = """\
num_nodes: 2
resources: {accelerators: {H100: 4}}
run: >-
  torchrun --nnodes=$SKYPILOT_NUM_NODES --nproc_per_node $SKYPILOT_NUM_GPUS_PER_NODE
  --node_rank $SKYPILOT_NODE_RANK --master_addr=$(echo "$SKYPILOT_NODE_IPS" | head -n1) t.py $LR
"""
TASK = """\
type: task
name: train
nodes: 2
python: "3.12"
image: a/b:1
env: [NCCL_DEBUG=INFO, HF_TOKEN, 'KEY=${{ secrets.key }}']
commands:
- pip install -r requirements.txt
- python train.py --rank $DSTACK_NODE_RANK --of $DSTACK_NODES_NUM --at $DSTACK_MASTER_NODE_IP
working_dir: code
resources: {gpu: "A100:80GB:8", cpu: 16.., memory: 200GB.., shm_size: 24GB}
max_duration: 24h
fleets: [a]
"""
ROLE: dict[str, Any] = {
    "name": "t",
    "image": "a/b:1",
    "base_image": None,
    "entrypoint": "bash",
    "args": [
        "-c",
        (
            "torchrun --rdzv_backend c10d --rdzv_endpoint $${${rank0_env}:=localhost}:29500 "
            "--rdzv_id '${app_id}' --nnodes 2 --nproc_per_node 4 --tee 3 --role '' t.py --lr 0.1 --at '$HOME'"
        ),
    ],
    "env": {"LOGLEVEL": "WARNING", "ROOT": "${img_root}/x"},
    "num_replicas": 2,
    "min_replicas": None,
    "max_retries": 3,
    "retry_policy": "APPLICATION",
    "resource": {"cpu": 8, "gpu": 4, "memMB": 4096, "capabilities": {}, "devices": {}, "tags": {}},
    "port_map": {"c10d": 29500},
    "mounts": [],
    "metadata": {},
    "workspace": None,
    "overrides": {},
}
PRINTED = """\
torchx INFO     Tracker configurations: {}

=== APPLICATION ===
{ 'metadata': {},
  'name': 'train',
  'roles': [ { 'args': [ '-c',
                         'torchrun --rdzv_id '
                         "'${app_id}' --nnodes 2 "
                         '--nproc_per_node 4 t.py'],
               'entrypoint': 'bash',
               'image': 'a/b:1',
               'min_replicas': None,
               'num_replicas': 2,
               'resource': {'cpu': 2, 'gpu': 4, 'memMB': 1024},
               'retry_policy': <RetryPolicy.APPLICATION: 'APPLICATION'>,
               'unknown': 1,
               'workspace': None}]}

=== SCHEDULER REQUEST ===
#!/bin/bash
#SBATCH --job-name=x
"""


def app(**changes: object) -> str:
    """Return an application with one role."""
    return json.dumps({"name": "exp/t", "metadata": {}, "roles": [ROLE | changes]})


def native(text: str) -> dict[str, Any]:
    """Return the experiment of a file."""
    return importers.read(source.parse(text, "f.yml").data).data


def replicas(number: int, **needs: Any) -> dict[str, Any]:
    """Return the environment of a master and as many workers."""
    return {**needs, "replicas": {"n_workers": number, "default_worker": needs}}


GPUS: dict[str, Any] = {
    "resources": {"gpu": {"requests": 8}, "cpu": {"requests": 32}, "memory": {"requests": 204800}},
    "node_selector": {"gpu_type": "a100-80g"},
}
HOSTS = "$(sed 's/[ :].*//' \"$HPCDIST_HOSTFILE\")"


def test_a_task_of_skypilot(wording: Wording) -> None:
    assert native(SKY) == {
        "name": "gpt",
        "framework": "pytorch",
        "environment": replicas(1, **GPUS) | {"env_vars": {"LR": "1e-3"}},
        "batch": {"nodes": 2},
        "run": {
            "cmd": 'export SKYPILOT_NUM_NODES="2"\n'
            'export SKYPILOT_NUM_GPUS_PER_NODE="8"\n'
            'export SKYPILOT_NODE_RANK="$HPCDIST_NODE"\n'
            f'export SKYPILOT_NODE_IPS="{HOSTS}"\n'
            'export SKYPILOT_TASK_ID="$HPCDIST_JOB_ID"\n'
            'cd ./code && { MASTER=$(echo "$SKYPILOT_NODE_IPS" | head -n1)\n'
            "torchrun --nnodes=$SKYPILOT_NUM_NODES --nproc_per_node=$SKYPILOT_NUM_GPUS_PER_NODE \\\n"
            "  --node_rank=${SKYPILOT_NODE_RANK} --master_addr=$MASTER main.py --lr $LR "
            "--id $SKYPILOT_CLUSTER_INFO\n}",
            "prepare": {"cmd": "pip install -r requirements.txt", "per": "node"},
        },
    }
    wording(remarks_of(SKY))


@pytest.mark.parametrize(
    ("folder", "command"),
    [(".", "a"), ("./", "a"), ("~/x", "cd ~/x && a"), ("~/x y/", "cd ~/'x y' && a"), ("/x", "cd /x && a")],
)
def test_the_folder_of_a_command(folder: str, command: str) -> None:
    assert native(f"workdir: {folder}\nrun: a")["run"]["cmd"] == command
    assert native(f"type: task\nworking_dir: {folder}\ncommands: [a]")["run"]["cmd"] == command


def test_one_torchrun_is_the_launch_of_hpcdist() -> None:
    needs = {"resources": {"gpu": {"requests": 4}}, "node_selector": {"gpu_type": "h100"}}
    assert (native(ONE), remarks_of(ONE)) == (
        {
            "framework": "pytorch",
            "pytorch": {"launch": "torchrun"},
            "environment": replicas(1, **needs),
            "batch": {"nodes": 2},
            "run": {"cmd": "python -u t.py $LR"},
        },
        [],
    )


def test_a_command_of_one_node_gets_the_variables_that_it_names() -> None:
    text = "resources: {accelerators: L4:2}\nrun: a $SKYPILOT_NUM_GPUS_PER_NODE"
    assert native(text)["run"]["cmd"] == (
        'export SKYPILOT_NUM_GPUS_PER_NODE="2"\na $SKYPILOT_NUM_GPUS_PER_NODE'
    )


def test_a_task_of_dstack(wording: Wording) -> None:
    needs: dict[str, Any] = GPUS | {"resources": GPUS["resources"] | {"cpu": {"requests": 16}}}
    assert native(TASK) == {
        "name": "train",
        "framework": "pytorch",
        "environment": replicas(1, **needs) | {"env_vars": {"NCCL_DEBUG": "INFO"}},
        "batch": {"nodes": 2, "walltime": "24h"},
        "build": {"image": "a/b:1"},
        "run": {
            "cmd": 'export DSTACK_NODES_NUM="2"\n'
            'export DSTACK_GPUS_PER_NODE="8"\n'
            'export DSTACK_GPUS_NUM="16"\n'
            'export DSTACK_NODE_RANK="$HPCDIST_NODE"\n'
            'export DSTACK_MASTER_NODE_IP="$HPCDIST_HEAD_ADDRESS"\n'
            f'export DSTACK_NODES_IPS="{HOSTS}"\n'
            'export DSTACK_RUN_ID="$HPCDIST_JOB_ID"\n'
            'export DSTACK_MPI_HOSTFILE="$HPCDIST_HOSTFILE"\n'
            'export DSTACK_RUN_NAME="train"\n'
            "cd code && pip install -r requirements.txt && "
            "python train.py --rank $DSTACK_NODE_RANK --of $DSTACK_NODES_NUM --at $DSTACK_MASTER_NODE_IP"
        },
    }
    wording(remarks_of(TASK))


def test_an_application_of_torchx(wording: Wording) -> None:
    needs = {"resources": {"gpu": {"requests": 4}, "cpu": {"requests": 8}, "memory": {"requests": 4096}}}
    text = app()
    assert native(text) == {
        "name": "exp-t",
        "framework": "pytorch",
        "pytorch": {"launch": "torchrun"},
        "environment": replicas(1, **needs)
        | {"max_restarts": 3, "env_vars": {"LOGLEVEL": "WARNING", "ROOT": "/x"}},
        "batch": {"nodes": 2},
        "build": {"image": "a/b:1"},
        "run": {"cmd": "python -u t.py --lr 0.1 --at '$HOME'"},
    }
    wording(remarks_of(text))


def test_what_torchx_prints_is_read_with_its_lines(tmp_path: Path, wording: Wording) -> None:
    (tmp_path / "app.txt").write_text(PRINTED)
    document = recognition.read(tmp_path / "app.txt")
    found = importers.read(document.data)
    assert found.data["run"] == {"cmd": "python -u t.py"}
    wording(str(document.locate(one)).removeprefix(str(tmp_path)) for one in found.remarks)


@pytest.mark.parametrize(
    ("args", "command"),
    [
        (["t.py", "a b", "--id=${app_id}"], "python t.py 'a b' \"--id=$HPCDIST_JOB_ID\""),
        (["-m", "x", "${img_root}/y", "$$HOME"], 'python -m x "/y" "\\$HOME"'),
        (["t.py", "--host", "$${${rank0_env}}"], 'python t.py --host "\\${TORCHX_RANK0_HOST}"'),
    ],
)
def test_words_of_an_application(args: list[str], command: str) -> None:
    data = native(app(entrypoint="python", args=args, num_replicas=1))
    assert data["run"]["cmd"].rpartition("\n")[2] == command


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("num_nodes: 2\nrun: a", SKYPILOT),
        ("resources: {cloud: aws}\nservice: {replicas: 2}", SKYPILOT),
        ("resources: {accelerators: 'A100:1'}\nrun: python a.py", SKYPILOT),
        ("type: task\ncommands: [a]", DSTACK),
        ("type: dev-environment\nide: vscode", DSTACK),
        ("type: fleet\nnodes: 2", DSTACK),
        ("name: a\nroles: [{entrypoint: b}]", TORCHX),
        (app(), TORCHX),
    ],
)
def test_a_file_is_recognised(text: str, form: object) -> None:
    data = source.parse(text, "f.yml").data
    assert next(one for one in importers.registry.objects() if one.recognises(data)) is form


@pytest.mark.parametrize(
    "text",
    [
        "run: {cmd: a}\nresources: {a: 1}",
        "run: a",
        "type: command\ncommand: a\nenvironment: {image: b}",
        "type: task\nname: a",
        "name: a\nroles: {b: {entrypoint: c}}",
    ],
)
def test_another_file_is_not_recognised(text: str) -> None:
    data = source.parse(text, "f.yml").data
    assert [one for one in (SKYPILOT, DSTACK, TORCHX) if one.recognises(data)] == []


@pytest.mark.parametrize(
    ("resources", "gpus"),
    [
        ("accelerators: A100", {"gpu": {"requests": 1}}),
        ("accelerators: [H100:2, A100:4]", {"gpu": {"requests": 2}}),
        ("accelerators: {V100-32GB: 2}", {"gpu": {"requests": 2}}),
        ("accelerators: {L4:8, A100:4}", {"gpu": {"requests": 8}}),
        (
            "any_of: [{infra: aws, accelerators: L4:4}, {accelerators: T4:4}]",
            {"gpu": {"requests": 4}},
        ),
        ("cpus: 4", {"cpu": {"requests": 4}}),
        ("memory: 0.5", {"memory": {"requests": 512}}),
        ("cloud: aws", None),
    ],
)
def test_resources_of_skypilot(resources: str, gpus: object) -> None:
    data = native(f"run: a\nresources: {{{resources}}}")
    assert data.get("environment", {}).get("resources") == gpus


@pytest.mark.parametrize(
    ("gpu", "number", "kind"),
    [
        ("8", 8, None), ("A100", 1, "a100"), ("A100:2", 2, "a100"), ("A100:80GB", 1, "a100-80g"),
        ("'A100:80GB:8'", 8, "a100-80g"), ("'A100:40GB..:2..4'", 2, "a100-40g"), ("'H100,A100:4'", 4, "h100"),
        ("24GB", 1, None), ("'24GB..:2'", 2, None), ("1..2", 1, None),
        ("{name: [H100, A100], count: 4}", 4, "h100"), ("{name: A100, memory: 80GB}", 1, "a100-80g"),
    ],
)  # fmt: skip
def test_gpus_of_dstack(gpu: str, number: int, kind: str | None) -> None:
    environment = native(f"type: task\ncommands: [a]\nresources: {{gpu: {gpu}}}")["environment"]
    assert environment["resources"] == {"gpu": {"requests": number}}
    assert environment.get("node_selector") == ({"gpu_type": kind} if kind else None)


@pytest.mark.parametrize(
    "text",
    [
        "service: {replicas: 2}\nrun: a\nresources: {cloud: aws}",
        "resources: {accelerators: tpu-v4-8}\nrun: a",
        "resources: {accelerators: 'A100:0.5', cpus: many}\nrun: a",
        "num_nodes: two\nrun: a",
        "num_nodes: 2\nrun: mpirun -np 16 a",
        "num_nodes: 2\nrun: 'if [ $SKYPILOT_NODE_RANK == 0 ]; then deepspeed t.py; fi'",
        "num_nodes: 3\nrun: torchrun --nnodes=2 t.py",
        "num_nodes: 2\nsetup: a\nresources: {image_id: 'docker:a/b'}\nrun: a",
        "resources: {cloud: aws}",
        "workdir: {url: 'https://a.b/c'}\nrun: a",
        "num_nodes: 2\nrun: a\nunknown: 1",
        "type: service\ncommands: [a]",
        "type: dev-environment\nide: vscode",
        "type: task\ncommands: []\nnodes: 2",
        "type: task\ncommands: [a]\ngroups: [{nodes: 1}]\nentrypoint: b",
        "type: task\ncommands: [a]\nresources: {gpu: tpu, memory: much}",
        "type: task\ncommands: ['if [ $DSTACK_NODE_RANK -eq 0 ]; then mpirun a; fi']\nnodes: 2",
        '{"roles": [{"entrypoint": "a"}, {"entrypoint": "b"}]}',
        '{"roles": [{"entrypoint": "<MISSING>", "args": []}]}',
    ],
    ids=cases(),
)
def test_what_is_more_than_a_command_on_nodes_is_refused(text: str, wording: Wording) -> None:
    wording(errors_of(text))


@pytest.mark.parametrize("text", [SKY, TASK, app()], ids=["skypilot", "dstack", "torchx"])
def test_an_experiment_is_valid(text: str) -> None:
    loaded = load_experiment(source.parse(text, "f.yml"))
    assert loaded.experiment.batch.nodes == 2
