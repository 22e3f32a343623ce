"""Cancelling jobs: live ones, those not listed yet, and leftover processes of ended ones."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from hpcdist.base.command import Command
from hpcdist.base.errors import Problem, SchedulerError
from hpcdist.runs import endings
from hpcdist.runs.job_states import Report, status
from hpcdist.runs.rundir import Phase, Run, RunDirectory
from hpcdist.runs.services import Services
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.job import Job


def cancel(runs: Sequence[Run], services: Services) -> list[Run]:
    """Cancel the jobs of these runs; return the runs whose job the batch system agreed to cancel.

    An ended job is left alone, unless it has left processes behind. So is another job that was given the same
    id: only a job with the run's token is cancelled. A job that the batch system does not list may have been
    submitted just now, so it is cancelled, too. The run is marked, so that a follower that is just being
    submitted begins no attempt.

    Raises:
        SchedulerError: if the batch system refused or did not answer, or the job of a run is unknown.
    """
    whole = status(runs, services)
    reports = [job for report in whole for job in report.jobs]
    marked = _mark(whole, services)  # first: a follower may begin at once
    problems: list[Problem] = []
    ended: list[Run] = []
    for group in _groups(reports):
        found = list(_not_cancelled(group, services))
        problems += found
        ended += [] if found else [report.run for report in group]
    problems += _no_reply(reports)
    cancelled = [report.run for report in whole if any(job.run in ended for job in report.jobs)]
    left = [run for run in marked if run not in cancelled]
    for run in left:
        unmark_cancelled(run.directory)
    _do_there(command_to_unmark_cancelled, left, services)
    if problems:
        raise SchedulerError(*problems)
    return cancelled


def cancel_element(report: Report, element: int, index: int, services: Services) -> bool:
    """Cancel an element of the job of this report; return whether the batch system was asked to.

    ``element``: its number in the run; ``index``: in the array of its job.

    Raises:
        SchedulerError: if the batch system cannot, refused or did not answer.
    """
    scheduler, job = schedulers.get(report.run.record.scheduler), report.run.job
    if problems := [*_no_reply([report])]:
        raise SchedulerError(*problems)
    if job is None or not _can_be_cancelled(report):
        return False
    command = scheduler.cancel_element(job, index)
    if command is None:
        message = f"{scheduler.name} cannot cancel an element of an array alone"
        raise SchedulerError(Problem(message, hint=f"`hpcdist cancel {job.name}` cancels all of them"))
    at, runner = services.now(), services.at([report.run]).runner
    completed = runner.run(command)
    if not completed.ok:
        why = completed.stderr.strip() or f"exit code {completed.returncode}"
        raise SchedulerError(Problem(f"{job.name}/{element} could not be cancelled: {why}"))
    event = (job, endings.cancellation(job, at, element))
    endings.record([event])
    if report.run.record.remote:  # or the next mirror update removes it
        runner.run(endings.command_to_record([event]))
    return True


def _mark(whole: Sequence[Report], services: Services) -> list[Run]:
    """Mark the runs with a job that can be cancelled; return the newly marked ones."""
    alive = [
        report.run for report in whole if any(job.run.job and _can_be_cancelled(job) for job in report.jobs)
    ]
    marked = [run for run in alive if not is_cancelled(run.directory)]
    for run in marked:
        mark_cancelled(run.directory)
    _do_there(command_to_mark_cancelled, marked, services)
    return marked


def _do_there(
    command: Callable[[Sequence[RunDirectory]], Command], runs: Sequence[Run], services: Services
) -> None:
    """Run the command on the remote of each run: a job looks at the files where it runs.

    A remote that does not answer refuses to cancel as well, and says why then.
    """
    for remote in dict.fromkeys(run.record.remote for run in runs if run.record.remote):
        theirs = [run for run in runs if run.record.remote == remote]
        services.at(theirs).runner.run(command([run.directory for run in theirs]))


def _groups(reports: Sequence[Report]) -> list[list[Report]]:
    """Group the jobs to cancel by command; unlisted ones apart, so that they cannot fail the others."""
    groups: dict[tuple[str, str, bool], list[Report]] = {}
    for report in reports:
        if report.run.job is not None and _can_be_cancelled(report):
            record = report.run.record
            groups.setdefault((record.remote, record.scheduler, report.is_missing), []).append(report)
    return list(groups.values())


def _can_be_cancelled(report: Report) -> bool:
    """Whether the job is or may be alive and the run's own, or has left processes behind."""
    if report.status.state.is_final:
        return schedulers.get(report.run.record.scheduler).has_leftovers(report.status)
    return bool(report.status.native) or report.is_missing


def _not_cancelled(group: Sequence[Report], services: Services) -> Iterator[Problem]:
    """Cancel these jobs of one batch system; yield why they could not be cancelled."""
    name = group[0].run.record.scheduler
    jobs = [report.run.job for report in group if report.run.job is not None]
    at = services.now()
    try:
        runner = services.at([report.run for report in group]).runner
        completed = runner.run(schedulers.get(name).cancel(jobs))
    except SchedulerError as error:
        yield from error.problems
        return
    if not completed.ok:
        why = completed.stderr.strip() or f"exit code {completed.returncode}"
        yield _not_listed(name, jobs, why) if group[0].is_missing else _refused(why)
        return
    events = [(job, endings.cancellation(job, at)) for job in jobs]
    endings.record(events)
    if group[0].run.record.remote:  # or the next mirror update removes it
        runner.run(endings.command_to_record(events))


