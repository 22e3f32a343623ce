"""PALS: the mpiexec of HPE Cray machines under PBS (Polaris, Aurora, Derecho), and under some Slurms.

Sources: HPE's own command line for PALS, ``cray mpiexec`` (github.com/Cray-HPE/craycli, cray/modules/pals),
the user guides of ALCF and NCAR. ``--env`` takes one word in the former (``K=V``) and two in the latter, so
the variables of the plan, which the script exports, are passed by ``--envall``, which all have. A failed rank
ends all of them (``--abort-on-failure``, the default) unless ``--no-abort-on-failure`` is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpcdist.layers.launchers.plain import Plain, cpus_of_tasks, origin_of, tasks_on_each_node, with_reports
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.values import Origin, Word
from hpcdist.site.model import LauncherOptions, RankVariables
from hpcdist.site.nodes import format_cpu_list

_ORIGIN: Final = Origin("launcher", "pals")


class Pals(Plain):
    """mpiexec of the Parallel Application Launch Service; its host file has one line a node."""

    name = "pals"
    program = "mpiexec"
    version_words: tuple[str, ...] = ("--version",)
    mpi_flavours: tuple[str, ...] = ("pals",)
    rank_variables: RankVariables | None = RankVariables(
        rank="PMI_RANK", size="PMI_SIZE", local_rank="PMI_LOCAL_RANK"
    )
    schedulers = frozenset({"pbs", "slurm"})
    site_options = frozenset({"binding", "args", "rank_variables"})
    reserved_options: frozenset[str] = frozenset(
        {"-n", "--np", "--ppn", "-N", "--hostfile", "--hosts", "--hostlist", "--envall", "--genvall"}
        | {"--abort-on-failure", "--no-abort-on-failure"}
    )
    can_go_on = True
    lists_cpus = True
    hostfile_line = "%s%.0s"  # the host alone; --ppn sets its number of tasks
    provides_mpi = True
    labels_output = False  # --label puts the host's name in front as well

    def words(self, job: PreparedJob, options: LauncherOptions) -> tuple[Word, ...]:
        """Return ``mpiexec`` with the number of tasks on each node and their CPU binding.

        Raises:
            PlanError: where nodes hold different numbers of tasks.
        """
        return with_reports(_words(job, options))


def _words(job: PreparedJob, options: LauncherOptions) -> Iterator[Word]:
    each = tasks_on_each_node(job, "PALS mpiexec puts the same number of tasks on every node (--ppn)")
    for text in ("mpiexec", "-n", str(job.placement.size), "--ppn", str(each)):
        yield Word(text=text, origin=_ORIGIN)
    yield Word.raw('--hostfile "$HPCDIST_HOSTFILE"', _ORIGIN)
    yield Word(text="--envall", origin=_ORIGIN)
    yield from _binding(job, options)
    if not job.completion.kill_on_failure:
        yield Word(text="--no-abort-on-failure", origin=_ORIGIN)
    yield from job.arguments


def _binding(job: JobSpec, options: LauncherOptions) -> Iterator[Word]:
    """Yield the CPU binding; by default PALS binds each task to one core."""
    group = job.placement.groups[0]
    if lists := [format_cpu_list(cpus) for cpus in cpus_of_tasks(job, group)]:
        for text in ("--cpu-bind", f"list:{':'.join(lists)}"):
            yield Word(text=text, origin=origin_of(job, group))
        return
    if job.placement.is_even:
        yield Word(text="--depth", origin=_ORIGIN)
        yield Word(text=str(group.cpus_per_task), origin=_ORIGIN)
    own = options.binding if job.placement.is_even else ()
    usual = ("--cpu-bind", "depth" if job.placement.is_even else "none")
    for text in own or usual:
        yield Word(
            text=text, origin=Origin("site", job.identity.site, "launchers.pals.binding") if own else _ORIGIN
        )


PALS: Final = Pals()
