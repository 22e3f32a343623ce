"""The metrics that are found in the output of a program, by regular expressions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hpcdist.documents.fields import Model
from hpcdist.errors import Path, Problem


class Tracking(Model, frozen=True):
    r"""Metrics that are found in the lines of the output, beside those that the program records.

    ``metrics``: for each metric a regular expression of Python with one group, the number, such as
    ``loss[ =]([-+0-9.eE]+)``. ``step``: one whose group is the step, such as ``epoch (\d+)``, which holds
    for its line and those after it.
    """

    metrics: dict[str, str] = {}
    step: str | None = None


def tracking_problems(tracking: Tracking, path: Path) -> Iterator[Problem]:
    """Yield what keeps these expressions from finding numbers."""
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
