"""flux run: Flux starts the tasks itself, in the instance that it has made for the job.

Set explicitly, because they are not Flux's defaults: ``exit-on-error`` (by default the other ranks of a
failed one run on for half a minute), ``exit-timeout=none`` (by default a rank that ends well has the others
ended half a minute later) and ``cpu-affinity=per-task`` (by default each task may run on the cores of all).
``--signal`` stands here and not at flux batch, whose signal ends the brokers of all nodes but the first.

Equal tasks are distributed by ``--nodes`` and ``--ntasks`` as evenly as possible, and the first nodes get one
more (``rcalc_distribute``; five tasks on three nodes gave 2 + 2 + 1). Unequal tasks are started on whole
nodes, whose CPUs and GPUs each task's shell assigns. Where nodes hold different numbers of tasks, a taskmap
sets these numbers; Flux before 0.75 ends with ``invalid taskmap`` there.

Sources: flux-run(1), flux-shell-options(7), src/shell/rcalc.c and src/shell/info.c of flux-core 0.88; RFC 34.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hpcdist.errors import PlanError, Problem
from hpcdist.layers.launchers.plain import Plain
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.values import Origin, Word
from hpcdist.site.model import LauncherOptions, RankVariables

_ORIGIN: Final = Origin("launcher", "flux")
_BINDING: Final = "--setopt=cpu-affinity=per-task"


class FluxRun(Plain):
    """Flux's own launcher."""

    name = "flux"
    program = "flux"
    version_words: tuple[str, ...] = ("version",)
    rank_variables: RankVariables | None = RankVariables(
        rank="FLUX_TASK_RANK", size="FLUX_JOB_SIZE", local_rank="FLUX_TASK_LOCAL_ID"
    )
    schedulers = frozenset({"flux"})
    site_options = frozenset({"mpi", "binding", "args", "rank_variables"})
    reserved_options: frozenset[str] = frozenset(
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
            "--taskmap",
            "--label-io",
        }
    )
    unequal_nodes = True
    bare_options = "luvx"
    can_go_on = True
    provides_mpi = True
    provides_pmi = False  # it always provides one; no task can check whether the program's MPI uses it
    labels_output = True

    def words(self, job: PreparedJob, options: LauncherOptions) -> tuple[Word, ...]:
        """Return ``flux run`` and its options.

        Raises:
            PlanError: where Flux assigns GPUs, and tasks share them or have different numbers of them.
        """
        return tuple(_words(job, options))


def _words(job: PreparedJob, options: LauncherOptions) -> Iterator[Word]:
    by_task = _can_request_by_task(job)
    shape = _by_task(job) if by_task else _whole_nodes(job)
    label = ("--label-io",) if job.labels_output else ()
    ends = ("--setopt=exit-on-error",) * job.completion.kill_on_failure
    for text in ("flux", "run", *shape, *label, *ends, "--setopt=exit-timeout=none"):
        yield Word(text=text, origin=_ORIGIN)
    if job.request.signal is not None:
        origin = job.origins.get("signal", _ORIGIN)
        yield Word(text=f"--signal={job.request.signal.of_tasks}", origin=origin)
    yield from _affinity(job)
    if options.mpi:
        yield Word(
            text=f"--setopt=mpi={options.mpi}", origin=Origin("site", job.identity.site, "launchers.flux.mpi")
        )
    if by_task or job.placement.is_even:
        origin = Origin("site", job.identity.site, "launchers.flux.binding") if options.binding else _ORIGIN
        yield from (Word(text=text, origin=origin) for text in options.binding or (_BINDING,))
    yield from job.arguments


def _can_request_by_task(job: JobSpec) -> bool:
    """Whether CPUs and GPUs can be requested per task: all tasks have the same, and none shares a GPU."""
    rows, counts = job.placement.rows, [tasks for _, tasks in job.placement.tasks_per_node()]
    alike = len(job.placement.groups) == 1 and len({(row.cpus, row.gpus) for row in rows}) == 1
    spread = counts == sorted(counts, reverse=True) and counts[0] - counts[-1] <= 1
    return alike and spread and all(row.tasks_per_gpu == 1 for row in rows)


def _by_task(job: JobSpec) -> Iterator[str]:
    row = job.placement.rows[0]
    yield from (f"--nodes={job.placement.nodes}", f"--ntasks={job.placement.size}")
    yield f"--cores-per-task={row.cpus}"
    if row.gpus and _requests_gpus(job):
        yield f"--gpus-per-task={row.gpus}"


def _whole_nodes(job: JobSpec) -> Iterator[str]:
    runs = list(job.placement.tasks_per_node())
    yield f"--nodes={job.placement.nodes}"
    if len(runs) > 1:
        # Without GPU options: --gpus-per-node excludes --ntasks, and whole nodes come with their GPUs.
        yield from (f"--ntasks={job.placement.size}", "--exclusive", f"--taskmap=manual:{_taskmap(runs)}")
        return
    yield from (f"--tasks-per-node={runs[0][1]}", "--exclusive")
    if (gpus := max(group.gpus for group in job.placement.groups)) and _requests_gpus(job):
        yield f"--gpus-per-node={gpus}"


def _taskmap(runs: Sequence[tuple[int, int]]) -> str:
    """Return blocks of first node, nodes, tasks on each, and how often (RFC 34)."""
    blocks, first = [], 0
    for nodes, tasks in runs:
        blocks.append(f"[{first},{nodes},{tasks},1]")
        first += nodes
    return f"[{','.join(blocks)}]"


def _requests_gpus(job: JobSpec) -> bool:
    return job.request.gpu_request != "none" or job.gpus.visibility == "launcher"


def _affinity(job: JobSpec) -> Iterator[Word]:
    """Yield the option that sets who assigns the GPUs of a task: Flux, or each task's shell."""
    if not any(group.gpus for group in job.placement.groups):
        return
    if job.gpus.visibility == "launcher":
        if not _can_request_by_task(job):
            message = (
                f"site {job.identity.site} assigns GPUs by flux run, which gives all tasks the same number"
            )
            hint = "give all replicas the same resources, with at least one GPU a process"
            raise PlanError(Problem(message, ("environment", "replicas"), hint))
        yield Word(
            text="--setopt=gpu-affinity=per-task", origin=Origin("site", job.identity.site, "gpus.bound_by")
        )
    elif not _requests_gpus(job) or job.gpus.variable != "CUDA_VISIBLE_DEVICES":
        # Flux sets this variable alone, and sets it to no GPUs where none were requested.
        yield Word(text="--setopt=gpu-affinity=off", origin=_ORIGIN)


FLUX_RUN: Final = FluxRun()
