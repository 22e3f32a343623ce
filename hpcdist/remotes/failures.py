"""Why a remote cannot be reached: what ssh printed, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from hpcdist.errors import Problem, SchedulerError
from hpcdist.runs.rundir import Run

_MOST: Final = 200
_HEAD: Final = 60


class Unreachable(SchedulerError):  # noqa: N818 - what it is, not a mistake
    """A remote could not be reached, or its answer did not come to its end."""


_REASON: Final = re.compile("space|quota|denied|Read-only|too large", re.IGNORECASE)
"""What the line that names the reason has, among those of tar."""

_SSH: Final = 255
"""The exit code of ssh for its own failures (ssh(1))."""


class Cause(NamedTuple):
    """What ssh prints, as a pattern; what that means, and what to do."""

    pattern: str
    what: str
    hint: str


_CAUSES: Final = (
    Cause(
        "REMOTE HOST IDENTIFICATION HAS CHANGED|host key .* has changed",
        "its host key is not the one that ssh knows, so it may be another machine",
        "ask its centre whether the key was changed; if so, forget the old one by `ssh-keygen -R`, log in "
        "once by `ssh {host}`, and compare the new one",
    ),
    Cause(
        "Host key verification failed",
        "ssh does not know its host key yet",
        "log in once by `ssh {host}`, and compare the key's fingerprint with the one that its centre shows",
    ),
    Cause(
        "Permission denied|Too many authentication failures|Authentication failed",
        "it refused the login",
        "try `ssh {host}`, whose keys and agent are used here, too",
    ),
    Cause(
        "Could not resolve hostname|Name or service not known",
        "there is no host of this name",
        "correct `remotes.{name}.host` in your config",
    ),
    Cause(
        "Connection refused",
        "no ssh server answers there",
        "check `remotes.{name}.host` in your config, and whether the machine is down",
    ),
    Cause(
        "timed out|No route|unreachable|not responding|Connection closed|Connection reset|Broken pipe",
        "the network does not lead there now",
        "check your network or VPN, and try again",
    ),
    Cause("ssh: No such file|ssh: not found", "there is no `ssh` here", "install the client of OpenSSH"),
)
_NO_TERMINAL: Final = (
    "; passwords and codes are asked for on a terminal alone: run `hpcdist status` in one, and its "
    "connection serves for hours"
)


def problem(name: str, host: str, errors: str, *, terminal: bool = True) -> Problem:
    """Return why ssh could not connect, by its errors."""
    cause = next((one for one in _CAUSES if re.search(one.pattern, errors, re.IGNORECASE)), None)
    if cause is None:
        hint = f"try `ssh {host}`; what works there works here"
        return Problem(f"{name} cannot be reached: {shown(errors) or 'ssh gave no reason'}", hint=hint)
    hint = cause.hint.format(name=name, host=host)
    if not terminal and "refused the login" in cause.what:
        hint += _NO_TERMINAL
    return Problem(f"{name} cannot be reached: {cause.what} ({shown(errors)})", hint=hint)


def no_answer(name: str, host: str, code: int, errors: str, printed: str) -> Problem:
    """Return why a session gave no answer: it was cut off, or the login shell there ended first."""
    if code == _SSH:
        return problem(name, host, errors)
    words = shown(errors) or shown(printed)
    why = f"{words}; " if words else ""
    message = f"the login shell on {name} ended with exit code {code} before it ran anything ({why}no answer)"
    return Problem(message, hint=f"does `ssh {host} true` work? a ~/.bashrc there must not end the shell")


def slow(name: str, seconds: float) -> Problem:
    """Return the problem of a session that did not end in its time."""
    message = f"{name} did not answer within {seconds:.0f} s"
    return Problem(message, hint="its login node or your network may be slow now: try again later")


def endless(name: str, most: int) -> Problem:
    """Return the problem of an answer that is longer than any that was asked for."""
    hint = "what a login shell there prints may have no end: log in and look"
    return Problem(f"the answer of {name} has more than {most >> 20} MiB, and was not read", hint=hint)


def broken(name: str, code: int, errors: str) -> Problem:
    """Return the problem of a program that ended in its middle, as by a limit of the login node."""
    why = f": {shown(errors)}" if shown(errors) else ""
    hint = "its login node may have ended it: try again later"
    return Problem(f"what runs on {name} ended with exit code {code} before its end{why}", hint=hint)


def malformed(name: str, host: str, where: str) -> Problem:
    """Return the problem of an answer in another form than what was asked for."""
    message = f"the answer of {name} cannot be read ({shown(where)[:_HEAD]!r})"
    hint = f"something there prints into it or cuts it: does `ssh {host} true` print nothing? try again later"
    return Problem(message, hint=hint)


def unwritten(name: str, errors: str) -> Problem:
    """Return why nothing could be written there."""
    hint = "free some space there, or choose another `directory` of this remote in your config"
    if "no tar" in errors:
        hint = "ask its centre for tar, which every Unix has"
    elif "Permission denied" in errors or "Read-only" in errors:
        hint = f"choose a `directory` in which you can write: `remotes.{name}.directory` in your config"
    reason = next((line for line in _lines(errors) if _REASON.search(line)), "") or shown(errors)
    return Problem(f"the run cannot be written on {name}: {reason[:_MOST]}", hint=hint)


def gone(run: Run) -> Problem:
    """Return the problem of a run whose directory there was removed, as sites do with old files."""
    record = run.record
    message = f"the directory of {run.name} on {record.remote} is not there any more: {record.there}"
    return Problem(message, hint=f"its site may remove old files; what is left is in {run.directory.path}")


def shown(errors: str) -> str:
    """Return the last telling line of ssh, without control characters."""
    lines = [line for line in _lines(errors) if not line.startswith(("Warning: Permanently", "debug", "@"))]
    return lines[-1][:_MOST] if lines else ""


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        plain = "".join(char for char in line if char.isprintable()).strip()
        if plain:
            yield plain
