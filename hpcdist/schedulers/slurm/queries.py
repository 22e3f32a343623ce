"""The states of jobs in Slurm: squeue for unfinished jobs, sacct for finished ones, scontrol for recent ones.

Ids: a job is ``123``, or ``123;cluster`` where sbatch named one. Its parts are ``123_4`` and ``123_[5-9%2]``
(array), ``123+1`` (heterogeneous); a job's state is folded from the states of its parts, and where components
differ the reason has each.
Sources: squeue(1), sacct(1) and scontrol(1) of 22.05; answers of 20.11 to 26.05 in
``tests/transcripts/slurm``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, groupby
from typing import Final, TypeVar

from msgspec.structs import replace

from hpcdist.base.command import Command, Completed
from hpcdist.schedulers import answers, hostlist
from hpcdist.schedulers.base import Estimate, Left, Nodes, Query, ShellRequest
from hpcdist.schedulers.job import (
    APART,
    Job,
    JobState,
    Status,
    Usage,
    count,
    element_id,
    fold,
    reused_id,
    seconds,
    size,
    times,
)

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
    # Another cluster of the federation has the job: its state is unknown here.
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
"""Reasons why a job ended, or could never start (sacct(1), JOB REASON CODES); sacct keeps others, too."""

DROP: Final = ("SBATCH_", "SLURM_", "SQUEUE_", "SACCT_", "SCANCEL_", "SCONTROL_")
"""Variables that change what Slurm's commands do or show: a SQUEUE_STATES would hide jobs."""
KEEP: Final = ("SLURM_CONF", "SLURM_JWT")

_OTHER: Final = reused_id("squeue")

_ID = re.compile(r"([0-9]+)(?:[_+]\S+)?")
_WORD = re.compile(r"[A-Z][A-Z_]*")


def command(*argv: str, cluster: str = "", timeout: float = 60.0) -> Command:
    """Return a Slurm command for that cluster, whatever the login environment says."""
    program, *rest = argv
    words = (program, *(("-M", cluster) if cluster else ()), *rest)
    return Command(words, drop_environment=DROP, keep_environment=KEEP, timeout=timeout)


def by_cluster(jobs: Iterable[Job]) -> dict[str, dict[str, Job]]:
    """Return the jobs by cluster (mostly one, unnamed) and number; one invalid id would fail them all."""
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
    deadline and, since 24.11, on a lost node (``tests/transcripts/slurm``): no exit codes of jobs.
    """
    first = (word.split() or [""])[0].rstrip("+")
    state = STATES.get(first, JobState.UNKNOWN)
    code = _exit_code(exit_code) if state.is_final and first not in _WITHOUT_CODE else None
    if state is JobState.OUT_OF_MEMORY and code == _OUT_OF_MEMORY:
        code = _KILLED
    if code == 0 and state is not JobState.COMPLETED:
        code = None
    # sacct keeps the reason why a job waited, even after it has ended.
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
    """Return the state of a job with these parts; components come with their numbers."""
    if not all(component for component, _ in parts):
        return fold([part for _, part in parts])
    whole = of_components([part for _, part in parts])
    if all(part.state is whole.state for _, part in parts):
        return whole
    each = ", ".join(f"{APART}{component} {part.native}" for component, part in parts)
    return replace(whole, reason=f"{each} ({whole.reason})" if whole.reason else each)


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
    from hpcdist.experiment.batch import array_ranges  # with msgspec, which other jobs need not

    return array_ranges(text)


class Squeue(Query):
    """All of this user's jobs at once; tokens tell a job from an older one with the same id.

    It prints no exit codes, so its final states are provisional.
    """

    provisional: Final = True

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
    """Whether a comment has another job's token: a controller that loses its state reuses ids."""
    return any(text.startswith("hpcdist:") and text.strip() != f"hpcdist:{token}" for text in comment)


