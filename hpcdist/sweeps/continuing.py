"""Further jobs of a run: what did not complete once more, and additional trials of a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from hpcdist.documents import source
from hpcdist.errors import ConfigError, Problem, SchedulerError, comma_list
from hpcdist.host import locks
from hpcdist.loading import planning
from hpcdist.loading.planning import Awaiting, Planned
from hpcdist.runs import (
    accounting,
    code_record,
    control,
    elements,
    endings,
    requests,
    rundir,
    standing,
    stopping,
    this_machine,
)
from hpcdist.runs.control import Output
from hpcdist.runs.rundir import Event, Run, RunDirectory
from hpcdist.runs.services import Services, renewed
from hpcdist.runs.states import Report, status
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.job import JobState
from hpcdist.sweeps import claims, replanning, spending, trials
from hpcdist.sweeps.replanning import NO_CHANGES, Changes
from hpcdist.tracking import trial_params

_BUSY: Final = "another process adds jobs to this run; waiting for it to finish"
_FIRST: Final = "resume it without changes, which submits that one"

Choose = Callable[[Report], Sequence[Planned]]
"""Returns the plans of the jobs that a run gets in addition, of which ``number`` counts on."""


def resume(run: Run, services: Services, output: Output) -> Run:
    """Submit jobs for the trials that did not complete; return the run with them.

    Raises:
        ConfigError: if jobs of the run live, all its trials have completed, or it is on a remote.
        SchedulerError: if the state of a trial is unknown, or as `control.submit`.
    """
    this_machine.check_here(run, "resume", f"`hpcdist restart {run.name}` submits all of it anew")

    def choose(report: Report) -> Sequence[Planned]:
        check_over(report)
        ended = _unfinished(report, services)
        waiting = {number for job in report.run.jobs if job.job is None for number in _numbers(job)}
        # Of a job whose submission was lost, workers may have claimed trials before they were killed with it.
        claims.return_trials(run.directory, ended)
        wanted = ended - waiting
        if not wanted and all(job.job for job in report.run.jobs):
            if not standing.of(report.run):
                raise ConfigError(Problem(f"all trials of {run.name} have completed"))
            output.note(f"all trials of {run.name} have completed; {standing.go_on(run)}")
        return replanning.of_numbers(report.run, wanted) if wanted else ()

    return add_jobs(run, services, output, choose, goes_on=True)


def go_on(run: Run, services: Services, output: Output, changes: Changes = NO_CHANGES) -> Run:
    """Submit a further job for a run that is no search, which goes on with its outputs and checkpoints.

    That of an array has the elements that did not complete, each of which goes on with its own.

    ``changes``: what this job and its followers have in another way than the experiment of the run.

    Raises:
        ConfigError: if a job of the run lives, or it has completed.
        SchedulerError: as `control.submit`.
    """
    if run.directory.plan().is_shell:
        hint = "`hpcdist shell FILE` opens another one"
        raise ConfigError(Problem(f"{run.name} was a shell, with nothing to go on with", hint=hint))

    def choose(report: Report) -> Sequence[Planned]:
        check_over(report)
        if report.status.state is JobState.COMPLETED:
            raise ConfigError(Problem(f"{run.name} has completed"))
        if any(job.job is None for job in report.run.jobs):
            if changes != NO_CHANGES:
                raise ConfigError(Problem(f"{run.name} has a job that was not submitted yet", hint=_FIRST))
            return ()  # they are submitted now
        own = with_elements(changes, report, services)
        made = replanning.changed(report.run, own)
        _check_kept(report.run, made, own)
        return planning.in_jobs(made, len(report.run.jobs) + 1)

    return add_jobs(run, services, output, choose, goes_on=True)


def run_again(run: Run, services: Services, output: Output, awaiting: Awaiting, *, whole: bool) -> Run:
    """Submit a further job of a run, which resumes or, if it ended well, runs once more.

    ``awaiting``: how runs that it waits for are found. ``whole``: all elements of an array run again; else
    those that did not complete.

    Raises:
        HpcdistError: as `resume` and `go_on`.
    """
    if run.directory.plan().trials is not None:
        return resume(run, services, output)

    def choose(report: Report) -> Sequence[Planned]:
        check_over(report)
        if any(job.job is None for job in report.run.jobs):
            return ()  # they are submitted now
        changes = NO_CHANGES if whole else with_elements(NO_CHANGES, report, services)
        made = replanning.changed(report.run, changes, awaiting)
        return planning.in_jobs(made, len(report.run.jobs) + 1)

    return add_jobs(run, services, output, choose, goes_on=True)


def _check_kept(run: Run, made: Planned, changes: Changes) -> None:
    """Check that the changes of a further job leave the run what it is: a new run can have them."""
    hint = f"`hpcdist copy {run.name}` makes a new run, which begins with its checkpoints"
    if made.experiment.hptuning is not None:
        raise ConfigError(Problem(f"{run.name} is a training, and is not resumed as a search", hint=hint))
    if made.plan.identity.name != run.record.name:
        raise ConfigError(Problem(f"{run.name} keeps its name when it is resumed", hint=hint))
    site = made.experiment.batch.site
    if {"batch", "batch.site"} & {key for key, _ in changes.settings} and site not in {None, run.record.site}:
        raise ConfigError(
            Problem(f"{run.name} is resumed on site {run.record.site}, where it ran", hint=hint)
        )


def with_elements(changes: Changes, report: Report, services: Services) -> Changes:
    """Return the changes with the elements that did not complete, where the run is an array.

    Raises:
        ConfigError: if all have completed.
        SchedulerError: as `_unfinished`.
    """
    plan = report.run.directory.plan()
    if (array := plan.array) is None:
        return changes
    left = _unfinished(report, services, {str(index): {} for index in plan.elements("").outside(())})
    if not left:
        raise ConfigError(Problem(f"all elements of {report.run.name} have completed"))
    at_once = "" if array.at_once is None else f"%{array.at_once}"
    own = ("batch.array", f"{elements.text_of(sorted(left))}{at_once}")
    return changes._replace(settings=(own, *changes.settings))  # the user may name others


def extend(run: Run, more: int, services: Services, output: Output) -> Run:
    """Submit jobs for so many further trials of a random search or of a grid; return the run with them.

    Raises:
        ConfigError: if the search has no further trials.
        SchedulerError: as `control.submit`.
    """

    def choose(report: Report) -> Sequence[Planned]:
        search, there = replanning.search_of(report.run), len(trial_params.of(report.run))
        if search and search.is_adaptive:
            raise ConfigError(Problem(f"the search of {run.name} chooses its own trials", hint=_ADVANCE))
        if search and search.mapping:
            raise ConfigError(Problem(f"the search of {run.name} is a list of trials", hint=_LISTED))
        if search and search.concurrency and not schedulers.get(run.record.scheduler).is_batch_system:
            check_over(report)  # nothing would keep the new trials waiting for those that run
        made = replanning.planned(report.run, count=there + more)
        numbers = {trial.number for trial in made.trials if trial.number > there}
        if not numbers:
            raise ConfigError(Problem(f"the search of {run.name} has no further trials", hint=_NO_MORE))
        return replanning.jobs_of(made, numbers, report.run)

    return add_jobs(run, services, output, choose, goes_on=False)


_ADVANCE: Final = "`hpcdist sweep advance` submits its next ones"
_LISTED: Final = "submit the further ones as a search of their own"
_NO_MORE: Final = "all combinations of its values are there; a random search over distributions has more"


def add_jobs(  # noqa: PLR0913 - of a run, with what both kinds of callers choose
    run: Run, services: Services, output: Output, choose: Choose, *, goes_on: bool, lifts_stop: bool = True
) -> Run:
    """Add the chosen jobs to a run and submit them, and those that an earlier submission left out.

    ``goes_on``: they do again what the earlier ones did not complete. ``lifts_stop``: if the run was stopped,
    it goes on; otherwise it is left as it is.

    Raises:
        ConfigError: as ``choose``.
        SchedulerError: as `control.submit`; what was submitted before stays so.
    """
    runs_dir = run.directory.path.parent  # the lock of its `submit`, which may go on with an interrupted one
    with locks.exclusive(runs_dir, run.record.digest, services.sleep, lambda: output.note(_BUSY)):
        [report] = status([renewed(run)], services)
        jobs = choose(report)
        is_stopped = not lifts_stop and stopping.is_requested(run.directory)
        if not jobs and (is_stopped or all(job.job for job in report.run.jobs)):
            if lifts_stop:
                stopping.withdraw(run.directory, attempts=goes_on)
            return report.run
        there = services.at([report.run])
        if jobs:
            _begin(jobs[0], report, services, output)
        new = _added(report.run, jobs, services, goes_on=goes_on)
        if goes_on:
            _record_resumed(new, there)
        if lifts_stop:
            stopping.withdraw(run.directory, attempts=goes_on)
        code = code_record.read(run.directory)
        sweep = jobs[0].plan.sweep if jobs else None
        one_by_one = sweep is None or sweep.at_once is not None
        return control.print_jobs(
            control.submit_jobs(new, code.job_folder, there, output, one_by_one=one_by_one),
            services,
            output,
        )


def _begin(made: Planned, report: Report, services: Services, output: Output) -> None:
    """Record what was spent of the budget that further jobs keep, and print what they do without.

    Raises:
        ConfigError: if none of them may start within it.
    """
    if made.plan.sweep and made.plan.sweep.budget and made.plan.request.walltime:
        events, walltime = spending.record(report, services), made.plan.request.walltime.seconds
        spending.check(report.run.directory, events, made.plan.sweep, walltime)
    for problem in made.problems:
        output.note(str(problem))
    if _is_edited(report.run):
        name, others = (
            report.run.name,
            "`hpcdist submit` submits the file, `resume` takes changes by --set and -p",
        )
        output.note(
            f"{report.run.record.file} differs from what was submitted, with which {name} goes on; {others}"
        )


def _is_edited(run: Run) -> bool:
    """Whether the file of which the run was made has another text now; one that is gone has none."""
    try:
        text = source.read_bytes(run.record.file).decode("utf-8", "replace")
    except ConfigError:
        return False
    return text.lstrip("\ufeff").splitlines() != replanning.text_of(run).splitlines()


def _added(run: Run, jobs: Sequence[Planned], services: Services, *, goes_on: bool) -> Run:
    """Return the run with a record and the files for each of these jobs, which are not submitted yet."""
    first = len(run.jobs) + 1
    for name, text in requests.texts(
        jobs, RunDirectory(Path(run.record.there or run.directory.path), first)
    ).items():
        run.directory.write(name, text)
    for number, made in enumerate(jobs, first):
        trials = elements.text_of(sorted(trial.number for trial in made.trials))
        record = run.record.further(services.token(), rundir.timestamp(services.now()), trials)
        own = run.directory._replace(number=number)
        services.save(own, replace(record, goes_on=goes_on and (number == first or not trials)))
    return renewed(services.update(run, jobs=first + len(jobs) - 1))


def _record_resumed(run: Run, there: Services) -> None:
    """Record that the run goes on, here and on the machine where it is."""
    event = Event(endings.RESUMED, run.event_id, int(there.now()), "0")
    run.directory.append_event(event)
    there.add(run, event)


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
        if schedulers.get(job.run.record.scheduler).has_leftovers(job.status):
            raise ConfigError(Problem(f"{report.run.name} is not over: {why}"))
    live = [job.run.record.job_id or "" for job in report.jobs if job.run.job and not job.is_over]
    if live:
        hint = f"wait for its end, or end it by `hpcdist cancel {report.run.name}`"
        raise ConfigError(Problem(f"{report.run.name} is not over: job {comma_list(live)} lives", hint=hint))


def _unfinished(report: Report, services: Services, known: trials.Params | None = None) -> set[int]:
    """Return the numbers of the trials that did not complete, also those of jobs that are not submitted yet.

    ``known``: the elements of an array, as in `trials.trials`.

    Raises:
        SchedulerError: if the state of one is unknown.
    """
    found = trials.trials(report, accounting.of_jobs(report.run, services), services.now(), known)
    ended = [trial for trial in found if not trial.is_good]
    waiting = {number for job in report.run.jobs if job.job is None for number in _numbers(job)}
    lost = [trial.number for trial in ended if trial.state == JobState.UNKNOWN.value]
    if unknown := [str(number) for number in lost if number not in waiting]:
        noun = "trial" if known is None else "element"
        message = f"the state of {noun} {comma_list(unknown)} of {report.run.name} is unknown"
        raise SchedulerError(Problem(message, hint="resume it when the batch system answers"))
    return {trial.number for trial in ended}


def _numbers(job: Run) -> set[int]:
    return set(elements.numbers(job.record.trials).outside(()))
