"""What containers run by on one site."""

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
    """The container runtime of a machine, and what it is told beside the image.

    ``runtime``: ``apptainer``, ``singularity``, ``pyxis``, ``shifter`` or ``podman-hpc``. ``binds`` are
    further folders and files that programs find inside, such as the fabric's libraries: ``SRC``, ``SRC:DST``
    or ``SRC:DST:ro``, where ``$NAME`` is a variable of the job. ``args`` are words for the runtime (for
    pyxis: for srun). ``gpu_args`` are those of jobs with GPUs only. ``gpus``: the runtime brings the driver's
    libraries inside (``--nv``, ``--rocm``, ``--gpu``); false where images have all that they need. ``setup``
    are lines of shell before a container's start. ``library_path``: folders that
    come first in its LD_LIBRARY_PATH, whatever the image says; ``$NAME`` is a variable of the job there, too.
    ``env`` are variables of the inside only.
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
    """Yield what no type can say of the section ``container``."""
    for index, bind in enumerate(container.binds):
        if not _BIND.fullmatch(bind):
            hint = "write SRC, SRC:DST or SRC:DST:ro, with letters, digits and $NAME only"
            yield Problem(f"{bind!r} cannot be bound", ("container", "binds", index), hint)
    for index, folder in enumerate(container.library_path):
        if not re.fullmatch(_PART, folder):
            hint = "write one folder, with letters, digits and $NAME only"
            yield Problem(
                f"{folder!r} cannot be a library's folder", ("container", "library_path", index), hint
            )
    for name in container.env:
        if not VARIABLE_NAME.fullmatch(name):
            yield Problem(f"{name!r} is not a valid variable name", ("container", "env", name))
