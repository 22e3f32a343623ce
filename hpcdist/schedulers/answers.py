"""What several batch systems share: how answers are read, options of commands, programs inside a job."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hpcdist.base.command import Command, Completed
from hpcdist.base.errors import Problem, SchedulerError, SubmissionUnknown
from hpcdist.base.words import join
from hpcdist.schedulers.base import Nodes

if TYPE_CHECKING:
    from hpcdist.plan.values import Directive

# --- Answers

_UNREACHABLE: Final = re.compile(
    r"connect|communicat|contact|talking to the database|timed out|time limit expired|not respond|"
    r"lib call|server is down|cannot be reached|unreachable",
    re.IGNORECASE,
)


def submission_id(  # noqa: PLR0913 - what differs between batch systems
    completed: Completed,
    job_id: str | None,
    *,
    system: str,
    program: str,
    refused: bool,
    hints: Mapping[str, str],
    message: str = "",
) -> str:
    """Return the job's id from the output of a submit command; None if there is none.

    ``refused``: whether the output says that the job was certainly not made; it counts only if the command
    failed by itself. ``message``: the output, where it is not on standard error alone.

    Raises:
        SchedulerError: when the job was not made.
        SubmissionUnknown: when it may have been made.
    """
    if completed.missing:
        raise SchedulerError(missing(program.split(maxsplit=1)[0]))
    if completed.ok and job_id:
        return job_id
    words = message or completed.stderr.strip() or completed.stdout.strip()
    if not refused or completed.returncode <= 0 or completed.timed_out:
        raise SubmissionUnknown(
            f"{program} did not say whether the job exists: {why(completed, message or None)}"
        )
    raise SchedulerError(Problem(f"{system} refused the job: {words}", hint=hint(words, hints)))


def missing(program: str) -> Problem:
    """Return the problem of a batch system's command that is not installed."""
    hint = "submit from a login node of the site; `hpcdist render` writes the script on any machine"
    return Problem(f"there is no `{program}` on this machine", hint=hint)


def why(completed: Completed, message: str | None = None) -> str:
    """Return why a command gave no clear answer: its own message (or ``message``), if any."""
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

    The words are from Slurm ("Unable to contact slurm controller", "Problem talking to the database"),
    PBS ("cannot connect to server"), LSF ("LSF daemon not responding", "Failed in an LSF library call"), Flux
    ("Unable to connect to Flux") and Grid Engine ("unable to contact qmaster").
    """
    return completed.timed_out or (not completed.ok and bool(_UNREACHABLE.search(completed.stderr)))


# --- Directives as words of a command that waits for an allocation


def options(directives: Iterable[Directive], but: Collection[str] = ()) -> Iterator[str]:
    """Yield directives as words of a command line, without those with a flag in ``but``.

    Only ``-pe`` of Grid Engine takes two words as its value.
    """
    for directive in directives:
        flag, _, name = directive.flag.partition(" ")
        value = f"{name}={directive.value}" if name else directive.value
        if directive.flag in but:
            continue
        if value is None:
            yield flag
        elif flag.startswith("--"):
            yield f"{flag}={value}"
        else:
            yield from (flag, *(value.split(" ") if flag == "-pe" else (value,)))


# --- Commands on the nodes of a running job, for batch systems that cannot start any


def line_of(words: Sequence[str]) -> str:
    """Return one line that runs these words, which every shell reads alike."""
    text = base64.b64encode(f"exec {join(words)}".encode()).decode()
    return f"exec bash -c 'eval \"$(echo {text} | base64 -d)\"'"


def by_ssh(nodes: Nodes, words: Sequence[str], *, terminal: bool) -> Iterator[Command]:
    """Yield an ssh command for each node, where a batch system cannot start commands in a job.

    The words run outside the job and its limits, if the site lets its user in. The user's login shell
    there, which may be csh, gets one line that every shell reads alike.
    """
    line = line_of(words)
    own = ["-t"] if terminal else ["-o", "BatchMode=yes"]
    options = ("-o", "ConnectTimeout=20", "-o", "LogLevel=ERROR", *own)  # not -q: a refusal is to be read
    for name in nodes.names:
        yield Command(("ssh", *options, "--", name, line), keep_environment=("LC_ALL",))
