"""What one site's Grid Engine wants."""

from __future__ import annotations

from typing import Literal

from hpcdist.documents.fields import Model


class Sge(Model, frozen=True):
    """How jobs are asked for; a slot is a CPU.

    ``environments``: the parallel environment that gives so many slots on each host (``allocation_rule 8``),
    ``*`` for any number; ``{slots}`` in a name stands for the number. ``one_node``: the one that keeps a job
    on one host (``$pe_slots``). ``whole_nodes``: the one that fills hosts (``$fill_up``), for jobs that ask
    for all CPUs of their nodes. ``gpus``: the resource that counts GPUs (``-l``). ``memory``: the one that
    counts memory (``-l``), where there is one. ``gpus_per``: what GPUs are counted for: most for each slot
    (``consumable YES``), others for each host, or once a job (``consumable JOB``, on its first host: only
    jobs of one host can ask so). ``memory_per``: the same of memory. ``gpu_fractions``: a slot may ask for a
    part of a GPU (``type DOUBLE``). ``exclusive``: the resource that keeps others off the hosts. ``account``:
    the option that takes it. ``remote``: how Open MPI and hydra start tasks on other hosts, by ``ssh`` or by
    ``qrsh -inherit``; that needs environments with ``control_slaves TRUE``, and leaves tasks of a deleted job
    behind.
    """

    environments: dict[str, str] = {}
    one_node: str | None = None
    whole_nodes: str | None = None
    gpus: str | None = "gpu"
    gpus_per: Literal["slot", "host", "job"] = "slot"
    gpu_fractions: bool = False
    memory: str | None = None
    memory_per: Literal["slot", "host"] = "slot"
    exclusive: str | None = None
    account: Literal["-P", "-A"] = "-P"
    remote: Literal["ssh", "qrsh"] = "ssh"
