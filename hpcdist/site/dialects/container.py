"""The container runtime of one site."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpcdist.documents.fields import Model
from hpcdist.errors import Problem
from hpcdist.words import VARIABLE_NAME

_PART: Final = r"(?:[A-Za-z0-9_./+@=-]|\$[A-Za-z_]\w*|\$\{[A-Za-z_]\w*\})+"
_BIND: Final = re.compile(rf"{_PART}(?::{_PART}){{0,2}}")


class Runtime(Model, frozen=True, kw_only=True):
    """The container runtime of a machine, and its settings beside the image.

    ``runtime``: ``apptainer``, ``singularity``, ``pyxis``, ``shifter`` or ``podman-hpc``. ``binds``:
    further folders and files to mount, such as the fabric's libraries: ``SRC``, ``SRC:DST`` or
    ``SRC:DST:ro``, where ``$NAME`` is a variable of the job. ``args``: arguments of the runtime (for pyxis:
    of srun). ``gpu_args``: arguments for jobs with GPUs only. ``gpus``: the runtime mounts the driver's
    libraries (``--nv``, ``--rocm``, ``--gpu``); false if the images contain all that they need. ``setup``:
    lines of bash that run before the container starts. ``library_path``: folders at the front of its
    LD_LIBRARY_PATH, whatever the image sets; ``$NAME`` is a variable of the job there, too. ``env``:
    variables inside the container only.
    """

    runtime: str
    binds: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    gpu_args: tuple[str, ...] = ()
    gpus: bool = True
    setup: tuple[str, ...] = ()
    library_path: tuple[str, ...] = ()
    env: dict[str, str | int | float | bool] = {}


def problems_of(container: Runtime) -> Iterator[Problem]:
    """Yield the problems of the section ``container`` that its types do not exclude."""
    for index, bind in enumerate(container.binds):
        if not _BIND.fullmatch(bind):
            hint = "write SRC, SRC:DST or SRC:DST:ro, with letters, digits and $NAME only"
            yield Problem(f"{bind!r} is not a valid bind", ("container", "binds", index), hint)
    for index, folder in enumerate(container.library_path):
        if not re.fullmatch(_PART, folder):
            hint = "write one folder, with letters, digits and $NAME only"
            yield Problem(
                f"{folder!r} is not a valid folder of libraries", ("container", "library_path", index), hint
            )
    for name in container.env:
        if not VARIABLE_NAME.fullmatch(name):
            yield Problem(f"{name!r} is not a valid variable name", ("container", "env", name))
