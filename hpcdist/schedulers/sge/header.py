"""The head of a script for qsub: each line as qsub reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpcdist.errors import PlanError, Problem
from hpcdist.plan.model import JobSpec, Plan
from hpcdist.plan.values import Directive

_PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+=:,./*$-]+")
_PATH: Final = re.compile(r"[^\"',\n$#]*")


def header(plan: Plan, run_dir: str | None) -> Iterator[tuple[str, str]]:
    """Yield the ``#$`` lines with their origins.

    Raises:
        PlanError: for a value that no directive can hold.
    """
    yield "#$ -S /bin/bash", "rule the script is bash"
    yield "#$ -cwd", "rule the job runs where it is submitted"
    yield "#$ -j y", "rule run directory"
    yield f"#$ {directive_text(_output(plan, run_dir))}", "rule run directory"
    for directive in plan.directives:
        yield f"#$ {directive_text(directive)}", directive.origin


def _output(job: JobSpec, run_dir: str | None) -> Directive:
    """Say where the output goes, behind the colon that ends the name of a host.

    Raises:
        PlanError: for a path with a comma, a dollar sign, # or quotes, which qsub reads in ways of its own.
    """
    element = "-$TASK_ID" if job.request.array is not None else ""
    if run_dir is None:
        return Directive(flag="-o", value=f"{job.identity.name}-$JOB_ID{element}.out", origin="run directory")
    if not _PATH.fullmatch(run_dir):
        message = f"qsub takes no path with a comma, a dollar sign, # or quotes: {run_dir}"
        raise PlanError(Problem(message, hint="submit from another directory"))
    return Directive(flag="-o", value=f":{run_dir}/logs/job{element}.out", origin="run directory")


def directive_text(directive: Directive) -> str:
    r"""Return the text behind ``#$``: ``-q x``, ``-l h_rt=01:00:00``, in quotes where there are spaces.

    qsub ends a line at ``#``, even in quotes, and takes quotes away wherever they are (all tried).

    Raises:
        PlanError: for a value with quotes, ``#`` or a control character in it.
    """
    flag, _, name = directive.flag.partition(" ")
    if directive.value is None:
        return flag
    text = f"{name}={directive.value}" if name else directive.value
    if not text.isprintable() or any(character in text for character in "\"'#"):
        message = f"{directive.flag} takes no quotes, # or control characters: {directive.value!r}"
        raise PlanError(Problem(f"{message} ({directive.origin})"))
    return f"{flag} {text}" if _PLAIN.fullmatch(text) or flag == "-pe" else f'{flag} "{text}"'
