"""Shared by the verbs of jobs: finding runs, printing reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from hpcdist.base.errors import ConfigError, Problem, SchedulerError, comma_list
from hpcdist.cli import show
from hpcdist.cli.messages import note, one_line, print_problems
from hpcdist.runs import finding, this_machine
from hpcdist.runs.remotes import here
from hpcdist.runs.rundir import Run
from hpcdist.schedulers.job import JobState

if TYPE_CHECKING:
    from hpcdist.loading.planning import Planned
    from hpcdist.runs.job_states import Report
    from hpcdist.runs.services import Services
    from hpcdist.runs.submission import SubmitOutput


check, check_here = this_machine.check, this_machine.check_here

Found = TypeVar("Found")


def services(*, voids: bool = False) -> Services:
    """Return the services as `here.services`, which print each warning once."""
    return here.services(voids=voids)._replace(warn=cache(_warn), without_suspects=_without_suspects)


def _without_suspects(made: Planned, runs_dir: Path) -> Planned:
    from hpcdist.checks import nodes  # few verbs plan further jobs

    return nodes.without_suspects(made, runs_dir)


def _warn(problem: Problem) -> None:
    print_problems([problem])


def find(runs_dir: Path, jobs: Iterable[str]) -> tuple[list[Run], int]:
    """Return the named runs, each once, and the exit code for those that were not found.

    The errors of runs that were not found are printed.

    Raises:
        ConfigError: if none was found.
    """
    found, code = _each(_expanded(runs_dir, jobs), partial(finding.find, runs_dir))
    return [*{run.directory.path: run for run in found}.values()], code


def find_elements(runs_dir: Path, jobs: Iterable[str]) -> tuple[list[tuple[Run, str]], int]:
    """Return the named runs and elements (``tune-1/3``), as `find`; the element of a whole run is empty.

    Raises:
        ConfigError: if none was found.
    """
    found, code = _each(_expanded(runs_dir, jobs), partial(finding.find_element, runs_dir))
    return [*{(run.directory.path, element): (run, element) for run, element in found}.values()], code


def _expanded(runs_dir: Path, jobs: Iterable[str]) -> Iterator[str]:
    """Yield these names, in place of a pipeline those of the runs of its operations."""
    for job in jobs:
        whole = finding.of_pipeline(runs_dir, job)
        yield from (str(run.directory.path) for run in whole) if whole else (job,)


def _each(jobs: Iterable[str], find_one: Callable[[str], Found]) -> tuple[list[Found], int]:
    found: list[Found] = []
    problems: list[Problem] = []
    for job in jobs:
        try:
            found.append(find_one(job))
        except ConfigError as error:
            problems += error.problems
    if not found:
        raise ConfigError(*problems)
    print_problems(problems)
    return found, ConfigError.exit_code if problems else 0


def pull(found: Iterable[Run], *, whole: bool = True) -> None:
    """Bring runs of remotes up to date here; of a remote that does not answer, warn how old its files are.

    ``whole`` as of `Services.pull`.
    """
    by_remote: dict[str, list[Run]] = {}
    for run in found:
        if run.record.remote:
            by_remote.setdefault(run.record.remote, []).append(run)
    for group in by_remote.values():
        try:
            services().pull(group, whole=whole)
        except (ConfigError, SchedulerError) as error:
            print_problems(problem._replace(severity="warning") for problem in error.problems)


def find_pulled(runs_dir: Path, job: str, *, whole: bool = True) -> tuple[Run, str]:
    """Return a run and the number of an element, as `finding.find_element`, with what its remote has now.

    Raises:
        ConfigError: as `finding.find_element`.
    """
    run, element = finding.find_element(runs_dir, job)
    pull([run], whole=whole)
    return run, element


def warn_unreadable(errors: Sequence[ConfigError]) -> None:
    """Warn of runs whose record cannot be read; those of other users are summed up in one note."""
    others = [error for error in errors if isinstance(error.__cause__, PermissionError)]
    broken = (error for error in errors if error not in others)
    print_problems(problem._replace(severity="warning") for error in broken for problem in error.problems)
    if others:
        places = (problem.place for error in others for problem in error.problems)
        names = sorted(Path(place.file).parent.name for place in places if place)
        note(f"not shown (owned by other users or unreadable): {comma_list(names)}")


def show_states(states: Sequence[Mapping[str, Any]], *, json: bool) -> None:
    """Print the states of runs and elements, each as `report_of` returns it."""
    if json:
        show.as_json(states)
    elif states:
        when = ("start",) if any("start" in state for state in states) else ()
        show.table(("run", "job", "state", "exit", *when, "reason"), map(_row, states))


def _row(state: Mapping[str, Any]) -> tuple[str, ...]:
    code = "-" if state["exit_code"] is None else str(state["exit_code"])
    reason = one_line(state["reason"].partition("\n")[0])
    jobs = _listed(state.get("job_ids") or [state["job_id"]])
    when = (state["start"] or "-",) if "start" in state else ()
    return (state["name"], jobs, state["state"], code, *when, reason)


def ids_of(run: Run) -> str:
    """Return the ids of its jobs: ``100, 101 and 8 more``."""
    return _listed([job.record.job_id for job in run.jobs])


def _listed(ids: Sequence[str | None]) -> str:
    return comma_list([each or "-" for each in ids], most=2)


def record_of(run: Run) -> dict[str, Any]:
    """Return a run's record for JSON."""
    record = run.record
    return {
        "name": run.name,
        "job_id": record.job_id,
        "job_ids": [job.record.job_id for job in run.jobs],
        "site": record.site,
        "scheduler": record.scheduler,
        "phase": record.phase.value,
        "created_at": record.created_at,
        "submitted_at": record.submitted_at,
        "directory": str(run.directory.path),
    }


