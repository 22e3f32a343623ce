"""The states of jobs in Slurm: squeue for unfinished jobs, sacct for finished ones, scontrol for recent ones.

Ids: a job is ``123``, or ``123;cluster`` where sbatch named one. Its parts are ``123_4`` and ``123_[5-9%2]``
(array), ``123+1`` (heterogeneous); a job's state is folded from those of its parts, and where components
differ the reason has each.
Sources: squeue(1), sacct(1) and scontrol(1) of 22.05; answers of 20.11 to 26.05 in
``tests/transcripts/slurm``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from hpcdist.host.command import Command, Completed
from hpcdist.schedulers.job import APART, Job, JobState, Status, element_id, fold

_STATES: Final = {
    JobState.PENDING: "PENDING CONFIGURING POWER_UP_NODE REQUEUED REQUEUE_FED REQUEUE_HOLD RESV_DEL_HOLD "
    "SPECIAL_EXIT",
    JobState.RUNNING: "RUNNING COMPLETING RESIZING SIGNALING STAGE_OUT UPDATE_DB EXPEDITING",
    JobState.SUSPENDED: "SUSPENDED STOPPED",
    JobState.COMPLETED: "COMPLETED",
    JobState.FAILED: "FAILED BOOT_FAIL LAUNCH_FAILED RECONFIG_FAIL",
    JobState.CANCELLED: "CANCELLED",
    JobState.TIMEOUT: "TIMEOUT DEADLINE",
    JobState.OUT_OF_MEMORY: "OUT_OF_MEMORY",
    JobState.NODE_FAIL: "NODE_FAIL",
    JobState.PREEMPTED: "PREEMPTED",
    # Another cluster of the federation has the job, so this one cannot say.
    JobState.UNKNOWN: "REVOKED",
}
STATES: Final = {word: state for state, words in _STATES.items() for word in words.split()}

_OUT_OF_MEMORY: Final = 128 + 125
_KILLED: Final = 128 + 9
"""What the kernel does to a process that is out of memory; Slurm writes ``0:125``."""
_WITHOUT_CODE: Final = ("DEADLINE", "NODE_FAIL")

_ADVICE: Final = {
    "DependencyNeverSatisfied": ": what it waits for has failed, so it will never start; cancel it",
    "JobHeldUser": ": it is held; `scontrol release` lets it start",
    "JobHeldAdmin": ": it is held by an administrator; ask the site",
    "PartitionDown": ": its partition takes no jobs now",
    "QOSMaxWallDurationPerJobLimit": ": it will never start; shorten `batch.walltime`",
    "PartitionTimeLimit": ": it will never start; shorten `batch.walltime`",
}
"""What a reason means for a job that would wait for ever (squeue(1), JOB REASON CODES)."""

_OF_ENDS: Final = frozenset({
    "NonZeroExitCode", "RaisedSignal", "JobLaunchFailure", "SystemFailure", "OutOfMemory", "TimeLimit",
    "InactiveLimit", "DeadLine", "BadConstraints", "DependencyNeverSatisfied", "NodeDown",
})  # fmt: skip
"""Why a job ended (sacct(1), JOB REASON CODES), and why one could never start; sacct has others for good."""

DROP: Final = ("SBATCH_", "SLURM_", "SQUEUE_", "SACCT_", "SCANCEL_", "SCONTROL_")
"""Variables that change what Slurm's commands do or show: a SQUEUE_STATES would hide jobs."""
KEEP: Final = ("SLURM_CONF", "SLURM_JWT")

_OTHER: Final = Status(JobState.UNKNOWN, reason="its id is that of another job now", source="squeue")

_ID = re.compile(r"([0-9]+)(?:[_+]\S+)?")
_WORD = re.compile(r"[A-Z][A-Z_]*")


def command(*argv: str, cluster: str = "", timeout: float = 60.0) -> Command:
    """Return a command of Slurm, asked of that cluster, whatever the login environment says."""
    program, *rest = argv
    words = (program, *(("-M", cluster) if cluster else ()), *rest)
    return Command(words, drop_environment=DROP, keep_environment=KEEP, timeout=timeout)


