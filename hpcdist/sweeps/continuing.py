"""Further jobs of a search, in the same run: trials that did not complete once more, and additional ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from hpcdist.errors import ConfigError, Problem, SchedulerError, comma_list
from hpcdist.host import locks
from hpcdist.loading import planning
from hpcdist.loading.planning import Planned
from hpcdist.runs import accounting, code_record, control, elements, endings, job_files, rundir, stopping
from hpcdist.runs.control import Output
from hpcdist.runs.rundir import Event, Run
from hpcdist.runs.services import Services, renewed
from hpcdist.runs.states import Report, status
from hpcdist.schedulers import KnowsLeftovers, schedulers
from hpcdist.schedulers.job import JobState
from hpcdist.sweeps import claims, replanning, trials
from hpcdist.sweeps.replanning import NO_CHANGES, Changes
from hpcdist.tracking import comparison
from hpcdist.words import quote

_BUSY: Final = "another process adds jobs to this run; waiting for it to finish"
_COMPLETED: Final = JobState.COMPLETED.value

_FIRST: Final = "resume it without changes, which submits that one"

Choose = Callable[[Report], Sequence[Planned]]
"""Returns the plans of the jobs that a run gets in addition, of which ``number`` counts on."""


def resume(run: Run, services: Services, output: Output) -> Run:
    """Submit jobs for the trials that did not complete; return the run with them.

    Raises:
        ConfigError: if jobs of the run live, or all its trials have completed.
        SchedulerError: if the state of a trial is unknown, or as `control.submit`.
    """

    def choose(report: Report) -> Sequence[Planned]:
        check_over(report)
        ended = _unfinished(report, services)
        waiting = {number for job in report.run.jobs if job.job is None for number in _numbers(job)}
        # Of a job whose submission was lost, workers may have claimed trials before they were killed with it.
        claims.return_trials(run.directory, ended)
        wanted = ended - waiting
        if not wanted and all(job.job for job in report.run.jobs):
            raise ConfigError(Problem(f"all trials of {run.name} have completed"))
        return replanning.of_numbers(report.run, wanted) if wanted else ()

    return add_jobs(run, services, output, choose, goes_on=True)


def go_on(run: Run, services: Services, output: Output, changes: Changes = NO_CHANGES) -> Run:
    """Submit a further job for a run that is no search, which goes on with its outputs and checkpoints.

    ``changes``: what this job and its followers have in another way than the experiment of the run.

    Raises:
        ConfigError: if a job of the run lives, or it has completed.
        SchedulerError: as `control.submit`.
    """

    def choose(report: Report) -> Sequence[Planned]:
        check_over(report)
        if report.status.state is JobState.COMPLETED:
            raise ConfigError(Problem(f"{run.name} has completed"))
        if any(job.job is None for job in report.run.jobs):
            if changes != NO_CHANGES:
                raise ConfigError(Problem(f"{run.name} has a job that was not submitted yet", hint=_FIRST))
            return ()  # they are submitted now
        if report.run.directory.plan().array:
            raise ConfigError(_of_an_array(run))
        return planning.in_jobs(replanning.changed(report.run, changes), len(report.run.jobs) + 1)

    return add_jobs(run, services, output, choose, goes_on=True)


def _of_an_array(run: Run) -> Problem:
    folder = run.directory.path
    again = f"hpcdist submit {quote(folder / 'experiment.yml')} --set=batch.array=3,7"
    hint = f"submit those that failed as an array of their own, as by `{again}`; their checkpoints are below"
    message = f"{run.name} is an array, of which each element would run again"
    return Problem(message, hint=f"{hint} `{folder}/checkpoints`")


def extend(run: Run, more: int, services: Services, output: Output) -> Run:
    """Submit jobs for so many further trials of a random search or of a grid; return the run with them.

    Raises:
        ConfigError: if the search has no further trials.
        SchedulerError: as `control.submit`.
    """

    def choose(report: Report) -> Sequence[Planned]:
        search, there = replanning.search_of(report.run), len(comparison.trial_params(report.run))
        if search and search.is_adaptive:
            raise ConfigError(Problem(f"the search of {run.name} chooses its own trials", hint=_ADVANCE))
        made = replanning.planned(report.run, count=there + more)
        numbers = {trial.number for trial in made.trials if trial.number > there}
        if not numbers:
            raise ConfigError(Problem(f"the search of {run.name} has no further trials", hint=_NO_MORE))
        return replanning.jobs_of(made, numbers, report.run)

    return add_jobs(run, services, output, choose, goes_on=False)


_ADVANCE: Final = "`hpcdist sweep advance` submits its next ones"
_NO_MORE: Final = "all combinations of its values are there; a random search over distributions has more"


def add_jobs(run: Run, services: Services, output: Output, choose: Choose, *, goes_on: bool) -> Run:
    """Add the chosen jobs to a run and submit them, and those that an earlier submission left out.

    ``goes_on``: they do again what the earlier ones did not complete.

    Raises:
        ConfigError: as ``choose``.
        SchedulerError: as `control.submit`; what was submitted before stays so.
    """
    runs_dir = run.directory.path.parent  # the lock of its `submit`, which may go on with an interrupted one
    with locks.exclusive(runs_dir, run.record.digest, services.sleep, lambda: output.note(_BUSY)):
        [report] = status([renewed(run)], services)
        jobs = choose(report)
        if not jobs and all(job.job for job in report.run.jobs):
            return report.run
        new = _added(report.run, jobs, services, goes_on=goes_on)
        stopping.withdraw(run.directory, attempts=goes_on)
        code = code_record.read(run.directory)
        array = jobs[0].plan.request.array if jobs else None
        one_by_one = not any(made.trials for made in jobs) or (
            array is not None and array.at_once is not None
        )
        return control.print_jobs(
            control.submit_jobs(new, code.job_folder, services, output, one_by_one=one_by_one),
            services,
            output,
        )


def _added(run: Run, jobs: Sequence[Planned], services: Services, *, goes_on: bool) -> Run:
    """Return the run with a record and the files for each of these jobs, which are not submitted yet."""
    first = len(run.jobs) + 1
    directory = run.directory._replace(number=first)
    for name, text in job_files.texts(jobs, directory).items():
        run.directory.write(name, text)
    for number, made in enumerate(jobs, first):
        trials = elements.text_of(sorted(trial.number for trial in made.trials))
        record = run.record.further(services.token(), rundir.timestamp(services.now()), trials)
        own = run.directory._replace(number=number)
        services.save(own, record._replace(goes_on=goes_on and (number == first or not trials)))
    if goes_on:
        run.directory.append_event(Event(endings.RESUMED, run.event_id, int(services.now()), "0"))
    return renewed(services.update(run, jobs=first + len(jobs) - 1))


def check_over(report: Report) -> None:
    """Check that no job of a run lives, nor a process of one.

    Raises:
        ConfigError: if one does.
        SchedulerError: if it is unknown whether a job exists.
    """
    for job in report.jobs:
        why = job.status.reason
        if not job.run.job and job.status.state is JobState.UNKNOWN:
            problem = Problem(f"{report.run.name} may have a further job: {why}", hint="resume it later")
            raise SchedulerError(problem)
        scheduler = schedulers.get(job.run.record.scheduler)
        if isinstance(scheduler, KnowsLeftovers) and scheduler.has_leftovers(job.status):
            raise ConfigError(Problem(f"{report.run.name} is not over: {why}"))
    live = [job.run.record.job_id or "" for job in report.jobs if job.run.job and not job.is_over]
    if live:
        hint = f"wait for its end, or end it by `hpcdist cancel {report.run.name}`"
        raise ConfigError(Problem(f"{report.run.name} is not over: job {comma_list(live)} lives", hint=hint))


def _unfinished(report: Report, services: Services) -> set[int]:
    """Return the numbers of the trials that did not complete, also those of jobs that are not submitted yet.

    Raises:
        SchedulerError: if the state of one is unknown.
    """
    found = trials.trials(report, accounting.of_jobs(report.run, services), services.now())
    ended = [trial for trial in found if trial.state != _COMPLETED]
    waiting = {number for job in report.run.jobs if job.job is None for number in _numbers(job)}
    lost = [trial.number for trial in ended if trial.state == JobState.UNKNOWN.value]
    if unknown := [str(number) for number in lost if number not in waiting]:
        message = f"the state of trial {comma_list(unknown)} of {report.run.name} is unknown"
        raise SchedulerError(Problem(message, hint="resume it when the batch system answers"))
    return {trial.number for trial in ended}


def _numbers(job: Run) -> set[int]:
    return set(elements.numbers(job.record.trials).outside(()))
