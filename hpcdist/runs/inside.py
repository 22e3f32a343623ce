"""Where to run a command beside a job: the nodes of a run, and which of them has a rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from hpcdist.errors import ConfigError, Problem
from hpcdist.host import resources
from hpcdist.runs import attempt_files, endings, packed
from hpcdist.runs.rundir import Run
from hpcdist.runs.states import Report
from hpcdist.runs.stored_plan import Nodes as Group
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.base import Nodes
from hpcdist.schedulers.job import JobState


class Job(NamedTuple):
    """A job of a run, or an element of its array, that runs; ``folder`` is its own in the run directory.

    ``parts``: its nodes, those of each component of a heterogeneous job by themselves. ``tasks``: their
    number; None where the command starts them by itself.
    """

    run: Run
    folder: str
    nodes: Nodes
    parts: tuple[Nodes, ...]
    tasks: int | None

    def on(self, number: int) -> Nodes:
        """Return the node with this number."""
        part = next(part for part in self.parts if number in part.numbers)
        return part._replace(names=(self.nodes.names[number],), numbers=(number,))

    def words(self, rank: int | None, command: Sequence[str]) -> tuple[str, ...]:
        """Return the words that run a command by the shell text ``templates/inside.sh``."""
        own = "" if rank is None else str(rank)
        return ("bash", "-c", text("inside.sh"), "hpcdist", self.folder, own, *command)


def text(name: str) -> str:
    """Return a shell text of ``templates`` for the nodes of a job, with what finds its processes."""
    return resources.template("processes.sh") + resources.template(name)


def running(report: Report, element: str = "") -> Job:
    """Return the job of a run that runs now, or this element of it.

    Raises:
        ConfigError: if none runs, the element of an array is not named, or its nodes are not known; or if
            this packed trial does not run.
    """
    run, status = report.run, report.status
    if status.state is not JobState.RUNNING:
        message = f"{run.name} does not run: it is {status.state.value}"
        raise ConfigError(Problem(message, hint=f"`hpcdist status {run.name}` shows its state"))
    plan = run.directory.plan()
    if plan.workers and element:
        return _of_trial(run, element)
    if (plan.array or plan.trials) and not plan.workers and not element:
        hint = f"name one: {run.name}/1; `hpcdist describe {run.name}` shows which have started"
        raise ConfigError(Problem(f"{run.name} is an array of several jobs", hint=hint))
    attempts = [] if plan.workers else attempt_files.read(run.directory, element)
    folder, system_id = run.event_id, run.event_id
    if attempts:
        folder, system_id = attempts[-1].job, attempts[-1].system_id or attempts[-1].job
    names = _nodes(run, folder)
    nodes = Nodes(system_id, names, tuple(range(len(names))))
    path = str(run.directory.path / "jobs" / folder)
    components = plan.groups if schedulers.get(run.record.scheduler).has_components else ()
    return Job(run, path, nodes, tuple(_parts(nodes, components)), plan.tasks)


def _of_trial(run: Run, trial: str) -> Job:
    """Return a packed trial that runs: a job of one rank, in the job of its worker."""
    for log in packed.logs(run.directory):
        own = [event for event in log.events if event.job_id.endswith(f"_{trial}")]
        if own and own[-1].what in ("started", "restarted"):
            nodes = Nodes(log.job, _nodes(run, own[-1].job_id), (0,))
            path = str(run.directory.path / "jobs" / own[-1].job_id)
            return Job(run, path, nodes, (nodes,), 1)
    message = f"trial {trial} of {run.name} does not run now"
    raise ConfigError(Problem(message, hint=f"`hpcdist sweep status {run.name}` shows which do"))


def _parts(nodes: Nodes, components: Sequence[Group]) -> Iterator[Nodes]:
    """Yield the nodes of each component, which Slurm numbers from 0: ``12+1``."""
    if len(components) < 2:  # noqa: PLR2004
        yield nodes
        return
    ends = [*(group.node for group in components[1:]), len(nodes.names)]
    for number, (group, end) in enumerate(zip(components, ends, strict=True)):
        part = slice(group.node, end)
        yield Nodes(f"{nodes.job}+{number}", nodes.names[part], nodes.numbers[part])


def _nodes(run: Run, folder: str) -> tuple[str, ...]:
    with suppress(OSError):
        return endings.read_nodes(run.directory, f"jobs/{folder}/nodes")
    message = f"the nodes of {run.name} are not known: its script has not written them"
    raise ConfigError(Problem(message, hint="try again once it has started its program"))


def node_of(job: Job, rank: int | None, node: str | None) -> int:
    """Return the number of the node that has this rank, or of the one with this name or number; else 0.

    Raises:
        ConfigError: if there is no such rank or node.
    """
    if rank is not None:
        return _node_of_rank(job, rank)
    if node is None:
        return 0
    names = job.nodes.names
    if node in names:
        return names.index(node)
    if node.isdecimal() and int(node) < len(names):
        return int(node)
    known = f"it has nodes 0 to {len(names) - 1}: {', '.join(names[:8])}{' ...' * (len(names) > 8)}"  # noqa: PLR2004
    raise ConfigError(Problem(f"{job.run.name} has no node {node}", hint=known))


def _node_of_rank(job: Job, rank: int) -> int:
    plan, name = job.run.directory.plan(), job.run.name
    if plan.tasks is None:
        message = f"the command of {name} starts its tasks by itself, so the node of rank {rank} is not known"
        raise ConfigError(Problem(message, hint=f"name a node: --node 0 to {len(job.nodes.names) - 1}"))
    node = plan.node_of(rank)
    if node is None or node >= len(job.nodes.names):
        has = f"ranks 0 to {plan.tasks - 1}" if plan.tasks > 1 else "rank 0 only"
        raise ConfigError(Problem(f"{name} has no rank {rank}", hint=f"it has {has}"))
    return node
