"""A real sshd behind ssh's ProxyCommand, which needs no port and ends with its connection; and a laptop."""

from __future__ import annotations

import json
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

CHECKOUT: Final = Path(__file__).resolve().parents[3]

_SSHD: Final = """\
HostKey {folder}/host
AuthorizedKeysFile {folder}/key.pub
StrictModes no
PidFile none
PasswordAuthentication no
LogLevel ERROR
SetEnv HOME={folder}
"""
"""Another home: a session that is killed may leave a lock of what ~/.bashrc runs, as pyenv does."""

_KEYS_ALONE: Final = ("UsePAM no", "KbdInteractiveAuthentication no")
_SSH: Final = """\
Host there there2 there3
  HostName there
  User {user}
  IdentityFile {folder}/key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  StrictHostKeyChecking yes
  ProxyCommand {folder}/proxy
"""

# Calls are counted, and a session is cut off where the test wants that: after a time, before what it sends
# arrives, when a half of it has, or before its answer has come; or its hpcdist is killed before or after it.
_WRAPPER: Final = """\
#!/bin/bash
kind=session
for word; do
  case $word in
  -G) kind=config ;;
  -oControlMaster=yes) kind=master ;;
  check | exit | forward | cancel) kind=control ;;
  esac
done
echo "$kind" >>'{folder}/calls'
[[ $kind == session && -s {folder}/cut ]] || exec /usr/bin/ssh -F '{folder}/ssh_config' "$@"
read -r seconds <'{folder}/cut'
sed -i 1d '{folder}/cut'
ssh() {{ /usr/bin/ssh -F '{folder}/ssh_config' "$@"; }}
case $seconds in
before) exit 255 ;;
half) head -c $(($(stat -L -c %s /dev/stdin) / 2)) | ssh "$@" >/dev/null; exit 255 ;;
part) ssh "$@" | head -c 100000; exit 255 ;;
after) ssh "$@" >/dev/null; exit 255 ;;
killed-before) kill -KILL "$PPID"; exit 255 ;;
killed-after) ssh "$@"; kill -KILL "$PPID"; exit 255 ;;
esac
timeout -s KILL "$seconds" /usr/bin/ssh -F '{folder}/ssh_config' "$@"
code=$?
exit $((code == 137 ? 255 : code)) # as ssh ends that has lost its connection
"""


