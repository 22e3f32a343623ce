"""This start of the job: its id, its folder, its nodes, and its lines in the event log."""

import os
import re
import sys
import time
from contextlib import suppress
from typing import Dict, List, Mapping, Optional, Sequence, TextIO

from .events import Event, plain_id, read
from .job import Job

_OF_ANOTHER = re.compile(
    "(SHELL|BASH)OPTS$|HPCDIST_((LOCAL_)?(RANK|SIZE)|(TASK_|JOB_)?NODES|(BESIDE_)?NODE|(HEAD_)?ADDRESS|PORT|"
    "PEERS_.*|ROLE|INDEX|CPUS|GPUS|PROCESSES|THREADS|HOSTFILE|HOSTS|ENDED|TRIAL|STOP_AT|POLICIES|PROGRAM|"
    "VARIABLES)$"
)
"""Options of the login shell, and what a job sets that started this one: this one sets only what it names."""


def without_another(environment: "Mapping[str, str]") -> "Dict[str, str]":
    """Return the environment without what is another job's."""
    return {name: environment[name] for name in environment if not _OF_ANOTHER.match(name)}


class Failed(Exception):  # noqa: N818 - as it is said
    """The job cannot begin, or go on: a sentence for its user, and its exit code."""

    def __init__(self, message: str, code: int = 86) -> None:
        super().__init__(message)
        self.code = code


def say(text: str, out: "Optional[TextIO]" = None) -> None:
    """Print a line of our own to the job's log, on standard error or this; a full disk ends no training."""
    with suppress(OSError):
        print(f"hpcdist: {text}", file=out or sys.stderr, flush=True)


def unwritten(folder: str, error: OSError) -> Failed:
    """Return the failure of what cannot be written."""
    reason = f"{error.strerror or error}; is the disk full, or your quota used up?"
    return Failed(f"cannot write to {folder} on {os.uname().nodename}: {reason}")


def append(path: str, line: str) -> None:
    """Add a whole line to a file, to which others may write at once, and wait until it is on the disk."""
    data = line.encode()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        if os.write(file, data) != len(data):
            raise OSError("the line was cut short")
        os.fsync(file)
    finally:
        os.close(file)


