"""The planner: experiment + site become a plan, in which nothing is optional any more.

Pure: no clock, no environment, no process. ``where`` turns a path of the experiment into an origin such as
``exp.yml:14``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from hpcdist import lint
from hpcdist.errors import PlanError, Problem
from hpcdist.experiment.model import Experiment
from hpcdist.plan.model import Plan, PreparedJob, extended
from hpcdist.plan.values import TASK_WRAPPER, Word
from hpcdist.planner import container_choice
from hpcdist.planner.advice import advice
from hpcdist.planner.feasibility import Where
from hpcdist.planner.job_setup import prepared
from hpcdist.planner.job_spec import job_spec
from hpcdist.planner.launcher_choice import Start, start_of
from hpcdist.planner.variables import located
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site


def make_plan(experiment: Experiment, site: Site, where: Where) -> Plan:
    """Decide everything.

    Raises:
        PlanError: when the site cannot take the experiment; all reasons at once where they are independent.
    """
    start = start_of(experiment, site)
    spec = job_spec(experiment, site, start, where)
    job = prepared(spec, experiment, site, start, where)
    words = tuple(_launch_line(job, experiment, site, start, where))
    warnings = (*advice(experiment, site, job, start, where), *start.framework.advice(job, experiment, site))
    directives = schedulers.get(site.scheduler).directives(job, site)
    found = lint.of_job(job, words, directives, site)
    warnings += tuple(_odd(found, experiment))
    return extended(Plan, job, words=words, directives=directives, warnings=warnings)


def _launch_line(
    job: PreparedJob, experiment: Experiment, site: Site, start: Start, where: Where
) -> Iterator[Word]:
    if not start.by_user:
        yield from start.launcher.words(job, site.options(start.launcher.name))
        if job.launch.mode == "tasks":
            yield TASK_WRAPPER
        yield from container_choice.words(job, site)
        for word in start.framework.words(job, experiment, site):
            yield msgspec.structs.replace(word, origin=located(word.origin, where))
    yield Word.raw('bash "$HPCDIST_JOB_DIR/command.sh"', where(("run", "cmd")))


def _odd(found: Sequence[lint.Finding], experiment: Experiment) -> Iterator[str]:
    """Yield what is odd about the plan's variables; notes are for `check`.

    Raises:
        PlanError: where one of them cannot work.
    """
    never = [item for item in found if item.severity == "error"]
    if never:
        raise PlanError(*(_refused(item, experiment) for item in never))
    return (str(item) for item in found if item.severity == "warning")


def _refused(found: lint.Finding, experiment: Experiment) -> Problem:
    if found.name in experiment.environment.env_vars:
        return Problem(found.text, ("environment", "env_vars", found.name), found.hint)
    return Problem(f"{found.origin}: {found.text}", hint=found.hint)
