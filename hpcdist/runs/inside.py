"""Where to run a command in a job: the nodes of a run, and which of them has a rank."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from hpcdist.base import resources
from hpcdist.base.errors import ConfigError, Problem
from hpcdist.runs import attempt_files, elements, endings
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Run
from hpcdist.runs.stored_plan import NodeGroup as Group
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.base import Nodes
from hpcdist.schedulers.job import JobState


class RankedJob(NamedTuple):
    """A running job of a run, or a running element; ``folder`` is its folder in the run directory.

    ``parts``: its nodes, separate for each component of a heterogeneous job. ``tasks``: how many; None where
    the command starts them by itself.
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


def running(report: Report, element: str = "") -> RankedJob:
    """Return the running job of a run, or this running element.

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
    attempts = [] if plan.workers else attempt_files.numbered(run.directory, element)
    folder, system_id = run.event_id, run.event_id
    if attempts:
        folder, system_id = attempts[-1].job, attempts[-1].system_id or attempts[-1].job
    names = _nodes(run, folder)
    nodes = Nodes(system_id, names, tuple(range(len(names))))
    path = str(run.directory.path / "jobs" / folder)
    components = plan.groups if schedulers.get(run.record.scheduler).has_components else ()
    return RankedJob(run, path, nodes, tuple(_parts(nodes, components)), plan.tasks)


def _of_trial(run: Run, trial: str) -> RankedJob:
    """Return a packed trial that runs: a job of one rank, in the job of its worker."""
    for log in attempt_files.logs(run.directory):
        own = [event for event in log.events if event.job_id.endswith(f"_{trial}")]
        if own and own[-1].what in ("started", "restarted"):
            nodes = Nodes(log.job, _nodes(run, own[-1].job_id), (0,))
            path = str(run.directory.path / "jobs" / own[-1].job_id)
            return RankedJob(run, path, nodes, (nodes,), 1)
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


def node_of(job: RankedJob, rank: int | None, node: str | None) -> int:
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


def _node_of_rank(job: RankedJob, rank: int) -> int:
    plan, name = job.run.directory.plan(), job.run.name
    if plan.tasks is None:
        message = f"the command of {name} starts its tasks by itself, so the node of rank {rank} is not known"
        raise ConfigError(Problem(message, hint=f"name a node: --node 0 to {len(job.nodes.names) - 1}"))
    node = plan.node_of(rank)
    if node is None or node >= len(job.nodes.names):
        has = f"ranks 0 to {plan.tasks - 1}" if plan.tasks > 1 else "rank 0 only"
        raise ConfigError(Problem(f"{name} has no rank {rank}", hint=f"it has {has}"))
    return node


# --- What the ranks of a running job do: the answers of nodes to `templates/stacks.sh`, folded


MOST: Final = 12
"""How many stacks are shown whole; where more differ, as in a live training, they are cut."""

_STATES: Final = {"R": "running", "S": "sleeping", "D": "waiting for a device", "T": "stopped", "Z": "ended"}


class Thread(NamedTuple):
    """A thread of a Python program; ``frames``: ``main (train.py:12)``, the innermost first."""

    name: str
    frames: tuple[str, ...]


class Process(NamedTuple):
    """A process of a job; ``task``: the plan's, ``rank``: the program's; torchrun has several per task.

    ``kernel``: what the kernel shows of it. ``main``: the stack of its main thread, ``threads``: the others;
    empty where it is no Python or, by ``error``, could not be read.
    """

    node: str
    task: int | None
    rank: int | None
    is_elastic: bool
    pid: int
    parent: int
    kernel: str
    main: tuple[str, ...] = ()
    threads: tuple[Thread, ...] = ()
    error: str = ""


class StackAnswers(NamedTuple):
    """What the nodes of a job answered; ``without``: nodes that have no py-spy."""

    nodes: frozenset[str]
    processes: tuple[Process, ...]
    without: frozenset[str] = frozenset()


class StackGroup(NamedTuple):
    """Processes with one stack; ``kind``: ``main``, ``child`` of a rank's program, or the name of a thread.

    ``ranks``: as in ``0-5,7``; ``cut``: whether inner frames are left out, which differ.
    """

    kind: str
    ranks: tuple[int, ...]
    processes: int
    frames: tuple[str, ...]
    cut: bool = False

    @property
    def title(self) -> str:
        """Whose stack it is: ``ranks 0-5,7``."""
        ranks = (
            f"rank{'s' * (len(self.ranks) > 1)} {elements.text_of(self.ranks)}" if self.ranks else "no rank"
        )
        what = {"main": ranks, "child": f"children of {ranks}"}.get(self.kind, f"{self.kind} of {ranks}")
        return what if self.processes == len(self.ranks) else f"{what} ({self.processes} processes)"


def read(output: str) -> StackAnswers:
    """Return the answers in what the commands printed; incomplete answers are left out."""
    parts: dict[str, list[str]] = {}
    for line in output.splitlines():
        node, _, part = line.partition(" ")
        parts.setdefault(node, []).append(part)
    texts: dict[str, str] = {}
    for node, packed in parts.items():
        with suppress(ValueError, EOFError, OSError, zlib.error):
            data = base64.b64decode("".join(packed), validate=True)
            if data:  # even of a node without a process
                texts[node] = gzip.decompress(data).decode(errors="backslashreplace")
    found = tuple(process for node, text in texts.items() for process in _processes(node, text))
    without = frozenset(node for node, text in texts.items() if text.startswith("missing\n"))
    return StackAnswers(frozenset(texts), found, without)


def _processes(node: str, text: str) -> Iterator[Process]:
    found: list[Process] = []
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        with suppress(ValueError, KeyError, TypeError):
            if kind == "process":
                found.append(_process(node, rest))
            elif found and kind == "stacks":
                found[-1] = _with_stacks(found[-1], json.loads(rest))
            elif found and kind == "error":
                found[-1] = found[-1]._replace(error=rest)
    elastic = {process.task for process in found if process.is_elastic}
    for process in found:
        # torchrun's agent waits for its workers, and is shown while it has none.
        if process.is_elastic or process.task is None or process.task not in elastic:
            yield process


def _process(node: str, text: str) -> Process:
    task, rank, elastic, pid, parent, state, wait, command = text.split(" ", 7)
    kernel = f"{command.strip()}: {_STATES.get(state, state)}{f' in {wait}' if wait not in ('0', '') else ''}"
    return Process(node, _number(task), _number(rank), elastic == "1", int(pid), int(parent), kernel)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _with_stacks(process: Process, stacks: Sequence[Mapping[str, Any]]) -> Process:
    """Return the process with what py-spy shows of its threads."""
    main: tuple[str, ...] = ()
    threads: list[Thread] = []
    for stack in stacks:
        frames = tuple(_frame(frame) for frame in stack["frames"])
        if stack.get("os_thread_id") == process.pid or stack.get("thread_name") == "MainThread":
            main = frames
        else:
            threads.append(Thread(str(stack.get("thread_name") or "thread"), frames))
    return process._replace(main=main, threads=tuple(threads))


def _frame(frame: Mapping[str, Any]) -> str:
    place = frame.get("short_filename") or frame.get("filename") or frame.get("module") or "?"
    return f"{frame['name']} ({place}{f':{line}' if (line := frame.get('line')) else ''})"


def shown(answers: StackAnswers) -> Iterator[tuple[str, Process]]:
    """Yield the processes that matter with their kind: programs in Python and their children.

    For a rank without Python, its processes that have no children.
    """
    parents = {(process.node, process.parent) for process in answers.processes}
    python = {(process.node, process.pid): process for process in answers.processes if process.main}
    known = {process.rank for process in python.values()}
    for process in answers.processes:
        if process.main:
            above = python.get((process.node, process.parent))
            yield "child" if above and above.rank == process.rank else "main", process
        elif (
            process.rank is not None
            and process.rank not in known
            and (process.node, process.pid) not in parents
        ):
            yield "main", process


def groups(answers: StackAnswers, *, threads: bool = False) -> list[StackGroup]:
    """Return the stacks, each once: programs, their children, then ``threads``; the most frequent first."""
    found = [(kind, process.rank, process.main or (process.kernel,)) for kind, process in shown(answers)]
    if threads:
        found += [
            (f"thread {thread.name}", process.rank, thread.frames)
            for _, process in shown(answers)
            for thread in process.threads
        ]
    kinds = sorted({kind for kind, _, _ in found}, key=lambda kind: (kind != "main", kind))
    return [
        group
        for kind in kinds
        for group in _folded(kind, [(rank, frames) for own, rank, frames in found if own == kind])
    ]


def _folded(kind: str, stacks: Sequence[tuple[int | None, tuple[str, ...]]]) -> list[StackGroup]:
    """Return the groups of one kind; where they are too many, by outer frames alone."""
    deepest = max((len(frames) for _, frames in stacks), default=0)
    depth = next(
        (depth for depth in range(deepest, 1, -1) if len({frames[-depth:] for _, frames in stacks}) <= MOST),
        1,
    )
    counts = Counter(frames[-depth:] for _, frames in stacks)
    whole = {frames for _, frames in stacks}
    made = [
        StackGroup(
            kind,
            tuple(sorted({rank for rank, frames in stacks if rank is not None and frames[-depth:] == kept})),
            count,
            kept,
            cut=kept not in whole,
        )
        for kept, count in counts.items()
    ]
    return sorted(made, key=lambda group: (-group.processes, group.ranks))


def silent(answers: StackAnswers, nodes: Iterable[str]) -> list[str]:
    """Return the nodes of a job that did not answer; a node may call itself by a longer or shorter name."""
    names = {name.partition(".")[0] for name in answers.nodes}
    if names:
        names.add("localhost")
    return [node for node in nodes if node.partition(".")[0] not in names]


def missing(answers: StackAnswers, tasks: int | None) -> list[int]:
    """Return the tasks without a process; none where the command starts them by itself."""
    seen = {process.task for process in answers.processes}
    return [task for task in range(tasks or 0) if task not in seen]