def added(run: Run, *, json: bool) -> SubmitOutput:
    """Return how to print the jobs that are added to a run."""
    from hpcdist.runs.submission import SubmitOutput

    printed = {job.directory.number for job in run.jobs}

    def result(now: Run) -> None:
        new = [job for job in now.jobs if job.directory.number not in printed]
        printed.update(job.directory.number for job in new)
        if json:
            show.as_json([record_of(job) | {"trials": job.record.trials} for job in new])
        for job in new if not json else ():
            does = f"runs trials {job.record.trials}" if job.record.trials else "goes on"
            click.echo(f"{run.name}: job {job.record.job_id} {does}")
        show.flush()

    return SubmitOutput(result, note)


def report_of(report: Report) -> dict[str, Any]:
    """Return a run and the state of its job for JSON."""
    status = report.status
    return {
        **record_of(report.run),
        "state": status.state.value,
        "native_state": status.native,
        "exit_code": status.exit_code,
        "reason": "; ".join(filter(None, [status.reason, next_generation(report)])),
        "source": status.source,
    }


def next_generation(report: Report) -> str:
    """Return that a search whose generation has ended has further ones, and how it goes on; or nothing."""
    if not report.status.state.is_final:
        return ""
    from hpcdist.runs import search_progress

    found = search_progress.awaiting_next(report)
    return f"{found.text}; {search_progress.next_step_hint(report.run)}" if found else ""


_ENDS: Final = {
    JobState.COMPLETED: "completed",
    JobState.FAILED: "failed",
    JobState.TIMEOUT: "ran out of time",
    JobState.OUT_OF_MEMORY: "ran out of memory",
    JobState.NODE_FAIL: "failed because of a node",
    JobState.VANISHED: "vanished",
}


def sentence(report: Report) -> str:
    """Return the state of a job as a sentence: ``quickstart-1 failed with exit code 3``."""
    status = report.status
    code = f" with exit code {status.exit_code}" if status.exit_code else ""
    reason = f" ({status.reason})" if status.reason else ""
    end = _ENDS.get(status.state, f"is {status.state.value}")
    if further := next_generation(report):
        return f"a generation of {report.run.name} {end}{code}{reason}: {further}"
    return f"{report.run.name} {end}{code}{reason}"


def explain(report: Report) -> None:
    """Print why a job does not run, or why its state is unknown: either may last long."""
    from hpcdist.runs.cancelling import discard_hint

    state, reason = report.status.state, one_line(report.status.reason.partition("\n")[0])
    if state is JobState.UNKNOWN:
        note("; ".join(filter(None, [f"{report.run.name}: {reason}", discard_hint(report.run)])))
    elif state in (JobState.PENDING, JobState.SUSPENDED) and reason:
        note(f"{report.run.name} is {state.value}: {reason}")


# --- A verb of one run for each operation of a pipeline


def each_operation(ctx: click.Context, verb: click.Command, runs_dir: Path, job: str, *single: str) -> bool:
    """Run a verb for each run of a pipeline, below the name of its operation; return whether it is one.

    ``single``: the parameters of the verb that are for one run alone.

    Raises:
        UsageError: if one of those is given.
    """
    if not finding.pipeline_directory(runs_dir, job):
        return False
    from hpcdist.studies.pipeline_runs import find_pipeline  # with what only pipelines need

    stored = find_pipeline(runs_dir, job)
    whole = [*stored.runs().values()] if stored else []
    for name in (name for name in single if whole and ctx.params[name]):
        option = next(max(one.opts, key=len) for one in verb.params if one.name == name)
        raise click.UsageError(f"{option} is for one run: name an operation, {whole[0].record.operation}.")
    for run in whole:
        click.echo(f"==> {run.record.operation} <==")
        path = str(run.directory.path)
        ctx.invoke(
            verb, **(ctx.params | {"jobs": (path,) if isinstance(ctx.params["jobs"], tuple) else path})
        )
    return bool(whole)
