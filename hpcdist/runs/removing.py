"""Which runs may be removed: those whose jobs have ended for certain; and how large they are."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from hpcdist.base import ownership
from hpcdist.base.errors import ConfigError, Problem, SchedulerError
from hpcdist.runs import rundir
from hpcdist.runs.job_states import GRACE, Report, age
from hpcdist.runs.rundir import NotOwner, Phase, Run, RunDirectory
from hpcdist.runs.services import Services, renewed
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.job import JobState

_FORCE: Final = "if you know that it has ended, use `hpcdist rm --force`"


def check(report: Report, services: Services, *, force: bool = False) -> None:
    """Check that the job of a run is over, so that nothing uses its directory any more.

    ``force`` also accepts a job whose end is unknown, but never one that the batch system lists.

    Raises:
        ConfigError: if the job is live, or left processes behind.
        SchedulerError: if its end is unknown.
    """
    for job in report.jobs:
        _check(job, services, force=force)


def _check(report: Report, services: Services, *, force: bool) -> None:
    run, status = report.run, report.status
    if run.job and not status.state.is_final and (status.native or status.state is not JobState.UNKNOWN):
        state = "listed by the batch system" if status.state is JobState.UNKNOWN else status.state.value
        raise ConfigError(Problem(f"{run.name} is {state}", hint=f"`hpcdist cancel {run.name}` ends its job"))
    if status.state.is_final and schedulers.get(run.record.scheduler).has_leftovers(status):
        hint = f"`hpcdist cancel {run.name}` ends them"
        raise ConfigError(Problem(f"{run.name} has ended, but its processes have not", hint=hint))
    if not force and (why := _unknown(report, services)):
        raise SchedulerError(Problem(f"the end of {run.name} is unknown: {why}", hint=_FORCE))


def _unknown(report: Report, services: Services) -> str:
    """Return why the end of the job is unknown; empty if it is known."""
    run, status = report.run, report.status
    if status.state in (JobState.UNKNOWN, JobState.VANISHED):
        return status.reason
    is_new = run.record.phase is Phase.CREATED and age(run, services) < GRACE
    return "its submission may be going on" if is_new else ""


def remove(run: Run) -> None:
    """Remove the directory of a run whose job is over (`check`).

    Raises:
        ConfigError: if it was submitted in the meantime, or cannot be removed.
    """
    now = renewed(run)
    if [_submission(job) for job in now.jobs] != [_submission(job) for job in run.jobs]:
        raise ConfigError(Problem(f"{run.name} was submitted in the meantime"))
    try:
        remove_directory(run.directory)
    except OSError as error:
        where = f": {os.fsdecode(error.filename)}" if error.filename else ""
        message = f"{run.name} cannot be removed{where}: {error.strerror or error}"
        raise ConfigError(Problem(message)) from error


def _submission(job: Run) -> tuple[Phase, str | None]:
    return job.record.phase, job.record.job_id


def remove_directory(directory: RunDirectory, remove_tree: Callable[[Path], object] = shutil.rmtree) -> None:
    """Remove a run directory; links in it are not followed.

    It is renamed first, so that a killed process leaves nothing that looks like a run.

    Raises:
        OSError: if it is a link, belongs to another user, or cannot be removed.
    """
    parent, name = directory.path.parent, directory.name
    with ownership.folder(parent) as runs:
        found = os.stat(name, dir_fd=runs, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            raise OSError(errno.ELOOP, "it is a symbolic link", str(directory.path))
        if found.st_uid != os.geteuid():
            owner = ownership.name_of(found.st_uid)
            raise NotOwner(errno.EPERM, f"it belongs to {owner}", str(directory.path))
        aside = f"{rundir.REMOVED}{os.urandom(6).hex()}"
        os.rename(name, aside, src_dir_fd=runs, dst_dir_fd=runs)
    _make_writable(parent / aside)
    remove_tree(parent / aside)


def _make_writable(folder: Path) -> None:
    """Make read-only folders in it writable, so that their contents can be removed."""
    for _, folders, _, handle in os.fwalk(folder):
        for name in folders:
            with suppress(OSError):
                mode = os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
                    os.chmod(name, stat.S_IMODE(mode) | stat.S_IRWXU, dir_fd=handle)


def remove_leftovers(runs_dir: Path) -> None:
    """Remove what interrupted removals have left in the runs directory.

    Raises:
        OSError: if it cannot be removed.
    """
    for path in runs_dir.glob(f"{rundir.REMOVED}*"):
        with suppress(FileNotFoundError):  # another process removes it
            if path.lstat().st_uid == os.geteuid():
                _make_writable(path)
                shutil.rmtree(path)


def size(directory: RunDirectory) -> int:
    """Return the bytes that removing it frees: files with hard links elsewhere do not count.

    Unreadable files do not count.
    """
    total, names = 0, Counter[tuple[int, int, int, int]]()
    for found in _files(directory.path):
        if found.st_nlink == 1:
            total += found.st_size
        else:
            names[found.st_dev, found.st_ino, found.st_nlink, found.st_size] += 1
    return total + sum(file[3] for file, count in names.items() if count == file[2])


def _files(folder: Path) -> Iterator[os.stat_result]:
    for _, _, files, handle in os.fwalk(folder):
        for name in files:
            with suppress(OSError):
                found = os.stat(name, dir_fd=handle, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode):
                    yield found


def last_used(run: Run) -> float:
    """Return when it was created or submitted, or its job last wrote to its event log."""
    records = (job.record for job in run.jobs)
    texts = (text for record in records for text in (record.created_at, record.submitted_at))
    times = [datetime.fromisoformat(text).timestamp() for text in texts if text]
    return max([*times, *(event.at for event in run.directory.events())])
