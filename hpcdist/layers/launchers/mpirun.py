"""mpirun of Open MPI, with the job's own hostfile.

Binding is left to each task's shell and to OMP_NUM_THREADS: Open MPI would bind each rank to one core
(mpirun(1)). ``--map-by slot`` over the hostfile is the plan's rank order. Open MPI passes on ``OMPI_*`` by
itself (mpirun(1)). An MCA parameter that ``-x`` names after another is a contradiction for PRRTE, which then
starts nothing (``parse_env`` in its src/mca/schizo/ompi/schizo_ompi.c).
"""

from __future__ import annotations

from collections.abc import Iterator

from hpcdist.errors import PlanError
from hpcdist.layers.launchers.plain import Plain
from hpcdist.plan.model import PreparedJob, RemoteShell
from hpcdist.plan.values import Origin, Word
from hpcdist.site.model import LauncherOptions, RankVariables

_ORIGIN = Origin("launcher", "mpirun")
_STARTS_DAEMONS = frozenset({"slurm", "local"})
"""Schedulers under which mpirun starts its daemons without ssh, or needs none."""


class Mpirun(Plain):
    """Open MPI's launcher."""

    name = "mpirun"
    program = "mpirun"
    version_words: tuple[str, ...] = ("--version",)
    mpi_flavours: tuple[str, ...] = ("openmpi",)
    substitutes: tuple[str, ...] = ("horovodrun", "processes")
    rank_variables: RankVariables | None = RankVariables(
        rank="OMPI_COMM_WORLD_RANK", size="OMPI_COMM_WORLD_SIZE", local_rank="OMPI_COMM_WORLD_LOCAL_RANK"
    )
    schedulers = frozenset({"slurm", "local", "pbs", "lsf", "flux", "sge"})
    site_options = frozenset({"flavour", "binding", "mca", "args", "rank_variables"})
    reserved_options: frozenset[str] = frozenset(
        {
            "-n",
            "-np",
            "-c",
            "-N",
            "--n",
            "--np",
            "-H",
            "--host",
            "-hostfile",
            "--hostfile",
            "-machinefile",
            "--machinefile",
            "-npernode",
            "--npernode",
            "--map-by",
            "-map-by",
            "--rankfile",
            "-x",
        }
    )
    unequal_nodes = True
    provides_mpi = True
    remote_shell: RemoteShell | None = "agent"

    def words(self, job: PreparedJob, options: LauncherOptions) -> tuple[Word, ...]:
        """Return ``mpirun`` with the hostfile and every variable of the plan by name.

        Raises:
            PlanError: where the site's mpirun is not Open MPI's.
        """
        if options.flavour not in (None, "openmpi"):
            raise PlanError(
                f"site {job.identity.site}: the mpirun of {options.flavour} is not known yet; use srun there"
            )
        return tuple(_words(job, options))


def _words(job: PreparedJob, options: LauncherOptions) -> Iterator[Word]:
    for text in ("mpirun", "-np", str(job.placement.size)):
        yield Word(text=text, origin=_ORIGIN)
    hostfile = f"$hostfile_{job.launch.role}" if job.launch.role else "$HPCDIST_HOSTFILE"
    yield Word.raw(f'--hostfile "{hostfile}"', _ORIGIN)
    if job.identity.scheduler not in _STARTS_DAEMONS:
        # ssh finds orted on the other nodes only where it is on their login PATH; mpirun(1), --prefix.
        yield Word.raw(
            '--prefix "$(dirname "$(dirname "$(type -P mpirun)")")"', Origin("rule", "mpirun over ssh")
        )
    for text in ("--map-by", "slot"):
        yield Word(text=text, origin=_ORIGIN)
    bound = options.binding if job.placement.is_even else ()
    for text in bound or ("--bind-to", "none"):
        yield Word(
            text=text,
            origin=Origin("site", job.identity.site, "launchers.mpirun.binding") if bound else _ORIGIN,
        )
    if job.launch.components:
        # Open MPI sees only the first component of a Slurm heterogeneous job: start its daemons by ssh.
        for text in ("--mca", "plm", "rsh", "--mca", "ras", "^slurm"):
            yield Word(text=text, origin=Origin("rule", "mpirun over several components"))
    for key, value in options.mca.items():
        for text in ("--mca", key, str(value)):
            yield Word(text=text, origin=Origin("site", job.identity.site, f"launchers.mpirun.mca.{key}"))
    yield from job.arguments
    if job.placement.nodes > 1:  # tasks on this node inherit all variables
        yield Word.raw('"${exports[@]}"', Origin("default", "variables of the plan"))


MPIRUN = Mpirun()
