"""horovodrun: for machines without a launcher of their own; gloo over ssh, or Horovod's own mpirun line."""

from __future__ import annotations

from hpcdist.plan import Plan, RankVariables, Word
from hpcdist.site import LauncherOptions

_ORIGIN = "launcher horovodrun"


class Horovodrun:
    """Horovod's launcher with the gloo controller, which needs no MPI.

    The controller is always said: inside LSF horovodrun 0.28.1 takes its jsrun path, which fails.
    """

    name = "horovodrun"
    rank_variables: RankVariables | None = RankVariables(
        rank="HOROVOD_RANK", size="HOROVOD_SIZE", local_rank="HOROVOD_LOCAL_RANK"
    )
    schedulers = frozenset({"slurm", "local"})
    hostfile_line = "%s slots=%s"
    brings_mpi = False
    labels_output = True

    def words(self, plan: Plan, options: LauncherOptions) -> tuple[Word, ...]:
        """Return ``horovodrun`` with its hostfile."""
        site = [
            Word(text=text, origin=f"site {plan.site}: launchers.horovodrun.args") for text in options.args
        ]
        return (
            Word(text="horovodrun", origin=_ORIGIN),
            Word(text="--gloo", origin=_ORIGIN),
            Word(text="-np", origin=_ORIGIN),
            Word(text=str(plan.placement.size), origin=_ORIGIN),
            Word.raw('--hostfile "$HPCDIST_HOSTFILE"', _ORIGIN),
            *site,
        )


HOROVODRUN = Horovodrun()
