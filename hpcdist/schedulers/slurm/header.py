"""The head of a script for sbatch: each line as sbatch reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpcdist.errors import PlanError, Problem
from hpcdist.plan.model import JobSpec, Plan
from hpcdist.plan.values import Directive
from hpcdist.schedulers.directives import quoted

_PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


def header(plan: Plan, run_dir: str | None) -> Iterator[tuple[str, str]]:
    """Yield the ``#SBATCH`` lines with their origins, the components of a heterogeneous job apart.

    Raises:
        PlanError: for a value that no directive can hold.
    """
    yield f"#SBATCH {directive_text(_output(plan, run_dir))}", "rule run directory"
    group = 0
    for directive in plan.directives:
        if directive.group != group:
            group = directive.group
            yield "#SBATCH hetjob", "rule different nodes are components of their own"
        yield f"#SBATCH {directive_text(directive)}", directive.origin


def _output(job: JobSpec, run_dir: str | None) -> Directive:
    """Say where the output goes; ``%`` in a path begins a pattern of sbatch, ``%%`` is the sign itself."""
    element = "-%a" if job.request.array is not None else ""
    path = (
        f"{run_dir.replace('%', '%%')}/logs/job{element}.out"
        if run_dir
        else f"{job.identity.name}-%{'A_%a' if element else 'j'}.out"
    )
    return Directive(flag="--output", value=path, origin="run directory")


def directive_text(directive: Directive) -> str:
    r"""Return the text behind ``#SBATCH``, quoted as sbatch reads it.

    sbatch ends an unquoted value at a space and silently at ``#``; in double quotes it takes everything as
    it stands but ``\`` and ``"``, which need a ``\`` (all tried). It expands nothing.

    Raises:
        PlanError: for a value with a line break, which no directive can hold.
    """
    if directive.value is None:
        return directive.flag
    if not directive.value.isprintable():
        message = f"{directive.flag} cannot hold a line break or a control character: {directive.value!r}"
        raise PlanError(Problem(f"{message} ({directive.origin})"))
    return quoted(directive.flag, directive.value, plain=_PLAIN)
