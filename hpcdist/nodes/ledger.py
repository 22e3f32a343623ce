"""The ledger of nodes: what is known against them, in files to which lines are only ever appended.

RUNS/.nodes-UID.jsonl, and one that a group shares, by ``nodes_ledger`` of the config. A line is one of
    {"key": KEY, "user": NAME, "at": SECONDS, "site": SITE, "node": NAME, "kind": KIND, ...}    evidence
    {"forget": NAME, "site": SITE or "", "user": NAME, "at": SECONDS}    what is older does not count
    {"forget": ..., "read": SECONDS}    the same one, read by a clock that was not as far as its time
    {"taken": RUN, "bytes": SIZE, "inode": NUMBER}    a run's event log that was read; in the first file alone
Evidence with the same key is the same, so that two processes that write it at once do not double it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta, MsgspecError, Struct, field
from msgspec.structs import astuple, replace

from hpcdist.host import untrusted
from hpcdist.schedulers.job import LATEST, Host, Moment

# --- Evidence against nodes: what one attempt of a run showed of one of them

Kind = Literal["lost", "failed", "slow"]


class Evidence(NamedTuple):
    """One observation against a node.

    ``at``: when, in seconds since 1970 by the clock of the job's first node, which writes the run's event
    log; what reads it takes a time ahead of its own clock as now. ``node``: its name as the batch system
    names it, with its domain if that has one. ``kind``: ``lost`` where the batch system or the kernel reports
    that the node or a device of it is out of order (node down, Xid, ECC, a dead link); ``failed`` where the
    first task to fail ran on it, and nothing shows why; ``slow`` where it was slower than its peers.
    ``attempt``: the number of the run's attempt, 0 for the first. ``text``: a sentence of one line, with the
    numbers.
    """

    at: float
    site: str
    node: str
    kind: Kind
    run: str
    attempt: int
    text: str


# --- The law of suspicion: how much the evidence against a node weighs, and how that decays
#
# A node's suspicion is the sum, over its evidence, of WEIGHT x 2 ** (-AGE / HALF_LIFE); it is suspect from
# THRESHOLD on. Of several losses within an hour, as where a node with many jobs goes down, the first
# counts. So one loss makes a node suspect for a week, and two failures do that are at most a week apart: a
# week leaves time to repair a node, and one that fails again within it was not repaired.
# ``templates/runtime/supervisor/nodes.py`` computes the same inside a run.

HALF_LIFE: Final = 7 * 86400.0
"""Seconds."""

THRESHOLD: Final = 0.5
WEIGHTS: Final[Mapping[Kind, float]] = {"lost": 1.0, "failed": 1 / 3, "slow": 1 / 3}
_ONE_LOSS: Final = 3600.0


class Node(NamedTuple):
    """A node of a site, how much it is suspected, and the evidence, the newest first."""

    site: str
    name: str
    suspicion: float
    evidence: tuple[Evidence, ...]

    @property
    def is_suspect(self) -> bool:
        """Whether jobs should do without it."""
        return self.suspicion >= THRESHOLD


def of(evidence: Iterable[Evidence], now: float) -> float:
    """Return the suspicion of one node; evidence of the future is taken as of now."""
    total, loss = 0.0, float("-inf")
    for one in sorted(evidence, key=lambda one: one.at):
        if one.kind == "lost":
            if one.at - loss < _ONE_LOSS:
                continue
            loss = one.at
        total += WEIGHTS[one.kind] * 2 ** (-max(0.0, now - one.at) / HALF_LIFE)
    return total


def nodes(evidence: Iterable[Evidence], now: float) -> list[Node]:
    """Return the nodes that this is against, the most suspect first."""
    found: dict[tuple[str, str], list[Evidence]] = {}
    for one in evidence:
        found.setdefault((one.site, one.node), []).append(one)
    known = [
        Node(*key, of(own, now), tuple(sorted(own, key=lambda one: -one.at))) for key, own in found.items()
    ]
    return sorted(known, key=lambda node: (-node.suspicion, node.site, node.name))


# --- The ledger of nodes

_MAX_BYTES: Final = 1 << 26
_MAX_TEXT: Final = 500
_LATEST: Final = float(LATEST - 1)
Text = Annotated[str, Meta(max_length=_MAX_TEXT)]


class Entry(NamedTuple):
    """Evidence, the user whose run showed it, and what makes it the same as another line."""

    key: str
    user: str
    evidence: Evidence


class Forgotten(Struct, frozen=True, omit_defaults=True):
    """A node whose evidence before ``at`` does not count; ``site`` is empty for all.

    ``read``: when a machine read it whose clock was behind ``at``, which is that of a clock ahead of others.
    """

    node: Host = field(name="forget")
    site: Text
    user: Text
    at: Moment
    read: Moment = _LATEST

    @property
    def until(self) -> float:
        """From when on evidence counts again."""
        return min(self.at, self.read)

    def covers(self, one: Evidence) -> bool:
        """Whether this evidence does not count any more."""
        return one.node == self.node and self.site in ("", one.site) and one.at <= self.until


class Taken(Struct, frozen=True):
    """How much of a run's event log was read; a run of the same name has another file."""

    taken: str
    """The run's name."""
    bytes: int
    inode: int


