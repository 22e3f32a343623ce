"""What a site sets for its batch system and its container runtimes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal

from hpcdist.base import text_checks
from hpcdist.base.errors import Path, Problem
from hpcdist.base.fields import Model
from hpcdist.base.words import VARIABLE_NAME
from hpcdist.site.fabric import Condition, ConditionalText, text_of

# --- The container runtime of one site

_ANNOTATION: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")


class Runtime(Model, frozen=True, kw_only=True):
    """The container runtime of a machine, and its settings beside the image.

    ``runtime``: ``apptainer``, ``singularity``, ``pyxis``, ``edf``, ``shifter`` or ``podman-hpc``. ``binds``:
    further folders and files to mount, such as the fabric's libraries: ``SRC``, ``SRC:DST`` or
    ``SRC:DST:ro``, where ``$NAME`` is a variable of the job. ``args``: arguments of the runtime (for pyxis:
    of srun). ``gpu_args``: arguments for jobs with GPUs only. ``gpus``: the runtime mounts the driver's
    libraries (``--nv``, ``--rocm``, ``--gpu``); false if the images contain all that they need. ``setup``:
    lines of bash that run before the container starts. ``library_path``: folders at the front of its
    LD_LIBRARY_PATH, whatever the image sets; ``$NAME`` is a variable of the job there, too. ``prefix``:
    words in front of the program inside, such as a script of the centre that finds its MPI and NCCL there.
    ``env``: variables inside the container only. ``mpi``: srun's ``--mpi`` type of jobs in a container, if it
    differs from ``launchers.srun.mpi``. ``fetch_once``: an image of a registry is made a file of the run
    before the tasks start (apptainer, singularity, pyxis), instead of once a task or a node.
    ``annotations``: those of ``edf`` by their names, such as
    ``com.hooks.aws_ofi_nccl.enabled``. They, and items of ``binds``, ``args`` and ``setup``, may have
    conditions.
    """

    runtime: str
    binds: tuple[str | ConditionalText, ...] = ()
    args: tuple[str | ConditionalText, ...] = ()
    gpu_args: tuple[str, ...] = ()
    gpus: bool = True
    setup: tuple[str | ConditionalText, ...] = ()
    library_path: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    env: dict[str, str | int | float | bool] = {}
    mpi: str | None = None
    fetch_once: bool = True
    annotations: dict[str, str | ConditionalText] = {}

    def conditions(self) -> Iterator[tuple[Path, Condition]]:
        """Yield every condition of the section, with its path in it."""
        for key, items in (("binds", self.binds), ("args", self.args), ("setup", self.setup)):
            yield from (
                ((key, index), item) for index, item in enumerate(items) if isinstance(item, Condition)
            )
        for name, annotation in self.annotations.items():
            if isinstance(annotation, Condition):
                yield ("annotations", name), annotation


def problems_of(container: Runtime, base: Path) -> Iterator[Problem]:
    """Yield the problems of a section ``container`` that its types do not exclude."""
    yield from text_checks.bind_problems([*map(text_of, container.binds)], (*base, "binds"))
    for index, folder in enumerate(container.library_path):
        if not re.fullmatch(text_checks.PATH_IN_QUOTES, folder):
            hint = "write one folder, with letters, digits and $NAME only"
            yield Problem(
                f"{folder!r} is not a valid folder of libraries", (*base, "library_path", index), hint
            )
    for name in container.annotations:
        if container.runtime != "edf" or not _ANNOTATION.fullmatch(name):
            what = (
                "is not a valid name of an annotation"
                if container.runtime == "edf"
                else "is for `runtime: edf`"
            )
            yield Problem(f"{name!r} {what}", (*base, "annotations", name))
    for name in container.env:
        if not VARIABLE_NAME.fullmatch(name):
            yield Problem(f"{name!r} is not a valid variable name", (*base, "env", name))


# --- Settings of one site's LSF


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


# --- Settings of one site's PBS

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


# --- Settings of one site's Grid Engine


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
