"""Where a notebook or a TensorBoard is: what ``templates/python/hpcdist_service.py`` wrote in its job."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.errors import ConfigError
from hpcdist.runs.rundir import RunDirectory

_FILE: Final = "address.json"
_MAX_BYTES: Final = 4096


class Address(NamedTuple):
    """A server on a node: of which ``kind``, on which port, and how a browser elsewhere reaches it.

    ``tunnel``: the command line that makes ``url`` reachable. ``token``: the file of its token; empty where
    it has none.
    """

    kind: str
    node: str
    port: int
    url: str
    tunnel: str
    token: str

    def through(self, host: str, directory: RunDirectory) -> Address:
        """Return it as reached by this host of ``ssh``, in place of the login node as the job knows it.

        ``directory``: the run's here, which has its token, too.
        """
        words = self.tunnel.split(" ")
        words[words.index("-J") + 1 if "-J" in words else -1] = host
        token = str(directory.path / Path(self.token).name) if self.token else ""
        return self._replace(tunnel=" ".join(words), token=token)


def read(directory: RunDirectory) -> Address | None:
    """Return the address of the server of a run; None if it has none, or it is not up."""
    import json  # for runs that serve something, which are few

    try:
        found = json.loads(directory.read(_FILE, _MAX_BYTES))
        address = Address(**found)
    except (OSError, ValueError, TypeError, ConfigError):
        return None
    right = all(isinstance(value, int if name == "port" else str) for name, value in found.items())
    return address if right else None
