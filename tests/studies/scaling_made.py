"""Runs of a scaling study as jobs leave them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hpcdist.runs.job_states import Report
from hpcdist.schedulers.job import Status
from hpcdist.studies.scaling_runs import FILE, Member, Study
from tests.tracking import made_reports as made

STUDY = Study("t0", "d0", "train", (1, 2, 4), 2, "weak")


def run(  # noqa: PLR0913 - a fact of the plan each
    folder: Path,
    member: Member,
    metrics: Mapping[str, Sequence[float]],
    *,
    status: Status = made.COMPLETED,
    gpus: int = 4,
    reserved: int | None = None,
) -> Report:
    """Make a run of a study on nodes of so many GPUs, with a task each, that recorded a step a second.

    ``reserved``: how many the whole job has, if these are not all of its nodes.
    """
    groups = [{"gpus": gpus, "nodes": member.nodes}]
    placement = {"groups": groups, "rows": [{"tasks": member.nodes * max(1, gpus)}]}
    own = {"reserved": reserved}
    plan = {"identity": {}, "launch": {"mode": "tasks"}, "placement": placement, "gpus": own}
    name = f"{member.study.experiment}-{member.nodes}-nodes"
    report = made.run(folder, name, metrics, status=status, plan=plan)
    report.run.directory.write(FILE, member.text)
    return report


def study(
    folder: Path, speeds: Mapping[tuple[int, int], float], *, of: Study = STUDY, gpus: int = 4
) -> list[tuple[Report, Member]]:
    """Make a run for each number of nodes and repetition, with this throughput."""
    members = {Member(of, *key): speed for key, speed in speeds.items()}
    return [
        (run(folder, member, {"images_per_second": [speed / 2, speed, speed]}, gpus=gpus), member)
        for member, speed in members.items()
    ]
