"""Settings of one site's Grid Engine."""

from __future__ import annotations

from typing import Literal

from hpcdist.documents.fields import Model


class Sge(Model, frozen=True):
    """How jobs request resources; a slot is a CPU.

    ``environments``: parallel environments by their slots per host (``allocation_rule 8``), ``*`` for any
    number; ``{slots}`` in a name is replaced by the number. ``one_node``: the parallel environment that keeps
    a job on one host (``$pe_slots``). ``whole_nodes``: the parallel environment that fills hosts
    (``$fill_up``), for jobs that request all CPUs of their nodes. ``gpus``: the resource that counts GPUs
    (``-l``). ``memory``: the resource that counts memory (``-l``), if there is one. ``gpus_per``: whether
    GPUs are requested per slot (``consumable YES``), per host, or per job (``consumable JOB``, on its first
    host: only for jobs of one host). ``memory_per``: the same for memory. ``gpu_fractions``: a slot may
    request a part of a GPU (``type DOUBLE``). ``exclusive``: the resource for exclusive hosts. ``account``:
    the option for the account; ``-g`` is one of qsub itself, not of the script (TSUBAME4). ``remote``: how
    Open MPI and hydra start tasks on other hosts, by ``ssh`` or by ``qrsh -inherit``, which needs parallel
    environments with ``control_slaves TRUE`` and leaves tasks of a deleted job behind.
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
    account: Literal["-P", "-A", "-g"] = "-P"
    remote: Literal["ssh", "qrsh"] = "ssh"
