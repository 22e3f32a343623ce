# ruff: noqa: E501 - a message is compared as one line
"""Which partition, why, and what would fit where none does: what the verbs tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import TOY, Hpcdist

TWO = TOY.replace("name: toy", "name: two").replace(
    "partitions:\n",
    "partitions:\n  debug: {nodes: {big: 2}, max_walltime: 1h}\n",
).replace("default_partition: gpu", "default_partition: debug").replace("TOY_MACHINE", "TWO_MACHINE")  # fmt: skip
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
    ("options", "what", "why"),
    [
        ((), "nodes 0-1: partition debug, big nodes", "partitions.debug: the default partition"),
        (
            ("--set", "batch.partition=gpu"),
            "nodes 0-1: partition gpu, big nodes",
            "partitions.gpu: named by --set batch.partition",
        ),
        (
            ("--set", "batch.walltime=2h"),
            "nodes 0-1: partition gpu, big nodes",
            "partitions.gpu: the first that fits: partition debug (big nodes) allows 01:00:00, 02:00:00 requested",
        ),
    ],
)
def test_explain_shows_the_reason_for_the_partition(
    hpcdist: Hpcdist, options: tuple[str, ...], what: str, why: str
) -> None:
    result = hpcdist("explain", *ON_TWO, *options, "--json")
    assert result.code == 0, result.err
    origins = {line["what"]: line["origin"] for line in json.loads(result.out)}
    assert origins[what] == f"site two: {why}"


def test_plan_shows_the_reason_for_another_partition(hpcdist: Hpcdist) -> None:
    assert hpcdist("plan", *ON_TWO).out.splitlines()[2] == "nodes 0-1: partition debug, big nodes"
    result = hpcdist("plan", *ON_TWO, "--set", "environment.replicas.n_workers=8")
    assert result.out.splitlines()[2] == (
        "nodes 0-2: partition gpu, big nodes "
        "(the first that fits: partition debug (big nodes) gives a job 2 nodes, 3 are needed (3 tasks a node))"
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ("--set", "batch.partition=debug", "--set", "batch.walltime=2h"),
            "--set batch.walltime=2h: batch.walltime: partition debug (big nodes) allows 01:00:00, 02:00:00 requested; partition gpu takes it",
        ),
        (
            ("--set", "environment.replicas.n_workers=8000"),
            "train.yml:4:3: environment.replicas: partition gpu (big nodes) gives a job 2000 nodes, 2001 are needed (4 tasks a node); the largest that fits: `n_workers: 7999` on gpu",
        ),
        (
            ("--set", "batch.walltime=3d"),
            "--set batch.walltime=3d: batch.walltime: partition gpu (big nodes) allows 2-00:00:00, 3-00:00:00 requested; the longest is 2-00:00:00 on gpu (up to 2000 nodes)",
        ),
    ],
)
def test_a_job_that_does_not_fit_gets_suggestions(
    hpcdist: Hpcdist, options: tuple[str, ...], sentence: str
) -> None:
    result = hpcdist("check", *ON_TWO, *options)
    assert (result.code, result.out, result.err) == (3, "", f"error: {sentence}\n")


def test_the_largest_that_fits_does_fit(hpcdist: Hpcdist) -> None:
    result = hpcdist("check", *ON_TWO, "--set", "environment.replicas.n_workers=7999")
    assert (result.code, result.err) == (0, "")
