"""Job files of other tools, submitted as they stand on the real Slurm: their programs train and know all."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.slurm.cluster import CHECKOUT, Cluster
from tests.slurm.test_containers import user as boxed  # noqa: F401 - the fixture of a user with Apptainer
from tests.slurm.users import User, framework_path

pytestmark = pytest.mark.real

FILES: dict[str, str] = {
    "gradient": """
name: digits
projectId: prw93kd
experimentType: MPI
workerContainer: &image horovod/horovod:0.18.1-tf1.14.0-torch1.2.0-mxnet1.5.0-py3.6
workerMachineType: C7
workerCount: 2
workerCommand: sleep infinity
masterContainer: *image
masterMachineType: C7
masterCount: 1
masterCommand: >-
  echo "hosts: $(wc -l < /generated/hostfile)" &&
  mpirun --allow-run-as-root -np 2 --hostfile /generated/hostfile -bind-to none -map-by slot
  -x EPOCHS python examples/quickstart.py --epochs=$EPOCHS
experimentEnv: {EPOCHS: 20}
""",
    "azure_component": """
$schema: https://componentsdk.azureedge.net/jsonschema/DistributedComponent.json
type: DistributedComponent
name: org.samples.digits
version: 0.0.1
inputs:
  epochs: {type: Integer, min: 1}
  rate: {type: Float, optional: true}
launcher:
  type: mpi
  additional_arguments: python examples/quickstart.py --epochs={inputs.epochs} [--lr={inputs.rate}]
environment:
  docker: {image: "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu20.04:latest"}
  os: Linux
runsettings:
  resource_layout: {node_count: 2, process_count_per_node: 1}
""",
    "azure_job": """
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
type: command
command: python examples/pytorch_ddp.py --steps=${{inputs.steps}}
inputs: {steps: 100}
environment: {image: "pytorch/pytorch:2.1.0"}
compute: azureml:cpu-cluster
distribution: {type: pytorch, process_count_per_instance: 2}
resources: {instance_count: 1}
""",
    "mlrun": """
kind: mpijob
metadata: {name: digits}
spec:
  command: examples/horovod_digits.py
  args: [--epochs=5]
  image: mlrun/ml-models:1.0
  replicas: 2
  mpi_args: [-x, NCCL_DEBUG=INFO]
  resources: {requests: {cpu: 12, memory: 4Gi}}
""",
    "kubeflow_mpi": """
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: digits}
spec:
  slotsPerWorker: 2
  runPolicy: {cleanPodPolicy: Running, activeDeadlineSeconds: 600}
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          containers:
          - name: launcher
            image: horovod/horovod:0.28.1
            command: [mpirun]
            args: [-np, "4", --allow-run-as-root, -bind-to, none, -map-by, slot, -x, PATH, -mca, pml, ob1,
                   python, examples/quickstart.py, --epochs=20]
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - name: worker
            image: horovod/horovod:0.28.1
            resources: {limits: {cpu: 12, memory: 4Gi, nvidia.com/gpu: 2}}
""",
    "kubeflow_tf": """
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: servers}
spec:
  tfReplicaSpecs:
    Chief:
      template: &pod
        spec:
          containers:
          - name: tensorflow
            image: tensorflow/tensorflow:2.15.0
            command: [python, examples/tensorflow_ps.py, --steps=100]
            resources: {requests: {cpu: 8}}
    Worker: {replicas: 1, template: *pod}
    PS: {replicas: 1, template: *pod}
""",
    "kubeflow_pytorch": """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: ddp}
spec:
  nprocPerNode: "1"
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template: &pod
        spec:
          containers:
          - name: pytorch
            image: pytorch/pytorch:2.1.0
            command: [torchrun, examples/pytorch_ddp.py, --steps=100]
            resources: {limits: {cpu: 12, nvidia.com/gpu: 1}}
    Worker: {replicas: 1, template: *pod}
""",
    "polyaxon_v1": """
