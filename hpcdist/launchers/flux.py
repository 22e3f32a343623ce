"""flux run: Flux starts the tasks itself, in the instance that it has made for the job.

Said explicitly, because Flux does it otherwise: ``exit-on-error`` (else the peers of a failed rank run on
for half a minute) and ``exit-timeout=none`` (else a rank that ends well ends the others half a minute
later). Tasks of different sizes are started by ``--tasks-per-node`` on whole nodes, where the task wrapper
divides them. A taskmap cannot change how many tasks a node has (flux-shell(1), TASKMAP).

Sources: flux-run(1), flux-shell-options(7) of flux-core 0.88.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpcdist.errors import PlanError, Problem
from hpcdist.launchers.counts import tasks_on_each_node
from hpcdist.plan import Plan, Word
from hpcdist.site import LauncherOptions, RankVariables

_ORIGIN: Final = "launcher flux"


class FluxRun:
    """Flux's own launcher."""

    name = "flux"
    rank_variables: RankVariables | None = RankVariables(
        rank="FLUX_TASK_RANK", size="FLUX_JOB_SIZE", local_rank="FLUX_TASK_LOCAL_ID"
    )
    schedulers = frozenset({"flux"})
    wires: frozenset[str] = frozenset()
    reads = frozenset({"mpi", "binding", "args", "rank_variables"})
    taken: frozenset[str] = frozenset(
        {
            "-n",
            "--ntasks",
            "-N",
            "--nodes",
            "--tasks-per-node",
            "-c",
            "--cores-per-task",
            "--gpus-per-task",
            "-g",
            "--exclusive",
            "-x",
            "--label-io",
        }
    )
    lists_cpus = False
    hostfile_line = "%s slots=%s"
    unequal_nodes = False
    brings_mpi = True
    gives_pmi = False  # it gives one, always; whether the program's MPI takes it no task can see
    labels_output = True

    def words(self, plan: Plan, options: LauncherOptions) -> tuple[Word, ...]:
        """Return ``flux run`` and its options.

        Raises:
            PlanError: where nodes hold different numbers of tasks, or Flux is to hand out GPUs that tasks
                share.
        """
        return tuple(_words(plan, options))


def _words(plan: Plan, options: LauncherOptions) -> Iterator[Word]:
    each = tasks_on_each_node(plan, "flux run puts the same number of tasks on every node")
    yield Word.raw("start_flux", _ORIGIN)
    shape = _equal(plan) if _is_equal(plan) else _any(plan, each)
    label = ("--label-io",) if plan.placement.size > 1 else ()
    for text in ("flux", "run", *shape, *label, "--setopt=exit-on-error", "--setopt=exit-timeout=none"):
        yield Word(text=text, origin=_ORIGIN)
    yield from _affinity(plan)
    if options.mpi:
        yield Word(text=f"--setopt=mpi={options.mpi}", origin=f"site {plan.site}: launchers.flux.mpi")
    for text in options.binding if plan.placement.is_even else ():
        yield Word(text=text, origin=f"site {plan.site}: launchers.flux.binding")
    yield from plan.launcher_args


def _is_equal(plan: Plan) -> bool:
    """Whether every task has the same CPUs and the same whole GPUs, so that Flux can count them a task."""
    shared = any(row.tasks_per_gpu > 1 for row in plan.placement.rows)
    alike = not plan.placement.groups[0].gpus or plan.placement.groups[0].gpus_per_task is not None
    return plan.placement.is_even and alike and not shared


def _equal(plan: Plan) -> Iterator[str]:
    group = plan.placement.groups[0]
    yield from (f"--nodes={plan.placement.nodes}", f"--ntasks={plan.placement.size}")
    yield f"--cores-per-task={group.cpus_per_task}"
    if group.gpus and _says_gpus(plan):
        yield f"--gpus-per-task={group.gpus_per_task}"


def _any(plan: Plan, each: int) -> Iterator[str]:
    yield from (f"--nodes={plan.placement.nodes}", f"--tasks-per-node={each}", "--exclusive")
    if (gpus := max(group.gpus for group in plan.placement.groups)) and _says_gpus(plan):
        yield f"--gpus-per-node={gpus}"


def _says_gpus(plan: Plan) -> bool:
    return plan.gpu_request != "none" or plan.gpu_visibility == "launcher"


def _affinity(plan: Plan) -> Iterator[Word]:
    """Yield who chooses the GPUs of a task: Flux, or the task wrapper among those of the node."""
    if not any(group.gpus for group in plan.placement.groups):
        return
    if plan.gpu_visibility == "launcher":
        if not _is_equal(plan):
            message = f"site {plan.site} hands out GPUs by flux run, which gives all tasks the same number"
            hint = "give all replicas the same resources, with at least one GPU a process"
            raise PlanError(Problem(message, ("environment", "replicas"), hint))
        yield Word(text="--setopt=gpu-affinity=per-task", origin=f"site {plan.site}: gpus.bound_by")
    elif not _says_gpus(plan) or plan.gpu_variable != "CUDA_VISIBLE_DEVICES":
        # Flux knows no other variable, and none that it was not asked for: it would say that there are none.
        yield Word(text="--setopt=gpu-affinity=off", origin=_ORIGIN)


FLUX_RUN: Final = FluxRun()
