"""horovodrun: for machines without a launcher of their own, by ssh (gloo) or by mpirun (mpi).

The controller is always set: in an LSF job horovodrun 0.28.1 would start jsrun, which fails.
"""

from __future__ import annotations

from typing import Final

from hpcdist.layers.launchers.mpirun import MPIRUN
from hpcdist.layers.launchers.plain import Plain
from hpcdist.plan.model import PreparedJob, RemoteShell
from hpcdist.plan.values import Origin, Word
from hpcdist.site.model import LauncherOptions, RankVariables

_GLOO: Final = RankVariables(rank="HOROVOD_RANK", size="HOROVOD_SIZE", local_rank="HOROVOD_LOCAL_RANK")


class Horovodrun(Plain):
    """Horovod's own launcher, with one of its two controllers; gloo needs no MPI."""

    name = "horovodrun"
    program = "horovodrun"
    version_words: tuple[str, ...] = ("--version",)
    rank_variables: RankVariables | None = _GLOO
    schedulers = frozenset({"slurm", "local", "pbs", "lsf", "flux", "sge"})
    frameworks = frozenset({"horovod"})
    site_options = frozenset({"args", "rank_variables"})
    reserved_options: frozenset[str] = frozenset(
        {
            "-np",
            "--num-proc",
            "-H",
            "--hosts",
            "-hostfile",
            "--hostfile",
            "--gloo",
            "--mpi",
            "--min-np",
            "--max-np",
            "--min-num-proc",
            "--max-num-proc",
            "--host-discovery-script",
        }
    )
    unequal_nodes = True
    labels_output = True
    labels_single = True
    remote_shell: RemoteShell | None = "ssh"
    controller = "--gloo"
    hosts = '--hostfile "$HPCDIST_HOSTFILE"'

    def words(self, job: PreparedJob, options: LauncherOptions) -> tuple[Word, ...]:  # noqa: ARG002 - the protocol's
        """Return ``horovodrun`` with its controller and the option for its hosts."""
        origin = Origin("launcher", self.name)
        size = () if job.completion.elastic else ("-np", str(job.placement.size))
        texts = ("horovodrun", self.controller, *size)
        return (
            *(Word(text=text, origin=origin) for text in texts),
            Word.raw(self.hosts, origin),
            *job.arguments,
        )


class HorovodrunMpi(Horovodrun):
    """horovodrun that starts the machine's mpirun."""

    name = "horovodrun-mpi"
    rank_variables = MPIRUN.rank_variables
    provides_mpi = True
    controller = "--mpi"


class HorovodrunElastic(Horovodrun):
    """horovodrun for nodes that may be lost: a script of the job prints those that are left."""

    name = "horovodrun-elastic"
    rank_variables = None  # the number of tasks changes, so the plan gives them no ranks
    hosts = (  # words of sh -c
        "--host-discovery-script "
        "\"'${HPCDIST_PYTHON:-python3}' -ISB '$HPCDIST_RUN_DIR/runtime/elastic.py' nodes\""
    )


HOROVODRUN: Final = Horovodrun()
HOROVODRUN_MPI: Final = HorovodrunMpi()
HOROVODRUN_ELASTIC: Final = HorovodrunElastic()
