"""What one site's PBS wants."""

from __future__ import annotations

from typing import Literal

from hpcdist.documents.fields import Model

Scalar = str | int | float | bool


class Pbs(Model, frozen=True):
    """How jobs are asked for.

    ``account``: the option that takes it. ``request``: ``chunks`` (``-l select=``) or ``totals`` of the whole
    job (NCI Gadi). ``cpus``: whether chunks say ``ncpus``; not where nodes come whole. ``gpus``: the resource
    that counts GPUs. ``gpu_type``: the one that names their type, where there is one (NCAR). ``chunk``:
    resources that every chunk names besides (``system``, ``model``). ``place``: how chunks are laid out;
    where this or one of the next two is ``none``, nothing is said. ``exclusive``: what asks for nodes of
    one's own. ``keep``: what writes the output in place while the job runs (``-k oed``). ``umask``: that of
    the job.
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
