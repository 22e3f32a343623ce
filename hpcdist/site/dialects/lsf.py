"""What one site's LSF wants."""

from __future__ import annotations

from typing import Literal

from hpcdist.documents.fields import Model


class Lsf(Model, frozen=True):
    """How jobs are asked for.

    ``request``: ``nodes`` (``-nnodes``, the easy mode of CSM machines) or ``slots`` (``-n`` and ``span``, a
    slot being a CPU). ``alloc_flags``: of CSM. ``launch_node``: the script runs on a node of its own, named
    first, that is no compute node. ``submit``: how bsub gets the script. ``memory``: what ``rusage[mem=]``
    is counted by, each host or each slot (``RESOURCE_RESERVE_PER_TASK`` in lsb.params). ``account``: the
    option that takes it (``-G`` at LLNL, where banks are user groups).
    """

    request: Literal["nodes", "slots"] = "slots"
    alloc_flags: tuple[str, ...] = ()
    launch_node: bool = False
    submit: Literal["stdin", "file"] = "stdin"
    memory: Literal["host", "slot"] = "host"
    account: Literal["-P", "-G"] = "-P"
