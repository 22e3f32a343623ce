"""Where a notebook or a TensorBoard is: what ``templates/python/hpcdist_service.py`` wrote in its job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta, MsgspecError, Struct
from msgspec.structs import replace

from hpcdist.runs.rundir import RunDirectory

_FILE: Final = "address.json"
_MAX_BYTES: Final = 4096
_HOST: Final = r"(?:[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])"
_LOGIN: Final = rf"(?:[A-Za-z0-9_][A-Za-z0-9_.+-]*@)?{_HOST}"
_TUNNEL: Final = rf"ssh -N -L [0-9]+:{_HOST}:[0-9]+ (?:-J {_LOGIN} )?{_LOGIN}"


class Address(Struct, frozen=True, forbid_unknown_fields=True):
    """A server on a node, and how a browser elsewhere reaches it.

    Fields are validated: a job could write anything, and ssh gets some.
    """

    kind: Annotated[str, Meta(pattern=r"\A[a-z]+\Z")]
    node: Annotated[str, Meta(pattern=rf"\A{_HOST}\Z")]
    port: Annotated[int, Meta(ge=1, le=65535)]
    url: Annotated[str, Meta(pattern=r"\Ahttp://localhost:[0-9]+/[A-Za-z0-9_./-]*\Z")]
    tunnel: Annotated[str, Meta(pattern=rf"\A{_TUNNEL}\Z")]
    """The command line that makes ``url`` reachable."""
    token: Annotated[str, Meta(pattern=r"\A(?:/[^\x00-\x1f\x7f]*)?\Z")]
    """The file with its token; empty for none."""

    def through(self, host: str, directory: RunDirectory) -> Address:
        """Return the address with this host of ``ssh`` in place of the login node that the job wrote.

        ``directory``: the run's directory here, with the token.
        """
        words = self.tunnel.split(" ")
        words[words.index("-J") + 1 if "-J" in words else -1] = host
        token = str(directory.path / Path(self.token).name) if self.token else ""
        return replace(self, tunnel=" ".join(words), token=token)


def read(directory: RunDirectory) -> Address | None:
    """Return the address of the server of a run; None if it has none, or it is not up."""
    try:
        return msgspec.json.decode(directory.read(_FILE, _MAX_BYTES), type=Address)
    except (OSError, MsgspecError, RecursionError):
        return None
