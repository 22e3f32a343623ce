"""Reads the state, exit code and reason of a job from its fields.

Sources: answers of an OpenPBS 23.06; negative exit codes: ``job.h`` of openpbs/openpbs; substates: its
``job.h`` as well (91 deleted, 92 finished, 93 failed).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hpcdist.schedulers.job import JobState, Status

Attributes = Mapping[str, str]

_PENDING: Final = frozenset("QHWT")
_RUNNING: Final = frozenset("RE")
_SUSPENDED: Final = frozenset("SU")
_OVER: Final = frozenset("FX")

_DELETED, _FAILED = "91", "93"
"""Substates of a job that qdel ended, and of one that failed (JOB_SUBSTATE_TERMINATED, _FAILED)."""
_SIGNALLED: Final = 256
_TERM: Final = 15

_WALLTIME: Final = -29
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
    _WALLTIME: (JobState.TIMEOUT, "its walltime was over"),
    -30: (JobState.NODE_FAIL, "its nodes could not join it"),
}
"""PBS's own reasons, by Exit_status."""

_COMPLETED: Final = Status(JobState.COMPLETED, exit_code=0)
_UNTOLD: Final = {
    "interactive": Status(JobState.VANISHED, reason="PBS does not keep what a shell of qsub -I returned"),
    "array": Status(JobState.VANISHED, reason="PBS does not say how each of its elements ended"),
}
"""What ends with 0 also where it did not end well: an element may have been deleted while it waited."""
_COUNT: Final = re.compile(r"(Queued|Running|Exiting):([0-9]+)")
_HOLDERS: Final = {"u": "its owner", "o": "an operator", "s": "the system", "p": "its owner's wrong password"}


def status(record: Attributes) -> Status:
    """Return the status of a job from its record."""
    word, comment = record.get("job_state", ""), record.get("comment", "").strip()
    if word in _PENDING:
        return Status(JobState.PENDING, word, None, comment or _waits(record), "qstat")
    if word == "B":
        return Status(_of_array(record), word, source="qstat")
    if word in _RUNNING:
        return Status(JobState.RUNNING, word, source="qstat")
    if word in _SUSPENDED:
        return Status(JobState.SUSPENDED, word, None, comment, "qstat")
    if word in _OVER:
        return _end(record)._replace(native=word, source="qstat")
    reason = "it was moved to another server: ask there" if word == "M" else comment
    return Status(JobState.UNKNOWN, word, None, reason, "qstat")


def _waits(record: Attributes) -> str:
    """Return the reason why a job without a comment is pending."""
    if record.get("Execution_Time"):
        return f"it is to begin at {record['Execution_Time']}"
    if others := _others(record):
        return f"it waits for {others}"
    holder = _HOLDERS.get(record.get("Hold_Types", "n")[:1])
    return f"it is held by {holder}" if holder and record.get("job_state") == "H" else ""


def _others(record: Attributes) -> str:
    """Return what a job depends on, as one writes it for qsub; jobs that depend on it are no matter."""
    parts = re.sub(r"@[^:,]+", "", record.get("depend", "")).split(",")
    return ",".join(part for part in parts if not part.startswith("before"))


def _of_array(record: Attributes) -> JobState:
    counts = {name: int(count) for name, count in _COUNT.findall(record.get("array_state_count", ""))}
    waits = counts.get("Queued", 0) and not counts.get("Running", 0) + counts.get("Exiting", 0)
    return JobState.PENDING if waits else JobState.RUNNING


def _end(record: Attributes) -> Status:
    """Read Exit_status: the script's own code, 256 and a signal, or a reason of PBS's own below zero."""
    text, substate = record.get("Exit_status", ""), record.get("substate")
    code = int(text) if re.fullmatch(r"-?[0-9]{1,9}", text, re.ASCII) else None
    if code is None or (code >= 0 and _never_ran(record)):
        return Status(JobState.CANCELLED, reason=_why_never(record))
    if code < 0:
        state, reason = _REASONS.get(code, (JobState.FAILED, "PBS ended it"))
        return Status(state, reason=f"{reason} (Exit_status {code})")
    if substate == _DELETED:
        return Status(JobState.CANCELLED, exit_code=_shown(code, record), reason=_who(record))
    if code >= _SIGNALLED and _is_out_of_time(record):
        return Status(JobState.TIMEOUT, exit_code=_shown(code, record), reason=_REASONS[_WALLTIME][1])
    if not code and substate != _FAILED:
        return next((end for kind, end in _UNTOLD.items() if record.get(kind) == "True"), _COMPLETED)
    state = JobState.CANCELLED if code == _SIGNALLED + _TERM else JobState.FAILED
    reason = f"killed by signal {code - _SIGNALLED}" if code >= _SIGNALLED else ""
    return Status(state, exit_code=_shown(code, record), reason=reason)


def _is_out_of_time(record: Attributes) -> bool:
    """Whether a job that a signal ended had used up its time: not every PBS writes -29 then."""
    used, limit = (
        _seconds(record.get(f"{name}.walltime", "")) for name in ("resources_used", "Resource_List")
    )
    return used is not None and limit is not None and used >= limit > 0


def _seconds(text: str) -> int | None:
    match = re.fullmatch(r"(\d+):(\d\d):(\d\d)", text, re.ASCII)
    return int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3]) if match else None


def _shown(code: int, record: Attributes) -> int | None:
    """Return an exit code as a shell shows it.

    An array has that of the element that ended last: 0 does not mean that none failed or was deleted.
    """
    if code == 0 and record.get("array") == "True" and record.get("substate") in (_DELETED, _FAILED):
        return None
    return code - _SIGNALLED + 128 if code >= _SIGNALLED else code


def _never_ran(record: Attributes) -> bool:
    """Whether it was deleted before it began; elements of an array have an Exit_status all the same."""
    ran = record.get("exec_host") or record.get("run_count") or record.get("array") == "True"
    return not ran


def _why_never(record: Attributes) -> str:
    others = _others(record)
    if record.get("substate") == _DELETED or not others:
        waited = re.match(
            r"((?:Not Running|Can Never Run): .*?)\.?(?: and terminated|$)", record.get("comment", "")
        )
        return "it was deleted before it began" + (f" ({waited[1]})" if waited else "")
    return f"it never ran: what it waited for cannot happen any more: {others}"


def _who(record: Attributes) -> str:
    """Return the user who deleted it, where the comment names one."""
    match = re.search(r"terminated by (\S+)$", record.get("comment", "").strip())
    return f"deleted by {match[1]}" if match else "deleted"
