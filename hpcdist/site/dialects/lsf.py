"""Settings of one site's LSF."""

from __future__ import annotations

from typing import Literal

from hpcdist.documents.fields import Model


class Lsf(Model, frozen=True):
    """How jobs request resources.

    ``request``: ``nodes`` (``-nnodes``, the easy mode of CSM machines) or ``slots`` (``-n`` and ``span``, a
    slot being a CPU). ``alloc_flags``: allocation flags of CSM. ``launch_node``: the script runs on a
    separate launch node, listed first, which is not a compute node. ``submit``: how bsub gets the script.
    ``memory``: whether ``rusage[mem=]`` is per host or per slot (``RESOURCE_RESERVE_PER_TASK`` in
    lsb.params). ``account``: the option for the account (``-G`` at LLNL, where banks are user groups).
    """

    request: Literal["nodes", "slots"] = "slots"
    alloc_flags: tuple[str, ...] = ()
    launch_node: bool = False
    submit: Literal["stdin", "file"] = "stdin"
    memory: Literal["host", "slot"] = "host"
    account: Literal["-P", "-G"] = "-P"
