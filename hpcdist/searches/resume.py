"""Further jobs of a run: to resume what did not complete, or to add trials to a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from hpcdist.base import locks, source
from hpcdist.base.errors import ConfigError, Problem, SchedulerError, comma_list
from hpcdist.loading import planning
from hpcdist.loading.planning import Awaiting, Planned
from hpcdist.runs import (
    accounting,
    cancelling,
    code_record,
    elements,
    endings,
    requests,
    rundir,
    search_progress,
    submission,
    this_machine,
)
from hpcdist.runs.job_states import Report, status
from hpcdist.runs.rundir import Event, Run, RunDirectory
from hpcdist.runs.services import Services, renewed
from hpcdist.runs.submission import SubmitOutput
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.job import JobState
from hpcdist.searches import budget, replan, trials
from hpcdist.searches.replan import NO_CHANGES, Changes
from hpcdist.tracking import trial_params

_BUSY: Final = "another process adds jobs to this run; waiting for it to finish"
_FIRST: Final = "resume it without changes, which submits that one"
_ADVANCE: Final = "`hpcdist sweep advance`, without a number, submits its next ones"
_LISTED: Final = "submit the further ones as a search of their own"
_NO_MORE: Final = "all combinations of its values are there; a random search over distributions has more"

Choose = Callable[[Report], Sequence[Planned]]
"""Returns the plans of the jobs to add to a run, numbered after its present jobs."""


# --- Resuming a run


def resume(run: Run, services: Services, output: SubmitOutput, changes: Changes = NO_CHANGES) -> Run:
    """Submit what did not complete again, as further jobs of the run; return the run with them.

    A search gets jobs for its trials that did not complete. Any other run gets one job, which resumes from
    its outputs and checkpoints; for an array, with the elements that did not complete.

    ``changes``: overrides for that job and its followers; a search has none.

    Raises:
        ConfigError: if a job of the run is alive, all has completed, or a search is on a remote.
        SchedulerError: if the state of a trial is unknown, or as `submission.submit`.
    """
    plan = run.directory.plan()
    if plan.trials is None:
        if plan.is_shell:
            hint = "`hpcdist shell FILE` opens another one"
            raise ConfigError(Problem(f"{run.name} was a shell: there is nothing to resume", hint=hint))
        return _resume_run(run, services, output, changes)
    if changes != NO_CHANGES:
        hint = "submit a new search"
        raise ConfigError(Problem("the trials of a search keep their params and nodes", hint=hint))
    this_machine.check_here(run, "resume", f"`hpcdist restart {run.name}` submits all of it again")
    return _resume_search(run, services, output)


def _resume_search(run: Run, services: Services, output: SubmitOutput) -> Run:
    def choose(report: Report) -> Sequence[Planned]:
        check_over(report)
        left = _unfinished(report, services)
        # If a job's submission was lost, its workers may have claimed trials before they were killed with it.
        trials.return_trials(run.directory, left)
        wanted = left - _unsubmitted(report)
        if wanted:
            return replan.jobs_of(replan.plan_search(report.run, services), wanted, report.run)
        if all(job.job for job in report.run.jobs):
            message = f"all trials of {run.name} have completed"
            if not search_progress.progress_of(report.run):
                raise ConfigError(Problem(message))
            output.note(f"{message}; {search_progress.next_step_hint(run)}")
        return ()

    return add_jobs(run, services, output, choose, resumes=True)


def _resume_run(run: Run, services: Services, output: SubmitOutput, changes: Changes) -> Run:
    def choose(report: Report) -> Sequence[Planned]:
        check_over(report)
        if report.status.state is JobState.COMPLETED:
            raise ConfigError(Problem(f"{run.name} has completed"))
        if any(job.job is None for job in report.run.jobs):
            if changes != NO_CHANGES:
                raise ConfigError(Problem(f"{run.name} has a job that was not submitted yet", hint=_FIRST))
            return ()  # they are submitted now
        own = _with_elements(changes, report, services)
        made = replan.plan_run(report.run, services, own)
        _check_compatible(report.run, made, own)
        return planning.in_jobs(made, len(report.run.jobs) + 1)

    return add_jobs(run, services, output, choose, resumes=True)


def run_again(run: Run, services: Services, output: SubmitOutput, awaiting: Awaiting, *, whole: bool) -> Run:
    """Submit a further job for an operation of a pipeline, which resumes or, if it has completed, runs again.

    ``awaiting``: finds the runs before it. ``whole``: all elements of an array run again, since their input
    is made again; else only failed ones.

    Raises:
        ConfigError: as `resume`.
        SchedulerError: as `resume`.
    """
    if run.directory.plan().trials is not None:
        return resume(run, services, output)

    def choose(report: Report) -> Sequence[Planned]:
        check_over(report)
        if any(job.job is None for job in report.run.jobs):
            return ()  # they are submitted now
        changes = NO_CHANGES if whole else _with_elements(NO_CHANGES, report, services)
        made = replan.plan_run(report.run, services, changes, awaiting)
        return planning.in_jobs(made, len(report.run.jobs) + 1)

    return add_jobs(run, services, output, choose, resumes=True)


def _check_compatible(run: Run, made: Planned, changes: Changes) -> None:
    """Check that the changes of a further job are allowed in the same run; other changes need a new run."""
    hint = f"`hpcdist restart --copy {run.name}` makes a new run, which begins with its checkpoints"
    if made.experiment.hptuning is not None:
        raise ConfigError(Problem(f"{run.name} is a training, and is not resumed as a search", hint=hint))
    if made.plan.identity.name != run.record.name:
        raise ConfigError(Problem(f"{run.name} keeps its name when it is resumed", hint=hint))
    site = made.experiment.batch.site
    if {"batch", "batch.site"} & {key for key, _ in changes.settings} and site not in {None, run.record.site}:
        message = f"{run.name} is resumed on site {run.record.site}, where it ran"
        raise ConfigError(Problem(message, hint=hint))


def _with_elements(changes: Changes, report: Report, services: Services) -> Changes:
    """Return the changes with the elements that did not complete, where the run is an array."""
    plan = report.run.directory.plan()
    if (array := plan.array) is None:
        return changes
    left = _unfinished(report, services, {str(index): {} for index in plan.elements("").outside(())})
    if not left:
        raise ConfigError(Problem(f"all elements of {report.run.name} have completed"))
    at_once = "" if array.at_once is None else f"%{array.at_once}"
    own = ("batch.array", f"{elements.text_of(sorted(left))}{at_once}")
    return changes._replace(settings=(own, *changes.settings))  # the user may set others


def _unfinished(report: Report, services: Services, known: trials.Params | None = None) -> set[int]:
    """Return the numbers of the trials that did not complete, including trials of unsubmitted jobs.

    ``known``: the elements of an array, as in `trials.trials`.
    """
    found = trials.trials(report, accounting.of_jobs(report.run, services), services.now(), known)
    left = [trial for trial in found if not trial.is_good]
    lost = {trial.number for trial in left if trial.state == JobState.UNKNOWN.value} - _unsubmitted(report)
    if lost:
        noun, numbers = "trial" if known is None else "element", comma_list([*map(str, sorted(lost))])
        message = f"the state of {noun} {numbers} of {report.run.name} is unknown"
        raise SchedulerError(Problem(message, hint="resume it when the batch system answers"))
    return {trial.number for trial in left}


def _unsubmitted(report: Report) -> set[int]:
    """Return the trials of jobs that are not submitted yet."""
    own = (job.record.trials for job in report.run.jobs if job.job is None)
    return {number for text in own for number in elements.numbers(text).outside(())}


# --- Additional trials


def extend(run: Run, more: int, services: Services, output: SubmitOutput) -> Run:
    """Submit jobs for ``more`` further trials of a random search or a grid; return the run with them.

    Raises:
        ConfigError: if the search has no further trials.
        SchedulerError: as `submission.submit`.
    """

    def choose(report: Report) -> Sequence[Planned]:
        search, there = replan.search_of(report.run), len(trial_params.of(report.run))
        if search and search.is_adaptive:
            raise ConfigError(Problem(f"the search of {run.name} chooses its own trials", hint=_ADVANCE))
        if search and search.mapping:
            raise ConfigError(Problem(f"the search of {run.name} is a list of trials", hint=_LISTED))
        if search and search.concurrency and not schedulers.get(run.record.scheduler).is_batch_system:
            check_over(report)  # else new trials would not wait for the running ones
        made = replan.plan_search(report.run, services, count=there + more)
        numbers = {trial.number for trial in made.trials if trial.number > there}
        if not numbers:
            raise ConfigError(Problem(f"the search of {run.name} has no further trials", hint=_NO_MORE))
        return replan.jobs_of(made, numbers, report.run)

    return add_jobs(run, services, output, choose)


# --- Adding jobs to a run


def add_jobs(  # noqa: PLR0913 - of a run, with what both kinds of callers choose
    run: Run,
    services: Services,
    output: SubmitOutput,
    choose: Choose,
    *,
    resumes: bool = False,
    lifts_stop: bool = True,
) -> Run:
    """Add the chosen jobs to a run, and submit them and jobs that an earlier submission left out.

    ``resumes``: they resume what earlier jobs did not complete. ``lifts_stop``: if the run was stopped,
    it may continue; otherwise it stays stopped.

    Raises:
        ConfigError: as ``choose``.
        SchedulerError: as `submission.submit`; jobs submitted before stay submitted.
    """
    runs_dir = run.directory.path.parent  # with the lock of `submit`, which may complete an interrupted one
    with locks.exclusive(runs_dir, run.record.digest, services.sleep, lambda: output.note(_BUSY)):
        [report] = status([renewed(run)], services)
        jobs = choose(report)
        is_stopped = not lifts_stop and cancelling.is_requested(run.directory)
        if not jobs and (is_stopped or all(job.job for job in report.run.jobs)):
            if lifts_stop:
                cancelling.withdraw(run.directory, attempts=resumes)
            return report.run
        there = services.at([report.run])
        if jobs:
            _begin(jobs[0], report, services, output)
        new = _added(report.run, jobs, services, resumes=resumes)
        if resumes:
            event = Event(endings.RESUMED, new.event_id, int(there.now()), "0")
            new.directory.append_event(event)
            there.add(new, event)
        if lifts_stop:
            cancelling.withdraw(run.directory, attempts=resumes)
        code = code_record.read(run.directory)
        sweep = jobs[0].plan.sweep if jobs else None
        one_by_one = sweep is None or sweep.at_once is not None
        submitted = submission.submit_jobs(new, code.job_folder, there, output, one_by_one=one_by_one)
        return submission.print_jobs(submitted, services, output)


def _begin(made: Planned, report: Report, services: Services, output: SubmitOutput) -> None:
    """Record what is spent of the budget, which further jobs share, and print their plan's warnings."""
    if made.plan.sweep and made.plan.sweep.budget and made.plan.request.walltime:
        events, walltime = budget.record(report, services), made.plan.request.walltime.seconds
        budget.check(report.run.directory, events, made.plan.sweep, walltime)
    for problem in made.problems:
        output.note(str(problem))
    if _is_edited(report.run):
        file, name = report.run.record.file, report.run.name
        others = "`hpcdist submit` submits the file, `resume` takes changes by --set and -p"
        output.note(f"{file} differs from what was submitted, with which {name} continues; {others}")


