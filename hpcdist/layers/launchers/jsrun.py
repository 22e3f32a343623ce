"""jsrun of IBM's Job Step Manager, on LSF machines with CSM (Summit, Lassen).

Tasks run in resource sets, each on one host. Where jsrun assigns the GPUs, a set is a task with its GPUs, or
the tasks that share one: CUDA_VISIBLE_DEVICES then counts from 0 in every set. Otherwise a set is a host, and
its tasks see all its GPUs. The whole environment is propagated, so that no variable is named (``-E``).

Tasks that do not form equal sets are listed in an explicit resource file, with their hardware threads. It has
the nine settings of IBM's page, as the files of real programs have (codar's savanna). RADICAL-Pilot left out
one core in such files on Summit, the first of the second socket, which jsrun refused there: ``ERF error: 1+
cpus are not available``. Sources: https://docs.olcf.ornl.gov/systems/summit_user_guide.html,
https://www.ibm.com/support/knowledgecenter/SSWRJV_10.1.0/jsm/jsrun.html and .../jsm/erf_format.html.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hpcdist.errors import PlanError, Problem, warning
from hpcdist.layers.launchers.plain import Plain
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.placement import Row
from hpcdist.plan.values import Origin, Word
from hpcdist.site.model import LauncherOptions, RankVariables

_ORIGIN = Origin("launcher", "jsrun")


class Sets(NamedTuple):
    """Equal resource sets: their number, the tasks, cores and GPUs of each, and how many fit on a host."""

    number: int
    tasks: int
    cores: int
    gpus: int
    per_host: int


class Jsrun(Plain):
    """The launcher of CSM machines."""

    name = "jsrun"
    program = "jsrun"
    version_words: tuple[str, ...] = ("--version",)
    rank_variables: RankVariables | None = RankVariables(
        rank="JSM_NAMESPACE_RANK", size="JSM_NAMESPACE_SIZE", local_rank="JSM_NAMESPACE_LOCAL_RANK"
    )
    schedulers = frozenset({"lsf"})
    site_options = frozenset({"binding", "args", "rank_variables", "threads_per_core"})
    reserved_options: frozenset[str] = frozenset(
        {
            "-n",
            "--nrs",
            "-a",
            "--tasks_per_rs",
            "-c",
            "--cpu_per_rs",
            "-g",
            "--gpu_per_rs",
            "-r",
            "--rs_per_host",
            "-d",
            "--launch_distribution",
            "-p",
            "--np",
            "-U",
            "--erf_input",
            "-X",
            "--exit_on_error",
        }
    )
    mpi_flavours: tuple[str, ...] = ("spectrum",)
    unequal_nodes = True
    can_go_on = True
    provides_mpi = True
    orders_nodes = True

    def words(self, job: PreparedJob, options: LauncherOptions) -> tuple[Word, ...]:
        """Return ``jsrun`` and its resource sets, or the file of unequal tasks.

        Raises:
            PlanError: for nodes of different types: the sets of one jsrun are equal.
        """
        if len(job.placement.groups) > 1:
            hint = "give all replicas the same resources, or `ps_on: worker_nodes`"
            raise PlanError(
                Problem("jsrun has no nodes of different types", ("environment", "replicas"), hint)
            )
        sets = equal_sets(job)
        shape = _of_sets(job, options, sets) if sets else _of_file(job, options)
        return (
            Word(text="jsrun", origin=_ORIGIN),
            *shape,
            # By default the other ranks of a failed one may run on until the time limit.
            Word(text=f"--exit_on_error={int(job.completion.kill_on_failure)}", origin=_ORIGIN),
            *job.arguments,
        )

    def advice(self, job: PreparedJob, options: LauncherOptions) -> Iterator[Problem]:
        """Yield a warning for a plan whose tasks do not form equal sets."""
        if equal_sets(job) is None:
            threads = options.threads_per_core
            yield warning(
                "the tasks are not alike on all nodes, so that jsrun reads their cores from an explicit "
                f"resource file (--erf_input): it counts {threads} hardware thread{'s' * (threads > 1)} a "
                "core (the site's `threads_per_core`), binds each task to its cores, whatever the site's "
                "`binding`, and was never tried on a real jsrun; Summit's refused files that named the first "
                "core of the second socket; the same resources for all replicas, as many on each node, need "
                "no file"
            )


def equal_sets(job: JobSpec) -> Sets | None:
    """Return the resource sets, None where the tasks do not form equal ones."""
    rows = job.placement.rows
    if len({(row.cpus, row.gpus, row.tasks_per_gpu) for row in rows}) > 1:
        return None
    runs = list(job.placement.tasks_per_node())
    on_each = [tasks for _, tasks in runs]
    # jsrun fills one host after the other, so that only the last may have fewer.
    if runs[1:] and (len(runs) > 2 or runs[1][0] > 1 or on_each[1] > on_each[0]):  # noqa: PLR2004 - all, the last
        return None
    first = rows[0]
    if first.gpus and job.gpus.visibility != "launcher":
        return _hosts(job, on_each, first)
    return _tasks(job, on_each, first)


def _tasks(job: JobSpec, on_each: list[int], row: Row) -> Sets | None:
    """Return a set for each task, or for the tasks that share a GPU."""
    share = row.tasks_per_gpu
    if any(tasks % share for tasks in on_each):
        return None
    return Sets(job.placement.size // share, share, share * row.cpus, row.gpus, on_each[0] // share)


def _hosts(job: JobSpec, on_each: list[int], row: Row) -> Sets | None:
    """Return a set for each host."""
    if len(on_each) > 1:
        return None
    group = job.placement.groups[0]
    return Sets(group.nodes, on_each[0], on_each[0] * row.cpus, group.gpus, 1)


def _of_sets(job: JobSpec, options: LauncherOptions, sets: Sets) -> Iterator[Word]:
    yield from (
        Word(text=text, origin=_ORIGIN)
        for text in (
            f"--nrs={sets.number}",
            f"--tasks_per_rs={sets.tasks}",
            f"--cpu_per_rs={sets.cores}",
            f"--gpu_per_rs={sets.gpus}",
            f"--rs_per_host={sets.per_host}",
            "--launch_distribution=packed",
            *(["--latency_priority=gpu-cpu"] if sets.gpus else []),
        )
    )
    if options.binding:
        yield from (
            Word(text=text, origin=Origin("site", job.identity.site, "launchers.jsrun.binding"))
            for text in options.binding
        )
    else:
        yield Word(text=f"--bind=packed:{sets.cores // sets.tasks}", origin=_ORIGIN)


def _of_file(job: JobSpec, options: LauncherOptions) -> Iterator[Word]:
    rows = job.placement.rows
    seen_by_all = job.gpus.visibility != "launcher" and any(row.gpus for row in rows)
    shared = seen_by_all or any(row.tasks_per_gpu > 1 for row in rows)
    words = f"{options.threads_per_core} {'allow' if shared else 'error'}"
    yield Word.raw(f'--erf_input="$(resources {words})"', Origin("rule", "jsrun: unequal tasks"))


JSRUN = Jsrun()
