"""Why an attempt ended, and what follows it. Only decisions: nothing here runs, writes or asks anything.

A rehearsal decides for itself what follows an attempt (`supervisor.rehearsal`).
"""

import re
from typing import NamedTuple, Optional, Tuple

from .job import Policy

LAUNCH = 86
"""The exit code of a launch that cannot work; also of a job whose program's code nobody knows."""

TERMINATED = 143
SIGNALLED = 128  # above it the signal's number

OVER, ENDED, AGAIN, REQUEUE, FOLLOW = "over", "ended", "again", "requeue", "follow"
_NO_OTHER = "this job gets no other nodes"
_MOST = 255
"""The characters of an event's value (`supervisor.events`)."""


class End(NamedTuple):
    """What is known of the end of an attempt."""

    code: int
    told: bool = False  # the job got TERM or HUP
    at_limit: bool = False  # the notice before the time limit was given
    sent_term: bool = False  # and TERM after it
    ending: str = ""  # why the batch system ends the job, by its own word
    is_lost: bool = False  # nodes of the tasks cannot be reached
    is_explained: bool = False  # it is known which task failed first


class Ended(NamedTuple):
    """An attempt that has ended; ``first`` is the first one since the run was resumed."""

    attempt: int
    first: int
    code: int
    why: str

    @property
    def restarts(self) -> int:
        """How many there were since the run was resumed, the first one not counted."""
        return self.attempt - self.first


class Idle(NamedTuple):
    """How many attempts in a row, the last one with them, left nothing new, and what that one lacks."""

    attempts: int
    lacks: str


class Next(NamedTuple):
    """What follows an attempt.

    ``again``: another one, here. ``requeue`` and ``follow``: another one, on other nodes or with more time.
    ``over``: none, which is recorded, for ``reason``. ``ended``: the job ends, and nothing is recorded, as
    its user or a batch system that says nothing has ended it, or as the plan has no policy.
    """

    what: str
    reason: str


# --- How it ended


def judged(end: End, signal: str) -> Tuple[End, str]:
    """Return an end as it counts, and what the user is told of it; ``signal`` is that of the notice.

    Many programs end with exit code 0 when they get TERM or HUP: whether they had finished is unknown.
    """
    what = "the program ended with exit code 0"
    if end.code == 0 and (end.told or end.sent_term):
        doubt = f"{what} when it was told to end; whether it had finished is unknown"
        return end._replace(code=TERMINATED), doubt
    if end.code == 0 and end.at_limit:
        return end, f"{what} after {signal}, and so is finished; if it is not, let it end with another one"
    return end, ""


def why(end: End, *, several: bool) -> str:
    """Return why an attempt ended.

    ``several``: its tasks are on several nodes, and its launcher always tells which of them failed first.
    """
    if end.code and end.ending:
        return end.ending
    if end.told:
        return "terminated"  # by its user, or by a batch system that does not say why
    if end.at_limit:
        return "timeout"
    if end.code == LAUNCH:
        return "launch"
    is_silent = end.code != 0 and several and not end.is_explained
    return "node_failure" if end.is_lost or is_silent else "failure"


# --- What follows: by_end, else by_count, else follows


def by_end(policy: Policy, ended: Ended) -> Optional[Next]:
    """Return what follows where the end alone decides that; None if another attempt may follow."""
    if ended.code == 0:
        return Next(OVER, "completed")
    if ended.why == "terminated":
        return Next(ENDED, "")
    if ended.why not in policy.on:
        return Next(OVER, ended.why)
    if ended.why != "failure" and policy.by is None:
        return Next(OVER, f"{ended.why}; {_NO_OTHER}")
    return None


def by_count(policy: Policy, ended: Ended, idle: Idle, *, stop_file: bool) -> Optional[Next]:
    """Return that an attempt was the last, and why; None if it was not. ``stop_file``: there is one."""
    if ended.code in policy.stop_on_exit:
        return Next(OVER, f"exit code {ended.code}")
    if policy.stop_file and stop_file:
        return Next(OVER, f"there is {policy.stop_file}")
    if ended.restarts >= policy.max:
        return Next(OVER, f"{ended.why}; no more than {policy.max} restarts")
    if policy.no_progress and idle.attempts >= policy.no_progress:
        return Next(OVER, f"{ended.why}; {idle.attempts} attempts in a row {idle.lacks}")
    return None


def takes_spare(policy: Policy, why: str) -> bool:
    """Return whether the next attempt chooses among the nodes that are alive."""
    return policy.spare_nodes > 0 and why in ("failure", "node_failure")


def follows(policy: Policy, ended: Ended, *, is_bad: bool, has_nodes: bool) -> Next:
    """Return how another attempt gets its nodes.

    ``is_bad``: a node of this one is suspect. ``has_nodes``: where `takes_spare`, whether enough are alive.
    """
    why = ended.why
    if takes_spare(policy, why):
        why = "failure" if has_nodes else "node_failure"
    elif why == "failure" and is_bad and policy.by == REQUEUE:
        why = "node_failure"
    if why == "failure":
        return Next(AGAIN, why)
    return Next(policy.by, why) if policy.by else Next(OVER, f"{why}; {_NO_OTHER}")


def without_policy(code: int, tries: int, most: int, *, told: bool) -> Next:
    """Return what follows where the plan has a number of restarts alone; ``tries``: those before this one.

    There is none after a finished program, one that a signal ended, or a launch that cannot work.
    """
    is_last = code in (0, LAUNCH) or code >= SIGNALLED or told or tries >= most
    return Next(ENDED, "") if is_last else Next(AGAIN, "failure")


def requeues_at_limit(policy: Optional[Policy], ending: str) -> bool:
    """Return whether a job that gets TERM goes into the queue at once: its limit came before it acted."""
    can = policy is not None and policy.by == REQUEUE and "timeout" in policy.on and not policy.rehearsal
    return can and ending == "timeout"


def word(reason: str) -> str:
    """Return the value of the event that has this reason: one word."""
    return re.sub(r"[^!-~]", "_", re.split("[;:]", reason)[0])[:_MOST]


# --- What an earlier start of the run left


def of_killed(policy: Policy, said: str) -> Optional[Next]:
    """Return that the batch system ended an attempt for a reason after which there is no other; else None.

    ``said``: why it ended, as far as its script could tell. It may start jobs again by itself, and followers
    begin after any end.
    """
    if said not in ("", "terminated") or "preempt" in policy.on or "node_failure" in policy.on:
        return None
    if policy.by == FOLLOW and "timeout" in policy.on:
        return None
    only = f"only after {' and '.join(policy.on)} there is another attempt"
    return Next(OVER, f"it was ended from outside; {only}")
