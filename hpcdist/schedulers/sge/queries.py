"""The states of jobs in Grid Engine: qstat for queued and running jobs, qacct for finished jobs.

A job's id is its number, which the tasks of an array share.
Sources: qstat(1), qacct(1), sge_status(5) and accounting(5) of 8.1.9, their answers tried on Debian's 8.1.9.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final
from xml.etree import ElementTree as ET  # a parser of the standard library, on what qstat itself wrote

from hpcdist.host.command import Command, Completed
from hpcdist.schedulers.accounting import Usage, count, moment, seconds, size
from hpcdist.schedulers.job import Job, JobState, Status, element_id, fold

DROP: Final = ("SGE_", "JOB_ID", "PE_HOSTFILE", "SLURM_", "SBATCH_", "PMI", "OMPI_COMM_")
"""Variables of another job, which `-V` would hand on."""
KEEP: Final = (
    "SGE_ROOT", "SGE_CELL", "SGE_ARCH", "SGE_CLUSTER_NAME", "SGE_QMASTER_PORT", "SGE_EXECD_PORT",
)  # fmt: skip

_OTHER: Final = Status(JobState.UNKNOWN, reason="its id is that of another job now", source="qstat")

_LETTERS: Final = re.compile(r"[EhRqwrtsSTdzNP]+")
_LIMIT: Final = "37"
_ASKED_MEMORY: Final = re.compile(r"^(?!.*\bh_cpu=).*\bh_vmem=")
"""Of the limits that are enforced, only that of memory is left where time is not over."""
_AFTER_JOB: Final = "100"
"""``assumedly after job``: a signal ended it, be it a user's, or the execution host's at a limit."""
_SETTLING: Final = "it has ended, and the accounting does not tell yet how"

# $1 the ids, with commas. The list has the states, the details tokens and reasons.
_STATES: Final = """\
qstat -xml -u "$(id -un)" && qstat -xml -j "$1"
"""

# $1 an id, $2 its run directory, and so on. The accounting is long, so what a job wrote of its end is
# believed, unless a signal ended it: was it deleted, or out of time? It lags behind for some seconds. An id
# comes again after ten million jobs: older ones ended before the script was written.
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
    """Yield the XML documents of an answer; what is none is left out."""
    for part in re.split(r"(?=<\?xml)", text):
        try:
            yield ET.fromstring(part)  # noqa: S314 - expat expands no external entities, and limits the others
        except ET.ParseError:
            continue


def _described(text: str) -> Iterator[tuple[str, ET.Element, ET.Element]]:
    """Yield id, details and document of each job that ``qstat -j`` prints.

    They lie in an ``element`` each; of Open Grid Scheduler and Univa 8.6 in ``djob_info`` itself, one after
    the other, each from its number on; 6.2 had a ``qmaster_response`` around them.
    """
    for document in _documents(text):
        for parent in document.iterfind("djob_info//JB_job_number/.."):
            for job in _parted(parent):
                yield job.findtext("JB_job_number", ""), job, document


def _parted(parent: ET.Element) -> list[ET.Element]:
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
    return {token: number for number, job, _ in _described(text) if number and (token := _token(job))}


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


class Qstat:
    """All of this user's living jobs at once, with a job's token to know it from an older one of its id."""

    provisional: Final = False
    one_by_one: Final = False

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for all."""
        yield bash(_STATES, ",".join(job.id for job in jobs))

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """Return the states of those jobs that are not over."""
        wanted = {job.id: job for job in jobs}
        reasons = {number: _reason(number, job, top) for number, job, top in _described(completed.stdout)}
        found: dict[str, list[Status]] = {}
        for number, letters in _listed(completed.stdout):
            if number in wanted:
                part = Status(
                    state(letters), letters, reason=_worth(letters, reasons, number), source="qstat"
                )
                found.setdefault(number, []).append(part)
        others = {
            number: _OTHER
            for number, job, _ in _described(completed.stdout)
            if number in wanted and _token(job) != wanted[number].token
        }
        return {number: fold(parts) for number, parts in found.items()} | others


def _listed(text: str) -> Iterator[tuple[str, str]]:
    for document in _documents(text):
        for entry in document.iter("job_list"):
            yield entry.findtext("JB_job_number", ""), entry.findtext("state", "").strip()


def _worth(letters: str, reasons: Mapping[str, str], number: str) -> str:
    """Return why a job does not run; while it runs there is nothing to explain."""
    return reasons.get(number, "") if "q" in letters else ""


def _reason(number: str, job: ET.Element, document: ET.Element) -> str:
    """Return why a job waits: its error, else what the scheduler says of the job itself."""
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


class Qacct:
    """The accounting; it lags behind by some seconds, and is kept for long."""

    provisional: Final = False
    one_by_one: Final = False

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command, which asks qacct for each job that does not tell its end well enough."""
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
    """Return how a job ended, or its tasks; what was deleted while it waited leaves no record."""
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

    A task that began again has several, and what `qrsh -inherit` started on other hosts has its own, later
    ones, without a mark of it.
    """
    first = min((submitted(record) for record in records), default=0.0)
    mine = (record for record in records if submitted(record) == first)
    yield from {record.get("taskid", ""): record for record in mine}.values()


def submitted(record: Mapping[str, str]) -> float:
    """Return when a job was submitted, in whatever time zone."""
    return moment(record.get("qsub_time", "")) or 0.0


def task_end(record: Mapping[str, str], *, cancelled: bool) -> Status | None:
    """Return how a task ended; None for a record that does not show it."""
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
    """Whether a job that was ended had used up its time: the record names the job's requests."""
    asked = re.search(r"\bh_rt=([0-9]+)", record.get("category", ""))
    ran = re.match(r"[0-9]+", record.get("ru_wallclock", ""))
    return bool(asked and ran) and int(ran[0]) >= int(asked[1])  # type: ignore[index]


# --- The starts of a job in the accounting: a record each; what qrsh started has others
#
# ``ru_maxrss`` is that of the largest process on the first host, in KiB (getrusage(2)); 8.1.9 writes
# ``4.691KB`` for 4691 of them, others the number alone. ``cpu`` is that of what the script started on the
# first host, so that of a job in a parallel environment, which may have more of them, is not taken.
# Sources: accounting(5), answers of Debian's 8.1.9.

# $1 id, $2 run directory: ids begin anew, so a day before its script is the earliest.
_ASK: Final = """\
written=$(stat -c %Y -- "$2/job.sh") || written=86400
exec qacct -b "$(date -d "@$((written - 86400))" +%Y%m%d%H%M)" -j "$1"
"""


class Records:
    """All starts of a job at once."""

    at_once: Final = False

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for each job."""
        for job in jobs:
            yield bash(_ASK, job.id, job.directory)

    def read(self, completed: Completed, job: Job) -> Iterator[Usage]:
        """Yield the starts of the job that was submitted first: what qrsh started was later."""
        found = [record for record in qacct_records(completed.stdout) if record.get("jobnumber") == job.id]
        first = min(map(submitted, found), default=0.0)
        for record in found:
            if submitted(record) == first and (usage := _usage(record)).started is not None:
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
