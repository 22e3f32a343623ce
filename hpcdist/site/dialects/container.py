"""The container runtime of one site."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpcdist.documents import text_checks
from hpcdist.documents.fields import Model
from hpcdist.errors import Path, Problem
from hpcdist.site.conditions import Condition, ConditionalText, text_of
from hpcdist.words import VARIABLE_NAME

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
