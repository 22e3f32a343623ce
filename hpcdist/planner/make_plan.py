"""Make the plan of an experiment on a site; every optional value is decided in it.

Pure: no clock, no environment, no process. ``where`` turns a path of the experiment into an origin such as
``exp.yml:14``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from hpcdist import lint
from hpcdist.cost.limits import check_limit
from hpcdist.cost.rates import amounts_of
from hpcdist.cost.worst_case import most
from hpcdist.errors import PlanError, Problem, independent
from hpcdist.errors import located as with_places
from hpcdist.experiment.launch.setup_lines import START
from hpcdist.experiment.model import Experiment
from hpcdist.plan.model import Plan, PreparedJob, RoleLaunch, extended
from hpcdist.plan.origin import Where
from hpcdist.plan.placement import of_role, with_own_nodes
from hpcdist.plan.values import PROGRAM, TASK_WRAPPER, Word
from hpcdist.planner import accounts, budget, container_choice, packing, restarts
from hpcdist.planner.advice import advice
from hpcdist.planner.job_setup import prepared
from hpcdist.planner.job_spec import job_spec
from hpcdist.planner.launcher_choice import LaunchChoice, launch_request, launcher_of
from hpcdist.planner.selection import select
from hpcdist.planner.steps import check_free_nodes
from hpcdist.planner.variables import located
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site

_LAUNCHES_ROLES: Final = frozenset({"srun", "mpirun", "hydra"})
_NO_ARRAYS: Final = "write `pack: true`, or choose another site"


def make_plan(experiment: Experiment, site: Site, where: Where) -> Plan:
    """Return the plan.

    Raises:
        PlanError: when the site cannot take the experiment; all reasons at once where they are independent.
    """
    asked = launch_request(experiment)
    walltime = experiment.batch.walltime or site.walltime
    alike = not any(partition.container for partition in site.partitions.values())
    launcher, placement, container, _ = independent(
        lambda: launcher_of(experiment, site, asked),
        lambda: select(experiment, site, walltime, where, asked),
        lambda: container_choice.container_of(experiment, site, asked.launch) if alike else None,
        lambda: accounts.account_of(experiment, site),
    )
    if not alike:
        site, key = container_choice.in_its_partition(site, placement)
        container = container_choice.container_of(experiment, site, asked.launch, key)
    choice = LaunchChoice(*asked, launcher)
    spec = job_spec(experiment, site, choice, (placement, container), where)
    trial = packing.packed(prepared(spec, experiment, site, choice, where), experiment, site, choice, where)
    job = packing.with_workers(trial, experiment)
    words = tuple(_launch_line((job, trial), experiment, site, choice, where))
    check_free_nodes(job, words, experiment)
    whole = msgspec.structs.replace(job, placement=with_own_nodes(job.placement, job.own_nodes))
    reserved = amounts_of(whole.placement.groups, site, exclusive=job.request.exclusive).gpus
    job = msgspec.structs.replace(job, gpus=msgspec.structs.replace(job.gpus, reserved=reserved))
    notes = (
        *advice(experiment, site, trial, choice),
        *accounts.advice(experiment, site, job.facts),
        *packing.advice(trial, experiment, site),
        *restarts.advice(trial, experiment, site),
        *choice.framework.advice(trial, experiment, site),
    )
    with with_places(_of_search if job.sweep else lambda problem: problem):
        directives = schedulers.get(site.scheduler).directives(whole, site)
    notes += _notes(lint.of_job(job, words, directives, site), experiment)
    cost = most(job, experiment, site)
    budget.check_whole(experiment, cost)
    if schedulers.get(site.scheduler).is_batch_system:
        check_limit(experiment.batch.max_gpu_hours, cost)
    launches = tuple(_role_launches(job, site, choice))
    return extended(Plan, job, words=words, role_launches=launches, directives=directives, notes=notes)


def _role_launches(job: PreparedJob, site: Site, choice: LaunchChoice) -> Iterator[RoleLaunch]:
    """Yield a launch for each role of a job with servers, where each has nodes of one kind."""
    if not job.has_servers or job.sweep or choice.launcher.name not in _LAUNCHES_ROLES:
        return
    parts = {row.role: of_role(job.placement, row.role) for row in job.placement.rows}
    if any(sum(group.tasks > 0 for group in placement.groups) > 1 for placement in parts.values()):
        return
    for role, placement in parts.items():
        launch = msgspec.structs.replace(job.launch, role=role)
        own = msgspec.structs.replace(job, placement=placement, launch=launch)
        yield RoleLaunch(role=role, words=choice.launcher.words(own, site.options(choice.launcher.name)))


def _launch_line(
    jobs: tuple[PreparedJob, PreparedJob],
    experiment: Experiment,
    site: Site,
    choice: LaunchChoice,
    where: Where,
) -> Iterator[Word]:
    """Yield the words that start the tasks of the first job, then those of what each task runs: the second.

    That is a trial, where the tasks are the workers of a packed search.
    """
    job, trial = jobs
    if not choice.by_user:
        yield from choice.launcher.words(job, site.options(choice.launcher.name))
        if job.launch.mode == "tasks":
            yield TASK_WRAPPER
        if experiment.run.starts_entrypoint:
            # Bash on the node expands its arguments; what starts it are those of that shell.
            yield Word.raw(PROGRAM, where(("run", "entrypoint")))
        yield from container_choice.words(trial, site)
        if choice.topology.task == "node" and START in job.identity.command:
            # What starts the processes comes behind the command's first lines: the arguments of its shell.
            yield Word.raw(PROGRAM, where(("run", "cmd")))
        for word in _framework_words(trial, experiment, site, choice):
            yield msgspec.structs.replace(word, origin=located(word.origin, where))
    if not experiment.run.starts_entrypoint:
        yield Word.raw(PROGRAM, where(("run", "cmd")))


def _framework_words(
    job: PreparedJob, experiment: Experiment, site: Site, choice: LaunchChoice
) -> tuple[Word, ...]:
    """Return the framework's words before the command.

    Raises:
        PlanError: where they start a program that only the image names.
    """
    words = choice.framework.words(job, experiment, site)
    if words and experiment.run.starts_entrypoint:
        message = f"`{choice.topology.required_by}` starts a program, and the image's entrypoint is not known"
        hint = f"write the program as `run.cmd`, or remove `{choice.topology.required_by}`"
        raise PlanError(Problem(message, ("run", "entrypoint"), hint))
    return words


def _of_search(problem: Problem) -> Problem:
    """Return the problem of an array as that of the search that makes it."""
    if problem.path != ("batch", "array"):
        return problem
    message = f"the trials of a search are a job array, and {problem.message}"
    return problem._replace(message=message, path=("hptuning",), hint=_NO_ARRAYS)


def _notes(found: Sequence[lint.Finding], experiment: Experiment) -> tuple[Problem, ...]:
    """Return the lint findings on the plan's variables.

    Raises:
        PlanError: where one of them cannot work.
    """
    problems = tuple(_located(item, experiment) for item in found)
    if never := [problem for problem in problems if problem.severity == "error"]:
        raise PlanError(*never)
    return problems


def _located(found: lint.Finding, experiment: Experiment) -> Problem:
    if found.name in experiment.environment.env_vars:
        path = ("environment", "env_vars", found.name)
        return Problem(found.text, path, found.hint, found.severity)
    return Problem(f"{found.origin}: {found.text}", (), found.hint, found.severity)
