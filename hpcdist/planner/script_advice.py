"""Warnings about the script that a command runs: libraries without rank variables, and launches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from hpcdist.experiment.launch.bash_words import simple_commands, unquoted
from hpcdist.experiment.launch.line import user_launch
from hpcdist.plan.model import PreparedJob
from hpcdist.planner import node_launches

MOST: Final = 1 << 18
"""How many bytes of a script are read; imports stand at its head."""


class _Library(NamedTuple):
    """A Python library that trains alone without rank variables: who sets them, and what to write.

    ``told``: the frameworks that set them. ``trains``: what a script has that trains by it.
    """

    framework: str
    told: frozenset[str]
    trains: re.Pattern[str] = re.compile("")


_BY_TORCH: Final = frozenset({"accelerate", "pytorch", "deepspeed"})
_LIGHTNING: Final = _Library("lightning", frozenset({"lightning"}))
_TRAINER: Final = r"\w*Train(?:er|ingArguments)\b"
_OF_TRANSFORMERS: Final = re.compile(
    rf"from\s+transformers[\w.]*\s+import\s+(?:\([^)]*|[^\n]*)\b{_TRAINER}|\btransformers\.{_TRAINER}"
    rf"|import\s+transformers\s+as\s+(\w+)(?s:.*?)\b\1\.{_TRAINER}|from\s+transformers\s+import\s+\*(?s:.*?)\b{_TRAINER}"
)
_LIBRARIES: Final = {
    "lightning": _LIGHTNING,
    "pytorch_lightning": _LIGHTNING,
    "lightning_fabric": _LIGHTNING,
    "accelerate": _Library("accelerate", _BY_TORCH),
    "transformers": _Library("pytorch", _BY_TORCH, _OF_TRANSFORMERS),
    "trl": _Library("pytorch", _BY_TORCH),
    "sentence_transformers": _Library("pytorch", _BY_TORCH, re.compile(rf"\b{_TRAINER}|\.fit\(")),
    "composer": _Library("pytorch", _BY_TORCH),
}
"""Python modules that read such variables."""
_IMPORT: Final = re.compile(
    rf"^[^\S\n]*(?:import|from)[^\S\n]+({'|'.join(_LIBRARIES)})(?=[\s.,;]|$)", re.MULTILINE
)
_SCRIPT: Final = re.compile(r"[^/$`~][^$`]*\.(?:py|sh|bash)")
_MODULE: Final = re.compile(r"\w+(?:\.\w+)*")
_STARTS: Final = re.compile(r"(?:.*/)?(?:python[\d.]*|bash|sh)|source|\.")


def scripts_of(command: str) -> Iterator[str]:
    """Yield the relative paths of the scripts that a command runs by Python or bash, or sources.

    A module's is that which it would have in the folder of the command.
    """
    for simple in simple_commands(command):
        words = [unquoted(word) for word in simple.words]
        if words and _SCRIPT.fullmatch(words[0]):
            yield words[0]
        elif words and _STARTS.fullmatch(words[0]):
            at = next((at for at, word in enumerate(words) if at and not word.startswith("-")), 0)
            if words[at - 1] == "-m" and _MODULE.fullmatch(words[at]):
                yield f"{words[at].replace('.', '/')}.py"
            elif _SCRIPT.fullmatch(words[at]) and words[at - 1] not in ("-m", "-c"):
                yield words[at]


def advice(job: PreparedJob, script: str, text: str) -> Iterator[str]:
    """Yield a warning where a script imports a library that gets no rank variables, or launches processes.

    A launch that the user wrote in the command, or hpcdist's own of torchrun, sets them itself.
    """
    if job.launch.by_user:
        return
    if not script.endswith(".py"):
        yield from _launch_of(job, script, text)
    elif not job.launch.starts_processes:
        yield from _imports_of(job, script, text)


def _imports_of(job: PreparedJob, script: str, text: str) -> Iterator[str]:
    """Yield a warning where a Python script imports a library that gets no rank variables."""
    gpus = max((row.gpus for row in job.placement.rows), default=0)
    named = {_LIBRARIES[name]: name for name in reversed(_IMPORT.findall(text))}
    for library, name in reversed(named.items()):
        if job.identity.framework in library.told or not library.trains.search(text):
            continue
        mend = f"write `framework: {library.framework}`"
        if job.placement.size > 1:
            tasks = f"each of the {job.placement.size} tasks"
            yield f"{script} imports {name}, and {tasks} would train alone; {mend}"
        elif gpus > 1 and name == "accelerate":
            yield f"{script} imports {name}, and one process uses one of its {gpus} GPUs; {mend}"


def _launch_of(job: PreparedJob, script: str, text: str) -> Iterator[str]:
    """Yield a warning where a shell script launches processes, and each task would run that script."""
    launch = user_launch(text)
    size = sum(row.tasks * max(row.processes, 1) for row in job.placement.rows)
    if launch is None or size == 1:
        return
    starts = f"{script} starts processes by {launch.program} itself, and each of the {size}"
    if launch.runs == "once" or job.launch.starts_processes:
        tasks = "processes" if job.launch.starts_processes else "tasks"
        yield f"{starts} {tasks} runs it; write what it does as `run.cmd`: a launch there runs once"
    elif why := node_launches.separate(job, launch, text):
        yield f"{starts} tasks runs it, and {why}"
