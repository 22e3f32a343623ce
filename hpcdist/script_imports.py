"""What the script of a command imports: libraries that train alone unless they are told their place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpcdist.bash_words import simple_commands, unquoted
from hpcdist.plan import Plan

MOST: Final = 1 << 18
"""How many bytes of a script are read; imports stand at its head."""
_LIBRARIES: Final = {
    "lightning": "lightning",
    "pytorch_lightning": "lightning",
    "lightning_fabric": "lightning",
    "accelerate": "accelerate",
}
"""Modules of Python, and the framework that sets what they read."""
_IMPORT: Final = re.compile(
    rf"^[^\S\n]*(?:import|from)[^\S\n]+({'|'.join(_LIBRARIES)})(?=[\s.,;]|$)", re.MULTILINE
)
_TOLD: Final = {
    "lightning": frozenset({"lightning"}),
    "accelerate": frozenset({"accelerate", "pytorch", "deepspeed"}),
}
"""The frameworks that tell the processes of a library their place."""


def script_of(command: str) -> str:
    """Return the script that a command runs by Python, a relative path; nothing where it runs none."""
    for simple in simple_commands(command):
        words = [unquoted(word) for word in simple.words]
        if words and re.fullmatch(r"(?:.*/)?python[\d.]*", words[0]):
            at = next((at for at, word in enumerate(words) if at and not word.startswith("-")), 0)
            is_script = re.fullmatch(r"[^/$`][^$`]*\.py", words[at]) and words[at - 1] not in ("-m", "-c")
            return words[at] if is_script else ""
    return ""


def advice(plan: Plan, script: str, text: str) -> Iterator[str]:
    """Yield a warning where a script imports a library whose processes are not told their place.

    A launch that the user wrote tells them itself.
    """
    rows = plan.placement.rows
    gpus = max((row.gpus for row in rows), default=0)
    if plan.launcher == "once" or plan.starts_processes:
        return
    for library in dict.fromkeys(_LIBRARIES[name] for name in _IMPORT.findall(text)):
        if plan.framework in _TOLD[library]:
            continue
        mend = f"write `framework: {library}`"
        if plan.placement.size > 1:
            tasks = f"each of the {plan.placement.size} tasks"
            yield f"{script} imports {library}, and {tasks} would train alone; {mend}"
        elif gpus > 1 and library == "accelerate":
            yield f"{script} imports {library}, and one process uses one of its {gpus} GPUs; {mend}"
