"""The head of a script for qsub: each line as qsub reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpcdist.errors import PlanError, Problem
from hpcdist.plan.model import Plan
from hpcdist.plan.values import Directive

_PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+=:,./^\[\]-]+")
_QUOTABLE: Final = re.compile(r"[ !#$&'()*;<>?`{|}~A-Za-z0-9_@%+=:,./^\[\]-]*")


def header(plan: Plan, run_dir: str | None) -> Iterator[tuple[str, str]]:
    """Yield the ``#PBS`` lines with their origins.

    PBS's own name for the output, ``NAME.oNUMBER`` beside where the script is submitted, is left to it; in a
    run directory it is ``logs/job.out``, for each element of an array ``logs/job-ELEMENT.out``. The folder
    must exist: PBS makes none, and a job waits long for its output to be delivered (tried).

    Raises:
        PlanError: for a value that no directive can hold.
    """
    yield "#PBS -S /bin/bash", "rule the script is bash"
    yield "#PBS -j oe", "rule run directory"
    if run_dir:
        is_array = any(line.flag == "-J" for line in plan.directives)
        path = f"{run_dir}/logs/job{'-^array_index^' if is_array else ''}.out"
        output = Directive(flag="-o", value=path, origin="run directory")
        yield f"#PBS {directive_text(output)}", "rule run directory"
    for directive in plan.directives:
        yield f"#PBS {directive_text(directive)}", directive.origin


def directive_text(directive: Directive) -> str:
    """Return the text behind ``#PBS``: ``-q x``, ``-l walltime=01:00:00``, in quotes where there are spaces.

    Raises:
        PlanError: for a value that is not plain ASCII, or has quotes or a backslash in it.
    """
    flag, _, name = directive.flag.partition(" ")
    value = "" if directive.value is None else directive.value
    if not _QUOTABLE.fullmatch(value):
        message = f"{directive.flag} of PBS takes plain ASCII without quotes and backslashes: {value!r}"
        raise PlanError(Problem(f"{message} ({directive.origin})"))
    text = name if directive.value is None else f"{name}={value}" if name else value
    if directive.value is None and not name:
        return flag
    return f"{flag} {text}" if _PLAIN.fullmatch(text) else f'{flag} "{text}"'
