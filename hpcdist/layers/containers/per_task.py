"""Container runtimes that each task's shell starts: Apptainer and Singularity, Shifter, Podman-HPC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpcdist.experiment.sources import Image, image_error
from hpcdist.layers.containers import PlainRuntime, entrypoint_options, mount_option, site_args
from hpcdist.plan.model import Container, PreparedJob
from hpcdist.plan.values import Word
from hpcdist.site.settings import Runtime

# --- Apptainer, and Singularity, which is the same under another name
#
# Each task's shell starts it, once per task, with all variables of the task: Apptainer passes
# on all but HOME, PATH and LD_LIBRARY_PATH. apptainer-exec(1); apptainer.org/docs/user, "Environment and
# Metadata", "GPU Support" and "Bind Paths and Mounts". ``--pwd`` names the folder as it is bound: its path
# without symbolic links may not exist inside.
#
# ``apptainer run`` starts ``/.singularity.d/runscript``: of an image of Docker, its ENTRYPOINT and CMD
# (apptainer/apptainer, ``action_script.sh`` and ``conveyorPacker_oci.go``). A shell would read the arguments
# again there without ``--no-eval`` (Apptainer 1.1, SingularityCE 3.10), which a variable sets, as
# earlier versions refuse the option. The image's WORKDIR is not kept.

_GPUS: Final = {"nccl": ("--nv",), "rccl": ("--rocm",)}
"""The options that bind the driver's libraries; devices, and so Intel's GPUs, are visible without one."""


class Apptainer(PlainRuntime):
    """``apptainer exec``; it accepts files of all kinds, folders, and any image that it can fetch."""

    in_workdir = False

    def __init__(self, name: str) -> None:
        self.name = self.program = name

    def image(self, image: Image) -> str:
        """Return the image with its scheme.

        Raises:
            PlanError: for an environment of another runtime.
        """
        if image.is_environment:
            raise image_error(
                image, self.name, "write the image that it names, and its mounts as `build.binds`"
            )
        return f"docker://{image.text}" if image.form == "registry" else image.text

    def fetch(self, container: Container) -> tuple[str, ...]:
        """Return ``apptainer pull``, unless the image is a file: each task would fetch and unpack it."""
        return ("sif", self.program, "pull", "--force", container.image) if "://" in container.image else ()

    def entrypoint(self, container: Container) -> tuple[Word, ...]:
        """Return the image's runscript."""
        del container
        return (*self.own("/.singularity.d/runscript"),)

    def words(self, job: PreparedJob, container: Container, runtime: Runtime) -> Iterator[Word]:
        """Yield ``apptainer exec`` with the binds, the GPUs and the image."""
        gpus = _GPUS.get(job.gpus.library or "", ()) if runtime.gpus else ()
        no_eval = ("env", f"{self.program.upper()}_NO_EVAL=1") if container.entrypoint else ()
        yield from self.own(*no_eval, self.program, "exec", *gpus)
        for bind in container.binds:
            yield mount_option("--bind ", bind)
        if container.workdir:
            yield from self.own("--pwd", container.workdir)
        else:
            yield Word.raw('--pwd "$PWD"', self.origin)
        yield from site_args(job, runtime)
        if container.fetch:
            yield Word.raw('"$hpcdist_image"', job.origins["image"])
        else:
            yield Word(text=container.image, origin=job.origins["image"])


# --- Shifter: images of its gateway, where users pull them beforehand (``shifterimg pull``)
#
# Each task's shell starts it. All variables are passed on, but one that the image sets keeps the
# image's value. The machine's file systems are inside by its own configuration (``siteFs``), so only the
# binds of the site file and of the experiment are options. GPUs and NCCL's plug-in are made visible by
# modules of the site (``args: [--module=gpu,nccl-plugin]``). github.com/NERSC/shifter,
# doc/command/shifter.rst and src/shifter.c: without ``--workdir`` it would start in the image's folder.
#
# ``--entrypoint`` needs an image with an ENTRYPOINT; one with a CMD alone is refused there
# (src/shifter_core.c, ``calculate_args``).


