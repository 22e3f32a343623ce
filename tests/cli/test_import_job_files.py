"""Job files of other tools become the experiments that one would write, and jobs as large as theirs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.importers.azure_commands import prepared
from tests.importers.job_files import COMMAND_LINE, FILES

from .conftest import Hpcdist

EXPERIMENTS: Final = {
    "gradient": """
name: digits
framework: horovod
backend: mpi
environment:
  replicas: {n_workers: 2, default_worker: {resources: {cpu: {requests: 12}, memory: {requests: 30720}}}}
  env_vars: {EPOCHS: "20"}
batch: {nodes: 2}
build: {image: "horovod/horovod:0.18.1-tf1.14.0-torch1.2.0-mxnet1.5.0-py3.6"}
run:
  cmd: >-
    echo "hosts: $(wc -l < $HPCDIST_HOSTFILE)" &&
    mpirun --allow-run-as-root -np 2 --hostfile "$HPCDIST_HOSTFILE" -bind-to none -map-by slot
    -x EPOCHS python examples/quickstart.py --epochs=$EPOCHS
""",
    "azure_component": """
name: org-samples-digits
tags: [version=0.0.1]
framework: mpi
params: {epochs: null}
inputs:
- {name: epochs, type: int, minimum: 1}
- {name: rate, type: float, is_optional: true}
environment: {replicas: {n_workers: 1}, processes_per_replica: 1}
batch: {nodes: 2}
build: {image: "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu20.04:latest"}
run:
  cmd: >-
    python examples/quickstart.py --epochs={{ epochs }} {% if rate is not none %}--lr={{ rate }}{% endif %}
""",
    "azure_job": """
framework: pytorch
params: {steps: 100}
inputs: [{name: steps}]
environment: {processes_per_replica: 2}
build: {image: "pytorch/pytorch:2.1.0"}
run: {cmd: "python examples/pytorch_ddp.py --steps={{ steps }}"}
pytorch: {launch: env}
""",
    "mlrun": """
name: digits
framework: mpi
environment:
  resources: &each {cpu: {requests: 12}, memory: {requests: 4096}}
  replicas: {n_workers: 1, default_worker: {resources: *each}}
  env_vars: {NCCL_DEBUG: INFO}
build: {image: "mlrun/ml-models:1.0"}
run: {cmd: python -u examples/horovod_digits.py --epochs=5}
""",
    "kubeflow_mpi": """
name: digits
framework: mpi
environment:
  resources: &each {cpu: {limits: 12}, memory: {limits: 4096}, gpu: {limits: 2}}
  replicas: {n_workers: 1, default_worker: {resources: *each}}
  env_vars: {OMPI_MCA_pml: ob1}
build: {image: "horovod/horovod:0.28.1"}
run: {cmd: python examples/quickstart.py --epochs=20}
batch: {walltime: "00:10:00"}
""",
    "kubeflow_tf": """
name: servers
framework: tensorflow
environment:
  resources: &each {cpu: {requests: 8}}
  replicas: {n_workers: 1, n_ps: 1, default_worker: {resources: *each}, default_ps: {resources: *each}}
build: {image: "tensorflow/tensorflow:2.15.0"}
run: {cmd: python examples/tensorflow_ps.py --steps=100}
tensorflow: {ends_with: master}
""",
    "kubeflow_pytorch": """
name: ddp
framework: pytorch
environment:
  resources: &each {cpu: {limits: 12}, gpu: {limits: 1}}
  replicas: {n_workers: 1, default_worker: {resources: *each}}
build: {image: "pytorch/pytorch:2.1.0"}
run: {cmd: python -u examples/pytorch_ddp.py --steps=100}
pytorch: {launch: torchrun}
""",
    "polyaxon_v1": """
name: digits
framework: mpi
params: {epochs: 20}
inputs: [{name: epochs, type: int}]
environment:
  resources: &each {cpu: {limits: 12}, gpu: {limits: 1}}
  replicas: {n_workers: 1, default_worker: {resources: *each}}
build: {image: "horovod/horovod:0.28.1"}
run: {cmd: "python examples/quickstart.py --epochs={{ epochs }}"}
batch: {walltime: 600s}
""",
    "command_line": """
name: words
framework: horovod
environment:
  resources: &each {cpu: {requests: 12}, memory: {requests: 30720}}
  replicas: {n_workers: 1, default_worker: {resources: *each}}
batch: {nodes: 2}
build: {image: "horovod/horovod:0.28.1"}
run: {cmd: python examples/quickstart.py --epochs=20}
""",
}
JOBS: Final = {
    "gradient": "2 tasks by the command, 2 nodes",
    "azure_component": "2 tasks by srun, 2 nodes",
    "azure_job": "2 tasks by srun, 1 node",
    "mlrun": "2 tasks by srun, 2 nodes",
    "kubeflow_mpi": "4 tasks by srun, 2 nodes, 4 GPUs",
    "kubeflow_tf": "3 tasks by srun, 2 nodes",
    "kubeflow_pytorch": "2 tasks by srun, 2 nodes, 2 GPUs",
    "polyaxon_v1": "2 tasks by srun, 2 nodes, 2 GPUs",
}


@pytest.mark.parametrize("name", FILES)
def test_a_foreign_file_makes_the_expected_experiment(hpcdist: Hpcdist, folder: Path, name: str) -> None:
    (folder / "job.yml").write_text(FILES[name].lstrip())
    done = hpcdist("import", "job.yml")
    expected = yaml.safe_load(EXPERIMENTS[name])
    if name.startswith("azure"):
        expected["run"]["cmd"] = prepared(expected["run"]["cmd"])
    assert (done.code, yaml.safe_load(done.out)) == (0, expected), done.err


@pytest.mark.parametrize("name", FILES)
def test_a_foreign_job_keeps_its_size(hpcdist: Hpcdist, folder: Path, name: str) -> None:
    (folder / "job.yml").write_text(FILES[name].lstrip())
    params = ("-p", "epochs=20") if name == "azure_component" else ()
    checked = hpcdist("check", "job.yml", "--site", "testbed", "--no-container", *params)
    summary = checked.out.partition("\n")[0]
    assert (checked.code, summary) == (0, f"ok: job.yml: {JOBS[name]} (site testbed)"), checked.err


def test_a_command_line_of_gradient_is_an_experiment(hpcdist: Hpcdist, folder: Path) -> None:
    done = hpcdist("import", "-o", "exp.yml", "--from", "gradient", "--", *shlex.split(COMMAND_LINE))
    assert done.code == 0, done.err
    written = yaml.safe_load((folder / "exp.yml").read_text())
    assert written == yaml.safe_load(EXPERIMENTS["command_line"])
    checked = hpcdist("check", "exp.yml", "--site", "testbed", "--no-container")
    summary = checked.out.partition("\n")[0]
    assert (checked.code, summary) == (0, "ok: exp.yml: 2 tasks by srun, 2 nodes (site testbed)")
