"""The header of a script: where its output goes and what it asks for, quoted as its scheduler reads it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from hpcdist.errors import PlanError, Problem
from hpcdist.plan.model import Plan
from hpcdist.plan.values import Directive, Origin

_RUN_DIRECTORY = Origin("rule", "run directory")


def escaped(text: str) -> str:
    r"""Return the text in double quotes, where ``\`` and ``"`` need a ``\``."""
    inner = text.replace("\\", r"\\").replace('"', r"\"")
    return f'"{inner}"'


class HeaderSyntax(NamedTuple):
    """How one scheduler's lines are written.

    ``prefix``: what makes a line a directive. ``plain``: a value that needs no quotes; ``verbatim``: flags
    that take several words, without quotes. ``quote`` puts any other in quotes, None where none can hold it,
    since it ``cannot_hold`` that. ``first``: lines of every job. ``output``: the flag for the output;
    ``in_run_dir``: its file there, of a job and of an element of an array; ``beside``: its end behind the
    job's name without a run directory, None to leave it to the scheduler. ``directory`` writes the run
    directory's path as that flag wants it. ``is_array``: whether the scheduler makes an array of the job.
    ``component``: the line between the components of a heterogeneous job.
    """

    prefix: str
    plain: re.Pattern[str]
    output: str
    in_run_dir: tuple[str, str]
    beside: tuple[str, str] | None
    quote: Callable[[str], str | None] = escaped
    cannot_hold: str = ""
    verbatim: frozenset[str] = frozenset()
    first: tuple[tuple[str, Origin], ...] = ()
    directory: Callable[[str], str] = str
    is_array: Callable[[Plan], bool] = lambda plan: plan.request.array is not None
    component: str = ""


def header(syntax: HeaderSyntax, plan: Plan, run_dir: str | None) -> Iterator[tuple[str, Origin]]:
    """Yield each line with its origin.

    Raises:
        PlanError: for a value, or a path of the run directory, that no directive can hold.
    """
    yield from ((f"{syntax.prefix}{text}", origin) for text, origin in syntax.first)
    path = _output(syntax, plan, run_dir)
    output = Directive(flag=syntax.output, value=path, origin=_RUN_DIRECTORY)
    component = 0
    for directive in (output, *plan.directives) if path else plan.directives:
        if directive.group != component:
            component = directive.group
            yield (
                f"{syntax.prefix}{syntax.component}",
                Origin("rule", "different nodes are components of their own"),
            )
        yield f"{syntax.prefix}{directive_text(syntax, directive)}", directive.origin


def _output(syntax: HeaderSyntax, plan: Plan, run_dir: str | None) -> str | None:
    """Return where the output goes."""
    kind = 1 if syntax.is_array(plan) else 0
    if not run_dir:
        return f"{plan.identity.name}{syntax.beside[kind]}" if syntax.beside else None
    number, name = plan.identity.number, syntax.in_run_dir[kind]
    if plan.sweep and plan.sweep.pack:
        name = name.replace("job-", "node-", 1)  # job-17.out is that of a trial
    own = name if number == 1 else name.replace("logs/", f"logs/{number}-", 1)
    return f"{syntax.directory(run_dir)}/{own}"


def directive_text(syntax: HeaderSyntax, directive: Directive) -> str:
    """Return the text behind the prefix: ``-q x``, ``-l walltime=01:00:00``, ``--nodes=2``.

    Raises:
        PlanError: for a value that no directive can hold.
    """
    if directive.value is None:
        return directive.flag
    flag, _, name = directive.flag.partition(" ")
    text = f"{name}={directive.value}" if name else directive.value
    if not text.isprintable():
        raise _unfit(directive, "a line break or a control character")
    written = text if syntax.plain.fullmatch(text) or flag in syntax.verbatim else syntax.quote(text)
    if written is None:
        raise _unfit(directive, syntax.cannot_hold)
    return f"{flag}{'=' if flag.startswith('--') else ' '}{written}"


def _unfit(directive: Directive, what: str) -> PlanError:
    return PlanError(
        Problem(f"{directive.flag} cannot hold {what}: {directive.value!r} ({directive.origin})")
    )
