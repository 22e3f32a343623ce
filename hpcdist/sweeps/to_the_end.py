"""Waiting for runs: the end of an adaptive search is that of its last generation, and not of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from hpcdist.errors import ConfigError, HpcdistError, PlanError, SchedulerError
from hpcdist.runs import standing, this_machine, waiting
from hpcdist.runs.control import Output
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services
from hpcdist.runs.states import Report

Stuck = Callable[[HpcdistError], object]
"""Gets why the next generation of a search cannot be submitted."""


def wait(
    runs: Sequence[Run],
    services: Services,
    output: Output,
    on_stuck: Stuck,
    on_change: Callable[[Report], None] | None = None,
) -> list[Report]:
    """Return when all these runs have ended, as `waiting.wait`; whenever a generation has, submit the next.

    ``output`` prints these. A search that is stuck is left as it is: `standing.awaited` holds for its report.
    """
    go_on = partial(_go_on, services=services, output=output, on_stuck=on_stuck)
    return waiting.wait(runs, services, on_change=on_change, further=go_on)


def _go_on(report: Report, services: Services, output: Output, on_stuck: Stuck) -> Run | None:
    """Submit the next generation of a search; return the search if it has one."""
    if standing.awaited(report) is None:
        return None
    from hpcdist.sweeps import generations  # it plans, for few runs

    try:
        this_machine.check_here(report.run, "sweep advance")
        run, why = generations.advance(report.run, services, output, only_if_over=True)
    except (ConfigError, PlanError, SchedulerError) as error:
        on_stuck(error)
        return None
    # Others may have submitted the last one meanwhile, which has ended: its end is the search's.
    return run if not why or len(run.jobs) > len(report.run.jobs) else None
