"""Hydra: the mpiexec of MPICH, and of Intel MPI, which is derived from it.

``-machinefile`` with ``host:n`` is the plan's rank order in both, and takes unequal nodes. Hydra itself finds
out how to reach the nodes (ssh, srun, blaunch, ...); a site can set it by ``args: [-launcher, ssh]``.
Binding: MPICH's ``-bind-to none``; Intel's is a variable, ``I_MPI_PIN``, which the script sets.

Sources: ``mpiexec.hydra -help`` of MPICH 4.0.2, with which all of this was tried; Intel MPI Developer
Reference 2021.15, "Global Hydra Options" and "Process Pinning".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpcdist.layers.launchers.plain import Plain
from hpcdist.plan.model import PreparedJob, RemoteShell
from hpcdist.plan.values import Origin, Word
from hpcdist.site.model import LauncherOptions, RankVariables

_ORIGIN: Final = Origin("launcher", "hydra")


class Hydra(Plain):
    """mpiexec.hydra, with the job's own machine file."""

    name = "hydra"
    program = "mpiexec"
    version_words: tuple[str, ...] = ("--version",)
    mpi_flavours: tuple[str, ...] = ("mpich", "intel")
    rank_variables: RankVariables | None = RankVariables(
        rank="PMI_RANK", size="PMI_SIZE", local_rank="MPI_LOCALRANKID"
    )
    schedulers = frozenset({"slurm", "local", "pbs", "lsf", "flux", "sge"})
    site_options = frozenset({"flavour", "binding", "args", "rank_variables"})
    reserved_options: frozenset[str] = frozenset(
        {
            "-n",
            "-np",
            "-f",
            "-host",
            "-hosts",
            "-hostfile",
            "-machinefile",
            "-ppn",
            "-perhost",
            "-rr",
            "-grr",
            "-genvlist",
            "-genvall",
            "-envlist",
        }
    )
    hostfile_line = "%s:%s"
    unequal_nodes = True
    provides_mpi = True
    labels_output = False  # -prepend-rank writes [0] before each piece of output, not before each line
    remote_shell: RemoteShell | None = "agent"

    def words(self, job: PreparedJob, options: LauncherOptions) -> tuple[Word, ...]:
        """Return ``mpiexec.hydra`` with the machine file and every variable of the plan by name."""
        return tuple(_words(job, options))


def _words(job: PreparedJob, options: LauncherOptions) -> Iterator[Word]:
    yield Word(text="mpiexec.hydra", origin=_ORIGIN)
    hostfile = f"$hostfile_{job.launch.role}" if job.launch.role else "$HPCDIST_HOSTFILE"
    hosts = f'-machinefile "{hostfile}" -genvlist'
    yield Word.raw(f'{hosts} "$exports"', _ORIGIN)
    if job.launch.components:
        # srun inside the job starts on its first component only.
        for text in ("-launcher", "ssh"):
            yield Word(text=text, origin=Origin("rule", "hydra over several components"))
    bound = options.binding if job.placement.is_even else ()
    usual = () if options.flavour == "intel" else ("-bind-to", "none")
    for text in bound or usual:
        yield Word(
            text=text,
            origin=Origin("site", job.identity.site, "launchers.hydra.binding") if bound else _ORIGIN,
        )
    yield from job.arguments
    for text in ("-n", str(job.placement.size)):
        yield Word(text=text, origin=_ORIGIN)


HYDRA: Final = Hydra()
