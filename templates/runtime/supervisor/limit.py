"""Ends a job at its time limit where no batch system does: ``limit.py PID TOKEN SECONDS EVENTS ID``.

It is a process of its own: if the supervisor was killed, what the job has started has the same limit.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from typing import List

_GRACE = 10.0


def others(script: int, token: str) -> List[int]:
    """Return the processes that have the job's token, in whichever group, but for its first one."""
    found = []
    entry = b"HPCDIST_TOKEN=" + token.encode()
    for name in filter(str.isdigit, os.listdir("/proc") if token else ()):
        with suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
            if entry in file.read().split(b"\0") and int(name) not in (script, os.getpid()):
                found.append(int(name))
    return found


def lives(pid: int) -> bool:
    """Return whether there is such a process."""
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def main(pid: int, token: str, seconds: float, events: str, job: str) -> None:
    """Wait for the limit, or for the end of the job; then end it.

    The first process ends last, as it records the end.
    """
    end, was = time.monotonic() + seconds, True
    while time.monotonic() < end:
        time.sleep(1)
        was = was and lives(pid)
        if not was and not others(pid, token):
            return
    if was:
        with suppress(OSError), open(f"/proc/{pid}/fd/2", "a", encoding="utf-8") as log:
            log.write("hpcdist: the time limit is over\n")
        with open(events, "a", encoding="utf-8") as log:
            log.write(f"timeout {job} {int(time.time())} 0\n")
        os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + _GRACE
    while time.monotonic() < end and ((was and lives(pid)) or others(pid, token)):
        time.sleep(0.5)
    for one in others(pid, token):
        with suppress(OSError):
            os.kill(one, signal.SIGKILL)
    time.sleep(1)
    if was and lives(pid):
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), *sys.argv[4:6])
