"""Steps of the experiment: what runs before its program, beside it and after it, on one node or several."""

import os
import re
import time
from contextlib import suppress
from shlex import quote
from subprocess import DEVNULL, Popen
from typing import IO, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from .events import Event
from .job import Step
from .start import Failed, Start, say

Tick = Callable[[], None]
Output = Optional[IO[bytes]]
OnNodes = Callable[[int, int, Sequence[str], Sequence[str]], List[List[str]]]
"""`System.on_nodes`: the commands that run words on the nodes from one number to another, of all nodes."""

FAILED = 86
_PAUSE = 0.05
_PATIENCE = 15
"""Seconds for which the programs beside the tasks are awaited: each node gives its own ten."""

_ALWAYS = frozenset(["PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV"])
_NEVER = frozenset(["_", "SHLVL", "PWD", "OLDPWD", "HPCDIST_TOKEN"])
_SET = re.compile(r"\b([A-Za-z_][A-Za-z0-9_]*)=", re.ASCII)
_CALLED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "step.sh")
_LINES = 'exec {{hpcdist_out}}>&1 1>&2\n{}\nexec env -0 >&"$hpcdist_out"\n'


def needed(before: Mapping[str, str], after: Mapping[str, str], lines: str) -> Dict[str, str]:
    """Return the variables that a step needs on another node.

    They are our own, and those that the script's lines changed, or may have set to what they were.
    """
    known = _ALWAYS.union(_SET.findall(lines))
    own = (
        item for item in after if item in known or item[:8] == "HPCDIST_" or before.get(item) != after[item]
    )
    return {name: after[name] for name in sorted(own) if re.fullmatch(r"\w+", name) and name not in _NEVER}


def text_of(step: Step, folder: str, variables: Mapping[str, str], over: str) -> str:
    """Return a step's file, which gets its node's number; file ``over`` ends a program beside the tasks."""
    is_beside = step.time == "beside"
    command = f"step_beside {quote(step.command)} {quote(over)}" if is_beside else step.command
    calls = is_beside or command.startswith("stage_")
    lines = [f"cd {quote(folder)} || exit", "export HPCDIST_NODE=$1"]
    lines += [f"export {name}={quote(value)}" for name, value in variables.items()]
    return "\n".join([*lines, *([f". {quote(_CALLED)} || exit"] if calls else []), command, ""])


def nodes_of(steps: Sequence[Step], place: int, nodes: int) -> Tuple[int, int]:
    """Return the numbers of a step's first and last node; those of programs alone are behind the tasks'."""
    if steps[place].on == "own_node":
        own = nodes - 1 + sum(step.on == "own_node" for step in steps[: place + 1])
        return own, own
    return (nodes - 1 if steps[place].on == "last_node" else 0), nodes - 1


def was_finishing(events: Iterable[Event]) -> bool:
    """Whether an earlier start, whose events are among these, was lost in its last steps."""
    ends = [event.what for event in events if event.what in ("finishing", "ended", "cancelled")]
    return ends[-1:] == ["finishing"]


class Running:
    """A step that runs: one command here, or those that reach its nodes."""

    def __init__(
        self, commands: Sequence[Sequence[str]], variables: Mapping[str, str], out: Output, err: Output
    ) -> None:
        words = [["env", *command] for command in commands]  # env(1) says if there is no such command
        own = dict(variables)
        self._processes = [Popen(each, env=own, stdin=DEVNULL, stdout=out, stderr=err) for each in words]

    @property
    def code(self) -> Optional[int]:
        """The exit code of the last one that failed, else 0; None while one runs."""
        codes = [process.poll() for process in self._processes]
        bad = [128 - code if code < 0 else code for code in codes if code]
        return None if None in codes else bad[-1] if bad else 0

    def wait(self, tick: Tick) -> int:
        """Wait for its end; where ``tick`` raises, it is told to end."""
        try:
            while self.code is None:
                tick()
                time.sleep(_PAUSE)
        finally:
            self.stop()
        return self.code or 0

    def stop(self) -> None:
        """Send TERM to what runs."""
        for process in self._processes:
            if process.poll() is None:
                process.terminate()


