"""Grid Engine: qsub, qstat, qacct and qdel, of Son of Grid Engine 8.1 and its like.

Sources: the manual pages of 8.1.9; every answer that is read here was seen on Debian's 8.1.9.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET  # the standard library's parser, for qstat's own output

from hpcdist.base.command import Command, Completed
from hpcdist.schedulers import INSTALLATIONS, answers, base
from hpcdist.schedulers.job import (
    Job,
    JobState,
    Status,
    Usage,
    count,
    element_id,
    fold,
    moment,
    reused_id,
    seconds,
    size,
)

if TYPE_CHECKING:
    from hpcdist.base.errors import Problem
    from hpcdist.plan.model import PreparedJob
    from hpcdist.site.model import Site


# --- The states of jobs in Grid Engine: qstat for queued and running jobs, qacct for finished jobs
#
# A job's id is its number, which the tasks of an array share. Sources: qstat(1), qacct(1), sge_status(5)
# and accounting(5) of 8.1.9, their answers tried on Debian's 8.1.9.

DROP: Final = ("SGE_", "JOB_ID", "PE_HOSTFILE", "SLURM_", "SBATCH_", "PMI", "OMPI_COMM_")
"""Variables of another job, which `-V` would pass on."""
KEEP: Final = (
    "SGE_ROOT", "SGE_CELL", "SGE_ARCH", "SGE_CLUSTER_NAME", "SGE_QMASTER_PORT", "SGE_EXECD_PORT",
)  # fmt: skip

_OTHER: Final = reused_id("qstat")

_LETTERS: Final = re.compile(r"[EhRqwrtsSTdzNP]+")
_LIMIT: Final = "37"
_ASKED_MEMORY: Final = re.compile(r"^(?!.*\bh_cpu=).*\bh_vmem=")
"""With these requests memory is the only limit that can have ended a job before its time was up."""
_AFTER_JOB: Final = "100"
"""``assumedly after job``: a signal ended it, from a user, or from the execution host at a limit."""
_SETTLING: Final = "it has ended, and the accounting does not tell yet how"

# $1: the ids, with commas. The list has states, the details have tokens and reasons.
_STATES: Final = """\
qstat -xml -u "$(id -un)" && qstat -xml -j "$1"
"""

# $1 is an id, $2 its run directory, and so on. The accounting is long, so the job's own event log is
# trusted, unless a signal ended the job: it may be deleted, or out of time. The accounting lags by seconds.
# Ids repeat after ten million jobs: older ones ended before the script was written.
_PAST: Final = """\
for ((; $#; )); do
  what='' code=0 at=0 ended=0
  while read -r event id epoch value; do
    case $event:$id in
    cancelled:"$1") echo "cancelled $1" ;;
    ended:"$1"[._]*) ended=$((ended + 1)) at=$epoch ;;
    ended:"$1") what=$event ended=1 at=$epoch code=$value ;;
    *:"$1") what=$event ended=0 ;;
    esac
  done <"$2/events"
  [[ $at != *[!0-9]* ]] || at=0
  if [[ $what != ended || $code == *[!0-9]* ]] || ((code > 128)); then
    written=$(stat -c %Y -- "$2/job.sh") || written=86400
    output=$(qacct -b "$(date -d "@$((written - 86400))" +%Y%m%d%H%M)" -j "$1")
    printf '%s\\n' "$output"
    (($(grep -c ^jobnumber <<<"$output") < ended && $(date +%s) - at < 60)) && echo "settling $1"
  fi
  shift 2
