"""All that is known against nodes: the user's own ledger, the shared one, and what runs recorded since."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from hpcdist.errors import Problem, warning
from hpcdist.host import lines
from hpcdist.nodes import ledger, suspicion, taking_up
from hpcdist.nodes.ledger import Entry, Forgotten, Ledger
from hpcdist.nodes.suspicion import Node

_OWN: Final = 0o600
_SHARED: Final = 0o660


class Known(NamedTuple):
    """The ledgers as read, and what is not written into them yet; ``problems``: why one could not be read.

    ``unreadable``: files to which nothing is appended, as nobody knows what they have.
    """

    runs_dir: Path
    shared_file: Path | None
    own: Ledger
    shared: Ledger
    new: Ledger
    now: float
    problems: tuple[Problem, ...] = ()
    unreadable: frozenset[Path] = frozenset()

    @property
    def ledger(self) -> Ledger:
        """What all of them come to."""
        return self.own.beside(self.shared).beside(self.new)

    def nodes(self, site: str | None = None) -> list[Node]:
        """Return the nodes of a site, or of all, with evidence against them, the most suspect first."""
        return [node for node in suspicion.nodes(self.ledger.evidence, self.now) if site in (None, node.site)]

    def beside(self, entries: Iterable[Entry]) -> Known:
        """Return this with further evidence, to be saved."""
        more = {entry.key: entry for entry in entries}
        return self._replace(new=self.new._replace(entries={**self.new.entries, **more}))

    def save(self, forgotten: tuple[Forgotten, ...] = ()) -> tuple[Problem, ...]:
        """Write what is new, the user's own evidence into the shared ledger as well; return what failed.

        Whatever could not be written is found again, and written the next time.
        """
        problems: list[Problem] = []
        own_file, forgotten = ledger.own_file(self.runs_dir), (*self.new.forgotten, *forgotten)
        if self.runs_dir.is_dir() and own_file not in self.unreadable:
            own = ledger.lines(self.new.entries.values(), forgotten, self.new.taken)
            problems += _append(own_file, own, _OWN)
        if self.shared_file and self.shared_file not in self.unreadable:
            known = {**self.own.entries, **self.new.entries}
            missing = [entry for key, entry in known.items() if key not in self.shared.entries]
            problems += _append(self.shared_file, ledger.lines(missing, forgotten), _SHARED)
        return tuple(problems)


def _append(file: Path, new: list[str], mode: int) -> list[Problem]:
    try:
        lines.append(file, new, mode)
    except OSError as error:
        return [warning(f"{file}: {error.strerror}", hint="what is known of nodes is not written there")]
    return []


def read(runs_dir: Path, shared_file: Path | None, now: float) -> Known:
    """Return what is known; it writes nothing. Of logs that did not grow nothing but the size is looked at.

    ``now``: in seconds since 1970 by this machine's clock.
    """
    problems: list[Problem] = []
    unreadable: list[Path] = []
    own = _read(ledger.own_file(runs_dir), problems, unreadable)
    shared = _read(shared_file, problems, unreadable) if shared_file else Ledger()
    shared = shared._replace(taken={})
    new = taking_up.news(runs_dir, own, now)
    ahead = (one for one in own.beside(shared).forgotten if one.until > now)
    new = new._replace(forgotten=tuple(replace(one, read=now) for one in ahead))
    return Known(
        runs_dir, shared_file, own, shared, new, now, tuple(problems), unreadable=frozenset(unreadable)
    )


def _read(file: Path, problems: list[Problem], unreadable: list[Path]) -> Ledger:
    try:
        found = ledger.read(file)
    except OSError as error:
        hint = "what it has of nodes is not used, and nothing is added to it; move it away to begin anew"
        problems.append(warning(f"{file}: {error.strerror}", hint=hint))
        unreadable.append(file)
        return Ledger()
    if found.unread:
        count = f"{found.unread} line{'s' * (found.unread != 1)}"
        problems.append(
            warning(f"{file}: {count} cannot be read and {'are' if found.unread != 1 else 'is'} skipped")
        )
    return found
