"""Refuses launches that hpcdist runs once, in files whose system runs them in every replica."""

from __future__ import annotations

from hpcdist.errors import Path
from hpcdist.experiment.launch.line import user_launch
from hpcdist.importers.reading import Reading


def refuse_launch_per_replica(read: Reading, command: str, total: int, path: Path, *, advice: str) -> bool:
    """Refuse such a launch if there are several replicas; return whether it was refused.

    ``advice`` is the hint; ``{program}`` in it is the launcher, ``{framework}`` what it would start.
    """
    launch = user_launch(command)
    if total == 1 or launch is None or launch.runs != "once":
        return False
    framework = "horovod" if launch.program == "horovodrun" else "mpi"
    hint = advice.format(program=launch.program, framework=framework)
    if launch.program == "deepspeed":
        hint = "write torchrun instead, which runs in each replica"
    why = f"hpcdist runs a command with {launch.program} once, on the first node, and not in {total} replicas"
    read.refuse(*path, why=why, hint=hint)
    return True