def _is_edited(run: Run) -> bool:
    """Whether the file of the run's experiment has changed; a missing file has not."""
    try:
        text = source.read_bytes(run.record.file).decode("utf-8", "replace")
    except ConfigError:
        return False
    return text.lstrip("\ufeff").splitlines() != replan.text_of(run).splitlines()


def _added(run: Run, jobs: Sequence[Planned], services: Services, *, resumes: bool) -> Run:
    """Return the run with a record and the files for each of these jobs, which are not submitted yet."""
    first = len(run.jobs) + 1
    directory = RunDirectory(Path(run.record.there or run.directory.path), first)
    for name, text in requests.texts(jobs, directory).items():
        run.directory.write(name, text)
    for number, made in enumerate(jobs, first):
        trials = elements.text_of(sorted(trial.number for trial in made.trials))
        record = run.record.further(services.token(), rundir.timestamp(services.now()), trials)
        own = run.directory._replace(number=number)
        services.save(own, replace(record, goes_on=resumes and (number == first or not trials)))
    return renewed(services.update(run, jobs=first + len(jobs) - 1))


def check_over(report: Report) -> None:
    """Check that no job of a run is alive, nor a process of one.

    Raises:
        ConfigError: if one is.
        SchedulerError: if it is unknown whether a job exists.
    """
    for job in report.jobs:
        why = job.status.reason
        if not job.run.job and job.status.state is JobState.UNKNOWN:
            problem = Problem(f"{report.run.name} may have a further job: {why}", hint="resume it later")
            raise SchedulerError(problem)
        if schedulers.get(job.run.record.scheduler).has_leftovers(job.status):
            raise ConfigError(Problem(f"{report.run.name} is not over: {why}"))
    live = [job.run.record.job_id or "" for job in report.jobs if job.run.job and not job.is_over]
    if live:
        hint = f"wait for its end, or end it by `hpcdist cancel {report.run.name}`"
        raise ConfigError(Problem(f"{report.run.name} is not over: job {comma_list(live)} lives", hint=hint))