def by_cluster(jobs: Iterable[Job]) -> dict[str, dict[str, Job]]:
    """Return the jobs by cluster (mostly one, unnamed) and number; one strange id would spoil all answers."""
    clusters: dict[str, dict[str, Job]] = {}
    for job in jobs:
        number, _, cluster = job.id.partition(";")
        if number.isdecimal():
            clusters.setdefault(cluster, {})[number] = job
    return clusters


def base_id(text: str) -> str:
    """Return the id of the whole job: ``12`` of ``12_3``, ``12_[4-9%2]`` and ``12+0``; empty for junk."""
    match = _ID.fullmatch(text.strip())
    return match[1] if match else ""


def status(word: str, exit_code: str = "", reason: str = "", source: str = "") -> Status:
    """Return what a state word of Slurm means; an unknown one is ``UNKNOWN``, never a guess.

    Slurm writes ``0:0`` for jobs that it ended itself (cancelled, timed out), ``1:0`` for those past their
    deadline and, since 24.11, on a lost node (``tests/transcripts/slurm``); that is no exit code of theirs.
    """
    first = (word.split() or [""])[0].rstrip("+")
    state = STATES.get(first, JobState.UNKNOWN)
    code = _exit_code(exit_code) if state.is_final and first not in _WITHOUT_CODE else None
    if state is JobState.OUT_OF_MEMORY and code == _OUT_OF_MEMORY:
        code = _KILLED
    if code == 0 and state is not JobState.COMPLETED:
        code = None
    # sacct keeps why a job waited, also of one that has started and ended since.
    waited = source == "sacct" and state.is_final and re.split("[ :]", reason)[0] not in _OF_ENDS
    is_fine = state in (JobState.RUNNING, JobState.COMPLETED)
    has_reason = not (waited or is_fine or reason in ("None", "(null)"))
    advice = _ADVICE.get(reason, "") if state is JobState.PENDING else ""
    return Status(state, word.strip(), code, f"{reason}{advice}" if has_reason else "", source)


def _exit_code(text: str) -> int | None:
    """Read ``5:0`` (exit code) and ``0:9`` (signal) as a shell shows them: 5 and 137."""
    match = re.fullmatch(r"([0-9]+):([0-9]+)", text)
    if not match:
        return None
    code, signal = int(match[1]), int(match[2])
    return 128 + signal if signal else code


def _rows(completed: Completed) -> Iterator[tuple[str, str, str, str]]:
    """Yield the lines of four columns; the last may hold anything."""
    for line in completed.stdout.splitlines():
        match line.split("|", 3):
            case [first, second, third, fourth]:
                yield first, second, third, fourth


def _folded(
    completed: Completed, jobs: Sequence[Job], parts: Iterable[tuple[str, Status]]
) -> dict[str, Status]:
    argv = completed.command.argv
    cluster = argv[argv.index("-M") + 1] if "-M" in argv[:2] else ""
    wanted = by_cluster(jobs).get(cluster, {})
    found: dict[str, list[tuple[str, Status]]] = {}
    for text, part in parts:
        if (number := base_id(text)) in wanted:
            for key in _keys(wanted[number].id, text, part):
                found.setdefault(key, []).append((text.partition("+")[2], part))
    return {key: _whole(parts) for key, parts in found.items()}


def of_components(parts: Sequence[Status]) -> Status:
    """Return the state of a heterogeneous job: what ended one component explains that others failed."""
    return fold(sorted(parts, key=lambda part: part.state is JobState.FAILED))


def _whole(parts: Sequence[tuple[str, Status]]) -> Status:
    """Return the state of a job with these parts, of which components have their numbers."""
    if not all(component for component, _ in parts):
        return fold([part for _, part in parts])
    whole = of_components([part for _, part in parts])
    if all(part.state is whole.state for _, part in parts):
        return whole
    each = ", ".join(f"{APART}{component} {part.native}" for component, part in parts)
    return whole._replace(reason=f"{each} ({whole.reason})" if whole.reason else each)


def _keys(job_id: str, text: str, part: Status) -> Iterator[str]:
    """Yield what a part of a job stands for: elements of an array by their own keys, all others by the job's.

    Pending elements are not needed one by one; Slurm shows only the beginning of a long list.
    """
    elements = _elements(text.partition("_")[2].strip("[]")) if part.native else []
    if not elements or not (part.state.is_final or "[" not in text):
        yield job_id
        return
    yield from (element_id(job_id, index) for some in elements for index in some)


