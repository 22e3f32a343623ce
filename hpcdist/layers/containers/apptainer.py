"""Apptainer, and Singularity, which is the same under another name.

Each task's shell starts it, so that it runs once a task, with all variables of the task: Apptainer passes on
all but HOME, PATH and LD_LIBRARY_PATH. apptainer-exec(1); apptainer.org/docs/user, "Environment and
Metadata", "GPU Support" and "Bind Paths and Mounts". ``--pwd`` names the folder as it is bound: its path
without symbolic links may not exist inside.

``apptainer run`` starts ``/.singularity.d/runscript``: of an image of Docker, its ENTRYPOINT and CMD
(apptainer/apptainer, ``action_script.sh`` and ``conveyorPacker_oci.go``). A shell would read the arguments
a second time there but for ``--no-eval`` (Apptainer 1.1, SingularityCE 3.10), which a variable sets, as
earlier versions refuse the option. The image's WORKDIR is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpcdist.experiment.sources import Image, image_error
from hpcdist.layers.containers.plain import Plain, args, mounted
from hpcdist.plan.model import Container, JobSpec, PreparedJob
from hpcdist.plan.values import Origin, Word
from hpcdist.site.settings import Runtime

_GPUS: Final = {"nccl": ("--nv",), "rccl": ("--rocm",)}
"""The options that bind the driver's libraries; devices, and so Intel's GPUs, are visible without one."""
_RUNSCRIPT: Final = "/.singularity.d/runscript"


class Apptainer(Plain):
    """``apptainer exec``; it takes files of all kinds, folders, and whatever it can fetch."""

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
        """Return ``apptainer pull`` for what is no file: each task would fetch and unpack it."""
        return ("sif", self.program, "pull", "--force", container.image) if "://" in container.image else ()

    def words(self, job: PreparedJob, container: Container, runtime: Runtime) -> tuple[Word, ...]:
        """Return ``apptainer exec`` with the binds, the GPUs and the image."""
        return tuple(self._words(job, container, runtime))

    def entrypoint(self, container: Container) -> tuple[Word, ...]:
        """Return the image's runscript."""
        del container
        return (Word(text=_RUNSCRIPT, origin=Origin("container", self.name)),)

    def _words(self, job: JobSpec, container: Container, runtime: Runtime) -> Iterator[Word]:
        origin = Origin("container", self.name)
        gpus = _GPUS.get(job.gpus.library or "", ()) if runtime.gpus else ()
        no_eval = ("env", f"{self.program.upper()}_NO_EVAL=1") if container.entrypoint else ()
        for text in (*no_eval, self.program, "exec", *gpus):
            yield Word(text=text, origin=origin)
        for bind in container.binds:
            yield mounted("--bind ", bind)
        if container.workdir:
            yield from (Word(text=text, origin=origin) for text in ("--pwd", container.workdir))
        else:
            yield Word.raw('--pwd "$PWD"', origin)
        yield from args(job, runtime)
        if container.fetch:
            yield Word.raw('"$hpcdist_image"', job.origins["image"])
        else:
            yield Word(text=container.image, origin=job.origins["image"])


APPTAINER: Final = Apptainer("apptainer")
SINGULARITY: Final = Apptainer("singularity")
