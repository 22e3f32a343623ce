"""Trainings that outlive a limit, a more important job and a node, with the weights of undisturbed ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.slurm.cluster import Cluster
from tests.slurm.partitions import administer, partition
from tests.slurm.process import until
from tests.slurm.users import User, framework_path

pytestmark = [pytest.mark.real, pytest.mark.extended, pytest.mark.long]

LIGHTNING_SCRIPT = """\
import os, sys, time
import lightning, torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Plane(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))
    def on_train_start(self):
        if self.trainer.global_step:
            print("going on from step", self.trainer.global_step, flush=True)
    def training_step(self, batch):
        time.sleep(float(sys.argv[1]))
        return nn.functional.mse_loss(self.net(batch[0]), batch[1])
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)

lightning.seed_everything(0)
x = torch.randn(1024, 16)
data = DataLoader(TensorDataset(x, x.sum(dim=1, keepdim=True)), batch_size=32, shuffle=True)
folder, model = os.environ["HPCDIST_CHECKPOINTS"], Plane()
last = ModelCheckpoint(folder, save_last=True)
trainer = lightning.Trainer(
    max_epochs=40, logger=False, enable_progress_bar=False, default_root_dir=folder, callbacks=[last]
)
trainer.fit(model, data, ckpt_path="last")
if trainer.is_global_zero:
    torch.save(model.state_dict(), os.path.join(os.environ["HPCDIST_OUTPUTS"], "weights.pt"))
sys.stdout.flush()
os._exit(0)
"""
UNMODIFIED_SCRIPT = """\
import time
import lightning as L
from lightning.pytorch.demos.boring_classes import DemoModel, RandomDataset
from torch.utils.data import DataLoader

class Model(DemoModel):
    def on_train_start(self):
        if self.trainer.global_step:
            print("going on from step", self.trainer.global_step, flush=True)
    def training_step(self, batch, batch_nb):
        print("at step", self.trainer.global_step, flush=True)
        time.sleep(0.2)
        return {"loss": self(batch).sum()}

trainer = L.Trainer(max_steps=60, accelerator="cpu", devices=1, num_nodes=2, strategy="ddp")
trainer.fit(Model(), DataLoader(RandomDataset(32, 640), batch_size=8))
print("trained to step", trainer.global_step, flush=True)
"""
"""As in Lightning's pages on Slurm: at a signal the Trainer saves, and puts the job into the queue to go on.
It knows nothing of hpcdist, and writes where it is started."""
HUGGING_FACE_SCRIPT = """\
import os, sys, time
import torch
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainerCallback
from transformers import TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint

class Pause(TrainerCallback):
    def on_train_begin(self, args, state, control, **kwargs):
        if state.global_step:
            print("going on from step", state.global_step, flush=True)
    def on_step_end(self, args, state, control, **kwargs):
        time.sleep(pause)

