"""Packed trials: each task of a job is a worker, which runs one trial after another until none is left.

``claims/TRIAL.START`` is a link to its owner, ``JOB/RESTARTS/RANK/TIME``: only one worker can make it, and no
lock outlives a dead one. START is 0, and one more each time that the trial was returned: then there is
``again/TRIAL.START``, until it is claimed. ``events.JOB@HOST`` is the log of the trials that a job ran on a
node: appended to from two nodes, a file may lose lines on NFS.
"""

import os
import re
import signal
import subprocess
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from . import events, trials
from .batch import System, system
from .job import Job
from .job import read as read_job
from .processes import below, is_signalled_alone, memory_kills, processes, read, send
from .restarts import LAUNCH, SIGNALLED, TERMINATED
from .start import Failed, Start, append, say, unwritten

Lives = Callable[[str], Optional[bool]]
"""Whether a job, by the batch system's id, is alive; None where nobody says so (`System.lives`)."""

_FULL = "is the disk full, or your quota used up?"
_MEMORY = "the kernel killed a process on its node for lack of memory"
_DOUBT = "ended with exit code 0 when it was told to end; whether it had finished is unknown"
_MOST_ASKED, _ASK_AGAIN = 8, 60.0  # jobs that are asked about at once; seconds until one is again
_LEAVE = 10  # tenths of a second for which what is left of a job ends by itself
_PATIENCE = 30.0  # seconds from TERM to KILL for a trial that was cancelled
_HEARD = [
    getattr(signal, f"SIG{name}")
    for name in ("TERM", "INT", "HUP", "QUIT", "ALRM", "USR1", "USR2", "XCPU", "XFSZ")
]
_OF_LAUNCHER = re.compile(
    "HPCDIST_(HOSTFILE|WORKERS|START_.*)|(PMI|PMI2|PMIX|PALS|JSM|FLUX_TASK|OMPI_COMM_WORLD|OMPI_APP_CTX)_.*"
    "|MPI_LOCAL.*|OMPI_(UNIVERSE_SIZE|FIRST_RANKS|NUM_APP_CTX|ARGV|COMMAND|FILE_LOCATION)|PRTE_MCA_.*"
    "|OMPI_MCA_(orte_.*|ess.*|pmix.*|plm)|SLURM_(STEP.*|PROCID|LOCALID|NODEID|NTASKS.*|NPROCS|TASKS_PER_NODE"
    "|GTIDS|LAUNCH_.*|SRUN_.*|PMI.*|MPI_TYPE)"
)
"""The variables by which a program would take itself for one task of the workers' launch."""


# --- Claims


def lost(owners: Mapping[str, str], again: Set[str], ends: Mapping[str, int]) -> List[Tuple[str, str]]:
    """Return the claims of trials that neither ended nor were returned, behind the jobs that made them.

    ``ends``: when a trial, as ``124_17``, ended last.
    """
    found, later = [], again.union(owners)
    for name, owner in owners.items():
        job, _, _, at = [*owner.split("/"), "", "", ""][:4]
        ended = ends.get(f"{job.partition('+')[0]}_{_trial(name)}", -1)
        if _after(name) not in later and ended < (int(at) if at.isdigit() else 0):
            found.append((job, name))
    return sorted(found)


def _trial(name: str) -> str:
    return name.partition(".")[0]


def _after(name: str) -> str:
    return f"{_trial(name)}.{int(name.partition('.')[2]) + 1}"