class Sacct(Query):
    """The accounting database, where there is one; it lags behind by some seconds.

    Its JSON is not used: 22.05 had exit code 0 there for a job that had failed with 5.
    """

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for each cluster."""
        for cluster, numbers in by_cluster(jobs).items():
            ids = ",".join(numbers)
            columns = "jobid,state,exitcode,reason"
            yield command("sacct", "-n", "-P", "-j", ids, "-o", columns, cluster=cluster)

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """Return the states of those jobs that the database knows.

        A job whose script returns the exit code of a step that ran out of memory has failed, by its own line.
        That step need not be the last one: hpcdist looks at the nodes afterwards, in a step that completes.
        """
        rows = [row for row in _rows(completed) if _WORD.match(row[1]) and ":" in row[2]]
        last_failed = {
            job: state
            for text, word, _, _ in rows
            for job, _, step in [text.rpartition(".")]
            if step.isdecimal() and (state := STATES.get(word)) is not JobState.COMPLETED
        }
        parts = (
            (text, _with_step(status(word, code, reason, "sacct"), last_failed.get(text)))
            for text, word, code, reason in rows
            if "." not in text
        )
        return _folded(completed, jobs, parts)


def _with_step(job: Status, step: JobState | None) -> Status:
    is_out = job.state is JobState.FAILED and step is JobState.OUT_OF_MEMORY
    return replace(job, state=JobState.OUT_OF_MEMORY) if is_out else job


class Scontrol(Query):
    """The controller's memory, one job at a time; it forgets after MinJobAge, 300 s by default.

    Read in its long form: with ``-o`` a job's name could pose as its state.
    """

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


# --- The starts of a job in the accounting: ``sacct -D`` shows each, with its steps below it
#
# ``MaxRSS``: the most that a task of a step used, measured every JobAcctGatherFrequency seconds, on one
# node. ``TRESUsageInTot``: ``mem``: the sum over the tasks of a step. ``TotalCPU`` of a job is the sum of
# its steps. ``AllocTRES`` is what the job had and is charged for; a job that was cancelled in the
# queue has none, and may have its end as its start (tried). ``ElapsedRaw`` excludes the time for which the
# job was suspended (tried).
# Sources: sacct(1) of 22.05 (TRESUsageInTot since 18.08); answers of a real 22.05.8, in which a requeued
# job has its own submit time.

_COLUMNS: Final = (
    "jobid,state,exitcode,submit,start,end,maxrss,nodelist,totalcpu,alloctres,tresusageintot,elapsedraw"
)
_ROW: Final = re.compile(r"[0-9]+(?:_(?P<element>[0-9]+)|\+[0-9]+)?(?P<step>\..+)?")
Number = TypeVar("Number", int, float)
_EPOCH: Final = re.compile(r"[0-9]{1,12}")


class SlurmAccounting:
    """All starts of a job at once."""

    at_once: Final = True

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for each cluster."""
        for cluster, numbers in by_cluster(jobs).items():
            argv = ("sacct", "-D", "-n", "-P", "-j", ",".join(numbers), "-o", _COLUMNS)
            yield command(*argv, cluster=cluster)._replace(environment=(("SLURM_TIME_FORMAT", "%s"),))

    def read(self, completed: Completed, job: Job) -> Iterator[Usage]:
        """Yield the starts; the components of a heterogeneous job are merged.

        The n-th record of each component is its n-th start: submit times may be a second apart.
        """
        found: dict[tuple[int | None, int], list[Usage]] = {}
        seen: Counter[str] = Counter()
        last, number = list[Usage](), job.id.partition(";")[0]
        for line in completed.stdout.splitlines():
            if not line.startswith(number) or line[len(number) : len(number) + 1].isdigit():
                continue
            columns = line.split("|")
            match = _ROW.fullmatch(columns[0])
            if not match or len(columns) != len(_COLUMNS.split(",")):
                continue
            if not match["step"]:
                element = int(match["element"]) if match["element"] else None
                last = found.setdefault((element, seen[columns[0]]), [])
                last.append(_usage(element, columns))
                seen[columns[0]] += 1
            elif last:
                last[-1] = _with_usage_of_step(last[-1], columns)
        yield from map(_joined, found.values())


def _usage(element: int | None, columns: list[str]) -> Usage:
    _, state, code, submitted, start, end, memory, nodes, cpu, allocated, _, ran = columns
    said = status(state, code)
    queued, started, ended, elapsed = (
        float(text) if _EPOCH.fullmatch(text) else None for text in (submitted, start, end, ran)
    )
    try:
        hosts = tuple(hostlist.expand(nodes)) if nodes != "None assigned" else ()
    except ValueError:
        hosts = ()
    usage = Usage(element, said.state, queued, started, ended, said.exit_code, hosts, size(memory))
    had = _tres(allocated)
    cpus, gpus = count(had.get("cpu", "")), _gpus(had)
    if said.state.is_final and not (allocated and started):
        return replace(usage, started=None, cpus=0, gpus=0, elapsed=0.0)
    if started is None:
        return usage
    return replace(usage, cpu_seconds=seconds(cpu), cpus=cpus, gpus=gpus, elapsed=elapsed)


def _tres(text: str) -> dict[str, str]:
    """Return the values of ``cpu=4,gres/gpu:a100=2,mem=8G`` by their names."""
    return dict(item.split("=", 1) for item in text.split(",") if "=" in item)