done 2>/dev/null
exit 0
"""


def bash(script: str, *words: str, timeout: float = 60.0) -> Command:
    """Return a command of several programs of Grid Engine."""
    argv = ("bash", "-c", script, "hpcdist", *words)
    return Command(argv, drop_environment=DROP, keep_environment=KEEP, timeout=timeout)


def _documents(text: str) -> Iterator[ET.Element]:
    """Yield the XML documents of an answer without its other text."""
    for part in re.split(r"(?=<\?xml)", text):
        try:
            yield ET.fromstring(part)  # noqa: S314 - expat expands no external entities, and limits the others
        except ET.ParseError:
            continue


def _job_details(text: str) -> Iterator[tuple[str, ET.Element, ET.Element]]:
    """Yield id, details and document of each job that ``qstat -j`` prints.

    Each is in an ``element``; Open Grid Scheduler and Univa 8.6 have them in ``djob_info`` itself, one after
    the other, each starting with its number; 6.2 had a ``qmaster_response`` around them.
    """
    for document in _documents(text):
        for parent in document.iterfind("djob_info//JB_job_number/.."):
            for job in _details_by_job(parent):
                yield job.findtext("JB_job_number", ""), job, document


def _details_by_job(parent: ET.Element) -> list[ET.Element]:
    """Return the jobs whose details are the children of one element."""
    if len(parent.findall("JB_job_number")) == 1:
        return [parent]
    jobs: list[ET.Element] = []
    for child in parent:
        if child.tag == "JB_job_number":
            jobs.append(ET.Element("element"))
        if jobs:
            jobs[-1].append(child)
    return jobs


def tokens(text: str) -> dict[str, str]:
    """Return job ids by token, from the details of jobs."""
    return {token: number for number, job, _ in _job_details(text) if number and (token := _token(job))}


def _token(job: ET.Element) -> str:
    entries = job.iterfind("JB_context//VA_variable/..")
    found = (
        entry.findtext("VA_value", "") for entry in entries if entry.findtext("VA_variable") == "hpcdist"
    )
    return next((token for token in found if re.fullmatch(r"\w+", token, re.ASCII)), "")


def state(letters: str) -> JobState:
    """Return what the letters of qstat mean; unknown ones are ``UNKNOWN``, never a guess."""
    if not _LETTERS.fullmatch(letters):
        return JobState.UNKNOWN
    if any(letter in letters for letter in "sSTP"):
        return JobState.SUSPENDED
    if "r" in letters or "t" in letters:
        return JobState.RUNNING
    return JobState.PENDING if "q" in letters else JobState.UNKNOWN


class SgeQstat(base.Query):
    """All unfinished jobs of this user at once; tokens tell a job from an older one with its id."""

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for all."""
        yield bash(_STATES, ",".join(job.id for job in jobs))

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """Return the states of those jobs that are not over."""
        wanted = {job.id: job for job in jobs}
        reasons = {number: _reason(number, job, top) for number, job, top in _job_details(completed.stdout)}
        found: dict[str, list[Status]] = {}
        for number, letters in _listed_states(completed.stdout):
            if number in wanted:
                part = Status(
                    state(letters), letters, reason=_wait_reason(letters, reasons, number), source="qstat"
                )
                found.setdefault(number, []).append(part)
        others = {
            number: _OTHER
            for number, job, _ in _job_details(completed.stdout)
            if number in wanted and _token(job) != wanted[number].token
        }
        return {number: fold(parts) for number, parts in found.items()} | others


def _listed_states(text: str) -> Iterator[tuple[str, str]]:
    for document in _documents(text):
        for entry in document.iter("job_list"):
            yield entry.findtext("JB_job_number", ""), entry.findtext("state", "").strip()


def _wait_reason(letters: str, reasons: Mapping[str, str], number: str) -> str:
    """Return why a job does not run; empty while it runs."""
    return reasons.get(number, "") if "q" in letters else ""


def _reason(number: str, job: ET.Element, document: ET.Element) -> str:
    """Return why a job waits: its error, else the scheduler's message about the job."""
    errors = [message.text or "" for message in job.iter("QIM_message")]
    if errors:
        return f"{errors[0].strip()}; when that is mended, `qmod -cj {number}` lets it run"
    reasons = [
        element.findtext("MES_message", "")
        for element in document.iterfind("messages/element/SME_message_list/element")
        if number in (value.text for value in element.iter("ULNG_value"))
    ]
    return next(
        (text for text in reasons if text.startswith("cannot run in PE")), reasons[0] if reasons else ""
    )