class Claims:
    """The claims of a run as one of its jobs sees them, with the trials of its table."""

    def __init__(self, start: Start) -> None:
        """Raise Failed if the table cannot be read."""
        self.start = start
        self.job = start.job
        self.trials = [re.split("[\t\n]", line)[0] for line in trials.table(start.job)[1:]]
        self.rows = {trial: str(row) for row, trial in enumerate(self.trials, 1)}

    def _names(self, folder: str) -> List[str]:
        return sorted(filter(re.compile("[0-9]+[.][0-9]+").fullmatch, os.listdir(self.job.file(folder))))

    def returned(self) -> List[str]:
        """Return the claims of trials of this table that were returned, and wait for a worker."""
        return [name for name in self._names("again") if _trial(name) in self.rows]

    def wait(self) -> bool:
        """Return whether any trial waits for a worker."""
        paths = (self.job.file("claims", f"{trial}.0") for trial in self.trials)
        return bool(self.returned()) or not all(map(os.path.islink, paths))

    def lost(self) -> List[Tuple[str, str]]:
        """Return the claims of the whole run that are lost, behind their jobs."""
        paths = {name: self.job.file("claims", name) for name in self._names("claims")}
        owners = {name: os.readlink(path) for name, path in paths.items() if os.path.islink(path)}
        ends: Dict[str, int] = {}
        for log in os.listdir(self.job.run):
            for event in events.read(read(self.job.file(log))) if re.match("events[.].*@", log) else ():
                if event.what in ("ended", "cancelled", "pruned"):
                    ends[event.job_id] = max(event.at, ends.get(event.job_id, 0))
        return lost(owners, {*self._names("again")}, ends)

    def record(self, what: str, trial: str, value: object) -> None:
        """Add an event to the log of the trials that this job ran on this node."""
        log = self.job.file(f"events.{self.start.id}@{os.uname().nodename}")
        append(log, f"{what} {self.start.name}_{trial} {int(time.time())} {value}\n")

    def give_back(self, name: str, code: object = "unknown", why: str = "") -> None:
        """Return a trial, to be run again; ``why``: that of a job which is gone, and records nothing."""
        if not why:
            self.record("returned", _trial(name), code)
        _write(self.job.file("again", _after(name)), "")
        say(f"trial {_trial(name)} is returned, to be run again{why}")

    def give_back_own(self) -> None:
        """Return the trials that workers of this job had, who were killed."""
        for job, name in self.lost():
            if job == self.start.id:
                self.give_back(name)

    def take_over(self, lives: Lives) -> bool:
        """Return the trials of jobs that are gone, by the batch system's word; tell whether there are any."""
        claims = [(job, name) for job, name in self.lost() if job != self.start.id]
        asked = [job for job in sorted({job for job, _ in claims}) if self._may_ask(job)][:_MOST_ASKED]
        for job in asked:
            with suppress(OSError):
                _write(self.job.file("jobs", job, "asked"), "")
        gone = {job for job in asked if lives(self._id(job)) is False}
        for job, name in claims:
            if job in gone:
                self.give_back(name, why=f": job {job} is gone")
        return bool(gone)

    def _may_ask(self, job: str) -> bool:
        """Return whether no worker has asked about a job within a minute."""
        asked = self.job.file("jobs", job, "asked")
        since = time.time() - (os.stat(asked).st_mtime if os.path.exists(asked) else 0.0)
        return since > _ASK_AGAIN and self._id(job) != ""

    def _id(self, job: str) -> str:
        return read(self.job.file("jobs", job, "id")).decode().strip()

    def make(self, name: str, rank: str) -> bool:
        """Claim a trial; return whether no other worker has it."""
        path = self.job.file("claims", name)
        owner = f"{self.start.id}/{self.start.restarts}/{rank}/{int(time.time())}"
        if os.path.islink(path):
            return False
        try:
            os.symlink(owner, path)
        except FileExistsError:  # NFS says so also of a link that it made itself, as a reply was lost
            return os.readlink(path) == owner
        return True


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


