"""Waiting for jobs: all are asked for together, with growing pauses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from hpcdist.job import JobState
from hpcdist.rundir import Run
from hpcdist.states import Report, status
from hpcdist.world import World

_PATIENCE: Final = 30
"""After so many answers in a row without a state, `wait` gives up: about a quarter of an hour."""


def wait(runs: Sequence[Run], world: World, *, told: Callable[[Report], None] | None = None) -> list[Report]:
    """Return when all these jobs are over, or when nothing was heard of the rest for a long time.

    All are asked for together, after growing pauses: 1 to 30 s, on this machine 0.1 to 1 s. ``told`` hears
    each change.
    """
    reports: dict[Path, Report] = {}
    pause, longest = (0.1, 1.0) if all(run.record.scheduler == "local" for run in runs) else (1.0, 30.0)
    silent = 0
    left = list(runs)
    while left:
        now = status(left, world)
        silent = silent + 1 if all(report.status.state is JobState.UNKNOWN for report in now) else 0
        for report in now:
            old = reports.get(report.run.directory.path)
            if told and (old is None or old.status.state is not report.status.state):
                told(report)
            reports[report.run.directory.path] = report
        left = [report.run for report in now if not report.is_over]
        if silent > _PATIENCE or not left:
            break
        world.sleep(pause)
        pause = min(pause * 1.5, longest)
    return [reports[run.directory.path] for run in runs]