class Qacct(base.Query):
    """The accounting; it lags by some seconds, and is kept for long."""

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command, which asks qacct about each job whose event log is not clear."""
        words = itertools.chain.from_iterable((job.id, job.directory) for job in jobs)
        yield bash(_PAST, *words, timeout=60.0 + 5 * len(jobs))

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """Return how these jobs, and the tasks of arrays, ended by their records."""
        lines = completed.stdout.splitlines()
        records = [record for record in qacct_records(completed.stdout) if record.get("jobnumber")]
        found: dict[str, Status] = {}
        for number in (job.id for job in jobs):
            mine = _first([record for record in records if record["jobnumber"] == number])
            if f"settling {number}" in lines:
                found[number] = Status(JobState.UNKNOWN, "ended", reason=_SETTLING, source="qacct")
            else:
                found |= _parts(number, mine, cancelled=f"cancelled {number}" in lines)
        return found


def _parts(number: str, records: Iterable[Mapping[str, str]], *, cancelled: bool) -> dict[str, Status]:
    """Return how a job or its tasks ended; one that was deleted while it waited has no record."""
    found = {number: Status(JobState.CANCELLED, "cancelled", source="events")} if cancelled else {}
    for record in records:
        task = record.get("taskid", "")
        if part := task_end(record, cancelled=cancelled):
            found[element_id(number, int(task)) if leading_number(task) else number] = part
    return found


def qacct_records(text: str) -> Iterator[dict[str, str]]:
    """Yield the records of qacct's answer."""
    for block in re.split(r"(?m)^=+$", text):
        rows = (line.partition(" ") for line in block.splitlines())
        yield {name: value.strip() for name, _, value in rows if name}


def _first(records: Sequence[Mapping[str, str]]) -> Iterator[Mapping[str, str]]:
    """Yield the last record of each task of the job that was submitted first.

    A restarted task has several. What `qrsh -inherit` started on other hosts has its own, later records,
    without a mark.
    """
    first = min((submit_time(record) for record in records), default=0.0)
    mine = (record for record in records if submit_time(record) == first)
    yield from {record.get("taskid", ""): record for record in mine}.values()


def submit_time(record: Mapping[str, str]) -> float:
    """Return when a job was submitted, in whatever time zone."""
    return moment(record.get("qsub_time", "")) or 0.0


def task_end(record: Mapping[str, str], *, cancelled: bool) -> Status | None:
    """Return how a task ended; None if the record does not show it."""
    failed, code = (leading_number(record.get(name, "")) for name in ("failed", "exit_status"))
    if not failed or not code:
        return None
    native = f"failed {record['failed']}" if failed != "0" else f"exit_status {code}"
    exit_code = int(code) if failed in ("0", _AFTER_JOB, _LIMIT) else None
    if cancelled and failed != "0":
        return Status(JobState.CANCELLED, native, exit_code, source="qacct")
    if failed in (_LIMIT, _AFTER_JOB) and _out_of_time(record):
        return Status(JobState.TIMEOUT, native, exit_code, source="qacct")
    if failed == _LIMIT and _ASKED_MEMORY.search(record.get("category", "")):
        return Status(JobState.OUT_OF_MEMORY, native, exit_code, "it used more than its h_vmem", "qacct")
    reason = record["failed"].partition(":")[2].strip()
    good = failed == "0" and code == "0"
    return Status(JobState.COMPLETED if good else JobState.FAILED, native, exit_code, reason, "qacct")


def leading_number(text: str) -> str:
    """Return the number that a value such as ``137 (Killed)`` begins with."""
    match = re.match(r"[0-9]{1,9}(?![^\s:])", text, re.ASCII)
    return match[0] if match else ""


def _out_of_time(record: Mapping[str, str]) -> bool:
    """Whether a terminated job had used up its time: the record has the job's requests."""
    asked = re.search(r"\bh_rt=([0-9]+)", record.get("category", ""))
    ran = re.match(r"[0-9]+", record.get("ru_wallclock", ""))
    return bool(asked and ran) and int(ran[0]) >= int(asked[1])  # type: ignore[index]


# --- The starts of a job in the accounting: one record each; what qrsh started has its own
#
# ``ru_maxrss``: the largest process on the first host, in KiB (getrusage(2)); 8.1.9 writes ``4.691KB``
# for 4691 of them, others the number alone. ``cpu`` counts what the script started on the first host, so it
# is not used for a job in a parallel environment, which may have several hosts.
# Sources: accounting(5), answers of Debian's 8.1.9.

# $1: id, $2: run directory. Ids are reused, so records older than its script by a day are left out.
_ASK: Final = """\
written=$(stat -c %Y -- "$2/job.sh") || written=86400
exec qacct -b "$(date -d "@$((written - 86400))" +%Y%m%d%H%M)" -j "$1"
"""