version: 1.1
kind: operation
name: digits
termination: {timeout: 600}
params: {epochs: {value: 20}}
component:
  inputs: [{name: epochs, type: int}]
  run:
    kind: mpijob
    slotsPerWorker: 1
    launcher:
      container:
        image: horovod/horovod:0.28.1
        command: [mpirun, -np, "2", --allow-run-as-root, -bind-to, none,
                  python, examples/quickstart.py, "--epochs={{ params.epochs }}"]
    worker:
      replicas: 2
      container:
        image: horovod/horovod:0.28.1
        resources: {limits: {cpu: 12, nvidia.com/gpu: 1}}
""",
}
WORLDS: dict[str, tuple[str, ...]] = {
    "gradient": ("2 tasks by the command, 2 nodes: n1 n2 ", "hosts: 2\n", " on 2 ranks"),
    "azure_component": ("2 tasks by srun, 1 node: n1 ", " on 2 ranks"),
    "azure_job": ("2 tasks by srun, 1 node: n1 ", " on 2 cpu processes"),
    "mlrun": ("2 tasks by srun, 2 nodes: n1 n2 ", " on 2 ranks"),
    "kubeflow_mpi": ("4 tasks by srun, 2 nodes, 4 GPUs: n1 n2 ", " on 4 ranks"),
    "kubeflow_tf": ("3 tasks by srun, 2 nodes: n1 n2 ", " on 1 workers and 1 parameter servers"),
    "kubeflow_pytorch": ("2 tasks by srun, 2 nodes, 2 GPUs: n1 n2 ", " on 2 cpu processes"),
    "polyaxon_v1": ("2 tasks by srun, 2 nodes, 2 GPUs: n1 n2 ", " on 2 ranks"),
}
"""What the log of each must tell: how the job was laid out, and how many its program knew of."""
COMMAND_LINE = """
experiments create multinode --name words --projectId p --experimentType MPI
--workerCount 2 --workerMachineType C7 --workerContainer horovod/horovod:0.28.1
--workerCommand 'sleep infinity' --masterMachineType C7 --masterCommand
'mpirun -np 2 --hostfile /generated/hostfile -bind-to none python examples/quickstart.py --epochs=20'
"""


@pytest.fixture
def user(cluster: Cluster, workdir: Path) -> User:
    (workdir / "examples").symlink_to(CHECKOUT / "examples")
    return User(cluster, workdir)


def written(user: User, name: str) -> str:
    """Write a foreign file where the user is, and return its name."""
    (user.directory / f"{name}.yml").write_text(FILES[name].lstrip())
    return f"{name}.yml"


def trained(user: User, file: str, *options: str) -> str:
    """Submit a file, and return the log of its job, which ends well; --follow sees that at once."""
    path = {"PATH": framework_path("tensorflow" if file == "kubeflow_tf.yml" else "")}
    done = user.hpcdist("submit", file, "--follow", *options, env=path)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.mark.parametrize("name", FILES)
def test_a_foreign_file_is_submitted_as_it_stands(user: User, name: str) -> None:
    options = ("-p", "epochs=20") if name == "azure_component" else ()
    log = trained(user, written(user, name), "--no-container", *options)
    assert [told for told in WORLDS[name] if told not in log] == [], log


def test_a_command_line_of_gradient_is_written_down_and_submitted(user: User) -> None:
    words = shlex.split(COMMAND_LINE)
    imported = user.hpcdist("import", "-o", "exp.yml", "--from", "gradient", "--", *words)
    assert imported.returncode == 0, imported.stderr
    log = trained(user, "exp.yml", "--no-container")
    assert "2 tasks by srun, 2 nodes: n1 n2 " in log
    assert " on 2 ranks" in log


def test_a_foreign_file_is_run_in_its_image(boxed: User) -> None:  # noqa: F811 - the fixture
    options = ("--site=./boxed.yaml", "--set=build.image=./image")
    log = trained(boxed, written(boxed, "polyaxon_v1"), *options)
    assert "2 tasks by srun, 2 nodes, 2 GPUs: n1 n2 " in log
    assert " on 2 ranks" in log
