"""``hpcdist import``."""
# ruff: noqa: E501 - files are compared as they are written

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from hpcdist.base import source
from hpcdist.loading import load
from tests.wording import Wording

from .conftest import Hpcdist

JOB: Final = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: ddp}
spec:
  pytorchReplicaSpecs:
    Master: &replica
      template:
        spec:
          tolerations: [{operator: Exists}]
          containers:
            - name: pytorch
              command: [python, train.py, "--lr=0.1"]
              env:
                - {name: LEVEL, value: "no"}
              resources: {limits: {nvidia.com/gpu: 1}}
    Worker:
      <<: *replica
      replicas: 3
"""
CLAIM: Final = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n"
OF_WORDS: Final = """\
# From a command line of gradient, by `hpcdist import`.
name: x                # --name
framework: mpi         # --experimentType
environment:
  resources:
    gpu:
      requests: 1      # --workerMachineType
  replicas:
    n_workers: 1       # --workerCount
    default_worker:
      resources:
        gpu:
          requests: 1  # --workerMachineType
      node_selector:
        gpu_type: K80  # --workerMachineType
  node_selector:
    gpu_type: K80      # --workerMachineType
run:
  cmd: python main.py  # --masterCommand
batch:
  nodes: 2             # --workerCount
"""
REQUIRED: Final = "name: a\ninputs:\n  - {name: lr, type: float}\n  - {name: epochs, type: int}\nrun: {cmd: 'train {{ lr }} {{ epochs }}'}\n"


@pytest.fixture(autouse=True)
def job(folder: Path) -> Path:
    file = folder / "job.yml"
    file.write_text(JOB)
    return file


def test_each_value_has_its_origin(hpcdist: Hpcdist, job: Path, wording: Wording) -> None:
    result = hpcdist("import", "job.yml", "--set", "batch.walltime=2:00:00")
    assert result.code == 0
    wording(result.err)
    assert (
        result.out
        == """\
# From job.yml, by `hpcdist import`.
name: ddp                        # job.yml:3 metadata.name
framework: pytorch               # job.yml:2 kind
environment:
  resources:
    gpu:
      limits: 1                  # job.yml:15 spec.pytorchReplicaSpecs.Master.template.spec.containers[0].resources
  replicas:
    n_workers: 3                 # job.yml:18 spec.pytorchReplicaSpecs.Worker.replicas
    default_worker:
      resources:
        gpu:
          limits: 1              # job.yml:15 spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].resources
  env_vars:
    LEVEL: "no"                  # job.yml:13 spec.pytorchReplicaSpecs.Master.template.spec.containers[0].env
run:
  cmd: python train.py --lr=0.1  # job.yml:12 spec.pytorchReplicaSpecs.Master.template.spec.containers[0].command
batch:
  walltime: "2:00:00"            # --set batch.walltime
"""
    )
    job.write_text(result.out)
    assert hpcdist("check", "job.yml", "--site", "perlmutter", "--set", "batch.account=a").code == 0


def test_what_is_imported_is_the_same_experiment(hpcdist: Hpcdist, folder: Path) -> None:
    result = hpcdist("import", "job.yml", "-o", "exp.yml")
    assert (result.code, result.out) == (0, "")
    foreign = load.load_experiment(source.load("job.yml")).experiment
    assert load.load_experiment(source.load("exp.yml")).experiment == foreign
    again = hpcdist("import", "exp.yml")
    assert (again.code, again.err) == (0, "")
    (folder / "again.yml").write_text(again.out)
    assert source.load("again.yml").data == source.load("exp.yml").data


def test_a_native_file_has_no_keys_of_others(hpcdist: Hpcdist) -> None:
    assert (
        hpcdist("import", "ranks.yml").out
        == """\
# From ranks.yml, by `hpcdist import`.
framework: pytorch                       # ranks.yml:1
environment:
  replicas:
    n_workers: 2                         # ranks.yml:3
run:
  cmd: echo "rank $RANK of $WORLD_SIZE"  # ranks.yml:5
batch:
  site: local                            # ranks.yml:6
  launcher: processes                    # ranks.yml:6
"""
    )


def test_json(hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist("import", "-", "--json", stdin="run: {cmd: x}\nenvironment: {n_workers: 1}\n")
    assert result.code == 0
    wording(result.err)
    assert json.loads(result.out) == {
        "experiment": {
            "run": {"cmd": "x"},
            "environment": {"replicas": {"n_workers": 1}},
            "framework": "tensorflow",
            "tensorflow": {"version": "1"},
        },
        "origins": {
            "framework": "<stdin>:2 environment.n_workers",
            "environment.replicas.n_workers": "<stdin>:2 environment.n_workers",
            "run.cmd": "<stdin>:1",
            "tensorflow.version": "<stdin>:2 environment.n_workers",
        },
        "warnings": [line.removeprefix("warning: ") for line in result.err.splitlines()],
    }


def test_an_input_without_a_param_may_get_it_later(hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist("import", "-", "-p", "epochs=3", stdin=REQUIRED)
    assert result.code == 0
    wording(result.err)
    assert (
        result.out
        == """\