class Ledger(NamedTuple):
    """What the lines of a file come to; ``unread``: how many of them are none."""

    entries: Mapping[str, Entry] = {}
    forgotten: tuple[Forgotten, ...] = ()
    taken: Mapping[str, Taken] = {}
    unread: int = 0

    def beside(self, other: Ledger) -> Ledger:
        """Return what both come to."""
        return Ledger(
            {**self.entries, **other.entries},
            _once((*self.forgotten, *other.forgotten)),
            {**self.taken, **other.taken},
            self.unread + other.unread,
        )

    @property
    def evidence(self) -> Iterator[Evidence]:
        """All that counts; a node that is known with its domain and without it has one name."""
        found = with_one_name([entry.evidence for entry in self.entries.values()])
        by_node: dict[str, list[Forgotten]] = {}
        for each in self.forgotten:
            by_node.setdefault(each.node, []).append(each)
        return (one for one in found if not any(each.covers(one) for each in by_node.get(one.node, ())))


def with_one_name(found: Sequence[Evidence]) -> list[Evidence]:
    """Return the evidence with the domain of a node where other evidence has one, and but one."""
    full: dict[tuple[str, str], set[str]] = {}
    for one in found:
        bare, _, domain = one.node.partition(".")
        if domain:
            full.setdefault((one.site, bare), set()).add(one.node)
    names = {key: next(iter(nodes)) for key, nodes in full.items() if len(nodes) == 1}
    return [one._replace(node=names.get((one.site, one.node), one.node)) for one in found]


def _once(found: Iterable[Forgotten]) -> tuple[Forgotten, ...]:
    """Return each once, as it was first read."""
    known: dict[Forgotten, Forgotten] = {}
    for one in found:
        key = replace(one, read=_LATEST)
        known[key] = min(known.get(key, one), one, key=lambda each: each.read)
    return (*known.values(),)


def own_file(runs_dir: Path) -> Path:
    """Return the user's own ledger of a runs directory, which several users may share."""
    return runs_dir / f".nodes-{os.getuid()}.jsonl"


def read(file: Path) -> Ledger:
    """Return the ledger in a file; an empty one if there is none.

    Raises:
        OSError: if it cannot be read, or is larger than 64 MiB.
    """
    try:
        text = untrusted.read(file, _MAX_BYTES)
    except FileNotFoundError:
        return Ledger()
    entries: dict[str, Entry] = {}
    taken: dict[str, Taken] = {}
    forgotten: list[Forgotten] = []
    unread = 0
    for line in filter(None, text.split(b"\n")):
        found = _read_line(line)
        if isinstance(found, Entry):
            entries.setdefault(found.key, found)
        elif isinstance(found, Forgotten):
            forgotten.append(found)
        elif found is not None:
            taken[found.taken] = found
        else:
            unread += 1
    return Ledger(entries, _once(forgotten), taken, unread)


class _Entry(Struct):
    key: Text
    user: Text
    at: Moment
    site: Text
    node: Host
    kind: Kind
    run: Text
    attempt: int
    text: Text


def _read_line(line: bytes) -> Entry | Forgotten | Taken | None:
    """Return what a line has; None if it is damaged, or of a later version."""
    with suppress(MsgspecError):
        key, user, *own = astuple(msgspec.json.decode(line, type=_Entry))
        return Entry(key, user, Evidence(*own))
    with suppress(MsgspecError):
        return msgspec.json.decode(line, type=Forgotten)
    with suppress(MsgspecError):
        return msgspec.json.decode(line, type=Taken)
    return None


def lines(
    entries: Iterable[Entry] = (), forgotten: Iterable[Forgotten] = (), taken: Mapping[str, Taken] = {}
) -> list[str]:
    """Return what is to be appended for these."""
    found: list[Any] = [
        {"key": key, "user": user, **one._replace(text=one.text[:_MAX_TEXT])._asdict()}
        for key, user, one in entries
    ]
    found += [*forgotten, *taken.values()]
    return [msgspec.json.encode(each).decode() for each in found]
