"""What is recorded beside what a program records: metrics in its output, and the use of its GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpcdist.documents.fields import Model
from hpcdist.errors import Path, Problem


class Tracking(Model, frozen=True):
    r"""What is recorded beside what the program records.

    ``metrics``: metrics in the lines of the output, for each a regular expression of Python with one group,
    the number, such as ``loss[ =]([-+0-9.eE]+)``. ``step``: one whose group is the step, such as
    ``epoch (\d+)``, which holds for its line and those after it. ``gpu_usage``: whether the use of the GPUs
    and CPUs is sampled on each node, or the seconds between two samples, 30 by default.
    """

    metrics: dict[str, str] = {}
    step: str | None = None
    gpu_usage: bool | int = True

    @property
    def gpu_usage_seconds(self) -> int | None:
        """The seconds between two samples; None if there are none."""
        return _SECONDS if self.gpu_usage is True else self.gpu_usage or None


_SECONDS: Final = 30
_LONGEST: Final = 3600


def tracking_problems(tracking: Tracking, path: Path) -> Iterator[Problem]:
    """Yield what keeps these expressions from finding numbers, and a span that is none."""
    if not isinstance(tracking.gpu_usage, bool) and not 0 < tracking.gpu_usage <= _LONGEST:
        hint = "write `true`, `false` or the seconds between two samples, from 1 to 3600"
        yield Problem(f"there is no sampling every {tracking.gpu_usage} s", (*path, "gpu_usage"), hint)
    for name, expression in tracking.metrics.items():
        yield from _problems(expression, (*path, "metrics", name))
    if tracking.step is not None:
        yield from _problems(tracking.step, (*path, "step"))
        if not tracking.metrics:
            yield Problem("'step' has no effect without 'metrics'", path)


def _problems(expression: str, path: Path) -> Iterator[Problem]:
    try:
        groups = re.compile(expression).groups
    except (re.error, RecursionError, OverflowError) as error:
        yield Problem(f"{expression!r} is not a regular expression of Python: {error}", path)
        return
    if groups != 1:
        hint = "put the number into one pair of parentheses, and write `(?:...)` for any other"
        yield Problem(f"{expression!r} has {groups} groups", path, hint)
