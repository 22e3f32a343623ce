"""What `plan --when`, `plan --balance` and `submit` ask: the batch system answers by a fake shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpcdist.base.command import Command, Completed
from hpcdist.cli import costs
from hpcdist.cli.experiment import plan
from hpcdist.loading.planning import ExperimentOptions, Planned, plan_experiment
from hpcdist.runs.services import Services
from hpcdist.schedulers.base import Left
from hpcdist.testing import MISSING, TIMED_OUT, Answer, FakeShell
from tests.wording import Wording

from .conftest import Hpcdist

WIDE = """\
framework: horovod
environment:
  resources: {gpu: {requests: 4}}
  replicas: {n_workers: 1, default_worker: {resources: {gpu: {requests: 4}}}}
run: {cmd: python train.py}
batch: {walltime: 1h, account: physics}
"""
BALANCE = """
balance: {command: [saldo, "{account}"], unit: GPU-hours, pattern: "(?P<left>[0-9]+) left"}
"""


def made(site: str, folder: Path) -> Planned:
    (folder / "wide.yml").write_text(WIDE)
    return plan_experiment(ExperimentOptions("wide.yml", site, ("sites",)), {})


def answers(answer: Answer) -> Services:
    return Services(FakeShell([(["sbatch"], answer)]), now=lambda: 1000.0)


def by_nodes(command: Command) -> Completed:
    nodes = 2 if "#SBATCH --nodes=2" in str(command.stdin) else 1
    return Completed(
        command, 0, stderr=f"sbatch: Job 5 to start at {1000 * nodes} using 8 processors on n1\n"
    )


def test_each_shape_is_asked_with_its_own_script(folder: Path) -> None:
    starts = [*plan.starts(made("toy", folder), answers(by_nodes))]
    assert [plan.row(start) for start in starts] == [
        ("as it is", "gpu", "2", "01:00:00", "8", "1970-01-01T00:33:20+00:00", "00:16:40"),
        ("half the walltime", "gpu", "2", "00:30:00", "4", "1970-01-01T00:33:20+00:00", "00:16:40"),
        ("a quarter of the walltime", "gpu", "2", "00:15:00", "2", "1970-01-01T00:33:20+00:00", "00:16:40"),
        ("half the replicas", "gpu", "1", "01:00:00", "4", "1970-01-01T00:16:40+00:00", "00:00:00"),
    ]


def test_a_refusal_is_not_known_and_the_others_are_asked(folder: Path) -> None:
    refused = Completed(Command(("sbatch",)), 1, stderr="allocation failure: Invalid account\n")
    starts = [*plan.starts(made("toy", folder), answers(refused))]
    assert {plan.row(start)[5] for start in starts} == {"not known: allocation failure: Invalid account"}
    assert len(starts) == 4


@pytest.mark.parametrize("answer", [MISSING, TIMED_OUT])
def test_what_does_not_answer_is_asked_once(folder: Path, answer: Completed) -> None:
    [start] = plan.starts(made("toy", folder), answers(answer))
    assert (start.what, start.wait) == ("as it is", None)


@pytest.mark.parametrize(
    "site",
    ["pbs", "flux"],
)
def test_others_estimate_no_job_that_is_not_submitted(folder: Path, site: str, wording: Wording) -> None:
    [start] = plan.starts(made(site, folder), Services(FakeShell([])))
    wording(start.estimate.why)


def standing(folder: Path, answer: Answer, more: str = BALANCE) -> costs.AccountBalance:
    file = folder / "sites" / "toy.yaml"
    file.write_text(file.read_text() + more)
    return costs.ask(made("toy", folder), FakeShell([(["saldo", "physics"], answer), (["scontrol"], answer)]))


def test_the_command_of_the_site_says_what_is_left(folder: Path, wording: Wording) -> None:
    found = standing(folder, "physics: 7 left\n")
    assert found == costs.AccountBalance("physics", (Left(7.0, "GPU-hours"),))
    wording(found.texts(made("toy", folder)))


@pytest.mark.parametrize(
    "answer", [MISSING, TIMED_OUT, "nothing\n"], ids=["missing", "timed out", "says nothing"]
)
def test_a_command_that_fails_is_a_short_remark(folder: Path, answer: Answer, wording: Wording) -> None:
    wording(standing(folder, answer).texts(made("toy", folder)))


@pytest.mark.parametrize("answer", [MISSING, TIMED_OUT, "Current Association Manager state\n"])
def test_without_a_command_of_the_site_slurm_is_asked_and_may_know_nothing(
    folder: Path, answer: Answer
) -> None:
    found = standing(folder, answer, more="")
    assert found == costs.AccountBalance("physics", [])
    assert found.texts(made("toy", folder)) == []


def test_plan_shows_what_was_answered(
    hpcdist: Hpcdist, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made("toy", folder)
    monkeypatch.setenv("PATH", str(folder))
    words = ("plan", "wide.yml", "--site", "toy", "--site-path", "sites", "--when", "--balance")
    shown = hpcdist(*words)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == (
        "wide on site toy: 8 tasks by srun, 2 nodes, 8 GPUs\n"
        "cost: at most 8 GPU-hours, 2 node-hours (2 nodes with 8 GPUs for 01:00:00)\n"
        "balance: not known: the site has no command for it, and the batch system no limit of this account\n"
        "shape     partition  nodes  walltime  GPU-hours  start                                          in\n"
        "as it is  gpu        2      01:00:00  8          not known: there is no sbatch on this machine\n"
    )
    data: dict[str, Any] = json.loads(hpcdist(*words, "--json").out)
    assert data["balance"] == {"account": "physics", "left": [], "why": ""}
    assert data["cost"]["gpu_hours"] == 8
    assert data["starts"] == [
        {
            "shape": "as it is",
            "partition": "gpu",
            "nodes": 2,
            "walltime": "01:00:00",
            "gpu_hours": 8,
            "start": None,
            "wait_seconds": None,
            "why": "there is no sbatch on this machine",
        }
    ]
