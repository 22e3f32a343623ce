"""Settings of one site's PBS."""

from __future__ import annotations

from typing import Literal

from hpcdist.documents.fields import Model

Scalar = str | int | float | bool


class Pbs(Model, frozen=True):
    """How jobs request resources.

    ``account``: the option for the account. ``request``: ``chunks`` (``-l select=``) or ``totals`` of the
    whole job (NCI Gadi). ``cpus``: whether chunks have ``ncpus``; false if jobs get whole nodes. ``gpus``:
    the resource that counts GPUs. ``gpu_type``: the resource for their type, if there is one (NCAR).
    ``chunk``: further resources of every chunk (``system``, ``model``). ``place``: how chunks are placed on
    nodes; if this or one of the next two is ``none``, the option is omitted. ``exclusive``: the value of
    ``place`` for exclusive nodes. ``keep``: the value of ``-k`` that writes the output in place while the job
    runs. ``umask``: the umask of the job.
    """

    account: Literal["-A", "-P", "-W group_list"] = "-A"
    request: Literal["chunks", "totals"] = "chunks"
    cpus: bool = True
    gpus: str = "ngpus"
    gpu_type: str | None = None
    chunk: dict[str, Scalar] = {}
    place: Literal["scatter", "vscatter", "pack", "free", "none"] = "scatter"
    exclusive: Literal["excl", "exclhost", "none"] = "excl"
    keep: Literal["oed", "doe", "none"] = "oed"
    umask: str | None = None
