"""Trainings by PyTorch and Lightning that outlive their time limit and a node, with the same weights."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

from tests.slurm.cluster import CHECKOUT, Cluster
from tests.slurm.users import User, framework_path

pytestmark = pytest.mark.real

LIGHTNING = """\
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
        print("from step", self.trainer.global_step, flush=True)
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
    max_epochs=11, logger=False, enable_progress_bar=False, default_root_dir=folder, callbacks=[last]
)
trainer.fit(model, data, ckpt_path="last")
if trainer.is_global_zero:
    torch.save(model.state_dict(), os.path.join(os.environ["HPCDIST_OUTPUTS"], "weights.pt"))
sys.stdout.flush()
os._exit(0)
"""
SHORT = {"batch": {"walltime": "1m"}, "restart": {"notice": "25s"}}
LONG = {"batch": {"walltime": "10m"}, "restart": {}}


@pytest.fixture
def user(cluster: Cluster, workdir: Path) -> User:
    (workdir / "examples").symlink_to(CHECKOUT / "examples")
    (workdir / "fit.py").write_text(LIGHTNING)
    return User(cluster, workdir)


def start_pytorch(user: User, pause: float, *options: str) -> None:
    """Submit the example on two nodes, by torchrun, to which the signal is TERM.

    With pauses it takes longer than `SHORT` lets it, however fast the machine is; so does Lightning.
    """
    spread = ("--set=environment.replicas.per_node=1", "--set=pytorch.launch=torchrun")
    params = ("-p", "epochs=7", "-p", f"pause={pause}")
    done = user.hpcdist("submit", "examples/pytorch_resume.yml", *spread, *params, *options)
    assert done.returncode == 0, done.stderr


def start_lightning(user: User, name: str, pause: float, times: dict[str, dict[str, str]]) -> None:
    """Submit a training by Lightning that sees nothing but Slurm."""
    experiment = {
        "framework": "lightning",
        "run": {"cmd": f"env -u TORCHELASTIC_RUN_ID python fit.py {pause}"},
        "environment": {"replicas": {"n_workers": 1, "per_node": 1}, "restart": times["restart"]},
        "batch": times["batch"],
    }
    path = {"PATH": framework_path("lightning")}
    done = user.hpcdist("submit", user.write(name, experiment), env=path)
    assert done.returncode == 0, done.stderr


def weights(user: User, run: str) -> dict[str, torch.Tensor]:
    assert user.hpcdist("wait", run).returncode == 0, user.log(run)
    state: dict[str, torch.Tensor] = torch.load(
        user.directory / "runs" / run / "outputs" / "weights.pt", weights_only=True
    )
    return state


def assert_same(user: User, disturbed: str, undisturbed: str) -> None:
    found, expected = weights(user, disturbed), weights(user, undisturbed)
    assert {name: torch.equal(found[name], expected[name]) for name in expected} == dict.fromkeys(found, True)


def test_disturbed_trainings_end_with_the_same_weights(user: User) -> None:
    start_pytorch(user, 0.25, "--set=batch.walltime=1m", "--set=environment.restart.notice=25s")
    start_lightning(user, "short", 0.2, SHORT)
    user.await_log("pytorch-resume-1", "going on from step")
    time.sleep(3)
    [job] = (user.directory / "runs" / "pytorch-resume-1" / "jobs").iterdir()
    user.cluster.crash((job / "nodes").read_text().split()[0])
    start_pytorch(user, 0)
    start_lightning(user, "long", 0, LONG)
    assert_same(user, "pytorch-resume-1", "pytorch-resume-2")
    assert_same(user, "short-1", "long-1")
    assert "saved, and not finished" in user.log("pytorch-resume-1")
    assert user.log("pytorch-resume-1").count("going on from step") >= 2
    assert (user.directory / "runs/short-1/checkpoints/hpc_ckpt_1.ckpt").exists()
