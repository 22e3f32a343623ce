"""Pyxis: srun itself starts the tasks in the image, by enroot (github.com/NVIDIA/pyxis, wiki, "Usage").

The task wrapper runs inside, so the image needs bash and the usual small programs (sed, getent). Variables of
the job are passed on, but one that the image sets keeps the image's value unless ``--container-env`` names it
(pyxis 0.15). Enroot's hook makes the GPUs visible.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpcdist.experiment.image import Image, refused
from hpcdist.layers.containers.site_words import args
from hpcdist.plan.model import Container, Environment, JobSpec, PreparedJob
from hpcdist.plan.origin import Origin
from hpcdist.plan.values import Word
from hpcdist.site.dialects.container import Runtime

_ORIGIN: Final = Origin("container", "pyxis")


class Pyxis:
    """``srun --container-image``; images of registries, and files in enroot's own format."""

    name = "pyxis"
    program = ""
    launchers: frozenset[str] = frozenset({"srun"})

    def image(self, image: Image) -> str:
        """Return the image as enroot names it: ``REGISTRY#NAME``; a file begins with ``.`` or ``/``.

        Raises:
            PlanError: for another format, or a digest, which enroot's names have no place for.
        """
        if image.form == "file" and image.text.endswith((".sqsh", ".squashfs")):
            return image.text if image.text.startswith((".", "/")) else f"./{image.text}"
        if image.form != "registry":
            hint = "write a registry's image, or a file that `enroot import -o x.sqsh docker://...` made"
            raise refused(image, self.name, hint)
        if "@" in image.text:
            raise refused(image, self.name, "write its tag (NAME:TAG)")
        return image.text.replace("/", "#", 1) if image.host else image.text

    def launcher_words(
        self, job: JobSpec, container: Container, environment: Environment, runtime: Runtime
    ) -> tuple[Word, ...]:
        """Return srun's options."""
        return tuple(_words(job, container, environment, runtime))

    def words(self, job: PreparedJob, container: Container, runtime: Runtime) -> tuple[Word, ...]:
        """Return nothing: all that srun starts is inside already."""
        del job, container, runtime
        return ()


def _words(job: JobSpec, container: Container, environment: Environment, runtime: Runtime) -> Iterator[Word]:
    yield Word(text=f"--container-image={container.image}", origin=job.origins["image"])
    mounts = ",".join(bind.text for bind in container.binds)
    yield Word.raw(f'--container-mounts="{mounts}"', _ORIGIN)
    yield Word.raw('--container-workdir="$PWD"', _ORIGIN)
    names = [item.name for item in environment.variables if not item.name.startswith("POLYAXON_")]
    yield Word(text=f"--container-env={','.join(names)}", origin=_ORIGIN)
    yield from args(job, runtime)


PYXIS: Final = Pyxis()