class Start:
    """One start of one job, or of one element of its array; ``tries`` counts its attempts."""

    def __init__(self, job: Job, name: str, element: str) -> None:
        packed = job.sweep is not None and job.sweep.workers > 0
        mark = "+" if packed else "_"  # 124_2 is a trial there
        self.job = job
        self.name = name  # the job's id without its element
        self.element = element
        self.trial = "" if packed else element  # which has outputs, checkpoints and attempts of its own
        self.id = f"{name}{mark}{element}" if element else name
        self.folder = job.file("jobs", self.id)
        self.nodes: List[str] = []
        self.own: List[str] = []
        self.restarts = 0
        self.tries = 0
        self.attempt = 0
        self.extra: Dict[str, str] = {}
        self.began = time.time()

    # --- Its logs

    def open_logs(self, *, follows: bool) -> None:
        """Write to the files that the experiment names, and where the batch system's own will not do.

        ``follows``: a trial may have run before, and the batch system's file of a later job has another name.
        LSF keeps the output of a job until it is over.
        """
        name = f"job{'-' + self.element if self.element else ''}"
        if self.job.scheduler == "lsf" and self.trial != self.element and self.job.sweep:
            number = f"{self.job.number}-" if self.job.number > 1 else ""
            stem = f"{number}node-{self.element}" if self.element else "job"
            self._redirect(self.job.file("logs", f"{stem}.out"))
        elif self.job.scheduler == "lsf" or follows:
            self._redirect(self.job.file("logs", f"{name}.out"))
        if self.job.output:
            self._redirect(self.own_log("output", self.job.output, name))
        if self.job.error:
            self._redirect(self.own_log("error", self.job.error, name), 2)

    def own_log(self, kind: str, pattern: str, name: str) -> str:
        """Return a log file of the user's, to which a link in the run's logs leads."""
        values = {"j": self.id, "A": self.name, "a": self.element, "u": os.environ.get("USER", "")}
        path = os.path.abspath(re.sub("%([jAau])", lambda found: values[found.group(1)], pattern))
        link = self.job.file("logs", f"{name}.{kind}.out")
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "ab").close()
            if os.path.islink(link):
                os.unlink(link)
            os.symlink(path, link)
        except OSError as error:
            host = os.uname().nodename
            raise Failed(f"cannot write to {path} on {host}, which batch.{kind} names") from error
        return path

    def _redirect(self, path: str, *numbers: int) -> None:
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise unwritten(os.path.dirname(path), error) from error
        for number in numbers or (1, 2):
            os.dup2(file, number)
        os.close(file)

    # --- What it writes

    def open(self) -> None:
        """Make its folders, none of which may be another user's.

        Raises:
            Failed: if they cannot be made, or others could write there.
        """
        mask = os.umask(0o077)
        try:
            for folder in (self.folder, self.job.file("logs"), self.outputs, self.checkpoints):
                os.makedirs(folder, 0o700, exist_ok=True)
        except OSError as error:
            raise unwritten(self.job.run, error) from error
        finally:
            os.umask(mask)
        for folder in (self.job.run, self.folder):
            if os.path.islink(folder) or os.lstat(folder).st_uid != os.geteuid():
                raise Failed(
                    f"{self.job.run} is not your own: another user could change what this job runs; "
                    "submit it from a folder that only you can write to"
                )

    @property
    def outputs(self) -> str:
        """The folder of what the program keeps."""
        return self.job.file("outputs", *filter(None, [self.trial]))

    @property
    def checkpoints(self) -> str:
        """The folder that the job finds again when it is started again."""
        return self.job.file("checkpoints", *filter(None, [self.trial]))

    def log(self, what: str, value: object = 0) -> None:
        """Add an event to the run's event log; raise OSError if it cannot be written."""
        append(self.job.file("events"), f"{what} {self.id} {int(time.time())} {value}\n")

    def events(self) -> "Sequence[Event]":
        """Return the events of the run so far."""
        try:
            with open(self.job.file("events"), "rb") as file:
                return read(file.read())
        except FileNotFoundError:
            return ()

    def own_events(self) -> "Sequence[Event]":
        """Return those of this job, or element, in all its starts."""
        own = plain_id(self.id)
        return [event for event in self.events() if event.job_id == own]

    def write(self, name: str, text: str) -> str:
        """Write a file of the job whole: what an earlier start wrote may still be read. Return its path."""
        path = os.path.join(self.folder, name)
        try:
            with open(path + ".part", "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)
            os.rename(path + ".part", path)
        except OSError as error:
            raise unwritten(self.folder, error) from error
        return path

    def write_nodes(self) -> None:
        """Write the nodes of this attempt, and once more by a name that no later attempt replaces."""
        text = "".join(f"{node}\n" for node in self.nodes)
        self.write("nodes", text)
        self.write(f"nodes.{self.restarts}{f'.{self.tries}' if self.tries else ''}", text)

    # --- Its attempt

    @property
    def place(self) -> str:
        """This attempt as the names of its files have it: the start, and the try in it."""
        return f"{self.restarts}.{self.tries}"

    @property
    def failure(self) -> str:
        """The file of the first task to fail; all processes of the program have its name in a variable."""
        return os.path.join(self.folder, f"failure.{self.place}")

    @property
    def tracking(self) -> str:
        """The folder in which the program records metrics."""
        return self.job.file("tracking", self.id, self.place)

    def environment(self, base: "Dict[str, str]") -> "Dict[str, str]":
        """Return the environment of the script in this attempt."""
        modules = self.job.file("runtime", "python")
        paths = [path for path in base.get("PYTHONPATH", "").split(":") if path and path != modules]
        own = {
            "HPCDIST_SUPERVISED": f"{self.job.run} {os.getpid()}",
            "HPCDIST_RUN_DIR": self.job.run,
            "HPCDIST_JOB_ID": self.id,
            "HPCDIST_JOB_DIR": self.folder,
            "HPCDIST_OUTPUTS": self.outputs,
            "HPCDIST_CHECKPOINTS": self.checkpoints,
            "HPCDIST_ATTEMPT": str(self.attempt),
            "HPCDIST_RESUMED": str(int(self.attempt > 0 or os.path.exists(self.job.file("copied")))),
            "HPCDIST_TRACKING": self.tracking,
            "HPCDIST_FAILURE": self.failure,
            "HPCDIST_PYTHON": sys.executable,
            "PYTHONPATH": ":".join([*paths, modules]),
        }
        found = dict(base, **own)
        found.update(_polyaxon(self.job, found))
        found.update(self.extra)
        return found


def _polyaxon(job: Job, environment: "Dict[str, str]") -> "Dict[str, str]":
    """Return Polyaxon's variables; its client then records in files, without a server."""
    found = {}
    for name, text in job.variables:
        value = text
        for ours in ("HPCDIST_OUTPUTS", "HPCDIST_JOB_ID", "HPCDIST_RUN_DIR", "HPCDIST_CHECKPOINTS"):
            value = value.replace(f"${ours}", environment[ours])
        found[name] = value
    tracking = environment["HPCDIST_TRACKING"]
    root = environment.get("POLYAXON_OFFLINE_ROOT", tracking)
    if not environment.get("POLYAXON_HOST") and root.startswith(tracking):
        number = "".join(char for char in environment["HPCDIST_JOB_ID"] if char.isdigit())
        found.update(
            POLYAXON_IS_OFFLINE="true",
            POLYAXON_IS_MANAGED="true",
            POLYAXON_OFFLINE_ROOT=os.path.join(tracking, "polyaxon-0"),
            POLYAXON_RUN_INSTANCE=environment.get(
                "POLYAXON_RUN_INSTANCE", f"hpcdist.hpcdist.runs.{number.rjust(32, '0')}"
            ),
        )
    return found
