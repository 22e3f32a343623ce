"""Starting programs on the hosts of the stand-in, and signalling them there."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from tests.lsf.state import Config

_SSH = ("ssh", "-o", "BatchMode=yes")
_UNSENT = frozenset({"_", "PWD", "OLDPWD", "SHLVL"})


def start(  # noqa: PLR0913, PLR0917 - what, where, with what
    settings: Config,
    host: str,
    command: str,
    environment: Mapping[str, str],
    pid_file: Path,
    output: int | IO[Any] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a line of shell on a host, in a process group of its own whose number is in the file."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items() if _is_sent(name)]
    body = "\n".join(
        [*lines, f"cd {shlex.quote(environment.get('PWD', '/'))}", f"echo $$ >{pid_file}", command]
    )
    file = pid_file.with_suffix(".sh")
    file.write_text(body + "\n")
    words = ["env", "-i", "setsid", "--wait", "bash", str(file)]
    if settings.remote and host != os.uname().nodename:
        words = [*_SSH, host, shlex.join(words)]
    return subprocess.Popen(
        words, stdin=subprocess.DEVNULL, start_new_session=True, stdout=output, stderr=output
    )


def _is_sent(name: str) -> bool:
    return name.isidentifier() and name not in _UNSENT


def send(settings: Config, host: str, number: signal.Signals, pid_file: Path) -> None:
    """Signal all of a session: LSF keeps a list of all process groups of a job."""
    text = pid_file.read_text().strip() if pid_file.exists() else ""
    if not text:
        return
    words = ["pkill", "--signal", number.name.removeprefix("SIG"), "--session", text]
    if settings.remote and host != os.uname().nodename:
        words = [*_SSH, host, shlex.join(words)]
    subprocess.run(words, stderr=subprocess.DEVNULL, check=False)
