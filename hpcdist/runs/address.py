"""Where a notebook or a TensorBoard is: what ``templates/python/hpcdist_service.py`` wrote in its job."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.errors import ConfigError
from hpcdist.runs.rundir import RunDirectory

_FILE: Final = "address.json"
_MAX_BYTES: Final = 4096
_HOST: Final = r"(?:[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])"
_LOGIN: Final = rf"(?:[A-Za-z0-9_][A-Za-z0-9_.+-]*@)?{_HOST}"
_FORMS: Final = {
    "kind": re.compile(r"[a-z]+"),
    "node": re.compile(_HOST),
    "port": re.compile(r"[1-9][0-9]{0,4}"),
    "url": re.compile(r"http://localhost:[0-9]+/[A-Za-z0-9_./-]*"),
    "tunnel": re.compile(rf"ssh -N -L [0-9]+:{_HOST}:[0-9]+ (?:-J {_LOGIN} )?{_LOGIN}"),
    "token": re.compile(r"(?:/[^\x00-\x1f\x7f]*)?"),
}
"""Parts are commands of ssh, and lines to copy: a job could write anything."""
_HIGHEST_PORT: Final = 65535


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
    typed = all(isinstance(value, int if name == "port" else str) for name, value in found.items())
    right = typed and all(form.fullmatch(str(found[name])) for name, form in _FORMS.items())
    return address if right and address.port <= _HIGHEST_PORT else None