class Laptop(NamedTuple):
    """A folder in which hpcdist reaches another machine by ssh: this one, in a session of its own.

    ``there``: the folder of runs there, of which nothing is read here but by tests.
    """

    folder: Path
    work: Path
    there: Path

    def configure(self, **remotes: Mapping[str, str]) -> None:
        """Write the user's config."""
        (self.folder / "config.yml").write_text(json.dumps({"remotes": remotes}))

    def server(self, *options: str, before: str = "", login: str = "") -> None:
        """Write how sshd is started: its options, what is done before, and its login shell."""
        lines = _SSHD.format(folder=self.folder) + "".join(f"{line}\n" for line in options or _KEYS_ALONE)
        if login:
            _script(self.folder / "shell", login)
            lines += f"ForceCommand {self.folder}/shell\n"
        (self.folder / "sshd_config").write_text(lines)
        start = f"exec {before or 'env'} /usr/sbin/sshd -i -f {self.folder}/sshd_config -E {self.folder}/log"
        namespace = "mount -t tmpfs tmpfs /run && mkdir /run/sshd"  # Debian's sshd of root wants it
        inside = f"{namespace} && {start}" if os.geteuid() == 0 else start
        words = ["unshare", "--mount", "sh", "-c", inside] if os.geteuid() == 0 else ["sh", "-c", inside]
        # another machine knows nothing of a terminal here
        _script(self.folder / "proxy", f"#!/bin/sh\nexec setsid --wait {shlex.join(words)}\n")

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a shell here."""
        return os.environ | {
            "PATH": f"{self.folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(CHECKOUT),
            "HPCDIST_CONFIG": str(self.folder / "config.yml"),
            "XDG_RUNTIME_DIR": str(self.folder),
        }

    def hpcdist(self, *words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run hpcdist to its end, without a terminal; ``code`` None for any exit code."""
        done = subprocess.run(
            [sys.executable, "-m", "hpcdist", *words],
            cwd=self.work,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            start_new_session=True,
            check=False,
        )
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done

    def on_terminal(self, answer: str, *words: str) -> str:
        """Run hpcdist on a terminal of its own, and answer the first question; return what it showed."""
        pid, terminal = pty.fork()
        if not pid:
            os.chdir(self.work)
            os.execve(sys.executable, [sys.executable, "-m", "hpcdist", *words], self.environment)  # noqa: S606
        shown, is_asked, end = "", False, time.monotonic() + 120
        while not os.waitpid(pid, os.WNOHANG)[0]:  # the connection, which stays, holds the terminal open
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
            if not select.select([terminal], [], [], 0.1)[0]:
                continue
            with suppress(OSError):  # all others have closed it
                shown += os.read(terminal, 1 << 16).decode()
            if ": " in shown.rpartition("\n")[2] and not is_asked:
                is_asked = True
                os.write(terminal, f"{answer}\n".encode())
        while select.select([terminal], [], [], 0)[0]:
            try:
                shown += os.read(terminal, 1 << 16).decode()
            except OSError:
                break
        os.close(terminal)
        return shown

    def json(self, *words: str) -> Any:
        """Return the answer of hpcdist as data."""
        return json.loads(self.hpcdist(*words, "--json", code=None).stdout)

    def write(self, name: str, cmd: str, **batch: Any) -> None:
        """Write an experiment of one process."""
        data = {"version": 1, "name": name, "run": {"cmd": cmd}, "batch": {"launcher": "processes", **batch}}
        (self.work / f"{name}.yml").write_text(json.dumps(data))

    def calls(self, kind: str = "session") -> int:
        """Return how many calls of ssh of this kind there were."""
        file = self.folder / "calls"
        return file.read_text().splitlines().count(kind) if file.exists() else 0

    def cut(self, *where: float | str) -> None:
        """Cut off the next sessions, each after its time, of which 0 is never, or as ``_WRAPPER`` has it."""
        (self.folder / "cut").write_text("".join(f"{each}\n" for each in where))

    def close(self) -> None:
        """End the connections, and with them the servers."""
        ssh = str(self.folder / "bin" / "ssh")
        for socket in (path for path in self.folder.glob("hpcdist-ssh-*/*") if path.is_socket()):
            words = [ssh, f"-oControlPath={socket}", "-O", "exit", "there"]
            subprocess.run(words, check=False, capture_output=True, timeout=30)


def laptop(folder: Path) -> Laptop:
    """Return a laptop that can log in on its other machine by a key."""
    made = Laptop(folder, folder / "laptop", folder / "far" / "runs")
    for path in (made.work, folder / "bin", folder / "far"):
        path.mkdir()
    for name in ("host", "key"):
        _call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
    trust(made)
    user = _call("id", "-un").strip()
    (folder / "ssh_config").write_text(_SSH.format(folder=folder, user=user))
    _script(folder / "bin" / "ssh", _WRAPPER.format(folder=folder))
    made.server()
    made.configure(box={"host": "there", "directory": str(made.there), "site": "local"})
    return made


def trust(laptop: Laptop, key: str = "host") -> None:
    """Let ssh know this key as that of the other machine."""
    kind, text, *_ = (laptop.folder / f"{key}.pub").read_text().split()
    (laptop.folder / "known").write_text(f"there {kind} {text}\n")


def _call(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout


def _script(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


def events(folder: Path) -> Sequence[str]:
    """Return the names of the events in all runs below a folder."""
    return [
        line.split()[0] for log in folder.glob("*/events") for line in log.read_text().splitlines() if line
    ]
