"""All that is known against nodes: the user's own ledger, the shared one, and what runs recorded since."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from hpcdist.errors import Problem, warning
from hpcdist.nodes import ledger, taking_up
from hpcdist.nodes.ledger import Entry, Forgotten, Ledger, Node

# --- Files to which several processes append lines, none of which may come out half or mixed with another

_TRIES: Final = 100
_PAUSE: Final = 0.02
"""A file is locked for milliseconds; a process that is stopped meanwhile must not block others."""


def append(file: Path, lines: Iterable[str], mode: int, sleep: Callable[[float], None] = time.sleep) -> None:
    """Append lines by one write, behind a newline: a full disk may have cut the last line short.

    The file is made with this mode, whatever the umask is, and is locked as far as its file system can: NFS
    writes what two machines append at once over each other (open(2), O_APPEND).

    Raises:
        OSError: if the file cannot be written or is no regular one, or not all of it was written.
    """
    data = "".join(f"\n{line}" for line in lines).encode()
    if not data:
        return
    handle = _opened(file, mode)
    try:
        _lock(handle, sleep)
        if os.write(handle, data + b"\n") <= len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
    finally:
        os.close(handle)


def _opened(file: Path, mode: int) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(file, flags | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        return os.open(file, flags)
    os.fchmod(handle, mode)
    return handle


def _lock(handle: int, sleep: Callable[[float], None]) -> None:
    """Lock the file until it is closed; after 2 s, or without locks, it is written as it is."""
    for _ in range(_TRIES):
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            sleep(_PAUSE)
        except OSError:
            return
        else:
            return


# --- All that is known against nodes

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
        return [node for node in ledger.nodes(self.ledger.evidence, self.now) if site in (None, node.site)]

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
        append(file, new, mode)
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