class Shifter(PlainRuntime):
    """``shifter --image``."""

    name = "shifter"
    program = "shifter"
    in_workdir = False

    def image(self, image: Image) -> str:
        """Return the image with its type, ``docker:NAME``.

        Raises:
            PlanError: for anything but a registry's image.
        """
        if image.form != "registry":
            raise image_error(image, self.name, "write a registry's image; `shifterimg pull NAME` fetches it")
        return f"docker:{image.text}"

    def entrypoint(self, container: Container) -> tuple[Word, ...]:
        """Return nothing: ``--entrypoint`` starts it, and the words after it replace the image's CMD."""
        del container
        return ()

    def words(self, job: PreparedJob, container: Container, runtime: Runtime) -> Iterator[Word]:
        """Yield ``shifter`` with the image and the site's volumes."""
        yield from self.own("shifter")
        yield Word(text=f"--image={container.image}", origin=job.origins["image"])
        for bind in container.binds:
            if bind.origin.key == f"{container.key}.binds" or bind.origin.kind == "place":
                yield Word.raw(f'--volume="{bind.text}"', bind.origin)
        if container.workdir:
            yield from self.own(f"--workdir={container.workdir}")
        else:
            yield Word.raw('--workdir="$PWD"', self.origin)
        yield from entrypoint_options(job, container, runtime)
        yield from site_args(job, runtime)
        yield from self.own(*["--entrypoint", "--"] * container.entrypoint)


# --- Podman-HPC: NERSC's podman, with images that ``podman-hpc pull`` fetched beforehand
#
# Each task's shell starts one container. Variables are passed by name (``-e NAME``, ``-e PREFIX*``): with
# ``--env-host`` PATH and LD_LIBRARY_PATH would be the host's. Without the host's network no other node would
# reach a task, and without its ``/dev/shm`` and process numbers NCCL and MPI would not find their neighbours.
# podman-run(1); github.com/NERSC/podman-hpc, README and etc/modules.d: ``--gpu`` is for NVIDIA's.

_FAMILIES: Final = ("HPCDIST", "SLURM", "PMI", "PMIX", "PALS", "OMPI", "HOROVOD", "POLYAXON")
"""The prefixes of the variables of the run, of launchers, and of what they start."""
_HOST: Final = ("--net=host", "--ipc=host", "--pid=host")
_MPI: Final = ("--mpi", "--cuda-mpich", "--openmpi")
"""Options that imply the ones in ``_HOST``, which podman refuses to get twice."""


class PodmanHpc(PlainRuntime):
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

    def entrypoint(self, container: Container) -> tuple[Word, ...]:
        """Return nothing: what follows the image are the arguments of its ENTRYPOINT, instead of its CMD."""
        del container
        return ()

    def words(self, job: PreparedJob, container: Container, runtime: Runtime) -> Iterator[Word]:
        """Yield ``podman-hpc run`` with volumes, variables, GPUs and the image."""
        gpu = ["--gpu"] * (runtime.gpus and job.gpus.library == "nccl")
        by_mpi = any(word.text.startswith(_MPI) for word in site_args(job, runtime))
        yield from self.own("podman-hpc", "run", "--rm", *(() if by_mpi else _HOST), *gpu)
        for bind in container.binds:
            yield mount_option("--volume=", bind)
        if container.workdir:
            yield from self.own(f"--workdir={container.workdir}")
        elif not container.entrypoint:
            yield Word.raw('--workdir="$PWD"', self.origin)
        yield from self.own(*(f"--env={name}" for name in dict.fromkeys(_names(job))))
        yield from entrypoint_options(job, container, runtime)
        yield from site_args(job, runtime)
        yield Word(text=container.image, origin=job.origins["image"])


def _names(job: PreparedJob) -> Iterator[str]:
    families = tuple(f"{family}_" for family in _FAMILIES)
    yield from (f"{family}*" for family in families)
    own = (variable.name for variable in (*job.environment.variables, *job.environment.task_variables))
    yield from (name for name in own if not name.startswith(families))
    yield "OMP_NUM_THREADS"
    if job.gpus.library:
        yield job.gpus.variable


APPTAINER: Final = Apptainer("apptainer")
SINGULARITY: Final = Apptainer("singularity")
SHIFTER: Final = Shifter()
PODMAN_HPC: Final = PodmanHpc()
