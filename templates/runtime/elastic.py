"""Elastic Horovod, in a run's files: the nodes that its job still has, and how each rank ends.

    elastic.py nodes             what horovodrun runs every second: prints HOST:SLOTS of each node
    elastic.py rank PROGRAM...   what horovodrun starts as each rank: runs it, and records its end

What they write lies in ``ended.R.T``, beside ``failure.R.T``, the file of the first rank to fail.
"""

import os
import signal
import subprocess
import sys
import time
from typing import List, Sequence

_PERIOD = 10.0
"""The seconds from one question to the batch system to the next."""


def main(words: Sequence[str]) -> int:
    """Do what the first word says; return the exit code."""
    failure = os.environ["HPCDIST_FAILURE"]
    folder = "/ended".join(failure.rsplit("/failure", 1))
    os.makedirs(folder, 0o700, exist_ok=True)
    if words[0] == "rank":
        return rank(words[1:], folder, failure)
    if words[0] == "nodes":
        sys.stdout.write(nodes(folder))
    else:  # horovodrun tells rank 0, and if that is lost, it tries for minutes; later it has another rank 0
        ask(folder, float(os.environ.get("HOROVOD_GLOO_TIMEOUT_SECONDS", "30")) + 30, 30)
    return 0


def nodes(folder: str) -> str:
    """Return the lines of the nodes that are left; at once, as horovodrun holds a lock meanwhile."""
    alive, asked = os.path.join(folder, "alive"), os.path.join(folder, "asked")
    if not os.path.exists(alive):  # no rank runs yet that could be told
        ask(folder, 0, 10)
        if not os.path.exists(alive):
            _write(alive, _planned())
        _write(asked, str(time.time()))
    elif _age(asked) >= _PERIOD:
        _write(asked, str(time.time()))
        own, null = [sys.executable, "-ISB", __file__, "ask"], subprocess.DEVNULL  # no pipe of horovodrun's
        subprocess.Popen(own, stdin=null, stdout=null, stderr=null, start_new_session=True)
    return _read(alive)


def ask(folder: str, delay: float, seconds: float) -> None:
    """Ask for the nodes; a change counts after this delay, and without an answer there is none."""
    names = {"localhost", *_allocated(seconds)}
    left = "".join(line for line in _planned().splitlines(True) if line.split(":")[0] in names)
    following, since = os.path.join(folder, "next"), os.path.join(folder, "since")
    if left and _read(following) != left:
        _write(following, left)
        _write(since, str(time.time()))
    if left and _age(since) >= delay:
        _write(os.path.join(folder, "alive"), left)


def _planned() -> str:
    """Return the lines of the nodes with which the attempt began."""
    return _read(os.environ["HPCDIST_HOSTFILE"]).replace(" slots=", ":")


def _allocated(seconds: float) -> List[str]:
    """Return the names of the job's nodes; with --no-kill Slurm takes one that is down out of it."""
    job = os.environ.get("SLURM_JOB_ID", "")
    found = _output(["squeue", "-h", "-j", job, "-o", "%N"], seconds).split() if job else []
    return _output(["scontrol", "show", "hostnames", ",".join(found)], seconds).split() if found else []


def _output(words: Sequence[str], seconds: float) -> str:
    try:
        return subprocess.check_output(words, timeout=seconds, stderr=subprocess.DEVNULL).decode()
    except (OSError, subprocess.SubprocessError):
        return ""


def _age(path: str) -> float:
    """Return the seconds since the time in a file; a file server may have a clock of its own."""
    return time.time() - float(_read(path) or 0)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> None:
    """Replace a file as a whole: others read it meanwhile."""
    part = "{}.{}".format(path, os.getpid())
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(part, path)


def rank(words: Sequence[str], folder: str, failure: str) -> int:
    """Run the program of a rank, and record its end, unless it was told to end; return its exit code.

    A rank that is lost cannot do so. horovodrun fails when one is lost after another has ended well.
    """
    told: List[int] = []
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda *_: None)  # the program gets them as well
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    try:
        code = subprocess.Popen(words).wait()
    except OSError as error:
        sys.stderr.write("hpcdist: {}: {}\n".format(words[0], error.strerror))
        code = 127
    code = code if code >= 0 else 128 - code
    end = (code, os.environ.get("HOROVOD_RANK", "?"), os.uname().nodename)
    try:
        if not told:
            with open(failure if code else os.path.join(folder, "well"), "x") as file:  # of the first one
                file.write("{} {} {}\n".format(*end) if code else "")
    except OSError:
        pass
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