def _gpus(had: Mapping[str, str]) -> int | None:
    """Return the GPUs, by their types where only these are in AccountingStorageTRES; None where none are."""
    typed = [count(number) or 0 for name, number in had.items() if name.startswith("gres/gpu:")]
    whole = count(had.get("gres/gpu", ""))
    return sum(typed) or None if whole is None else whole


def _with_usage_of_step(usage: Usage, columns: list[str]) -> Usage:
    """Add the usage of a step. Steps may overlap, as those of srun and of the job's script do."""
    return replace(
        usage,
        max_memory=_most([usage.max_memory, size(columns[6])]),
        total_memory=_sum([usage.total_memory, size(_tres(columns[10]).get("mem", ""))]),
    )


def _joined(parts: Sequence[Usage]) -> Usage:
    """Return the components of a start as one: it ends when all have ended; hours are sums."""
    first, *others = parts
    if not others:
        return first
    ended = of_components([Status(part.state, exit_code=part.exit_code) for part in parts])
    is_over = all(part.ended is not None for part in parts)
    return replace(
        first,
        state=ended.state,
        started=min((part.started for part in parts if part.started is not None), default=None),
        ended=_most(part.ended for part in parts) if is_over else None,
        exit_code=ended.exit_code,
        hosts=(*chain.from_iterable(part.hosts for part in parts),),
        max_memory=_most(part.max_memory for part in parts),
        total_memory=_sum(part.total_memory for part in parts),
        cpu_seconds=_sum(part.cpu_seconds for part in parts),
        cpus=_sum(part.cpus for part in parts),
        gpus=_sum(part.gpus for part in parts),
        elapsed=_most(part.elapsed for part in parts),
        gpu_seconds=_sum(times(part.gpus, part.elapsed) for part in parts),
        cpu_seconds_had=_sum(times(part.cpus, part.elapsed) for part in parts),
    )