# From <stdin>, by `hpcdist import`.
name: a                             # <stdin>:1
params:
  epochs: 3                         # -p epochs
inputs:
  - name: lr                        # <stdin>:3
    type: float                     # <stdin>:3
  - name: epochs                    # <stdin>:4
    type: int                       # <stdin>:4
run:
  cmd: train {{ lr }} {{ epochs }}  # <stdin>:5
"""
    )
    assert hpcdist("import", "-", "-p", "epochs=3", "-p", "lr=1e-3", stdin=REQUIRED).err == ""


def test_the_command_line_of_the_other_tool(hpcdist: Hpcdist) -> None:
    words = "experiments create multinode --name x --experimentType MPI --workerCount 2 --workerMachineType p2.xlarge --masterCommand"
    result = hpcdist("import", "--from", "gradient", "--", *words.split(), "mpirun python main.py")
    assert (result.code, result.out) == (0, OF_WORDS)


def test_nothing_is_overwritten(hpcdist: Hpcdist, job: Path, wording: Wording) -> None:
    result = hpcdist("import", "job.yml", "-o", "job.yml")
    assert (result.code, result.out) == (2, "")
    wording(result.err)
    assert job.read_text() == JOB


@pytest.mark.parametrize(
    "text",
    ["run: {cmd: x}\nops: []\nframwork: mpi\n", REQUIRED + "ops: []\n", "name: ["],
 ids=["several", "error and warning", "no YAML"])  # fmt: skip
def test_with_an_error_nothing_is_written(
    text: str, hpcdist: Hpcdist, job: Path, folder: Path, wording: Wording
) -> None:
    job.write_text(text)
    result = hpcdist("import", "job.yml", "-o", "exp.yml")
    assert (result.code, result.out) == (2, "")
    wording(result.err)
    assert not (folder / "exp.yml").exists()


@pytest.mark.parametrize(
    "words",
    [["import"], ["import", "job.yml", "more"], ["import", "job.yml", "-o", "x", "--json"], ["import", "--from", "kubeflow", "a", "b"], ["import", "--from", "kubefow", "job.yml"], ["import", "jbo.yml"], ["import", "job.yml", "-o", "job.yml/exp.yml"]],
 ids=" ".join)  # fmt: skip
def test_wrong_usage(words: list[str], hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist(*words)
    assert (result.code, result.out) == (2, "")
    wording(result.err)


def test_the_job_among_several_documents(hpcdist: Hpcdist, job: Path, wording: Wording) -> None:
    job.write_text(f"---\n{CLAIM}---\n{JOB.replace('replicas: 3', 'replicas: 3 # of several')}---\n")
    result = hpcdist("import", "job.yml")
    assert result.code == 0
    wording(result.err)
    assert "name: ddp                        # job.yml:8 metadata.name\n" in result.out
    planned = hpcdist("plan", "job.yml", "--site", "perlmutter", "--set", "batch.account=a")
    assert (planned.code, planned.err.splitlines()[0]) == (0, result.err.splitlines()[0])


def test_one_job_of_several(hpcdist: Hpcdist, job: Path, wording: Wording) -> None:
    job.write_text(f"{JOB}---\n{JOB.replace('ddp', 'other').replace('replicas: 3', 'replicas: 7')}")
    wording(hpcdist("import", "job.yml", "--from", "kubeflow").err)
    result = hpcdist("import", "job.yml", "--name", "other")
    assert result.code == 0
    wording(result.err)
    assert "n_workers: 7" in result.out


GRADIENT: Final = "name: a\ncontainer: a/b\nmachineType: C3\ncommand: |\n  python x.py\n  --lr 1\n"
AZURE: Final = """\
type: command
name: a
command: x
environment: {image: tensorflow/tensorflow:1.15.0}
distribution: {type: tensorflow, worker_count: 2}
"""


@pytest.mark.parametrize("text", [GRADIENT, AZURE])
def test_what_is_written_renders_to_the_script_of_the_other_file(
    hpcdist: Hpcdist, job: Path, text: str
) -> None:
    job.write_text(text)
    render = ("render", "job.yml", "--site", "slurm", "--no-container")
    script = hpcdist(*render).out
    job.write_text(hpcdist("import", "job.yml", "-o", "-").out)
    again = hpcdist(*render)
    assert (again.code, again.out) == (0, script)


def test_lines_that_polyaxon_would_join_are_kept_apart(hpcdist: Hpcdist, job: Path) -> None:
    job.write_text(GRADIENT)
    result = hpcdist("import", "job.yml")
    assert (result.code, result.err) == (0, "")
    assert (
        result.out
        == """\
# From job.yml, by `hpcdist import`.
name: a               # job.yml:1
environment:
  resources:
    cpu:
      requests: 2     # job.yml:3 machineType
    memory:
      requests: 2048  # job.yml:3 machineType
build:
  image: a/b          # job.yml:2 container
run:
  cmd: |-             # job.yml:4 command
    python x.py
    {% raw %}{% endraw %}--lr 1
"""
    )
