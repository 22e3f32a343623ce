"""Podman-HPC: NERSC's podman, with images that ``podman-hpc pull`` fetched beforehand.

Each task's shell starts one container. Variables are passed by name (``-e NAME``, ``-e PREFIX*``): with
``--env-host`` PATH and LD_LIBRARY_PATH would be the host's. Without the host's network no other node would
reach a task, and without its ``/dev/shm`` and process numbers NCCL and MPI would not find their neighbours.
podman-run(1); github.com/NERSC/podman-hpc, README and etc/modules.d: ``--gpu`` is for NVIDIA's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpcdist.experiment.sources import Image, image_error
from hpcdist.layers.containers.plain import Plain, args, mounted, options
from hpcdist.plan.model import Container, PreparedJob
from hpcdist.plan.values import Origin, Word
from hpcdist.site.settings import Runtime

_ORIGIN: Final = Origin("container", "podman-hpc")
_FAMILIES: Final = ("HPCDIST", "SLURM", "PMI", "PMIX", "PALS", "OMPI", "HOROVOD", "POLYAXON")
"""The prefixes of the variables of the run, of launchers, and of what they start."""
_HOST: Final = ("--net=host", "--ipc=host", "--pid=host")
_MPI: Final = ("--mpi", "--cuda-mpich", "--openmpi")
"""Options that imply those of ``_HOST``, which podman refuses to get twice."""


class PodmanHpc(Plain):
    """``podman-hpc run``."""

    name = "podman-hpc"
    program = "podman-hpc"
    in_workdir = True

    def image(self, image: Image) -> str:
        """Return the image as it is.

        Raises:
            PlanError: for anything but a registry's image.
        """
        if image.form != "registry":
            raise image_error(image, self.name, "write a registry's image; `podman-hpc pull NAME` fetches it")
        return image.text

    def words(self, job: PreparedJob, container: Container, runtime: Runtime) -> tuple[Word, ...]:
        """Return ``podman-hpc run`` with volumes, variables, GPUs and the image."""
        return tuple(_words(job, container, runtime))

    def entrypoint(self, container: Container) -> tuple[Word, ...]:
        """Return nothing: what follows the image are the arguments of its ENTRYPOINT, instead of its CMD."""
        del container
        return ()


def _words(job: PreparedJob, container: Container, runtime: Runtime) -> Iterator[Word]:
    gpu = ["--gpu"] if runtime.gpus and job.gpus.library == "nccl" else []
    by_mpi = any(word.text.startswith(_MPI) for word in args(job, runtime))
    for text in ("podman-hpc", "run", "--rm", *(() if by_mpi else _HOST), *gpu):
        yield Word(text=text, origin=_ORIGIN)
    for bind in container.binds:
        yield mounted("--volume=", bind)
    if container.workdir:
        yield Word(text=f"--workdir={container.workdir}", origin=_ORIGIN)
    elif not container.entrypoint:
        yield Word.raw('--workdir="$PWD"', _ORIGIN)
    for name in dict.fromkeys(_names(job)):
        yield Word(text=f"--env={name}", origin=_ORIGIN)
    yield from options(job, container, runtime)
    yield from args(job, runtime)
    yield Word(text=container.image, origin=job.origins["image"])


def _names(job: PreparedJob) -> Iterator[str]:
    families = tuple(f"{family}_" for family in _FAMILIES)
    yield from (f"{family}*" for family in families)
    own = (variable.name for variable in (*job.environment.variables, *job.environment.task_variables))
    yield from (name for name in own if not name.startswith(families))
    yield "OMP_NUM_THREADS"
    if job.gpus.library:
        yield job.gpus.variable


PODMAN_HPC: Final = PodmanHpc()