class Beside:
    """The programs beside the tasks, until the last attempt has ended; ``told`` is to end the job.

    Each has its log, and a mark where it has a node alone: the tasks may wait for that one for ever.
    """

    def __init__(self, programs: Sequence[Tuple[Running, str, bool]], start: Start, told: Tick) -> None:
        self._left = list(programs)
        self._start = start
        self._told = told
        self._failed: Optional[int] = None

    def tick(self) -> None:
        """Tell of those that have ended early; one that had a node alone, and failed, ends the job."""
        for running, log, alone in [one for one in self._left if one[0].code is not None]:
            self._left.remove((running, log, alone))
            say(f"a program beside the tasks ended with exit code {running.code}; its output is in {log}")
            if running.code and alone:
                self._failed = running.code
                with suppress(Failed):
                    self._start.write(f"beside_failed.{self._start.restarts}", f"{running.code}\n")
                self._told()

    def end(self) -> Optional[int]:
        """End those that run; return the job's exit code if one of them has ended the job."""
        self.tick()
        if self._left:
            with suppress(Failed):
                self._start.write(f"beside.{self._start.restarts}", "")
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end and any(one[0].code is None for one in self._left):
            time.sleep(_PAUSE)
        for running, _, _ in self._left:
            running.stop()
        if self._failed is not None:
            why = f"a program with a node of its own failed, with exit code {self._failed}"
            say(f"{why}, which ended the job; its output is in {self._start.job.file('logs')}")
        return self._failed


class Steps:
    """The steps of a job. While one is awaited ``tick`` is called, which may raise, and so end the job.

    ``lines``: those of the script that set the variables of all tasks. They run once, on this host.
    """

    def __init__(self, start: Start, lines: str, on_nodes: OnNodes, tick: Tick) -> None:
        self._start = start
        self._lines = lines
        self._on_nodes = on_nodes
        self._tick = tick
        self._before: Mapping[str, str] = {}
        self._after: Dict[str, str] = {}
        self._bad: Optional[int] = None

    def before(self, environment: Mapping[str, str]) -> int:
        """Run the steps before the program; return 0, or the job's exit code if the program is not to run."""
        code = self._run("before", environment)
        if code:
            text = f"a step before the program failed (exit code {code}), so that it does not run"
            say(f"{text}; its messages are above")
        return FAILED if code else 0

    def after(self, status: int, environment: Mapping[str, str]) -> int:
        """Run the steps after the program; return the job's exit code, that of a failure in place of 0."""
        if not self._start.job.steps:
            return status
        with suppress(OSError):
            self._start.log("finishing", status)  # that they had begun, if the job is lost in them
        code = self._run("after", dict(environment, HPCDIST_EXIT_CODE=str(status)))
        if code:
            say(f"a step after the program failed, with exit code {code}")
        return status or code

    def beside(self, environment: Mapping[str, str], told: Tick) -> Beside:
        """Start the programs beside the tasks, each with a log of its own."""
        programs = []
        element = f"-{self._start.element}" if self._start.element else ""
        for place in self._places("beside"):
            if self._prepare(environment):
                break  # as the script will
            name = self._start.job.file("logs", f"job{element}.beside-{3 * place}.out")
            with open(name, "ab") as log:
                running = self._begin(place, environment, log)
            programs.append((running, name, self._start.job.steps[place].on == "own_node"))
        return Beside(programs, self._start, told)

    def _run(self, when: str, environment: Mapping[str, str]) -> int:
        """Run the steps of a time, one after another, until one fails."""
        code = 0
        for place in self._places(when):
            code = code or self._prepare(environment) or self._begin(place, environment).wait(self._tick)
        return code

    def _places(self, when: str) -> List[int]:
        return [place for place, step in enumerate(self._start.job.steps) if step.time == when]

    def _prepare(self, environment: Mapping[str, str]) -> int:
        """Run the script's lines once, for their variables; return 0, or the exit code of a failure."""
        if self._bad is not None:
            return self._bad
        file = self._start.write("variables.sh", _LINES.format(self._lines))
        import tempfile  # here alone: each import is time before the program

        with tempfile.TemporaryFile() as out:  # no pipe: a line may leave a process behind
            code = Running([["bash", file]], environment, out, None).wait(self._tick)
            out.seek(0)
            items = [item.partition("=") for item in os.fsdecode(out.read()).split("\0")]
        self._before, self._after = environment, {name: value for name, _, value in items if name}
        self._bad = code or (0 if self._after else FAILED)  # a line may have ended them
        return self._bad

    def _begin(self, place: int, environment: Mapping[str, str], log: Output = None) -> Running:
        start, step = self._start, self._start.job.steps[place]
        new = {name: value for name, value in environment.items() if self._before.get(name) != value}
        variables = {**self._after, **new}
        variables.pop("HPCDIST_FAILURE", None)  # by which the processes of the program are found
        own = needed(environment, variables, self._lines)
        over = os.path.join(start.folder, f"beside.{start.restarts}")
        text = text_of(step, variables["PWD"], own, over)
        # In the C locale Python 3.6 reads variables as ASCII, all else as escapes.
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
        file = start.write(f"step.{3 * place}.sh", text)
        if step.on == "job":
            return Running([["bash", file, "0"]], variables, log, log)
        first, last = nodes_of(start.job.steps, place, len(start.nodes))
        commands = self._on_nodes(first, last, [*start.nodes, *start.own], ["bash", file])
        return Running(commands, variables, log, log)
