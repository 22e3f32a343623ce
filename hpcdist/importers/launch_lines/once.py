"""Launches that hpcdist runs once, in files whose system would run them in every replica."""

from __future__ import annotations

from hpcdist.errors import Path
from hpcdist.experiment.launch.line import user_launch
from hpcdist.importers.reading import Reading


def refuse_in_each(read: Reading, command: str, total: int, path: Path, *, instead: str) -> bool:
    """Refuse such a launch where there are several replicas, and return whether it was one.

    ``instead`` is what to write; ``{program}`` in it is the launcher, ``{framework}`` what it would start.
    """
    launch = user_launch(command)
    if total == 1 or launch is None or launch.runs != "once":
        return False
    framework = "horovod" if launch.program == "horovodrun" else "mpi"
    hint = instead.format(program=launch.program, framework=framework)
    if launch.program == "deepspeed":
        hint = "write torchrun in its place, which runs in each of them"
    why = f"hpcdist runs a command with {launch.program} once, on the first node, and not in {total} replicas"
    read.refuse(*path, why=why, hint=hint)
    return True