class SgeAccounting(base.Accounting):
    """All starts of a job at once."""

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for each job."""
        for job in jobs:
            yield bash(_ASK, job.id, job.directory)

    def read(self, completed: Completed, job: Job) -> Iterator[Usage]:
        """Yield the starts of the job submitted first: what qrsh started came later."""
        found = [record for record in qacct_records(completed.stdout) if record.get("jobnumber") == job.id]
        first = min(map(submit_time, found), default=0.0)
        for record in found:
            if submit_time(record) == first and (usage := _usage(record)).started is not None:
                yield usage


def _usage(record: Mapping[str, str]) -> Usage:
    said, task = task_end(record, cancelled=False), leading_number(record.get("taskid", ""))
    most = size(record.get("ru_maxrss", ""))
    return Usage(
        int(task) if task else None,
        said.state if said else JobState.UNKNOWN,
        started=moment(record.get("start_time", "")),
        ended=moment(record.get("end_time", "")),
        exit_code=said.exit_code if said else None,
        max_memory=most and most * 1024,
        cpu_seconds=seconds(record.get("cpu", "")) if record.get("granted_pe") == "NONE" else None,
        cpus=count(record.get("slots", "")),
    )


# --- Grid Engine

_JOB_ID: Final = r"([0-9]+)(?:\.[0-9]+-[0-9]+:[0-9]+)?"
_ANSWERS: Final = (
    re.compile(_JOB_ID),
    re.compile(rf'Your job(?:-array)? {_JOB_ID} \(".*"\) has been submitted'),
)
"""What qsub prints with ``-terse``, or without it, if a site's wrapper drops it."""

_SILENT: Final = re.compile(r"(?m)^(\S+)(?: +\S+){5} +- ")
"""A line of qhost without a load behind the name, the architecture and the four numbers of processors."""

_HINTS: Final = {
    "the requested parallel environment": "`qconf -spl` lists them: correct `sge` in the site file",
    "unknown queue": "`qconf -sql` lists the queues: correct `batch.partition`, or the site file",
    "the requested project": "`qconf -sprjl` lists the projects: correct `batch.account`",
    "unknown resource": "`qconf -sc` lists them: correct `batch.constraint` or `sge` in the site file",
    "is not a valid object name": "start `name` with a letter",
    "does not allow you to submit": "your account has no access here; ask the site",
    "unable to send message to qmaster": "Grid Engine is down or unreachable from here; try again later",
    "SGE_ROOT": "load the site's Grid Engine first (its settings.sh), then submit again",
}

_REFUSALS: Final = (
    *_HINTS,
    # sge_qmaster
    "denied: ",
    "job rejected",
    "Job was rejected",
    "job is not allowed",
    "is not a time value",
    "is not a memory value",
    "no suitable queues",
    "two files are specified",
    "can't resolve hostname",
    # qsub itself, before it asks the master
    "Unable to read script file",
    "Unknown option",
    "nvalid option argument",
    "option must",
    "Script length does not match",
)
"""Messages by which the job was certainly not made; with any other, it may exist."""

_A_NUMBER: Final = re.compile(rf"(?m)^\s*{_JOB_ID}\s*$|has been submitted")
_LOST: Final = re.compile("time-?out|read error|failed receiving", re.IGNORECASE)
"""Words of errors about qsub's messages to the master: the job may exist."""

# $1: id, $2: run directory, and so on. A job that is deleted while it waits is not in the accounting.
_CANCEL: Final = """\
code=0
for ((; $#; )); do
  output=$(qdel "$1" 2>&1)
  case $?:$output in
  0:*) (umask 077 && echo "cancelled $1 $(date +%s) 0" >>"$2/events") ;;
  *'does not exist'* | *'already in deletion'*) ;;
  *) echo "$output" >&2; code=1 ;;
  esac
  shift 2
done
exit "$code"
"""

_CANCEL_ELEMENT: Final = """\
output=$(qdel "$1" -t "$2" 2>&1) && exit
[[ $output == *'does not exist'* || $output == *'already in deletion'* ]] || { echo "$output" >&2; exit 1; }
"""

# qstat shows a job's context, which has its token, only for jobs named by id.
_FIND: Final = """\
list=$(qstat -u "$(id -un)") || exit
ids=$(awk '$1 ~ /^[0-9]+$/ { print $1 }' <<<"$list" | sort -un | paste -sd,)
[[ -z $ids ]] || qstat -xml -j "$ids"
"""


