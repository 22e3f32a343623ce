"""The head of a script for bsub: each line as bsub reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpcdist.errors import PlanError, Problem
from hpcdist.plan.model import JobSpec, Plan
from hpcdist.plan.values import Directive
from hpcdist.schedulers.lsf.script import BY_NAME, BY_STDIN

_PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


def header(plan: Plan, run_dir: str | None) -> Iterator[tuple[str, str]]:
    """Yield the ``#BSUB`` lines with their origins.

    Raises:
        PlanError: for a value that no directive can hold.
    """
    yield (
        BY_STDIN if plan.request.lsf.submit == "stdin" else BY_NAME,
        f"site {plan.identity.site}: lsf.submit",
    )
    yield f"#BSUB {directive_text(_output(plan, run_dir))}", "rule run directory"
    for directive in plan.directives:
        yield f"#BSUB {directive_text(directive)}", directive.origin


def _output(job: JobSpec, run_dir: str | None) -> Directive:
    """Say where LSF's own report goes, and by hand the output too.

    LSF brings the output of a job to its place when the job is over, unless the whole cluster is set up
    otherwise (LSB_STDOUT_DIRECT): in a run directory the script writes it itself.

    Raises:
        PlanError: for a path that bsub would read as a pattern, since nothing can hide ``%J`` from it.
    """
    if run_dir is not None and re.search("%[IJ]", run_dir):
        raise PlanError(f"LSF reads %J and %I in {run_dir!r} as a job's numbers; use another directory")
    element = ".%I" if job.request.array is not None else ""
    path = (
        f"{job.identity.name}-%J{element}.out" if run_dir is None else f"{run_dir}/logs/lsf{element}.report"
    )
    return Directive(flag="-o", value=path, origin="run directory")


def directive_text(directive: Directive) -> str:
    """Return the text behind ``#BSUB``, in quotes where bsub would divide it.

    Raises:
        PlanError: for a value with a line break, or one that needs both kinds of quotes.
    """
    value = directive.value
    if value is None:
        return directive.flag
    if not value.isprintable():
        message = f"{directive.flag} cannot hold a line break or a control character: {value!r}"
        raise PlanError(Problem(f"{message} ({directive.origin})"))
    if _PLAIN.fullmatch(value):
        return f"{directive.flag} {value}"
    if not re.search(r'["\\$`]', value):
        return f'{directive.flag} "{value}"'
    if "'" not in value:
        return f"{directive.flag} '{value}'"
    message = f"{directive.flag} cannot hold both kinds of quotes, nor ' beside $, ` or \\: {value!r}"
    raise PlanError(Problem(f"{message} ({directive.origin})"))
