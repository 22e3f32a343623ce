"""What PBS says of its jobs: ``qstat -f -F json`` for the living, with ``-x`` for the past.

Ids: ``1234.server``, an array ``1234[].server``, its elements ``1234[5].server``. A development version
answered for the first of several ids only (openpbs/openpbs issue 2672), so what is left open is asked one by
one.
Sources: states and fields were seen on an OpenPBS 23.06; negative exit codes: ``job.h`` of openpbs/openpbs;
the exit codes of qstat are those of ``pbs_error.h``, modulo 256.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from hpcdist.command import Command, Completed
from hpcdist.job import Job, JobState, Status

TOKEN: Final = "HPCDIST_TOKEN"  # noqa: S105 - its name
PREFIX: Final = "hpcdist:"
"""In front of a token: qstat writes a value of digits as a number (openpbs/openpbs issue 1255)."""

DROP: Final = ("PBS_DPREFIX", "HPCDIST_TOKEN")
"""Variables that change how qsub reads a script, and the token of a job that submits another."""

# $@ is a command of PBS. That a job is over (35), unknown (153) or just ending (168) is an answer as well.
_ASK: Final = """\
{ said=$("$@" 2>&1 >&3); } 3>&1
code=$?
case $code in
35 | 153 | 168) code=0 ;;
0 | 127) ;;
*)
  [[ $(qstat --version 2>&1) == *pbs_version* ]] ||
    said="this is not the qstat of PBS Pro or OpenPBS, and hpcdist does not know Torque: $said"
  ;;
esac
[[ -z $said ]] || printf '%s\\n' "$said" >&2
exit "$code"
"""

# $1 is -x for jobs that are over.
_FIND: Final = """\
set -f
ids=$(qselect $1 -u "$(id -un)") || exit
[[ $ids ]] || exit 0
qstat $1 -f -F json $ids
code=$?
((code == 35 || code == 153)) && exit 0
exit "$code"
"""

_PENDING: Final = frozenset("QHWT")
_RUNNING: Final = frozenset("RE")
_SUSPENDED: Final = frozenset("SU")
_OVER: Final = frozenset("FX")

_DELETED: Final = 91
"""The substate of a job that qdel ended (JOB_SUBSTATE_TERMINATED)."""
_SIGNALLED: Final = 256
_TERM: Final = 15

_REASONS: Final = {
    -1: (JobState.FAILED, "PBS could not start it (before its files were there)"),
    -2: (JobState.FAILED, "PBS could not start it (after its files were there)"),
    -3: (JobState.FAILED, "PBS could not start it, and was to try again"),
    -4: (JobState.NODE_FAIL, "its first node was restarted"),
    -5: (JobState.NODE_FAIL, "its first node was restarted, with a checkpoint"),
    -6: (JobState.NODE_FAIL, "its first node was restarted, with a checkpoint of another"),
    -7: (JobState.FAILED, "PBS could not start it again from its checkpoint"),
    -10: (JobState.FAILED, "its user or group is not known on the node"),
    -11: (JobState.FAILED, "it was to be run again"),
    -12: (JobState.PREEMPTED, "it was checkpointed and ended"),
    -13: (JobState.FAILED, "the user's password is wrong"),
    -14: (JobState.NODE_FAIL, "a node failed"),
    -15: (JobState.FAILED, "it was to be run again from its checkpoint"),
    -16: (JobState.FAILED, "a hook of the site failed"),
    -17: (JobState.FAILED, "a hook of the site failed"),
    -18: (JobState.FAILED, "a hook of the site refused it for now"),
    -19: (JobState.FAILED, "a hook of the site refused it"),
    -20: (JobState.NODE_FAIL, "its first node could not be reached"),
    -21: (JobState.FAILED, "a folder of PBS on the node is not safe"),
    -22: (JobState.FAILED, "a hook of the site failed or took too long"),
    -23: (JobState.FAILED, "there were no Kerberos credentials"),
    -24: (JobState.FAILED, "it used more CPUs than it had asked for"),
    -25: (JobState.FAILED, "it used more CPUs than it had asked for"),
    -26: (JobState.OUT_OF_MEMORY, "it used more virtual memory than it had asked for"),
    -27: (JobState.OUT_OF_MEMORY, "it used more memory than it had asked for"),
    -28: (JobState.TIMEOUT, "it used more CPU time than it had asked for"),
    -29: (JobState.TIMEOUT, "its walltime was over"),
    -30: (JobState.NODE_FAIL, "its nodes could not join it"),
}
"""PBS's own reasons, by Exit_status."""

_ID: Final = re.compile(r"([0-9]+(?:\[[0-9]*\])?)\.([A-Za-z0-9_-]+)[\w.-]*", re.ASCII)
_RECORD: Final = re.compile(r'\s*"([0-9]+(?:\[[0-9]*\])?\.[^"]+)"\s*:\s*\{\s*')
_ATTRIBUTE: Final = re.compile(
    r'\s*"(job_state|substate|comment|Exit_status|array_state_count|HPCDIST_TOKEN)"'
    r'\s*:\s*(?:"(?P<text>.*)"|(?P<number>-?[0-9]+))\s*,?\s*'
)
_COUNT: Final = re.compile(r"(Queued|Running|Exiting):([0-9]+)")

