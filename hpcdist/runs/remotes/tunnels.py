"""Tunnels to servers of jobs on remotes, open while their runs are waited for or followed."""

from __future__ import annotations

import contextlib
import math
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from hpcdist.base.errors import Problem
from hpcdist.base.words import join
from hpcdist.runs import address
from hpcdist.runs.address import Address
from hpcdist.runs.remotes import connection, machines
from hpcdist.runs.remotes.connection import Connection, Unreachable
from hpcdist.runs.rundir import Run
from hpcdist.runs.services import Services

_PAUSE: Final = 5.0
_LONGEST: Final = 60.0
"""Pauses between checks of a tunnel grow from ``_PAUSE`` to these seconds while it is lost."""

_HERE: Final = "127.0.0.1"
"""Not ``localhost``: ssh would accept one of its two addresses where the other is taken."""

_LINE: Final = re.compile(r"ssh -N -L [0-9]+:([^ :]+:[0-9]+)( -J [^ ]+)? ([^ ]+)")


class Way(NamedTuple):
    """How a server is reached: a port here, and what it leads to at the end of a connection."""

    connection: Connection
    inner: str
    port: int

    @property
    def ports(self) -> str:
        """What ``ssh -L`` gets; only this machine can use the port here."""
        return f"{_HERE}:{self.port}:{self.inner}"

    def is_open(self) -> bool:
        """Whether the connection lives, and the port with it."""
        return self.connection.forward(self.ports).ok

    def opened(self) -> Way:
        """Open it, at another port if that one is taken here; return the open one.

        Raises:
            Unreachable: if there is no connection, or no port.
        """
        self.connection.open()
        for one in (self, self._replace(port=_free_port())):
            done = self.connection.forward(one.ports)
            if done.ok:
                return one
        raise Unreachable(
            Problem(f"no port leads to {self.connection.name}: {connection.shown(done.stderr)}")
        )


def way(remote: Connection, found: Address) -> Way | None:
    """Return the way to a server over the connection to its remote, by its ``tunnel`` line.

    The loopback of a node is reached by a connection to the node through the remote. None if the line has
    another form.
    """
    line = _LINE.fullmatch(found.tunnel)
    if not line:
        return None
    inner, hop, last = line.groups()
    if not hop:
        return Way(remote, inner, found.port)
    words = join(remote.argv("-oControlMaster=no", "-oBatchMode=yes")), join(("--", remote.host))
    proxy = " -W '[%h]:%p' ".join(each.replace("%", "%%") for each in words)
    config = (*remote.config, f"-oProxyCommand={proxy}")
    node = remote._replace(name=found.node, host=last, config=config).resolved()
    return Way(node, inner, found.port)


class Tunnel:
    """The tunnel to the server of one run; ``note`` gets its URL here, or why there is none."""

    def __init__(
        self, run: Run, remote: Connection, now: Callable[[], float], note: Callable[[str], object]
    ) -> None:
        self._run, self._remote, self._now, self._note = run, remote, now, note
        self._found: Address | None = None
        self._way: Way | None = None
        self._next, self._pause = 0.0, _PAUSE

    def keep(self) -> None:
        """Open it once the run has a server, and again if it was lost or leads elsewhere."""
        found = address.read(self._run.directory)
        if found != self._found:
            self.close()
            self._found, self._next, self._pause = found, 0.0, _PAUSE
        if found and self._now() >= self._next:
            known = found.through(self._remote.host, self._run.directory)
            is_open = bool(self._way and self._way.is_open()) or self._open(known)
            self._pause = _PAUSE if is_open else min(2 * self._pause, _LONGEST)
            self._next = max(self._next, self._now() + self._pause)

    def close(self) -> None:
        """Close it, if it is open."""
        if self._way:
            self._way.connection.forward(self._way.ports, ends=True)
            if self._way.connection != self._remote:
                self._way.connection.close()
        self._way = None

    def _open(self, found: Address) -> bool:
        """Open it, and return whether it is; one that was never open is not tried again."""
        new = self._way or way(self._remote, found)
        try:
            self._remote.open()
        except Unreachable:  # the verb that waits warns of it
            return False
        try:
            self._way = new and new.opened()
        except Unreachable as error:
            self._note(f"no tunnel to {self._run.name}: {error.problems[0].message}; try `{found.tunnel}`")
            self._next = self._next if self._way else math.inf
            return False
        if self._way:
            self._note(self._where(found, self._way.port))
        return True

    def _where(self, found: Address, port: int) -> str:
        url = found.url.replace(f"localhost:{found.port}/", f"{_HERE}:{port}/", 1)
        token = f"; its token is in {found.token}" if found.token else ""
        return f"{self._run.name} is at {url} on this machine while this command runs{token}"


@contextlib.contextmanager
def kept(runs: Sequence[Run], services: Services, note: Callable[[str], object]) -> Iterator[Services]:
    """Yield services whose pauses keep the tunnels of these runs open; they close with the context."""
    found = ((run, machines.connection_of(run)) for run in runs)
    tunnels = [Tunnel(run, remote, services.now, note) for run, remote in found if remote]

    def sleep(seconds: float) -> None:
        for tunnel in tunnels:
            tunnel.keep()
        services.sleep(seconds)

    try:
        yield services._replace(sleep=sleep)
    finally:
        for tunnel in tunnels:
            tunnel.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HERE, 0))
        return int(probe.getsockname()[1])
