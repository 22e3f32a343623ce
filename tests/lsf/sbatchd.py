"""The life of one job of the stand-in: it waits, runs, is warned, reaches its limit, ends.

As LSF does it where LSB_STDOUT_DIRECT is not set, the output comes to its file when the job is over, below a
report; and a job that is killed gets INT, TERM and KILL one after the other.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.lsf import state
from tests.lsf.hosts import send, start
from tests.lsf.state import Config, Job

KILL = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
LIMIT = (signal.SIGUSR2, *KILL)

REPORT = """
------------------------------------------------------------
Sender: LSF System <lsfadmin@{host}>
Subject: Job {id}: <{name}> in cluster <fake> {ended}

The output (if any) follows:

"""


def main(keys: list[str]) -> None:
    """Accept all elements of an array at once, as LSF does whatever ends bsub, and run each."""
    for each in keys:
        state.accept(each)
    for each in keys[1:]:
        if os.fork() == 0:
            return run(each)
    return run(keys[0])


def run(key: str) -> None:
    settings, folder = state.config(), state.folder()
    while not may_start(state.load(key)):
        time.sleep(0.1)
    job = state.update(key, stat="RUN", pend_reason="")
    if job.is_over:
        return
    host = settings.launch_host or job.hosts[0]
    pid_file = folder / f"{key}.pid"
    script = folder / f"{job.id}.script"
    with tempfile.TemporaryFile() as output:
        process = start(settings, host, f"exec bash {script}", variables(job, settings), pid_file, output)
        reason = watch(process, job, host, pid_file, settings)
        code = process.wait()
        send(settings, host, signal.SIGKILL, pid_file)  # what a script leaves that was killed
        output.seek(0)
        end(job, code if code >= 0 else 128 - code, reason, output.read(), host)


def may_start(job: Job) -> bool:
    """Whether nothing holds it back; a killed one goes on to its end."""
    if job.is_over:
        return True
    others = [other for other in state.jobs() if str(other.id) in re.findall(r"\((\d+)\)", job.waits_for)]
    return not (state.folder() / "hold").exists() and all(other.is_over for other in others)


def variables(job: Job, settings: Config) -> dict[str, str]:
    """Return what a job finds: all that its submitter had, and LSF's own."""
    hosts = [(settings.launch_host, 1)] if settings.launch_host else []
    hosts += [(host, job.slots) for host in job.hosts]
    hostfile = state.folder() / f"{job.key}.hosts"
    hostfile.write_text("".join(f"{host}\n" * slots for host, slots in hosts))
    return job.environment | {
        "PWD": job.cwd,
        "LS_SUBCWD": job.cwd,
        "LSB_JOBID": str(job.id),
        "LSB_JOBINDEX": str(job.index),
        "LSB_JOBNAME": job.name,
        "LSB_QUEUE": job.queue,
        "LSB_MCPU_HOSTS": "".join(f"{host} {slots} " for host, slots in hosts),
        "LSB_DJOB_HOSTFILE": str(hostfile),
    }


def watch(process: subprocess.Popen[bytes], job: Job, host: str, pid_file: Path, settings: Config) -> str:
    """Wait for the end, and bring it about where that is due; return why it was."""
    began = time.monotonic()
    limit = began + (job.minutes or 10**6) * settings.minute
    warned = job.warning is None
    killed = state.folder() / f"{job.key}.kill"
    while process.poll() is None:
        now = time.monotonic()
        if job.warning and not warned and now > limit - job.warning[1] * settings.minute:
            warned = True
            send(settings, host, signal.Signals[f"SIG{job.warning[0]}"], pid_file)
        if killed.exists() or now > limit:
            for number in KILL if killed.exists() else LIMIT:
                send(settings, host, number, pid_file)
                if gone(process, settings.grace):
                    break
            return (
                "TERM_OWNER: job killed by owner"
                if killed.exists()
                else "TERM_RUNLIMIT: job killed after reaching LSF run time limit"
            )
        time.sleep(0.05)
    return ""


def gone(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def end(job: Job, code: int, reason: str, output: bytes, host: str) -> None:
    ended = "Exited" if code else "Done"
    if job.output:
        # A full disk has no output; the job is over all the same.
        with suppress(OSError), (Path(job.cwd) / job.output).open("ab") as file:
            file.write(REPORT.format(host=host, id=job.id, name=job.name, ended=ended).encode() + output)
    state.update(
        job.key,
        stat="EXIT" if code or reason else "DONE",
        exit_code=str(code) if code else "",
        exit_reason=reason,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
