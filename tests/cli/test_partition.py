"""Which partition, why, and what would fit where none does: what the verbs tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import TOY, Hpcdist
from tests.wording import Wording

TWO = (
    TOY.replace("name: toy", "name: two")
    .replace(
        "partitions:\n",
        "partitions:\n  debug: {nodes: {big: 2}, max_walltime: 1h}\n",
    )
    .replace("default_partition: gpu", "default_partition: debug")
    .replace("TOY_MACHINE", "TWO_MACHINE")
)
TRAIN = """\
framework: horovod
environment:
  resources: {gpu: {requests: 1}}
  replicas: {n_workers: 7, default_worker: {resources: {gpu: {requests: 1}}}}
run: {cmd: python x.py}
batch: {site: two, walltime: 30m}
"""
ON_TWO = ("train.yml", "--site-path", "sites")


@pytest.fixture(autouse=True)
def machine(folder: Path) -> None:
    """Write a machine of two partitions and a training on two nodes."""
    (folder / "sites" / "two.yaml").write_text(TWO)
    (folder / "train.yml").write_text(TRAIN)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ((), "nodes 0-1: partition debug, big nodes"),
        (("--set", "batch.partition=gpu"), "nodes 0-1: partition gpu, big nodes"),
        (("--set", "batch.walltime=2h"), "nodes 0-1: partition gpu, big nodes"),
    ],
    ids=["default", "named", "first that fits"],
)
def test_explain_shows_the_reason_for_the_partition(
    hpcdist: Hpcdist, options: tuple[str, ...], what: str, wording: Wording
) -> None:
    result = hpcdist("explain", *ON_TWO, *options, "--json")
    assert result.code == 0, result.err
    origins = {line["what"]: line["origin"] for line in json.loads(result.out)}
    wording(origins[what])


def test_plan_shows_the_reason_for_another_partition(hpcdist: Hpcdist, wording: Wording) -> None:
    assert hpcdist("plan", *ON_TWO).out.splitlines()[2] == "nodes 0-1: partition debug, big nodes"
    result = hpcdist("plan", *ON_TWO, "--set", "environment.replicas.n_workers=8")
    wording(result.out.splitlines()[2])


@pytest.mark.parametrize(
    "options",
    [
        ("--set", "batch.partition=debug", "--set", "batch.walltime=2h"),
        ("--set", "environment.replicas.n_workers=8000"),
        ("--set", "batch.walltime=3d"),
    ],
    ids=" ".join,
)
def test_a_job_that_does_not_fit_gets_suggestions(
    hpcdist: Hpcdist, options: tuple[str, ...], wording: Wording
) -> None:
    result = hpcdist("check", *ON_TWO, *options)
    assert (result.code, result.out) == (3, "")
    wording(result.err)


def test_the_largest_that_fits_does_fit(hpcdist: Hpcdist) -> None:
    result = hpcdist("check", *ON_TWO, "--set", "environment.replicas.n_workers=7999")
    assert (result.code, result.err) == (0, "")