def _refused(why: str) -> Problem:
    return Problem(f"the jobs could not be cancelled: {why}")


def _not_listed(name: str, jobs: Sequence[Job], why: str) -> Problem:
    """Return the problem of jobs that have ended or are not listed yet."""
    ids = ", ".join(f"{job.id} ({job.name})" for job in jobs)
    hint = "a job that was just submitted may not be listed yet: cancel it again in a minute"
    return Problem(f"the state of {ids} is unknown: {name} does not list it, and {why}", hint=hint)


def _no_reply(reports: Sequence[Report]) -> Iterator[Problem]:
    """Yield why jobs were not cancelled: no answer of the batch system, or a job that may not exist."""
    unanswered: dict[str, list[str]] = {}
    for report in (report for report in reports if report.no_reply and report.run.job):
        job = f"{report.run.record.job_id} ({report.run.name})"
        unanswered.setdefault(report.status.reason, []).append(job)
    for reason, jobs in unanswered.items():
        yield Problem(f"not cancelled: {', '.join(jobs)}: {reason}", hint="cancel them again when it answers")
    if lost := [report.run for report in reports if _is_lost(report.run)]:
        hint = "; ".join(["check `hpcdist status` in a few minutes", *filter(None, map(discard_hint, lost))])
        names = ", ".join(run.name for run in lost)
        yield Problem(f"whether {names} has a job is unknown", hint=hint)


def discard_hint(run: Run) -> str:
    """Return how to discard a run whose submission has an unknown result; empty for other runs."""
    if not _is_lost(run):
        return ""
    return f"if you know that {run.name} has no job, remove `{run.directory.path}`"


def _is_lost(run: Run) -> bool:
    return run.job is None and run.record.phase == Phase.SUBMITTING


# --- Ending a search before its last trial, or a training before its last attempt


FILE: Final = "stop"
_MOST: Final = 4096
_BY_CANCEL: Final = "by hpcdist cancel\n"
_CANCELLED: Final = "cancelled"
"""The file that marks a cancelled run: a job that is submitted at this moment begins no attempt."""


def request(directory: RunDirectory, reason: str) -> None:
    """Let no further trial start.

    Raises:
        OSError: if the file cannot be written, or the directory belongs to another user.
    """
    directory.write(FILE, f"{reason}\n")


def is_requested(directory: RunDirectory) -> bool:
    """Return whether no further trial is to start."""
    return (directory.path / FILE).exists()


def reason(directory: RunDirectory) -> str:
    """Return why no further trial is to start, as `request` has it; empty where that cannot be read."""
    try:
        return directory.read(FILE, _MOST).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def mark_cancelled(directory: RunDirectory) -> None:
    """Mark the run: no further job is submitted and no attempt begins, as far as the disk permits."""
    with contextlib.suppress(OSError):
        directory.write(_CANCELLED, _BY_CANCEL)


def command_to_mark_cancelled(directories: Sequence[RunDirectory]) -> Command:
    """Return `mark_cancelled` as a command for a remote."""
    script = f'for run; do (umask 077 && echo "{_BY_CANCEL.strip()}" >"$run/{_CANCELLED}"); done'
    return Command(("sh", "-c", script, "hpcdist", *(str(one.path) for one in directories)))


def command_to_unmark_cancelled(directories: Sequence[RunDirectory]) -> Command:
    """Return `unmark_cancelled` as a command for a remote."""
    return Command(("rm", "-f", "--", *(str(one.path / _CANCELLED) for one in directories)))


def unmark_cancelled(directory: RunDirectory) -> None:
    """Remove the mark: the batch system did not cancel it."""
    with contextlib.suppress(OSError), directory.opened():
        (directory.path / _CANCELLED).unlink(missing_ok=True)


def is_cancelled(directory: RunDirectory) -> bool:
    """Return whether its user has cancelled the run, and not resumed it since."""
    return (directory.path / _CANCELLED).exists()


def withdraw(directory: RunDirectory, *, attempts: bool) -> None:
    """Let trials start again; ``attempts``: also attempts of the program, counted from here.

    Raises:
        OSError: if a file cannot be removed or written, or the directory belongs to another user.
    """
    with directory.opened():
        (directory.path / FILE).unlink(missing_ok=True)
        (directory.path / _CANCELLED).unlink(missing_ok=True)
        for first in directory.path.glob("attempts/**/0") if attempts else ():
            if not first.is_file():  # the attempts of element 0
                continue
            count = sum(file.name.isdecimal() and file.is_file() for file in first.parent.iterdir())
            new = first.parent / "first.new"
            new.write_text(f"{count}\n")
            new.replace(first.parent / "first")
            (first.parent / "over").unlink(missing_ok=True)
