"""The steps that a program tracked, by attempts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from hpcdist.runs.rundir import RunDirectory
from hpcdist.tracking import files
from hpcdist.tracking.files import Losses


class Step(NamedTuple):
    """A step of the training, and when it was recorded, in seconds since 1970, with which metric first."""

    at: float
    step: float
    metric: str = ""


Steps = Mapping[str, Sequence[Step]]
"""Of each attempt, by its folder in ``tracking/``, in the order of time."""


def read(directory: RunDirectory) -> Steps:
    """Return the steps that the processes of a run recorded; what cannot be read is left out."""
    found: dict[str, list[Step]] = {}
    losses = Losses()
    with suppress(OSError):
        for file in files.recorded(directory, losses):
            own = found.setdefault("/".join(file.path.parts[-3:-1]), [])
            own += [
                Step(entry.at, entry.step, next(iter(entry.metrics)))
                for entry in files.entries(file, losses)
                if entry.metrics and isinstance(entry.step, float) and math.isfinite(entry.step)
            ]
    return {name: sorted(steps) for name, steps in found.items()}