class GridEngine(base.BatchSystem):
    """Grid Engine as a scheduler; jobs are found again by their context, ``hpcdist=TOKEN``."""

    name = "sge"
    directive_module = "hpcdist.schedulers.sge.directives"
    array_limit = base.ArrayLimit(75_000, "max_aj_tasks")  # sge_conf(5)
    names_gpus = False  # only a site's prolog does
    requeues = True  # a script that ends with exit code 99
    installation = INSTALLATIONS["sge"]
    open_mpi_support = "Grid Engine"
    accounting = SgeAccounting()
    node_flags = ("-l h=", "-l hostname=", "-q", "-masterq")

    def memory_refused_by(self, site: Site) -> str:
        """Return the key of the resource for memory where the site does not name one."""
        return "" if site.sge.memory else "sge.memory"

    def advice(self, job: PreparedJob, site: Site) -> Iterator[Problem]:
        """Yield a warning for a parallel environment whose allocation rule the site file does not give."""
        from hpcdist.schedulers.sge import directives

        return directives.advice(job, site)

    def submit(self, submission: base.Submission) -> Command:
        """Return the qsub command; with ``-V``, no variable of another batch job may reach it."""
        after = ("-hold_jid", ",".join(submission.after)) if submission.after else ()
        words = ("qsub", "-terse", "-ac", f"hpcdist={submission.token}", *after, *submission.options)
        return Command(
            (*words, submission.script),
            drop_environment=DROP,
            keep_environment=(*KEEP, "LC_ALL"),
            timeout=120,
        )

    def read_submit(self, completed: Completed) -> str:
        """Return the job's id; of an array qsub says ``12.1-10:2``.

        Output with anything else is not read: a number in it may not be an id.
        """
        found = (form.fullmatch(completed.stdout.strip()) for form in _ANSWERS)
        answer = next(filter(None, found), None)
        unclear = _A_NUMBER.search(completed.stdout) or _LOST.search(completed.stderr)
        refused = not unclear and any(text in completed.stderr for text in _REFUSALS)
        return answers.submission_id(
            completed,
            answer and answer[1],
            system="Grid Engine",
            program="qsub",
            refused=refused,
            hints=_HINTS,
        )

    def find(self) -> Iterator[Command]:
        """Yield the command that lists this user's unfinished jobs; others have their event logs."""
        yield bash(_FIND)

    def read_find(self, completed: Completed) -> Mapping[str, str]:
        """Return job ids by token."""
        return tokens(completed.stdout)

    def queries(self) -> tuple[base.Query, ...]:
        """Return qstat for unfinished jobs, then the accounting."""
        return SgeQstat(), Qacct()

    def ask_nodes(self, nodes: Sequence[str]) -> Command:
        """Return qhost of these hosts."""
        return Command(("qhost", "-h", ",".join(nodes)), (), DROP, (*KEEP, "LC_ALL"))

    def read_nodes(self, completed: Completed) -> tuple[str, ...]:
        """Return the hosts without a load: they have not reported for ``max_unheard`` (sge_conf(5))."""
        return tuple(row[1] for row in _SILENT.finditer(completed.stdout) if row[1] != "global")

    def inside(self, nodes: base.Nodes, words: Sequence[str], *, terminal: bool = False) -> Iterator[Command]:
        """Yield an ssh for each node: ``qrsh -inherit`` works only inside the job (its manual page)."""
        return answers.by_ssh(nodes, words, terminal=terminal)

    def shell(self, request: base.ShellRequest) -> Command:
        """Return ``qrsh``, which waits (``-now no``) and ends as the script does (submit(1))."""
        own = ("-now", "no", "-verbose", "-cwd", "-pty", "yes" if request.terminal else "no")
        token = ("-ac", f"hpcdist={request.submission.token}")
        words = ("qrsh", *own, *token, *answers.options(request.directives, ("-r",)))
        return Command((*words, "bash", request.submission.script), (), DROP, (*KEEP, "LC_ALL"))

    def request_nodes(self, names: Sequence[str]) -> base.NodeRequest:
        """Name the candidates; the parallel environment takes as many as it needs (tried on 8.1.9)."""
        return base.NodeRequest(f"-l hostname={'|'.join(names)}")

    def cancel(self, jobs: Sequence[Job]) -> Command:
        """Return the command that deletes these jobs and writes that to their event logs."""
        return bash(_CANCEL, *itertools.chain.from_iterable((job.id, job.directory) for job in jobs))

    def cancel_element(self, job: Job, index: int) -> Command:
        """Return ``qdel 12 -t 3``."""
        return bash(_CANCEL_ELEMENT, job.id, str(index))


SGE: Final = GridEngine()
