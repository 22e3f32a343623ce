"""Every framework's example, submitted on the real Slurm over two nodes: losses fall, all know each other."""

from __future__ import annotations

import re

import pytest

from tests.slurm.users import User, framework_path

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.usefixtures("examples")]

HALF_NODES = (
    "--set=environment.resources.cpu.requests=8",
    "--set=environment.replicas.default_worker.resources.cpu.requests=8",
)
"""Two replicas a node."""
WHOLE_NODES = (
    "--set=environment.resources.cpu.requests=16",
    "--set=environment.replicas.default_worker.resources.cpu.requests=16",
)
GPUS = (
    "--set=environment.resources.gpu.requests=2",
    "--set=environment.replicas.default_worker.resources.gpu.requests=2",
)


def learns(user: User, example: str, *options: str, framework: str = "", run: int = 1) -> str:
    """Submit an example, and return what it wrote once its loss has fallen."""
    path = {"PATH": framework_path(framework)}
    done = user.hpcdist("submit", f"examples/{example}.yml", "--wait", *options, env=path)
    log = user.log(f"{example.replace('_', '-')}-{run}")
    assert done.returncode == 0, done.stderr + log
    (losses,) = re.findall(r"loss (\S+) -> (\S+)", log)
    assert float(losses[1]) < float(losses[0]) / 2
    return log


@pytest.mark.extended
@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_tensorflow_with_parameter_servers(user: User, launcher: str) -> None:
    options = (*HALF_NODES, *GPUS, f"--set=batch.launcher={launcher}")
    log = learns(user, "tensorflow_ps", *options, framework="tensorflow")
    assert f"4 tasks by {launcher}, 3 nodes, 6 GPUs: n1 n2 c1 (job " in log
    assert "the weights are on /job:ps/replica:0/task:0" in log
    assert "on 2 workers and 1 parameter servers" in log
    assert "hpcdist: master ended well; ending those that served\n" in log


SERVED = """\
import tensorflow as tf
me = tf.distribute.cluster_resolver.TFConfigClusterResolver()
spec = me.cluster_spec()
if me.task_type == "ps":
    tf.distribute.Server(spec, job_name="ps", task_index=me.task_id).join()
tf.config.experimental_connect_to_cluster(spec, job_name=me.task_type, task_index=me.task_id)
with tf.device("/job:ps/task:0"):
    weight = tf.Variable(4.0)
for _ in range(20):
    weight.assign_sub(0.2 * weight)
print(f"{me.task_type}: {float(weight):.3f} on {weight.device} of {sorted(spec.jobs)}", flush=True)
"""


