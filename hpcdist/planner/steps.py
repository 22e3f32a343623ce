"""Steps: what runs before, next to and after the program, in order; such steps copy data to each node.

Slurm copies a file from node to node (sbcast(1), ``--fanout``). On other systems, and for a folder, each
node reads the shared file system.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hpcdist.base.errors import Path, PlanError, Problem
from hpcdist.base.words import quote
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.program import Stage
from hpcdist.plan.model import JobStep, Place, PreparedJob
from hpcdist.plan.placement import Placement
from hpcdist.plan.values import Where, Word
from hpcdist.site.model import Site

# --- Nodes of a job without tasks: one for each program that has its own node, and spare nodes

_SPARE: Final[Path] = ("environment", "restart", "spare_nodes")
_NO_SPARE: Final = "remove it: a job that lost a node starts again on others"
_NO_OWN: Final = "write `last_node`, or remove what it cannot go with"


def own_nodes_of(experiment: Experiment, site: Site) -> int:
    """Return the number of these nodes.

    Raises:
        PlanError: where a job cannot have any.
    """
    own, spare = len([*_own(experiment)]), _spare(experiment)
    for wrong, what in _refusals(experiment, site, own, spare):
        if wrong and own + spare:
            hint = _NO_SPARE if spare else _NO_OWN
            raise PlanError(Problem(what, _SPARE if spare else path_of(experiment), hint))
    return own + spare


def path_of(experiment: Experiment) -> Path:
    """Return the path of what asks for such nodes."""
    return next(_own(experiment), _SPARE)


def _own(experiment: Experiment) -> Iterator[Path]:
    for index, one in enumerate(experiment.run.beside):
        if one.on == "own_node":
            yield "run", "beside", index, "on"


def _spare(experiment: Experiment) -> int:
    restart = experiment.environment.restart
    return restart.spare_nodes if restart else 0


def _refusals(experiment: Experiment, site: Site, own: int, spare: int) -> tuple[tuple[bool, str], ...]:
    return (
        (experiment.hptuning is not None, "the trials of a search have no nodes beside those of their tasks"),
        (spare > 0 and site.scheduler != "slurm", f"a job of {site.scheduler} ends when it loses a node"),
        (own > 0 and spare > 0, "a program beside the tasks has its own"),
    )


# --- Steps

LOCAL: Final = '"${HPCDIST_STAGE:?}"'
"""The folder on a local disk of each node; never empty, as it is removed."""

_NODES_OF_TASKS: Final = ("HPCDIST_HOSTFILE", "HPCDIST_TASK_NODES", "HPCDIST_JOB_DIR/ranks.")
"""Where the script has the nodes of the tasks alone, without the nodes of other programs."""


def steps_of(experiment: Experiment, site: Site, placement: Placement, where: Where) -> tuple[JobStep, ...]:
    """Return the steps of a job.

    Raises:
        PlanError: for steps on the nodes of a heterogeneous job, whose components are separate jobs.
    """
    found = tuple(_steps(experiment, site, where))
    if len(placement.groups) > 1 and any(step.on != "job" for step in found):
        message = "steps on nodes need nodes of one kind, and these replicas are on several"
        path = ("stage",) if experiment.stage else ("run",)
        hint = "write `per: job`, or give all replicas the same resources"
        raise PlanError(Problem(message, path, hint))
    return found


def check_free_nodes(job: PreparedJob, words: Sequence[Word], experiment: Experiment) -> None:
    """Check that the launch names the nodes of the tasks, where some nodes of the job have no tasks.

    Raises:
        PlanError: where it does not, and could take any node.
    """
    own = job.launch.by_user
    texts = [job.identity.command] if own else [word.text for word in words]
    if job.own_nodes and not any(name in text for name in _NODES_OF_TASKS for text in texts):
        which = "the command starts its tasks" if own else f"launcher {job.launch.launcher} starts tasks"
        hint = f"give it {' or '.join(f'${name}' for name in _NODES_OF_TASKS[:2])}"
        hint = hint if own else "remove this, or write another `batch.launcher`, such as mpirun"
        raise PlanError(Problem(f"{which} on any of the job's nodes", path_of(experiment), hint))


def _steps(experiment: Experiment, site: Site, where: Where) -> Iterator[JobStep]:
    run = experiment.run
    if uses_local_disk(experiment):
        command = f"rm -rf -- {LOCAL} && mkdir -p -m 700 -- {LOCAL}"
        yield JobStep(time="before", on="node", command=command, origin=where(("stage",)))
    # Archives last: they replace no file, and a copy is not made where a file exists.
    for index, item in sorted(enumerate(experiment.stage), key=lambda pair: pair[1].unpack):
        origin = where(("stage", index))
        for place, command in _staging(item, site):
            yield JobStep(time="before", on=place, command=command, origin=origin)
    if run.prepare:
        yield JobStep(
            time="before", on=run.prepare.per, command=run.prepare.command, origin=where(("run", "prepare"))
        )
    for index, one in enumerate(run.beside):
        on: Place = "node" if one.on == "each_node" else one.on
        yield JobStep(time="beside", on=on, command=one.command, origin=where(("run", "beside", index)))
    if run.finish:
        yield JobStep(
            time="after", on=run.finish.per, command=run.finish.command, origin=where(("run", "finish"))
        )
    if uses_local_disk(experiment):
        yield JobStep(time="after", on="node", command=f"rm -rf -- {LOCAL}", origin=where(("stage",)))


def uses_local_disk(experiment: Experiment) -> bool:
    """Whether the job has its own folder on a local disk of each node."""
    return any(item.to == "node_local" for item in experiment.stage)


def _staging(item: Stage, site: Site) -> Iterator[tuple[Place, str]]:
    """Yield the commands that copy this to all nodes, and where each runs; the runtime has their functions.

    Files in a folder that the user names are neither replaced nor removed: they may be the source.
    """
    is_own = item.to == "node_local"
    folder, source = LOCAL if is_own else quote(item.to), quote(item.source)
    file = f"{folder}/{quote(f'.hpcdist.{item.name}' if item.unpack else item.name)}"
    if not is_own:
        yield "node", f"mkdir -p -- {folder}"
    if site.scheduler == "slurm":
        yield "job", f"stage_broadcast {source} {file}"
    yield "node", f"stage_unpack {source} {file} {folder}" if item.unpack else f"stage_copy {source} {file}"