pause = float(sys.argv.pop())
(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
set_seed(args.seed)
tokens = torch.randint(50, (256, 16), generator=torch.Generator().manual_seed(0))
data = [{"input_ids": each, "labels": each} for each in tokens]
size = dict(n_embd=32, n_layer=2, n_head=2, n_positions=16, vocab_size=50, bos_token_id=0, eos_token_id=0)
size |= dict(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
trainer = Trainer(GPT2LMHeadModel(GPT2Config(**size)), args, train_dataset=data, callbacks=[Pause()])
trainer.train(resume_from_checkpoint=get_last_checkpoint(args.output_dir))
if trainer.is_world_process_zero():
    torch.save(trainer.model.state_dict(), os.path.join(os.environ["HPCDIST_OUTPUTS"], "weights.pt"))
sys.stdout.flush()
os._exit(0)
"""
"""As in Hugging Face's own examples, whose options are those of TrainingArguments; without dropout, of
whose random numbers the checkpoint at a signal has not all. What DistributedDataParallel leaves behind may
abort a process whose interpreter ends, so that it ends without."""

LAST_WHOLE = """\
max(
    (str(file.parent) for file in Path(args.output_dir).glob("checkpoint-*/trainer_state.json")),
    key=lambda name: int(name.rpartition("-")[2]),
    default=None,
)"""
"""The last whole checkpoint: a program may be killed while it writes one, in which that file comes last."""

MANY = "notice: 15s, no_progress: 0, max: 100"
"""A busy machine may need more attempts than another one."""


@dataclass(frozen=True)
class Training:
    """One that prints `resumed` when it goes on, and whose run leaves its weights in a file.

    Its pauses alone take longer than its limit; they are read when an attempt begins.
    """

    name: str
    pause: float
    resumed: str = "going on from step"
    weights: str = "outputs/weights.pt"
    framework: str = ""
    file: str = ""
    options: tuple[str, ...] = ()
    restart: str = MANY

    @property
    def short(self) -> tuple[str, str]:
        return "--set=batch.walltime=1m", f"--set=environment.restart={{{self.restart}}}"

    def pause_for(self, user: User, seconds: float) -> None:
        (user.directory / f"{self.name}.pause").write_text(f"{seconds:g}")

    def submit(self, user: User, *options: str) -> str:
        """Submit it; return the run."""
        path = {"PATH": framework_path(self.framework)}
        words = (self.file or f"{self.name}.yml", "-p", f"pause=$(cat {self.name}.pause)")
        done = user.hpcdist("submit", *words, *self.options, *options, "--json", env=path)
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout)["name"])

    def times_resumed(self, user: User, run: str) -> int:
        log = user.directory / "runs" / run / "logs" / "job.out"
        return log.read_text().count(self.resumed) if log.exists() else 0

    def result(self, user: User, run: str) -> dict[str, torch.Tensor]:
        """Return the weights at the end, for which this waits."""
        assert user.hpcdist("wait", run).returncode == 0, user.log(run)
        state = torch.load(user.directory / "runs" / run / self.weights, weights_only=True)
        found: dict[str, torch.Tensor] = state.get("model", state)
        return found


PYTORCH = Training(
    name="pytorch",
    pause=1,  # after each step
    file="examples/pytorch_resume.yml",
    options=(
        "--set=environment.replicas.per_node=1",
        "--set=pytorch.launch=torchrun",  # to which the signal is TERM
        "-p",
        "epochs=20",
    ),
)
HOROVOD = Training(
    name="horovod",
    pause=600,  # after each epoch
    resumed="resuming after epoch",
    weights="checkpoints/checkpoint.pt",
    file="examples/image_classification.yml",
    options=(
        "--set=environment.replicas.per_node=1",
        *("-p", "epochs=6", "-p", "pictures=2", "-p", "checkpoint=$HPCDIST_CHECKPOINTS"),
    ),
)
ELASTIC = Training(
    name="elastic",
    pause=0.05,  # after each batch, of which an epoch has 45
    resumed="epoch 2 batch 0: rank 1 of 2",
    weights="checkpoints/checkpoint.pt",
    file="examples/horovod_elastic.yml",
    options=(
        *("--set=environment.replicas.n_workers=1", "--set=environment.replicas.per_node=1"),
        *("--set=horovod.elastic.max_np=2", "--set=horovod.gloo_timeout_seconds=10"),
        "--set=horovod.elastic_timeout=15",  # how long it waits for another node
        *("-p", "epochs=3"),
    ),
)
LIGHTNING = Training(name="lightning", pause=0.2, framework="lightning")
HUGGING_FACE = Training(
    name="hugging_face", pause=1, framework="transformers", restart=f"{MANY}, signal: TERM"
)

TWO_PROCESSES = Training(name="two_processes", pause=0.5, framework="transformers", restart="notice: 1m")


def alone(script: str, arguments: str, **more: Any) -> dict[str, Any]:
    """Return an experiment whose script is followed by its pause."""
    return {"params": {"pause": 0}, "run": {"cmd": f"python {script} {arguments} {{{{ pause }}}}"}, **more}


@pytest.fixture
def user(cluster: Cluster, workdir: Path, examples: None) -> User:
    del examples  # of which it needs to be there
    (workdir / "fit.py").write_text(LIGHTNING_SCRIPT)
    (workdir / "trainer.py").write_text(HUGGING_FACE_SCRIPT)
    whole = HUGGING_FACE_SCRIPT.replace("get_last_checkpoint(args.output_dir)", LAST_WHOLE)
    (workdir / "whole.py").write_text(f"from pathlib import Path\n{whole}")
    return User(cluster, workdir)


def disturbed(user: User, trainings: Sequence[Training], *options: str) -> dict[str, Training]:
    """Submit them with a limit that they meet; return them by their runs."""
    for training in trainings:
        training.pause_for(user, training.pause)
    return {training.submit(user, *training.short, *options): training for training in trainings}


def await_resumed(user: User, runs: dict[str, Training], times: int) -> None:
    def resumed() -> bool:
        return all(training.times_resumed(user, run) >= times for run, training in runs.items())

    until(resumed, "the trainings to go on", 1500)


def crash_nodes(user: User, runs: Iterable[str]) -> None:
    """Crash the first node of each run."""
    for run in runs:
        [job] = (user.directory / "runs" / run / "jobs").iterdir()
        node = (job / "nodes").read_text().split()[0]
        if node in user.cluster.pids:
            user.cluster.crash(node)


def lift_limits(user: User, trainings: Iterable[Training]) -> None:
    """Let later attempts end in peace, however long they take on a busy machine."""
    for training in trainings:
        training.pause_for(user, 0)
    jobs = user.cluster.run(
        ["squeue", "-h", "-t", "R,PD", "-o", "%A"], user="root", check=True
    ).stdout.split()
    for job in jobs:
        administer(user.cluster, "scontrol", "update", f"JobId={job}", "TimeLimit=60")


def outranked(user: User, runs: Iterable[str]) -> bool:
    """Submit a more important job for all nodes; return whether all runs have made room for one."""
    words = ["sbatch", "--exclusive", "-N5", "-p", "all", "-t", "2", "--wait", "--wrap", "true"]
    user.cluster.run(words, user=user.name, cwd=user.directory, check=True)
    return all("DUE TO PREEMPTION" in user.log(run) for run in runs)


def assert_same(user: User, runs: dict[str, Training]) -> None:
    """Train again without pauses, limit and faults, and compare the weights."""
    undisturbed = {training.submit(user): training for training in runs.values()}
    for (run, training), other in zip(runs.items(), undisturbed, strict=True):
        found, expected = training.result(user, run), training.result(user, other)
        same = {name: torch.equal(found[name], expected[name]) for name in expected}
        assert same == dict.fromkeys(found, True)


def test_trainings_outlive_a_limit_a_more_important_job_and_a_node(user: User) -> None:
    with partition(user.cluster, "PriorityTier=0 PreemptMode=REQUEUE GraceTime=0") as lower:
        runs = disturbed(user, (PYTORCH, HOROVOD), f"--set=batch.partition={lower}")
        await_resumed(user, runs, 1)
        until(lambda: outranked(user, runs), "the trainings to make room", 1500)
        await_resumed(user, runs, 2)
        lift_limits(user, runs.values())
        crash_nodes(user, runs)
        assert_same(user, runs)


def test_trainings_by_lightning_and_hugging_face_outlive_a_limit_and_a_node(user: User) -> None:
    lightning = alone(
        "fit.py", "", framework="lightning", environment={"replicas": {"n_workers": 1, "per_node": 1}}
    )
    lightning["run"]["cmd"] = (
        f"env -u TORCHELASTIC_RUN_ID {lightning['run']['cmd']}"  # as in Slurm's own scripts
    )
    user.write("lightning", lightning)
    options = "--output_dir=$HPCDIST_CHECKPOINTS --max_steps=400 --enable_jit_checkpoint --report_to=none"
    user.write("hugging_face", alone("trainer.py", f"--use_cpu --disable_tqdm=true {options}"))
    runs = disturbed(user, (LIGHTNING, HUGGING_FACE))
    until((user.directory / "runs/lightning-1/checkpoints/hpc_ckpt_1.ckpt").exists, "Lightning to save", 1500)
    await_resumed(user, runs, 1)
    lift_limits(user, runs.values())
    crash_nodes(user, runs)
    assert_same(user, runs)


def test_a_script_of_lightning_for_slurm_outlives_a_limit_unmodified(user: User) -> None:
    (user.directory / "slurm.py").write_text(UNMODIFIED_SCRIPT)
    experiment = {
        "framework": "lightning",
        "environment": {"replicas": {"n_workers": 1, "per_node": 1}, "restart": {"notice": "1m"}},
        "run": {"cmd": 'cd "$HPCDIST_CHECKPOINTS" && env -u TORCHELASTIC_RUN_ID python "$OLDPWD/slurm.py"'},
        "batch": {"walltime": "10m"},
    }
    path = {"PATH": framework_path("lightning")}
    done = user.hpcdist("submit", user.write("slurm", experiment), env=path)
    assert done.returncode == 0, done.stderr
    folder = user.directory / "runs" / "slurm-1"
    user.await_log("slurm-1", "at step 5")
    [job] = (folder / "jobs").iterdir()
    administer(user.cluster, "scancel", "--batch", "--signal=URG", job.name)  # as the clock before the limit
    assert user.hpcdist("wait", "slurm-1").returncode == 0, user.log("slurm-1")
    log = user.log("slurm-1")
    assert (log.count("going on from step"), log.count("trained to step 60")) == (2, 2), log
    assert ("notice", "USR1") in user.events("slurm-1")


def test_two_processes_of_the_trainer_of_hugging_face_outlive_a_limit(user: User) -> None:
    options = "--output_dir=$HPCDIST_CHECKPOINTS --max_steps=60 --save_steps=5 --report_to=none"
    torchrun: dict[str, Any] = {
        "framework": "pytorch",
        "pytorch": {"launch": "torchrun"},
        "environment": {"replicas": {"n_workers": 1, "per_node": 1}, "restart": {"notice": "1m"}},
        "batch": {"walltime": "10m"},
    }
    user.write("two_processes", alone("whole.py", f"--use_cpu --disable_tqdm=true {options}", **torchrun))
    TWO_PROCESSES.pause_for(user, TWO_PROCESSES.pause)
    run = TWO_PROCESSES.submit(user)
    folder = user.directory / "runs" / run
    until(lambda: [*folder.glob("checkpoints/checkpoint-*/trainer_state.json")], "a checkpoint", 300)
    TWO_PROCESSES.pause_for(user, 0)
    [job] = (folder / "jobs").iterdir()
    administer(user.cluster, "scancel", "--batch", "--signal=URG", job.name)  # as the clock before the limit
    assert_same(user, {run: TWO_PROCESSES})
    assert TWO_PROCESSES.times_resumed(user, run) == 2, user.log(run)  # once for each rank
    assert ("again", "timeout") in user.events(run)


def test_an_elastic_training_outlives_a_limit_and_a_node_that_it_cannot_do_without(user: User) -> None:
    ELASTIC.pause_for(user, ELASTIC.pause)
    run = ELASTIC.submit(user)
    user.await_log(run, "epoch 1/3 ")
    [job] = (user.directory / "runs" / run / "jobs").iterdir()
    administer(user.cluster, "scancel", "--batch", "--signal=URG", job.name)  # as the clock before the limit
    user.await_log(run, ELASTIC.resumed)
    ELASTIC.pause_for(user, 0)
    lost = (job / "nodes").read_text().split()[1]
    user.cluster.crash(lost)
    assert_same(user, {run: ELASTIC})
    assert [each for each in user.events(run) if each[0] in ("again", "lost", "over")] == [
        ("again", "timeout"),
        ("lost", lost),
        ("again", "node_failure"),
        ("over", "completed"),
    ]
    found = user.json("describe", run)["attempts"]  # on a busy machine ranks may miss each other
    assert [(each["state"], each["why"]) for each in found if each["state"] != "failed"] == [
        ("requeued", "timeout"),
        ("requeued", "node_failure"),
        ("completed", "completed"),
    ]
