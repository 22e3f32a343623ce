# ruff: noqa: E501 - a message is compared as one line
"""TrainJob, JAXJob and XGBoostJob: what they run, and what is in another object."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.documents import source
from hpcdist.errors import ConfigError
from hpcdist.loading.load import Loaded, load_experiment

TRAIN = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: x}
spec:
  runtimeRef: {name: RUNTIME, kind: ClusterTrainingRuntime, apiGroup: trainer.kubeflow.org}
  trainer: {TRAINER}
"""
RUNTIME = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainingRuntime\nmetadata: {name: r}\n---\n"


def loaded(text: str) -> Loaded:
    return load_experiment(source.parse(text, "f.yml", several=True))


def train(trainer: str, runtime: str = "torch-distributed", more: str = "") -> str:
    return TRAIN.replace("TRAINER", trainer).replace("RUNTIME", runtime) + more


def native(text: str) -> tuple[dict[str, Any], list[str]]:
    done = loaded(text)
    return {**done.document.data}, [str(problem) for problem in done.problems]


def test_torchrun_on_nodes_with_gpus() -> None:
    gpus = {"gpu": {"limits": 2}}
    trainer = (
        "image: 'm:1', command: [torchrun, t.py], args: [--lr, '1'], numNodes: 3, numProcPerNode: 2, "
        "resourcesPerNode: {limits: {nvidia.com/gpu: 2}}, env: [{name: A, value: b}]"
    )
    assert native(train(trainer)) == (
        {
            "name": "x",
            "framework": "pytorch",
            "pytorch": {"launch": "torchrun"},
            "environment": {
                "resources": gpus,
                "replicas": {"default_worker": {"resources": gpus}, "n_workers": 2},
                "env_vars": {"A": "b"},
            },
            "build": {"image": "m:1"},
            "run": {"cmd": "python -u t.py --lr 1"},
        },
        [],
    )


def test_variables_that_the_program_reads_itself() -> None:
    done = loaded(train("image: 'm:1', command: [python, -c, 'import os; os.environ[\"PET_NODE_RANK\"]']"))
    assert 'PET_NODE_RANK="$HPCDIST_RANK"' in done.experiment.run.command


def test_an_image_without_a_command() -> None:
    data, problems = native(train("image: 'm:1', args: [--lr, '1']"))
    assert (data["run"], problems) == ({"entrypoint": "image", "args": "--lr 1"}, [])


def test_what_a_runtime_beside_it_has() -> None:
    data, problems = native(RUNTIME + train("command: [python, t.py]", "torch-mine"))
    assert data == {"name": "x", "framework": "pytorch", "run": {"cmd": "python t.py"}}
    assert problems == [
        "f.yml:2:7: kind: this TrainingRuntime 'r' has no effect on a batch machine: only TrainJob 'x' is run",
        "f.yml:10:3: spec.trainer: the image of the runtime 'torch-mine' is not used: it is another object; write `trainer.image`",
        "f.yml:10:3: spec.trainer: the number of nodes of the runtime 'torch-mine' is in another object: the job has one; write `trainer.numNodes`",
    ]


