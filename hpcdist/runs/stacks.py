"""What the ranks of a running job do: the answers of nodes to ``templates/stacks.sh``, folded."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from hpcdist.runs import elements

MOST: Final = 12
"""How many stacks are shown whole; where more differ, as in a training that goes on, they are cut."""

_STATES: Final = {"R": "running", "S": "sleeping", "D": "waiting for a device", "T": "stopped", "Z": "ended"}


class Thread(NamedTuple):
    """A thread of a Python program; ``frames``: ``main (train.py:12)``, the innermost first."""

    name: str
    frames: tuple[str, ...]


class Process(NamedTuple):
    """A process of a job; ``task``: that of the plan, ``rank``: the program's, of which torchrun has more.

    ``kernel``: what the kernel shows of it. ``main``: the stack of its main thread, ``threads`` those of the
    others; none where it is no Python or, by ``error``, could not be read.
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


class Answers(NamedTuple):
    """What the nodes of a job answered; ``without``: those that have no py-spy."""

    nodes: frozenset[str]
    processes: tuple[Process, ...]
    without: frozenset[str] = frozenset()


class Group(NamedTuple):
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


def read(output: str) -> Answers:
    """Return the answers in what the commands printed; a node whose answer is not whole is left out."""
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
    return Answers(frozenset(texts), found, without)


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


def shown(answers: Answers) -> Iterator[tuple[str, Process]]:
    """Yield the processes that matter with their kind: programs in Python and their children.

    Of a rank without any it is the processes that have started no other one.
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


def groups(answers: Answers, *, threads: bool = False) -> list[Group]:
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


def _folded(kind: str, stacks: Sequence[tuple[int | None, tuple[str, ...]]]) -> list[Group]:
    """Return the groups of one kind; where they are too many, of their outer frames alone."""
    deepest = max((len(frames) for _, frames in stacks), default=0)
    depth = next(
        (depth for depth in range(deepest, 1, -1) if len({frames[-depth:] for _, frames in stacks}) <= MOST),
        1,
    )
    counts = Counter(frames[-depth:] for _, frames in stacks)
    whole = {frames for _, frames in stacks}
    made = [
        Group(
            kind,
            tuple(sorted({rank for rank, frames in stacks if rank is not None and frames[-depth:] == kept})),
            count,
            kept,
            cut=kept not in whole,
        )
        for kept, count in counts.items()
    ]
    return sorted(made, key=lambda group: (-group.processes, group.ranks))


def silent(answers: Answers, nodes: Iterable[str]) -> list[str]:
    """Return the nodes of a job that did not answer; a node may call itself by a longer or shorter name."""
    names = {name.partition(".")[0] for name in answers.nodes}
    if names:
        names.add("localhost")
    return [node for node in nodes if node.partition(".")[0] not in names]


def missing(answers: Answers, tasks: int | None) -> list[int]:
    """Return the tasks of which no process was found; none where the command starts them by itself."""
    seen = {process.task for process in answers.processes}
    return [task for task in range(tasks or 0) if task not in seen]
