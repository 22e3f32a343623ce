"""Finding runs: all of a runs directory, or one by its name, its directory or its job id."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from hpcdist.base.errors import ConfigError, Problem, comma_list, did_you_mean
from hpcdist.runs import elements, rundir
from hpcdist.runs.elements import Elements
from hpcdist.runs.rundir import Run, RunDirectory
from hpcdist.runs.stored_plan import StoredPlan

PIPELINE: Final = "pipeline.json"
"""The file that marks the directory of a pipeline; its runs are next to it."""

_WHOLE: Final = "only searches and arrays have any: leave the number out"
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


def list_runs(runs_dir: Path) -> tuple[tuple[Run, ...], tuple[ConfigError, ...]]:
    """Return all runs, oldest first, and the errors of those that cannot be read."""
    runs, errors = [], []
    for path in runs_dir.iterdir() if runs_dir.is_dir() else ():
        if path.name.startswith(rundir.REMOVED):
            continue
        directory = RunDirectory(path.absolute())
        try:
            runs.append(rundir.read(directory))
        except ConfigError as error:
            absent = isinstance(error.__cause__, (FileNotFoundError, NotADirectoryError))
            if not absent or os.path.lexists(directory.record_file):
                errors.append(error)
    return tuple(sorted(runs, key=lambda run: (run.record.created_at, run.name))), tuple(errors)


def find(runs_dir: Path, job: str) -> Run:
    """Return a run by its name, its directory or its job id; or ``PIPELINE/OPERATION``.

    Raises:
        ConfigError: if there is none, or more than one (batch systems reuse ids).
    """
    for path in (runs_dir / job, Path(job)):
        directory = RunDirectory(path.absolute())
        if os.path.lexists(directory.record_file):
            return rundir.read(directory)
    runs, _ = list_runs(runs_dir)
    if same := [run for run in runs if job and run.record.operation == job]:
        return next((run for run in reversed(same) if run.job), same[-1])
    found = [run for run in runs if any(job in _ids(each) for each in run.jobs)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(run.name for run in found)
        raise ConfigError(Problem(f"{job} is the id of several runs", hint=f"use the name of one: {names}"))
    if pipeline_directory(runs_dir, job):
        message = f"{job} is a pipeline, where one run is wanted"
        own = comma_list([run.record.operation for run in of_pipeline(runs_dir, job)], most=8)
        raise ConfigError(Problem(message, hint=f"name an operation: {own or f'{job}/NAME'}"))
    whole, _, element = job.rpartition("/")
    if _NUMBER.fullmatch(element) and any(run.name == whole for run in runs):
        message = f"{job} is an element of a run, where a whole run is wanted"
        raise ConfigError(Problem(message, hint=f"{whole} has all of them"))
    hint = did_you_mean(job, [run.name for run in runs], most=5)
    raise ConfigError(Problem(f"there is no run {job!r} in {runs_dir}", hint=hint))


def pipeline_directory(runs_dir: Path, name: str) -> Path | None:
    """Return the directory of the pipeline of this name, or at this path; None if it is no pipeline."""
    paths = (path.absolute() for path in (runs_dir / name, Path(name)))
    return next((path for path in paths if os.path.lexists(path / PIPELINE)), None)


def of_pipeline(runs_dir: Path, name: str) -> list[Run]:
    """Return the last run of each operation of the pipeline of this name; none if it is no pipeline."""
    path = pipeline_directory(runs_dir, name)
    if path is None:
        return []
    runs, _ = list_runs(path.parent)
    pairs = [(run.record.operation, run) for run in runs]
    own = [(one, run) for one, run in pairs if one.partition("/")[0] == path.name]
    with_job = {one: run for one, run in own if run.job}
    return [*(dict(own) | with_job).values()]


def find_element(runs_dir: Path, job: str) -> tuple[Run, str]:
    """Return a run as `find` does, and the number of an element of its array, which may follow a slash.

    Raises:
        ConfigError: as `find` does, or if its array or search has no such element.
    """
    run, slash, element = job.rpartition("/")
    if (
        slash
        and _NUMBER.fullmatch(element)
        and not os.path.lexists(runs_dir / job)
        and not Path(job).exists()
    ):
        found = find(runs_dir, run)
        check_element(found, int(element))
        return found, str(int(element))
    return find(runs_dir, job), ""


def check_element(run: Run, number: int) -> None:
    """Check that a run has this element; one whose plan cannot be read may have it.

    Raises:
        ConfigError: if it has not.
    """
    parts, plan = [elements_of(job) for job in run.jobs], run.directory.plan()
    if any(number in part for part in parts) or plan == StoredPlan():
        return
    if not any(parts):
        raise ConfigError(Problem(f"{run.name} has no trials or elements", hint=_WHOLE))
    noun = "trial" if plan.trials else "element"
    known = ",".join(part.text for part in parts)
    if plan.trials:  # a job that repeats trials has them, too
        known = elements.text_of(sorted({number for part in parts for number in part.outside(())}))
    raise ConfigError(Problem(f"{run.name} has no {noun} {number}", hint=f"it has {known}"))


def elements_of(job: Run) -> Elements:
    """Return the trials or elements of a job, as far as they are known."""
    plan = job.directory.plan()
    if job.record.trials:
        return elements.numbers(job.record.trials)
    if plan.trials:
        return Elements([range(1, plan.trials + 1)])
    return plan.elements("")


def _ids(run: Run) -> set[str]:
    """Return its job id, and the number in it: 12 of ``12;cluster``, ``12[]``."""
    job_id = run.record.job_id or ""
    return {job_id, re.split(r"[;.\[]", job_id, maxsplit=1)[0]} - {""}
