"""Shifter: images of its gateway, where users pull them beforehand (``shifterimg pull``).

Each task's shell starts it, once a task. All variables are passed on, but one that the image sets keeps the
image's value. The machine's file systems are inside by its own configuration (``siteFs``), so only the
binds of the site file and of the experiment are options. GPUs and NCCL's plug-in are made visible by
modules of the site (``args: [--module=gpu,nccl-plugin]``). github.com/NERSC/shifter,
doc/command/shifter.rst and src/shifter.c: without ``--workdir`` it would start in the image's folder.

``--entrypoint`` needs an image with an ENTRYPOINT; one with a CMD alone is refused there (src/shifter_core.c,
``calculate_args``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpcdist.experiment.sources import Image, image_error
from hpcdist.layers.containers.plain import Plain, args, options
from hpcdist.plan.model import Container, PreparedJob
from hpcdist.plan.values import Origin, Word
from hpcdist.site.settings import Runtime

_ORIGIN: Final = Origin("container", "shifter")


class Shifter(Plain):
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

    def words(self, job: PreparedJob, container: Container, runtime: Runtime) -> tuple[Word, ...]:
        """Return ``shifter`` with the image and the site's volumes."""
        return tuple(_words(job, container, runtime))

    def entrypoint(self, container: Container) -> tuple[Word, ...]:
        """Return nothing: ``--entrypoint`` starts it, with what follows instead of the image's CMD."""
        del container
        return ()


def _words(job: PreparedJob, container: Container, runtime: Runtime) -> Iterator[Word]:
    yield Word(text="shifter", origin=_ORIGIN)
    yield Word(text=f"--image={container.image}", origin=job.origins["image"])
    for bind in container.binds:
        if bind.origin.key == f"{container.key}.binds" or bind.origin.kind == "place":
            yield Word.raw(f'--volume="{bind.text}"', bind.origin)
    if container.workdir:
        yield Word(text=f"--workdir={container.workdir}", origin=_ORIGIN)
    else:
        yield Word.raw('--workdir="$PWD"', _ORIGIN)
    yield from options(job, container, runtime)
    yield from args(job, runtime)
    for text in ("--entrypoint", "--") if container.entrypoint else ():
        yield Word(text=text, origin=_ORIGIN)


SHIFTER: Final = Shifter()
