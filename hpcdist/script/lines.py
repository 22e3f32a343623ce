"""Lines: a plan's directives as lines of shell, and texts as parts of lines."""

from __future__ import annotations

from itertools import count

from hpcdist.plan.model import Plan
from hpcdist.schedulers import schedulers
from hpcdist.words import Raw, quote


def header(plan: Plan, run_dir: str | None, *, annotate: bool) -> list[Raw]:
    """Return the scheduler's directives, each below its origin if ``annotate`` is set."""
    lines = []
    for text, origin in schedulers.get(plan.identity.scheduler).header(plan, run_dir):
        lines += [Raw(f"# {one_line(origin)}")] if annotate else []
        lines.append(Raw(text))
    return lines


def on_few_lines(value: str) -> Raw:
    """Return a value as one word without empty lines: sbatch leaves those out of a heterogeneous job."""
    word = quote(value)
    return Raw(word.replace("\n", "'$'\\n''")) if "\n\n" in value else word


def end_of(text: str) -> str:
    """Return a here-document delimiter that is no line of this text."""
    lines = text.split("\n")
    return next(end for number in count() if (end := f"COMMAND{number or ''}") not in lines)


def one_line(text: object) -> str:
    """Return a text without its line breaks, for a comment."""
    return " ".join(str(text).split())
