"""Warnings about the script that a command runs: libraries without rank variables, and launches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpcdist.experiment.launch.bash_words import simple_commands, unquoted
from hpcdist.experiment.launch.line import user_launch
from hpcdist.plan.model import JobSpec

MOST: Final = 1 << 18
"""How many bytes of a script are read; imports stand at its head."""
_LIBRARIES: Final = {
    "lightning": "lightning",
    "pytorch_lightning": "lightning",
    "lightning_fabric": "lightning",
    "accelerate": "accelerate",
}
"""Python modules, and the framework that sets the variables they read."""
_IMPORT: Final = re.compile(
    rf"^[^\S\n]*(?:import|from)[^\S\n]+({'|'.join(_LIBRARIES)})(?=[\s.,;]|$)", re.MULTILINE
)
_SCRIPT: Final = re.compile(r"[^/$`~][^$`]*\.(?:py|sh|bash)")
_TOLD: Final = {
    "lightning": frozenset({"lightning"}),
    "accelerate": frozenset({"accelerate", "pytorch", "deepspeed"}),
}
"""The frameworks that set the rank variables a library reads."""


def script_of(command: str) -> str:
    """Return the relative path of the script that a command runs by Python or bash, None without one."""
    for simple in simple_commands(command):
        words = [unquoted(word) for word in simple.words]
        if words and _SCRIPT.fullmatch(words[0]):
            return words[0]
        if words and re.fullmatch(r"(?:.*/)?(?:python[\d.]*|bash|sh)", words[0]):
            at = next((at for at, word in enumerate(words) if at and not word.startswith("-")), 0)
            is_script = _SCRIPT.fullmatch(words[at]) and words[at - 1] not in ("-m", "-c")
            return words[at] if is_script else ""
    return ""


def advice(job: JobSpec, script: str, text: str) -> Iterator[str]:
    """Yield a warning where a script imports a library that gets no rank variables, or launches processes.

    A launch that the user wrote in the command, or hpcdist's own of torchrun, sets them itself.
    """
    gpus = max((row.gpus for row in job.placement.rows), default=0)
    if job.launch.by_user or job.launch.starts_processes:
        return
    if not script.endswith(".py"):
        yield from _launch_of(job, script, text)
        return
    for library in dict.fromkeys(_LIBRARIES[name] for name in _IMPORT.findall(text)):
        if job.identity.framework in _TOLD[library]:
            continue
        mend = f"write `framework: {library}`"
        if job.placement.size > 1:
            tasks = f"each of the {job.placement.size} tasks"
            yield f"{script} imports {library}, and {tasks} would train alone; {mend}"
        elif gpus > 1 and library == "accelerate":
            yield f"{script} imports {library}, and one process uses one of its {gpus} GPUs; {mend}"


def _launch_of(job: JobSpec, script: str, text: str) -> Iterator[str]:
    """Yield a warning where a shell script launches processes, and each task would run that script."""
    launch = user_launch(text)
    size = job.placement.size
    if launch and launch.runs == "once" and size > 1:
        yield (
            f"{script} starts processes by {launch.program} itself, and each of the {size} tasks runs it; "
            "write what it does as `run.cmd`: a launch there runs once"
        )
