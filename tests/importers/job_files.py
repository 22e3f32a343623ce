"""Job files of other tools, whose programs are the examples: some are submitted, all are compared."""

from __future__ import annotations

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
COMMAND_LINE = """
experiments create multinode --name words --projectId p --experimentType MPI
--workerCount 2 --workerMachineType C7 --workerContainer horovod/horovod:0.28.1
--workerCommand 'sleep infinity' --masterMachineType C7 --masterCommand
'mpirun -np 2 --hostfile /generated/hostfile -bind-to none python examples/quickstart.py --epochs=20'
"""
