from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from hpcdist.base import locks
from hpcdist.base.errors import SchedulerError

MINE = "0123456789abcdef"
OTHER = "fedcba9876543210"
HOLD = """
import sys, time
from pathlib import Path
from hpcdist.base.locks import exclusive
with exclusive(Path(sys.argv[1]), sys.argv[2], time.sleep, print):
    print("held", flush=True)
    time.sleep(60)
"""


def never(*_: object) -> None:
    pytest.fail("there is nobody to wait for")


@contextmanager
def held(folder: Path, digest: str) -> Iterator[subprocess.Popen[str]]:
    """Hold the lock in another process, which is killed."""
    words = (sys.executable, "-c", HOLD, str(folder), digest)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_lock_serializes_processes(tmp_path: Path) -> None:
    said = []
    with held(tmp_path, MINE) as other:

        def sleep(seconds: float) -> None:
            other.kill()
            time.sleep(seconds)

        with locks.exclusive(tmp_path, MINE, sleep, lambda: said.append("busy")):
            assert other.wait() == -signal.SIGKILL
    assert said == ["busy"]


def test_other_experiment_does_not_wait_for_the_lock(tmp_path: Path) -> None:
    with held(tmp_path, OTHER), locks.exclusive(tmp_path, MINE, never, never):
        pass


def test_lock_is_released_when_its_process_is_killed(tmp_path: Path) -> None:
    with held(tmp_path, MINE):
        pass
    for _ in range(2):
        with locks.exclusive(tmp_path, MINE, never, never):
            pass


def test_waiting_for_a_lock_times_out(tmp_path: Path) -> None:
    slept: list[float] = []
    with (
        held(tmp_path, MINE),
        pytest.raises(
            SchedulerError, match=r"has been running for 300 s; wait until it has ended, or .*--again"
        ),
        locks.exclusive(tmp_path, MINE, slept.append, str),
    ):
        pytest.fail("it is held")
    assert 300 < sum(slept) < 302


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_file_system_without_locks(tmp_path: Path, number: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with locks.exclusive(tmp_path, MINE, never, never, refuse):
        pass


def test_symbolic_link_instead_of_the_lock_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / f".submit-{os.getuid()}.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"), locks.exclusive(tmp_path, MINE, never, never):
        pytest.fail("a link was followed")
    assert not (tmp_path / "elsewhere").exists()


def test_threads_wait_for_each_other_and_leave_the_file_locked(tmp_path: Path) -> None:
    """Closing the file in one thread would end the lock of another one, also of another experiment."""
    inside: list[str] = []

    def work(digest: str) -> None:
        with locks.exclusive(tmp_path, digest, time.sleep, never):
            inside.append(digest)
            assert len(inside) == 1
            [holder] = inside
            inside.remove(holder)

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, digest) for digest in (MINE, OTHER) * 100]:
            done.result()
