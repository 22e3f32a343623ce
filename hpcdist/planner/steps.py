"""Steps: what runs before, beside and after the program, in order; such steps copy data to each node.

Slurm copies a file from node to node, each that has it to further ones (sbcast(1), ``--fanout``), where on
other systems, and for a folder, each node reads the shared file system.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from hpcdist.errors import PlanError, Problem
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.steps import Stage
from hpcdist.plan.model import PreparedJob
from hpcdist.plan.origin import Where
from hpcdist.plan.placement import Placement
from hpcdist.plan.steps import Place, Step
from hpcdist.plan.values import Word
from hpcdist.planner import own_nodes
from hpcdist.site.model import Site
from hpcdist.words import quote

LOCAL: Final = '"${HPCDIST_STAGE:?}"'
"""The folder on a local disk of each node; never empty, as it is removed."""

_NODES_OF_TASKS: Final = ("HPCDIST_HOSTFILE", "HPCDIST_TASK_NODES", "HPCDIST_JOB_DIR/ranks.")
"""What the script has the nodes of the tasks in, without those of programs beside them."""


def steps_of(experiment: Experiment, site: Site, placement: Placement, where: Where) -> tuple[Step, ...]:
    """Return the steps of a job.

    Raises:
        PlanError: for steps on the nodes of a heterogeneous job, whose components are jobs of their own.
    """
    found = tuple(_steps(experiment, site, where))
    if len(placement.groups) > 1 and any(step.on != "job" for step in found):
        message = "steps on nodes need nodes of one kind, and these replicas are on several"
        path = ("stage",) if experiment.stage else ("run",)
        hint = "write `per: job`, or give all replicas the same resources"
        raise PlanError(Problem(message, path, hint))
    return found


def check_free_nodes(job: PreparedJob, words: Sequence[Word], experiment: Experiment) -> None:
    """Check that what starts the tasks is given their nodes, where programs beside them have some alone.

    Raises:
        PlanError: where it takes any of the job's nodes.
    """
    own = job.launch.by_user
    texts = [job.identity.command] if own else [word.text for word in words]
    if job.own_nodes and not any(name in text for name in _NODES_OF_TASKS for text in texts):
        which = "the command starts its tasks" if own else f"launcher {job.launch.launcher} starts tasks"
        hint = f"give it {' or '.join(f'${name}' for name in _NODES_OF_TASKS[:2])}"
        hint = hint if own else "remove this, or write another `batch.launcher`, such as mpirun"
        raise PlanError(Problem(f"{which} on any of the job's nodes", own_nodes.path_of(experiment), hint))


def _steps(experiment: Experiment, site: Site, where: Where) -> Iterator[Step]:
    run = experiment.run
    if uses_local_disk(experiment):
        command = f"rm -rf -- {LOCAL} && mkdir -p -m 700 -- {LOCAL}"
        yield Step(time="before", on="node", command=command, origin=where(("stage",)))
    # Archives last: they replace nothing, and a copy is not made where something is.
    for index, item in sorted(enumerate(experiment.stage), key=lambda pair: pair[1].unpack):
        origin = where(("stage", index))
        for place, command in _staging(item, site):
            yield Step(time="before", on=place, command=command, origin=origin)
    if run.prepare:
        yield Step(
            time="before", on=run.prepare.per, command=run.prepare.command, origin=where(("run", "prepare"))
        )
    for index, one in enumerate(run.beside):
        on: Place = "node" if one.on == "each_node" else one.on
        yield Step(time="beside", on=on, command=one.command, origin=where(("run", "beside", index)))
    if run.finish:
        yield Step(
            time="after", on=run.finish.per, command=run.finish.command, origin=where(("run", "finish"))
        )
    if uses_local_disk(experiment):
        yield Step(time="after", on="node", command=f"rm -rf -- {LOCAL}", origin=where(("stage",)))


def uses_local_disk(experiment: Experiment) -> bool:
    """Whether the job has a folder of its own on a local disk of each node."""
    return any(item.to == "node_local" for item in experiment.stage)


def _staging(item: Stage, site: Site) -> Iterator[tuple[Place, str]]:
    """Yield where each command runs that copies this to all nodes; the runtime has these functions.

    In a folder that the user names, what is there is neither replaced nor removed: it may be the source.
    """
    is_own = item.to == "node_local"
    folder, source = LOCAL if is_own else quote(item.to), quote(item.source)
    file = f"{folder}/{quote(f'.hpcdist.{item.name}' if item.unpack else item.name)}"
    if not is_own:
        yield "node", f"mkdir -p -- {folder}"
    if site.scheduler == "slurm":
        yield "job", f"stage_broadcast {source} {file}"
    yield "node", f"stage_unpack {source} {file} {folder}" if item.unpack else f"stage_copy {source} {file}"
