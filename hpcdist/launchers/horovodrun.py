"""horovodrun: for machines without a launcher of their own, over ssh (gloo) or over mpirun (mpi).

The controller is always said: inside LSF horovodrun 0.28.1 takes its jsrun path by itself, which fails.
"""

from __future__ import annotations

from typing import Final, Literal

from hpcdist.launchers.mpirun import MPIRUN
from hpcdist.plan import Plan, Word
from hpcdist.site import LauncherOptions, RankVariables

_GLOO: Final = RankVariables(rank="HOROVOD_RANK", size="HOROVOD_SIZE", local_rank="HOROVOD_LOCAL_RANK")


class Horovodrun:
    """Horovod's own launcher, with one of its two controllers; gloo needs no MPI."""

    schedulers = frozenset({"slurm", "local"})
    hostfile_line = "%s slots=%s"
    gives_pmi = False
    labels_output = True

    def __init__(self, name: str, controller: Literal["gloo", "mpi"]) -> None:
        self.name = name
        self.controller = controller
        self.brings_mpi = controller == "mpi"
        self.rank_variables: RankVariables | None = _GLOO if controller == "gloo" else MPIRUN.rank_variables

    def words(self, plan: Plan, options: LauncherOptions) -> tuple[Word, ...]:
        """Return ``horovodrun`` with its controller and its hostfile."""
        origin = f"launcher {self.name}"
        texts = ("horovodrun", f"--{self.controller}", "-np", str(plan.placement.size))
        site = f"site {plan.site}: launchers.{self.name}.args"
        return (
            *(Word(text=text, origin=origin) for text in texts),
            Word.raw('--hostfile "$HPCDIST_HOSTFILE"', origin),
            *(Word(text=text, origin=site) for text in options.args),
        )


HOROVODRUN: Final = Horovodrun("horovodrun", "gloo")
HOROVODRUN_MPI: Final = Horovodrun("horovodrun-mpi", "mpi")
