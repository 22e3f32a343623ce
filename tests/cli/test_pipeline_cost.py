"""What the operations of a pipeline, and the sizes of a study, may cost together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from .conftest import TOY, Hpcdist

PIPELINE: Final = """\
kind: pipeline
name: pipe
operations:
  - {name: one, run: {cmd: "true"}, environment: {resources: {gpu: {requests: 2}}}, batch: {walltime: 1h}}
  - {name: two, needs: [one], run: {cmd: "true"}, batch: {walltime: 2h}}
"""
SITE: Final = ("--site", "toy", "--site-path", "sites")
CHARGE: Final = "charge: {unit: SU, per_node_hour: 3}\n"
WHY: Final = "3 SU per node-hour (site toy: charge.per_node_hour)"


def test_plan_has_the_cost_of_each_operation_and_their_sum(folder: Path, hpcdist: Hpcdist) -> None:
    (folder / "pipe.yml").write_text(PIPELINE)
    (folder / "sites" / "toy.yaml").write_text(TOY + CHARGE)
    done = hpcdist("plan", "pipe.yml", *SITE)
    lines = done.out.splitlines()
    assert (done.code, lines[0].split(maxsplit=3)) == (0, ["operation", "after", "runs", "at most"])
    assert [line.split("  ")[-1] for line in lines[1:3]] == ["2 GPU-hours, 1 node-hours", "2 node-hours"]
    assert lines[3:] == [
        "cost: at most 2 GPU-hours, 3 node-hours in all",
        f"charge: at most 9 SU in all: {WHY}",
    ]
    rows = json.loads(hpcdist("plan", "pipe.yml", *SITE, "--json").out)
    assert [row["cost"]["charge"] for row in rows] == [3, 6]


def test_a_study_shows_what_it_is_charged(folder: Path, hpcdist: Hpcdist) -> None:
    (folder / "train.yml").write_text("framework: pytorch\nrun: {cmd: 'true'}\nbatch: {walltime: 1h}\n")
    (folder / "sites" / "toy.yaml").write_text(TOY + CHARGE)
    done = hpcdist(
        "scale", "train.yml", "--site", "sites/toy.yaml", "--nodes", "1,2", "--repeat", "2", "--dry-run"
    )
    assert done.out.splitlines()[-2:] == [
        "4 runs, at most 0 GPU-hours and 6 node-hours",
        f"charge: at most 18 SU in all: {WHY}",
    ]