_OTHER: Final = Status(JobState.UNKNOWN, reason="its id is that of another job now", source="qstat")


def command(*argv: str) -> Command:
    """Return a command of PBS for which jobs that are over or unknown are no failure."""
    return Command(("bash", "-c", _ASK, "hpcdist", *argv), drop_environment=DROP)


def find(option: str = "") -> Command:
    """Return the command that lists this user's jobs; ``-x``: those that are over, too."""
    return Command(("bash", "-c", _FIND, "hpcdist", option), drop_environment=DROP)


def key(job_id: str) -> tuple[str, str] | None:
    """Return what an id means, whether the server's name is short or full; None for junk."""
    match = _ID.fullmatch(job_id)
    return (match[1], match[2]) if match else None


def records(text: str) -> dict[str, Mapping[str, Any]]:
    """Return the jobs of an answer, by id.

    Where a variable of the submitter's environment has made it no JSON (a number such as 007, a function of
    bash: openpbs/openpbs issues 1255, 2541), it is read line by line.
    """
    try:
        jobs = json.loads(text, strict=False)["Jobs"]
        return {str(job_id): record for job_id, record in jobs.items() if isinstance(record, dict)}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {job_id: record for job_id, record in _salvaged(text).items() if "job_state" in record}


def _salvaged(text: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    record: dict[str, Any] = {}
    for line in text.splitlines():
        if head := _RECORD.fullmatch(line):
            record = found.setdefault(head[1], {})
        elif match := _ATTRIBUTE.fullmatch(line):
            value = match["text"] if match["number"] is None else int(match["number"])
            if match[1] == TOKEN:
                record.setdefault("Variable_List", {TOKEN: value})
            else:
                record.setdefault(match[1], value)
    return found


def token_of(record: Mapping[str, Any]) -> str:
    """Return the token that a job carries, empty for one that hpcdist did not submit."""
    variables = record.get("Variable_List")
    value = variables.get(TOKEN) if isinstance(variables, dict) else None
    is_ours = isinstance(value, str) and re.fullmatch(rf"{PREFIX}\w+", value, re.ASCII)
    return str(value).removeprefix(PREFIX) if is_ours else ""


def status(record: Mapping[str, Any]) -> Status:
    """Return what a record says of its job."""
    word, comment = str(record.get("job_state", "")), str(record.get("comment", "")).strip()
    if word in _PENDING:
        return Status(JobState.PENDING, word, None, comment, "qstat")
    if word == "B":
        counts = {name: int(count) for name, count in _COUNT.findall(str(record.get("array_state_count")))}
        waits = counts.get("Queued", 0) and not counts.get("Running", 0) + counts.get("Exiting", 0)
        return Status(JobState.PENDING if waits else JobState.RUNNING, word, source="qstat")
    if word in _RUNNING:
        return Status(JobState.RUNNING, word, source="qstat")
    if word in _SUSPENDED:
        return Status(JobState.SUSPENDED, word, None, comment, "qstat")
    if word in _OVER:
        state, code, reason = _end(record)
        # Of a job that ran, the comment tells only where.
        return Status(state, word, code, reason or ("" if code is not None else comment), "qstat")
    reason = "it was moved to another server: ask there" if word == "M" else comment
    return Status(JobState.UNKNOWN, word, None, reason, "qstat")


class _End(NamedTuple):
    state: JobState
    code: int | None
    reason: str = ""


def _end(record: Mapping[str, Any]) -> _End:
    """Read Exit_status: the script's own code, 256 and a signal, or a reason of PBS's own below zero."""
    text = str(record.get("Exit_status", ""))
    deleted = str(record.get("substate", "")) == str(_DELETED)
    if not re.fullmatch(r"-?[0-9]{1,9}", text, re.ASCII):
        never = "" if record.get("comment") else "it never ran: it was deleted, or what it waited for failed"
        return _End(JobState.CANCELLED, None, never)
    code = int(text)
    if code < 0:
        state, reason = _REASONS.get(code, (JobState.FAILED, "PBS ended it"))
        return _End(state, None, f"{reason} (Exit_status {code})")
    if code >= _SIGNALLED:
        signal = code - _SIGNALLED
        state = JobState.CANCELLED if deleted or signal == _TERM else JobState.FAILED
        return _End(state, 128 + signal, f"killed by signal {signal}")
    if deleted:
        return _End(JobState.CANCELLED, code)
    return _End(JobState.FAILED if code else JobState.COMPLETED, code)


class Qstat(NamedTuple):
    """One question about jobs: of the living, or of those that are over, too; together or one by one."""

    options: tuple[str, ...] = ()
    one_by_one: bool = False
    provisional: bool = False

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command, or one for each job."""
        ids = [job.id for job in jobs]
        for some in [[job_id] for job_id in ids] if self.one_by_one else [ids]:
            yield command("qstat", *self.options, "-f", "-F", "json", *some)

    def read(self, completed: Completed, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """Return the states of those jobs that PBS knows."""
        wanted = {key(job.id): job for job in jobs}
        found: dict[str, Status] = {}
        for job_id, record in records(completed.stdout).items():
            job = wanted.get(key(job_id))
            if job and record.get("job_state"):
                token = token_of(record)
                found[job.id] = _OTHER if token and job.token and token != job.token else status(record)
        return found