def _elements(text: str) -> list[range]:
    if not text:
        return []
    from hpcdist.experiment.batch_specs import array_ranges  # with msgspec, which other jobs need not

    return array_ranges(text)


class Squeue:
    """All of this user's jobs at once, with a job's token to know it from an older one of the same id.

    It prints no exit codes, so its final states are provisional.
    """

    provisional: Final = True
    one_by_one: Final = False

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for each cluster."""
        for cluster in by_cluster(jobs):
            yield command("squeue", "--me", "-h", "-t", "all", "-o", "%i|%T|%r|%k", cluster=cluster)

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """Return the states of those jobs that the queue still knows."""
        tokens = {job.id.partition(";")[0]: job.token for job in jobs}
        parts = (
            (text, _OTHER if _is_other([comment], token) else status(word, reason=reason, source="squeue"))
            for text, word, reason, comment in _rows(completed)
            if _WORD.fullmatch(word) and (token := tokens.get(base_id(text))) is not None
        )
        return _folded(completed, jobs, parts)


def _is_other(comment: Sequence[str], token: str) -> bool:
    """Whether a comment carries another job's token: ids begin anew when a controller loses its state."""
    return any(text.startswith("hpcdist:") and text.strip() != f"hpcdist:{token}" for text in comment)


class Sacct:
    """The accounting database, where there is one; it lags behind by some seconds.

    Its JSON is not used: that of 22.05 had exit code 0 for a job that had failed with 5.
    """

    provisional: Final = False
    one_by_one: Final = False

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for each cluster."""
        for cluster, numbers in by_cluster(jobs).items():
            ids = ",".join(numbers)
            columns = "jobid,state,exitcode,reason"
            yield command("sacct", "-n", "-P", "-j", ids, "-o", columns, cluster=cluster)

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """Return the states of those jobs that the database knows.

        A job whose script returns the exit code of a step that ran out of memory has failed, by its own line.
        """
        rows = [row for row in _rows(completed) if _WORD.match(row[1]) and ":" in row[2]]
        last_steps = {
            job: STATES.get(word)
            for text, word, _, _ in rows
            for job, _, step in [text.rpartition(".")]
            if step.isdecimal()
        }
        parts = (
            (text, _with_step(status(word, code, reason, "sacct"), last_steps.get(text)))
            for text, word, code, reason in rows
            if "." not in text
        )
        return _folded(completed, jobs, parts)


def _with_step(job: Status, step: JobState | None) -> Status:
    is_out = job.state is JobState.FAILED and step is JobState.OUT_OF_MEMORY
    return job._replace(state=JobState.OUT_OF_MEMORY) if is_out else job


class Scontrol:
    """The controller's memory, one job at a time; it forgets after MinJobAge, 300 s by default.

    Read in its long form: with ``-o`` a job's name could pose as its state.
    """

    provisional: Final = False
    one_by_one: Final = True

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for each job: scontrol takes no more."""
        for cluster, numbers in by_cluster(jobs).items():
            for number in numbers:
                yield command("scontrol", "show", "job", number, cluster=cluster)

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """Return the state of that job, folded from all the records shown."""
        asked = completed.command.argv[-1]
        tokens = {job.id.partition(";")[0]: job.token for job in jobs}
        records = re.split(r"(?m)^(?=JobId=)", completed.stdout)
        parts = (_record(record, tokens.get(asked, "")) for record in records)
        return _folded(completed, jobs, ((f"{asked}{element}", part) for element, part in parts if part))


def _record(text: str, token: str) -> tuple[str, Status | None]:
    """Return which part of the job a record is of, as squeue would write it, and what it says."""
    state = re.search(r"(?m)^ +JobState=(\S+) Reason=(\S*)", text)
    array = re.match(r"JobId=.*\bArrayTaskId=(\S+)", text)
    component = re.match(r"JobId=.*\bHetJobOffset=(\d+)", text)
    element = f"_[{array[1]}]" if array else f"+{component[1]}" if component else ""
    code = re.search(r"(?m)^ +Requeue=.*\bExitCode=(\d+:\d+)", text)
    if not state or _is_other(re.findall(r"(?m)^ +Comment=(.*)", text), token):
        return element, None
    return element, status(state[1], code[1] if code else "", state[2], "scontrol")
