"""TrainJob, JAXJob and XGBoostJob: what they run, and what is in another object."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.base import source
from hpcdist.base.errors import ConfigError
from hpcdist.loading.load import Loaded, load_experiment
from tests.importers.remarks import cases
from tests.wording import Wording

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
            "batch": {"nodes": 3},
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


def test_what_a_runtime_beside_it_has(wording: Wording) -> None:
    data, problems = native(RUNTIME + train("command: [python, t.py]", "torch-mine"))
    assert data == {"name": "x", "framework": "pytorch", "run": {"cmd": "python t.py"}}
    wording(problems)


def test_an_elastic_job_has_its_least_number_of_nodes(wording: Wording) -> None:
    policy = "elasticPolicy: {minNodes: 2, maxNodes: 4, maxRestarts: 3}"
    done = loaded(train(f"image: 'm:1', command: [torchrun, t.py], {policy}"))
    assert done.document.data["environment"] == {"replicas": {"n_workers": 1}}
    assert done.document.data["pytorch"] == {"launch": "torchrun", "max_restarts": 3}
    wording(map(str, done.problems))


@pytest.mark.parametrize(
    "text",
    [
        train("numNodes: 2"),
        train("image: i", "torchtune-qwen2.5-1.5b"),
        train("image: i, command: [x]", "jax-distributed"),
        train("image: i, command: [x]", more="  initializer: {dataset: {storageUri: 'hf://x'}}\n"),
        RUNTIME.removesuffix("---\n"),
    ],
    ids=cases(),
)
def test_errors(text: str, wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(text)
    wording(str(problem) for problem in caught.value.problems if problem.severity == "error")


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


def test_jax(wording: Wording) -> None:
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
    wording(problems)


def test_xgboost(wording: Wording) -> None:
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
    wording(problems)