@pytest.mark.extended
@pytest.mark.parametrize("chief", ["chief", "worker"])
def test_tensorflow_with_servers_and_one_replica_that_uses_them(user: User, chief: str) -> None:
    (user.directory / "served.py").write_text(SERVED)
    asked = {
        "framework": "tensorflow",
        "tensorflow": {"chief": chief == "chief"},
        "environment": {"replicas": {"n_ps": 1}},
        "run": {"cmd": "python served.py"},
        "batch": {"walltime": "5m", "nodes": 2},
    }
    path = {"PATH": framework_path("tensorflow"), "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = user.hpcdist("submit", user.write("served", asked), "--wait", env=path)
    log = user.log("served-1")
    assert done.returncode == 0, done.stderr + log
    assert "2 tasks by srun, 2 nodes: n1 n2 (job " in log
    assert f"{chief}: 0.046 on /job:ps/replica:0/task:0/device:CPU:0 of {sorted((chief, 'ps'))}" in log


@pytest.mark.extended
def test_tensorflow_mirrored(user: User) -> None:
    log = learns(user, "tensorflow_mirrored", *WHOLE_NODES, framework="tensorflow")
    assert "2 tasks by srun, 2 nodes: n1 n2 (job " in log
    assert "on 2 replicas" in log


@pytest.mark.extended
@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_mxnet(user: User, launcher: str) -> None:
    options = (*HALF_NODES, f"--set=batch.launcher={launcher}")
    log = learns(user, "mxnet_kvstore", *options, framework="mxnet")
    assert f"4 tasks by {launcher}, 2 nodes: n1 n2 (job " in log
    assert "on 2 workers" in log


def test_pytorch_learns_the_same_whoever_starts_it(user: User) -> None:
    by_torchrun = learns(user, "pytorch_ddp", *HALF_NODES)
    by_srun = learns(user, "pytorch_ddp", *HALF_NODES, "--set=pytorch.launch=env", run=2)
    assert "2 tasks by srun, 2 nodes: n1 n2 (job " in by_torchrun
    assert "4 tasks by srun, 2 nodes: n1 n2 (job " in by_srun
    losses = [re.findall(r"loss \S+ -> \S+ on 4 cpu processes", log) for log in (by_torchrun, by_srun)]
    assert losses[0] == losses[1]
    assert len(losses[0]) == 1


@pytest.mark.extended
def test_torchrun_on_nodes_with_different_numbers_of_processes(user: User) -> None:
    log = learns(user, "pytorch_ddp", *HALF_NODES, "--set=environment.replicas.n_workers=4")
    assert "3 tasks by srun, 3 nodes: n1 n2 n3 (job " in log
    assert "on 5 cpu processes" in log


@pytest.mark.extended
@pytest.mark.parametrize("launcher", ["srun", "mpirun"])
def test_jax(user: User, launcher: str) -> None:
    log = learns(user, "jax_distributed", *WHOLE_NODES, f"--set=batch.launcher={launcher}", framework="jax")
    assert "on 2 processes with 2 devices" in log


def ranks(log: str, name: str) -> list[str]:
    """Return what each process says of its place in the world, in their order."""
    return sorted(re.findall(rf"rank (\d of \d) in {name}", log))


@pytest.mark.extended
@pytest.mark.parametrize(
    ("example", "name"), [("lightning_trainer", "Lightning"), ("accelerate_tiny", "Accelerate")]
)
def test_a_program_with_nothing_but_defaults_is_one_world(user: User, example: str, name: str) -> None:
    workers = "--set=environment.replicas.n_workers=3"
    log = learns(user, example, *HALF_NODES, workers, framework="lightning")
    assert "4 tasks by srun, 2 nodes: n1 n2 (job " in log
    assert ranks(log, name) == ["0 of 4", "1 of 4", "2 of 4", "3 of 4"]


FABRIC = (
    "from lightning import Fabric; fabric = Fabric(); fabric.launch(); "
    "print(f'rank {fabric.global_rank} of {fabric.world_size} in Fabric', flush=True)"
)


@pytest.mark.extended
def test_lightning_on_nodes_with_different_numbers_of_tasks_and_fabric(user: User) -> None:
    workers = "--set=environment.replicas.n_workers=4"
    log = learns(user, "lightning_trainer", *HALF_NODES, workers, framework="lightning")
    assert "5 tasks by srun, 3 nodes: n1 n2 n3 (job " in log
    assert ranks(log, "Lightning") == [f"{rank} of 5" for rank in range(5)]
    command = f'--set=run.cmd=python -c "{FABRIC}"'
    path = {"PATH": framework_path("lightning")}
    for run, count in ((2, 4), (3, 5)):
        options = (*HALF_NODES, f"--set=environment.replicas.n_workers={count - 1}", command, "--wait")
        done = user.hpcdist("submit", "examples/lightning_trainer.yml", *options, env=path)
        assert done.returncode == 0, done.stderr
        assert ranks(user.log(f"lightning-trainer-{run}"), "Fabric") == [
            f"{rank} of {count}" for rank in range(count)
        ]


@pytest.mark.extended
def test_deepspeed(user: User) -> None:
    log = learns(user, "deepspeed_tiny", *WHOLE_NODES)
    assert "on 2 cpu processes" in log


@pytest.mark.extended
def test_deepspeed_by_its_own_launcher_finds_the_hostfile(user: User) -> None:
    command = (
        'deepspeed --hostfile "$HPCDIST_HOSTFILE" --master_addr "$HPCDIST_HEAD_ADDRESS" '
        '--master_port "$HPCDIST_PORT" examples/deepspeed_tiny.py'
    )
    log = learns(user, "deepspeed_tiny", *HALF_NODES, f"--set=run.cmd={command}")
    assert "2 tasks by the command, 1 node: n1 (job " in log
    workers = "--set=environment.replicas.n_workers=3"
    log = learns(user, "deepspeed_tiny", *HALF_NODES, workers, f"--set=run.cmd={command}", run=2)
    assert "4 tasks by the command, 2 nodes: n1 n2 (job " in log
    assert "on 4 cpu processes" in log


@pytest.mark.extended
def test_chainermn(user: User) -> None:
    log = learns(user, "chainermn_digits", *WHOLE_NODES, "--set=batch.launcher=mpirun", framework="mxnet")
    assert "on 2 processes" in log


@pytest.mark.extended
def test_a_second_job_goes_on_from_the_first_ones_checkpoint(user: User) -> None:
    example = "examples/image_classification.yml"
    first = user.hpcdist("submit", example, "--wait", *WHOLE_NODES, "-p", "epochs=1")
    assert first.returncode == 0, first.stderr + user.log("image-classification-1")
    checkpoint = user.directory / "runs" / "image-classification-1" / "outputs"
    options = ("-p", "epochs=2", "-p", f"checkpoint={checkpoint}")
    second = user.hpcdist("submit", example, "--wait", *WHOLE_NODES, *options)
    log = user.log("image-classification-2")
    assert second.returncode == 0, second.stderr + log
    assert "resuming after epoch 1" in log
    assert re.search(r"throughput \d+ images/s on 2 ranks", log)
    (accuracy,) = re.findall(r"test accuracy ([\d.]+)", log)
    assert float(accuracy) > 0.9
