"""The plan of an allocation in which a shell, or a command of the user's, runs in place of the program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from hpcdist.errors import PlanError, Problem
from hpcdist.loading.planning import Planned, replanned
from hpcdist.plan.values import Origin, Word
from hpcdist.planner import container_choice

_ORIGIN = Origin("rule", "hpcdist shell")


def with_shell(made: Planned, command: Sequence[str]) -> Planned:
    """Return the plan with a shell, or this command, in the container of the experiment if it has one.

    Nothing starts it again, and its output is that of the terminal.

    Raises:
        PlanError: for an array or a search, or as `planning.plan_experiment`.
    """
    own = made.experiment
    key = ("hptuning",) if own.hptuning else ("batch", "array")
    if own.hptuning or own.batch.array is not None:
        problem = Problem(
            "a shell is one job, and this experiment makes several", key, "remove it, or set it to null"
        )
        raise PlanError(made.document.locate(problem))
    batch = replace(own.batch, output=None, error=None)
    environment = replace(own.environment, restart=None, max_restarts=None)
    made = replanned(made, replace(own, batch=batch, environment=environment))
    return made._replace(plan=replace(made.plan, shell=tuple(_words(made, command))))


def _words(made: Planned, command: Sequence[str]) -> Iterator[Word]:
    plan, site = made.plan, made.machine.site
    if plan.container:
        inside = replace(plan, container=replace(plan.container, entrypoint=False))
        by_launcher = container_choice.launcher_words(inside, site, inside.environment)
        if by_launcher:  # srun starts the container
            yield Word.raw('srun --overlap --nodes=1 --ntasks=1 --nodelist="${nodes[0]}" --mpi=none', _ORIGIN)
            yield Word.raw("${terminal:+--pty}", _ORIGIN)
            yield from by_launcher
        yield from container_choice.words(inside, site)
    if command:
        yield from (Word(text=word, origin=_ORIGIN) for word in command)
    else:
        yield Word.raw('"${shell[@]}"', _ORIGIN)