def _sum(values: Iterable[Number | None]) -> Number | None:
    """Return the sum of what is known."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None


def _most(values: Iterable[Number | None]) -> Number | None:
    return max((value for value in values if value is not None), default=None)


# --- When Slurm expects jobs to start: ``sbatch --test-only`` for a script, squeue for jobs that wait
#
# With ``SLURM_TIME_FORMAT=%s`` both write seconds since 1970, whatever zone this machine is in.
# Sources: sbatch(1) and squeue(1) (``--start``, ``%S``); answers of a real 22.05.8.

_IN_SECONDS: Final = (("SLURM_TIME_FORMAT", "%s"),)
_PATIENCE: Final = 15.0
_EXPECTED: Final = re.compile(r"\bJob \d+ to start at (\S+) using\b")


class SlurmStarts:
    """``sbatch --test-only`` and squeue."""

    def test(self, script: str) -> Command:
        """Return ``sbatch --test-only``, which gets the script by standard input and submits nothing."""
        argv = ("sbatch", "--test-only")
        return Command(argv, _IN_SECONDS, DROP, KEEP, stdin=script, timeout=_PATIENCE)

    def read_test(self, completed: Completed) -> Estimate:
        """Return the time that it printed; else why, by the controller's last line on standard error."""
        if completed.missing:
            return Estimate(why="there is no sbatch on this machine")
        found = _EXPECTED.search(completed.stderr + completed.stdout)
        start = _moment(found[1]) if found and completed.ok else None
        if start is not None:
            return Estimate(start)
        lines = [line.strip() for line in completed.stderr.splitlines() if line.strip()]
        return Estimate(why=lines[-1] if lines and not completed.timed_out else answers.why(completed))

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield squeue for the jobs that wait, one command for each cluster."""
        for cluster, numbers in by_cluster(jobs).items():
            argv = ("squeue", "-h", "-t", "PD", "-j", ",".join(numbers), "-o", "%i|%S")
            yield command(*argv, cluster=cluster, timeout=_PATIENCE)._replace(environment=_IN_SECONDS)

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, float]:
        """Return the earliest time of the parts of each job, without ``N/A``."""
        ids = {job.id.partition(";")[0]: job.id for job in jobs}
        found: dict[str, float] = {}
        for line in completed.stdout.splitlines():
            number, _, text = line.partition("|")
            job_id, start = ids.get(base_id(number)), _moment(text.strip())
            if job_id is not None and start is not None:
                found[job_id] = min(start, found.get(job_id, start))
        return found


def _moment(text: str) -> float | None:
    """Return seconds since 1970, also for local time, from a Slurm that ignores the format."""
    if re.fullmatch(r"[0-9]{1,12}", text):
        return float(text)
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        return None


# --- What is left of Slurm's limits: GrpTRESMins of an account and of its user, less what is used
#
# ``scontrol show assoc_mgr`` writes ``LIMIT(USED)`` in minutes, ``N`` for no limit, and needs neither the
# database nor a priority plugin, as sacctmgr and sshare do. Limits of accounts above this one, and of QOS,
# are not read.
# Sources: scontrol(1), resource_limits.html; answers of a real 22.05.8.

_UNITS: Final = {
    "gres/gpu": "GPU-hours",
    "node": "node-hours",
    "cpu": "CPU-hours",
    "billing": "billing-hours",
}
_LIMIT: Final = re.compile(r"([\w/]+)=([0-9]{1,15})\(([0-9]{1,15})\)")


class SlurmBalances:
    """The limits of an account, and of its user in it."""

    def ask(self, account: str) -> Command:
        """Return the scontrol command."""
        argv = ("scontrol", "-o", "show", "assoc_mgr", f"accounts={account}", "flags=assoc")
        return command(*argv, timeout=5.0)

    def read(self, completed: Completed, account: str, user: str) -> Iterator[Left]:
        """Yield what is left, by the lowest limit of the account and of this user in it."""
        found: dict[str, Left] = {}
        for line in completed.stdout.splitlines():
            fields = dict(word.partition("=")[::2] for word in line.split())
            own = fields.get("UserName", "").partition("(")[0] in ("", user)
            if fields.get("Account", "").casefold() == account.casefold() and own:
                for left in _remaining(fields.get("GrpTRESMins", "")):
                    if left.unit not in found or left.amount < found[left.unit].amount:
                        found[left.unit] = left
        yield from found.values()


def _remaining(text: str) -> Iterator[Left]:
    for name, limit, used in _LIMIT.findall(text):
        if name in _UNITS:
            yield Left((int(limit) - int(used)) / 60, _UNITS[name], int(limit) / 60)


# --- An allocation for a shell: salloc, and in it the step that interactive shells have since 20.11
#
# Sources: salloc(1) and ``InteractiveStepOptions`` of slurm.conf(5); tried on 22.05.8. That step uses
# no resources of the allocation, so other steps can run; salloc ends the job when its program ends,
# or by a signal.

_OF_SBATCH: Final = ("--requeue", "--no-requeue", "--open-mode", "--export")


def shell(request: ShellRequest) -> Command:
    """Return the salloc command; its token is the job's comment, as for a batch job."""
    words = ["salloc", f"--comment=hpcdist:{request.submission.token}"]
    for component, own in groupby(request.directives, key=lambda directive: directive.group):
        words += [":"] if component else []
        words += answers.options(own, _OF_SBATCH)
    terminal = ["--pty"] if request.terminal else []
    words += ["srun", "--interactive", "--preserve-env", "--mpi=none", *terminal]
    drop = (*DROP, "SALLOC_", "SRUN_")
    return Command((*words, "bash", request.submission.script), (), drop, (*KEEP, "LC_ALL"))


# --- Commands in a job that runs: steps that share its resources with the others
#
# Sources: srun(1) of 22.05, and a real 22.05.8, whose ``--jobid`` takes no element of an array (``2_0``). A
# component of a heterogeneous job (``2+1``) is reached by the job's own number and ``--het-group``.

# $1 is the element of an array; squeue prints its own job number.
_OF_ELEMENT: Final = """\
id=$(squeue -h -j "$1" -o %A) && [[ $id ]] || exit
shift
exec srun --jobid="$id" "$@"
"""


def inside(nodes: Nodes, words: Sequence[str], *, terminal: bool) -> Command:
    """Return one srun for all of the nodes.

    ``--quiet`` leaves out remarks; errors are still printed.
    """
    count = len(nodes.names)
    options = (
        "--quiet",
        "--overlap",
        f"--nodes={count}",
        f"--ntasks={count}",
        "--ntasks-per-node=1",
        f"--nodelist={','.join(nodes.names)}",
        "--mem=0",
        *(["--pty"] if terminal else []),
        *words,
    )
    job, is_component, component = nodes.job.partition("+")
    group = (f"--het-group={component}",) if is_component else ()
    start = ("bash", "-c", _OF_ELEMENT, "hpcdist", job) if "_" in job else ("srun", f"--jobid={job}", *group)
    return Command((*start, *options), drop_environment=DROP, keep_environment=(*KEEP, "LC_ALL"))