@contextmanager
def _writing(run: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unwritten(run, error) from error


# --- What the supervisor does before the workers, and after them


def begin(start: Start, batch: System) -> None:
    """Prepare a job of packed trials, whose start is logged.

    It may take all its GPUs until its time limit, whether or not they have trials: so it starts as a whole.

    Raises:
        Failed: if it may not start within the budget, with exit code 85, or cannot be prepared.
    """
    own, sweep = start.job, start.job.sweep
    with _writing(own.run):
        for folder in ("claims", "again"):
            os.makedirs(own.file(folder), 0o700, exist_ok=True)
        start.write("id", f"{batch.own_id()}\n")  # for workers of other jobs
        if start.restarts:
            Claims(start).give_back_own()
    start.extra["HPCDIST_WORKERS"] = f"{own.number} {start.restarts} {start.element or '-'} {start.name}"
    if not sweep or not sweep.budget or not _wait(start):
        return
    start.write("cost", f"cost {start.id} {sweep.gpus} {sweep.cost}\n")
    try:
        why = trials.over(start, sweep)
    except OSError as error:
        log = own.file("events")
        raise Failed(f"cannot read {log}, by which the budget of this search is kept") from error
    if why:
        raise Failed(f"this job runs no trials: {why}", trials.STOPPED)


def _wait(start: Start) -> bool:
    with suppress(Failed, OSError):  # workers tell of a table that cannot be read
        return Claims(start).wait()
    return False


def end(start: Start, code: int) -> int:
    """Return the exit code of the job, whose launcher is over with this one.

    Workers end with 0, or one would end the others: it is that of the first trial that failed.
    """
    policy = start.job.policy
    if start.job.scheduler == "local":
        with _writing(start.job.run):
            _end_what_is_left(start)
            Claims(start).give_back_own()
    code = code or int(read(os.path.join(start.folder, "failed")) or 0)
    if not _wait(start):
        return code
    if not start.element and (policy is None or policy.by != "requeue"):
        say("some trials have not run to an end: `hpcdist resume` runs what is left")
    if is_stopped(start, code):
        say(f"no further trial starts: {trials.stopped(start.job)}")
        code = code or trials.STOPPED
    return code


def _end_what_is_left(start: Start) -> None:
    """End what a killed launcher or worker leaves, as a batch system does, lest its trials run twice."""
    for turn in range(100):
        found = processes(f"HPCDIST_FAILURE={start.folder}/", f"HPCDIST_FAILURE={start.folder}_")
        found = [pid for pid in processes("HPCDIST_RANK=") if pid in found]  # workers and trials alone
        if not found:
            break
        send(signal.SIGKILL, found if turn >= _LEAVE else [])
        time.sleep(0.1)


def requeues(start: Start, code: int, why: str) -> bool:
    """Return whether this job goes into the queue again, for trials that may have other nodes or more time.

    What its workers had claimed, and could not return, its next start returns. ``why``: that of its end.
    """
    policy = start.job.policy
    if policy is None or policy.by != "requeue" or why == "failure" or why not in policy.on:
        return False
    if is_stopped(start, code) or not (_wait(start) or start.id in dict(Claims(start).lost())):
        return False
    if start.restarts >= policy.max:
        say(f"{why}; no more than {policy.max} restarts: `hpcdist resume` runs what is left")
    return start.restarts < policy.max


def is_stopped(start: Start, code: Optional[int]) -> bool:
    """Return whether no further trial starts.

    A failure alone can be one too many: so the log is read when a worker begins, and after each that fails.
    """
    sweep, why = start.job.sweep, trials.stopped(start.job)
    with suppress(OSError):
        if not why and code != 0 and sweep and sweep.max_failures:
            why = trials.over(start, sweep._replace(budget=None))
            if why:
                _write(start.job.file("stop"), f"as {why}\n")
    return bool(why)


def may_try_again(job: Job, code: int, tries: int) -> bool:
    """Return whether a trial that failed, and ran again so often, runs again in its worker."""
    if code == LAUNCH or code >= SIGNALLED or tries >= (job.policy.max if job.policy else job.max_restarts):
        return False
    return job.policy is None or ("failure" in job.policy.on and code not in job.policy.stop_on_exit)


# --- The worker


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run trials as one task of a job; return its exit code.

    The first argument is the text of shell that becomes the program of a trial, in its environment;
    ``processes`` behind it: of a program that ends its processes itself when it gets TERM, as torchrun does.
    """
    try:
        number, restarts, element, name = environment["HPCDIST_WORKERS"].split(" ", 3)
        start = Start(read_job(environment["HPCDIST_RUN_DIR"], int(number)), name, element.strip("-"))
        start.restarts = int(restarts)
        with _writing(start.job.run):
            worker = Worker(start, environment, arguments[0], is_signalled_alone())
            worker.starts_processes = "processes" in arguments[1:]
            return worker.run(lambda own: _lives(environment, start.job, own))
    except (Failed, OSError, LookupError, TypeError, ValueError) as error:
        text = str(error) if isinstance(error, Failed) else repr(error)
        say(f"rank {environment.get('HPCDIST_RANK', '?')} on {os.uname().nodename}: {text}")
        return LAUNCH


def _lives(environment: Mapping[str, str], job: Job, own: str) -> Optional[bool]:
    with suppress(LookupError):  # not every launcher passes on what the batch system has set
        return system(environment, job).lives(own)
    return None


class Worker(Claims):
    """A task of the job: runs one trial after another, each as a job of its own.

    ``text``: the shell that becomes its program; ``alone``: the program does not get the worker's signals.
    """

    def __init__(self, start: Start, environment: Mapping[str, str], text: str, alone: bool) -> None:
        super().__init__(start)
        drop = [name for name in environment if _OF_LAUNCHER.fullmatch(name)]
        if environment.get("POLYAXON_OFFLINE_ROOT", "").startswith(environment["HPCDIST_TRACKING"]):
            drop += ["POLYAXON_OFFLINE_ROOT", "POLYAXON_RUN_INSTANCE"]
        self.base = {name: value for name, value in environment.items() if name not in drop}
        self.rank = environment["HPCDIST_RANK"]
        self.place = (int(start.element or 1) - 1) * self.job.tasks + int(self.rank)
        self.text = text
        self.alone = alone
        self.starts_processes = False
        self.told = False
        self.program: "Optional[subprocess.Popen[bytes]]" = None
        self.code: Optional[int] = None
        self.row = 0

    def run(self, lives: Lives) -> int:
        """Run trials until none is left; return 143 if it was told to end."""
        if not self.job.sweep or self.place >= self.job.sweep.workers:
            return 0  # the nodes of the last job may hold more workers than may run
        self.hear_signals()
        while not self.told and not is_stopped(self.start, self.code):
            name = self.claim_next() or (self.claim_next() if self.take_over(lives) else "")
            if not name:
                break
            self.code = self.run_trial(name)
        return TERMINATED if self.told else 0

    def claim_next(self) -> str:
        """Claim the next trial that no other worker has; return its claim, or nothing."""
        hint = self.job.file("claims", f"next.{os.path.basename(self.job.own('trials.tsv'))}")
        for name in self._candidates(read(hint).strip()):
            if self.make(name, self.rank):
                with suppress(OSError):
                    if self.row and name.endswith(".0"):
                        _write(hint, f"{self.row}\n")
                    else:
                        os.unlink(self.job.file("again", name))
                return name
        return ""

    def _candidates(self, hint: bytes) -> Iterator[str]:
        """Yield the trial of its own number, as all workers may begin at once; what was returned; the table.

        All rows before that of the hint are claimed: who has seen those writes it.
        """
        if self.code is None:
            yield from (f"{trial}.0" for trial in self.trials[self.place :][:1])
        yield from self.returned()
        self.row = max(self.row, int(hint) if hint.isdigit() else 0)
        while self.row < len(self.trials):
            self.row += 1
            yield f"{self.trials[self.row - 1]}.0"

    # --- A trial

    def run_trial(self, name: str) -> int:
        """Run a trial, and again after a failure as often as the experiment says; return its exit code."""
        trial, _, number = name.partition(".")
        start = Start(self.job._replace(sweep=None), self.start.name, trial)
        start.restarts = int(number)
        what, code = "ended", TERMINATED
        self.record("started", trial, number)
        with open(self.job.file("logs", f"job-{trial}.out"), "ab", 0) as log:
            while not self.is_cancelled(trial):
                if not self.told:
                    code, what = self.attempt(start, name, log)
                    if code == 0 or what != "ended":
                        break
                if self.told:
                    self.give_back(name, code)
                    return code
                if not may_try_again(self.job, code, start.tries):
                    break
                self.record("restarted", trial, code)
                start.tries += 1
        what = "cancelled" if code and self.is_cancelled(trial) else what
        self.record(what, trial, code)
        if code and what == "ended":
            self.tell_failure(trial, code)
        return code

    def is_cancelled(self, trial: str) -> bool:
        """Return whether the user has cancelled this trial alone."""
        return os.path.exists(self.job.file("cancelled_trials", trial))

    def attempt(self, start: Start, name: str, log: IO[bytes]) -> Tuple[int, str]:
        """Run the program of a trial once; return its exit code, and what that is by its event.

        It is no failure of the trial that the program cannot be started, as of a full disk: all others would
        fail, too.
        """
        trial, kills = start.trial, memory_kills()
        try:
            program = self.begin(start, log)
        except (Failed, OSError) as error:
            _tell(log, str(error))
            self.give_back(name, LAUNCH)
            raise Failed(f"trial {trial} could not be prepared; {log.name} shows why") from error
        code = self.follow(program, start)
        if code == TERMINATED and not self.told:
            time.sleep(1)  # TERM may reach the program a moment before it reaches this process
        if code == 0 and self.told:
            code = TERMINATED
            _tell(log, f"trial {trial} {_DOUBT}")
        if code and (self.is_cancelled(trial) or read(f"{start.failure}.pruned")):
            return code, "cancelled" if self.is_cancelled(trial) else "pruned"
        if code == 0:
            return 0, "ended"
        self.check_disk(name, code)
        why = f"; {_MEMORY}: ask for more by environment.resources.memory" if memory_kills() > kills else ""
        _tell(log, f"trial {trial} failed on {os.uname().nodename} (exit code {code}{why})")
        return code, "ended"

    def check_disk(self, name: str, code: int) -> None:
        """End this worker on a full disk, where all further trials would fail as well."""
        path = os.path.join(self.start.folder, f"space.{self.rank}")
        with suppress(OSError):
            _write(path, ".\n")  # to a new file: one that is there has its space
            return os.unlink(path)
        with suppress(OSError):
            self.give_back(name, code)
        raise Failed(f"trial {_trial(name)} failed, and nothing can be written to {self.job.run}; {_FULL}")

    def tell_failure(self, trial: str, code: int) -> None:
        """Write the exit code for the job, if no other trial has failed before."""
        path, began = os.path.join(self.start.folder, "failed"), time.monotonic()
        with suppress(OSError), open(path, "x", encoding="ascii") as file:
            file.write(f"{code}\n")
        while not read(path):  # another worker may be writing it
            if time.monotonic() - began > 1:
                raise Failed(f"the failure of trial {trial} cannot be written to {path}; {_FULL}")
        log = self.job.file("logs", f"job-{trial}.out")
        say(f"trial {trial} failed with exit code {code}; its output is {log}")

    # --- Its program

    def begin(self, start: Start, log: IO[bytes]) -> "subprocess.Popen[bytes]":
        """Start the program of a trial, in the environment of a job of its own.

        Raises:
            OSError, Failed: if it cannot be started.
        """
        trial = trials.choose(self.job, self.rows[start.trial])
        with open(os.path.join(self.start.folder, "nodes"), encoding="utf-8") as nodes:
            start.nodes = [nodes.read().split()[int(self.base["HPCDIST_NODE"])]]
        start.open()
        start.attempt = start.restarts + start.tries
        start.extra = trial.environment(self.job.sweep) if self.job.sweep else {}
        if self.alone:  # for programs of ours that have started the user's
            start.extra["HPCDIST_PASS_ON"] = "1"  # noqa: S105
        with ExitStack() as files:
            out, err = log, log
            if self.job.output:
                out = err = files.enter_context(own_log(start, "output", self.job.output))
            if self.job.error:
                err = files.enter_context(own_log(start, "error", self.job.error))
            _tell(out, f"trial {start.trial} on {start.nodes[0]}:{trial.params} (job {start.id})")
            start.write_nodes()
            return self.start_program(start.environment(self.base), out, err)

    def start_program(
        self, environment: Dict[str, str], out: IO[bytes], err: IO[bytes]
    ) -> "subprocess.Popen[bytes]":
        """Start bash with the text that becomes the program, which gets a TERM that comes meanwhile."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
        try:
            self.program = program = subprocess.Popen(
                ["bash", "-c", self.text], env=environment, preexec_fn=_hear_again,  # noqa: PLW1509, S607
                stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            )  # fmt: skip
            if self.told or signal.SIGTERM in signal.sigpending():
                program.terminate()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
        return program

    def follow(self, program: "subprocess.Popen[bytes]", start: Start) -> int:
        """Return the exit code of the program; end it if the trial is cancelled."""
        began = 0.0
        while program.poll() is None:
            signal.sigtimedwait([signal.SIGCHLD], 1)
            if self.is_cancelled(start.trial):
                is_late = began and time.monotonic() - began > _PATIENCE
                pids = processes(f"HPCDIST_FAILURE={start.folder}/failure.{start.restarts}.")
                send(signal.SIGKILL if is_late else signal.SIGTERM, pids if is_late or not began else [])
                began = began or time.monotonic()
        self.program = None
        return SIGNALLED - program.returncode if program.returncode < 0 else program.returncode

    # --- Signals

    def hear_signals(self) -> None:
        """Note signals. Launchers signal the whole group of processes; what gets one alone passes it on."""
        for number in _HEARD:
            signal.signal(number, self.heard)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # one that is ignored would lose exit codes
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])  # and is waited for

    def heard(self, number: int, _: Any) -> None:
        """Note a signal."""
        self.told = self.told or number == signal.SIGTERM
        program = self.program
        if self.alone and program is not None and program.returncode is None:
            # They are found before a shell ends by it, which gets it first, lest it begin its next line.
            reached = self.starts_processes and number not in (signal.SIGUSR1, signal.SIGUSR2)
            send(number, [program.pid, *below(program.pid, lambda pid: reached and pid == program.pid)])


def _hear_again() -> None:
    for number in _HEARD:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def own_log(start: Start, kind: str, pattern: str) -> IO[bytes]:
    """Open the file of a trial that the experiment names, for more."""
    return open(start.own_log(kind, pattern, f"job-{start.trial}"), "ab", 0)


def _tell(log: IO[bytes], text: str) -> None:
    with suppress(OSError):
        log.write(os.fsencode(f"hpcdist: {text}\n"))
