"""What the answers of all batch systems' commands have in common."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hpcdist.errors import Problem
from hpcdist.host.command import Completed

_UNREACHABLE: Final = re.compile(
    r"connect|communicat|contact|talking to the database|timed out|time limit expired|not respond|"
    r"lib call|server is down|cannot be reached|unreachable",
    re.IGNORECASE,
)


def missing(program: str) -> Problem:
    """Return the problem of a batch system's command that is not installed."""
    hint = "submit from a login node of the site; `hpcdist render` writes the script on any machine"
    return Problem(f"there is no `{program}` on this machine", hint=hint)


def why(completed: Completed, message: str | None = None) -> str:
    """Return why a command gave no clear answer: its own message (or ``message``), if it has one."""
    if completed.timed_out:
        return f"it did not end within {completed.command.timeout:.0f} s"
    if completed.returncode < 0:
        return f"it was killed by signal {-completed.returncode}"
    words = completed.stderr.strip() or completed.stdout.strip() if message is None else message
    return words or f"exit code {completed.returncode} without a message"


def hint(message: str, hints: Mapping[str, str]) -> str:
    """Return the hint for the first of these texts that is in ``message``, empty for none."""
    return next((advice for text, advice in hints.items() if text in message), "")


def is_unreachable(completed: Completed) -> bool:
    """Return whether a command failed because its server did not answer, so that its output proves nothing.

    The words are those of Slurm ("Unable to contact slurm controller", "Problem talking to the database"),
    PBS ("cannot connect to server"), LSF ("LSF daemon not responding", "Failed in an LSF library call"), Flux
    ("Unable to connect to Flux") and Grid Engine ("unable to contact qmaster").
    """
    return completed.timed_out or (not completed.ok and bool(_UNREACHABLE.search(completed.stderr)))