def test_an_elastic_job_has_its_least_number_of_nodes() -> None:
    policy = "elasticPolicy: {minNodes: 2, maxNodes: 4, maxRestarts: 3}"
    done = loaded(train(f"image: 'm:1', command: [torchrun, t.py], {policy}"))
    assert done.document.data["environment"] == {"replicas": {"n_workers": 1}}
    assert done.document.data["pytorch"] == {"launch": "torchrun", "max_restarts": 3}
    assert [str(problem) for problem in done.problems] == [
        "f.yml:6:93: spec.trainer.elasticPolicy.maxNodes: maxNodes has no effect on a batch machine: the number of nodes of a job is fixed"
    ]


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (train("numNodes: 2"),
         ["f.yml:5:3: spec.runtimeRef: the runtime 'torch-distributed' names the program, and is another object; write `trainer.command`"]),
        (train("image: i", "torchtune-qwen2.5-1.5b"),
         ["f.yml:5:3: spec.runtimeRef: the runtime 'torchtune-qwen2.5-1.5b' names the program, and is another object; write `trainer.command`"]),
        (train("image: i, command: [x]", "jax-distributed"),
         ["f.yml:5:22: spec.runtimeRef.name: what the runtime 'jax-distributed' sets for the program is in another object; write a PyTorchJob or an MPIJob"]),
        (train("image: i, command: [x]", more="  initializer: {dataset: {storageUri: 'hf://x'}}\n"),
         ["f.yml:7:3: spec.initializer: what this downloads for the program would be missing; download it beforehand, and remove this"]),
        (RUNTIME.removesuffix("---\n"),
         ["f.yml:2:7: kind: this is `kind: TrainingRuntime` of Kubernetes (trainer.kubeflow.org), which is not run; give the TrainJob that refers to it, with its own command"]),
    ],
)  # fmt: skip
def test_errors(text: str, messages: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(text)
    errors = [problem for problem in caught.value.problems if problem.severity == "error"]
    assert [str(problem) for problem in errors] == messages


@pytest.mark.parametrize(
    ("runtime", "command"),
    [("deepspeed-distributed", "mpirun, -np, '4', lmp, -in, x"), ("flux-runtime", "lmp, -in, x")],
)
def test_ranks_of_mpi(runtime: str, command: str) -> None:
    trainer = (
        f"image: 'm:1', command: [{command}], numNodes: 2, numProcPerNode: 2, env: [{{name: A, value: b}}]"
    )
    data, problems = native(train(trainer, runtime))
    assert data == {
        "name": "x",
        "framework": "mpi",
        "environment": {"replicas": {"n_workers": 1}, "processes_per_replica": 2, "env_vars": {"A": "b"}},
        "build": {"image": "m:1"},
        "run": {"cmd": "lmp -in x"},
    }
    assert problems == []


OTHER = """\
apiVersion: {group}
kind: {kind}
metadata: {{name: x}}
spec:
  RunPolicy: {{cleanPodPolicy: None}}
  {specs}:
{roles}"""
POD = "{template: {apiVersion: v1, kind: Pod, spec: {containers: [{image: 'm:1', COMMAND}]}}}"


def test_jax() -> None:
    role = (
        f"    Worker: {POD.replace('COMMAND', 'command: [python, t.py]').replace('{', '{replicas: 3, ', 1)}\n"
    )
    data, problems = native(
        OTHER.format(group="kubeflow.org/v1", kind="JAXJob", specs="jaxReplicaSpecs", roles=role)
    )
    assert (data["framework"], data["environment"]) == ("jax", {"replicas": {"n_workers": 2}})
    assert data["run"] == {
        "cmd": 'export COORDINATOR_ADDRESS="$HPCDIST_HEAD_ADDRESS" COORDINATOR_PORT="$HPCDIST_PORT" '
        'NUM_PROCESSES="$HPCDIST_SIZE" PROCESS_ID="$HPCDIST_RANK"\npython t.py'
    }
    assert problems == [
        "f.yml:5:31: spec.RunPolicy.cleanPodPolicy: cleanPodPolicy has no effect on a batch machine: all tasks end with the job"
    ]


def test_xgboost() -> None:
    roles = "".join(
        f"    {role}: {POD.replace('COMMAND', f'args: [--model_path={role}]')}\n"
        for role in ("Master", "Worker")
    )
    data, problems = native(
        OTHER.format(
            group="xgboostjob.kubeflow.org/v1alpha1", kind="XGBoostJob", specs="xgbReplicaSpecs", roles=roles
        )
    )
    assert (data["framework"], data["environment"]) == ("pytorch", {"replicas": {"n_workers": 1}})
    assert data["run"] == {
        "entrypoint": "image",
        "args": {"master": "--model_path=Master", "worker": "--model_path=Worker"},
    }
    assert problems[0] == (
        "f.yml:2:7: kind: WORKER_ADDRS and WORKER_PORT, which only programs of LightGBM read, are not set"
    )
