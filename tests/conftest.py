"""No test depends on how it is run: neither on a config, nor on signals that a shell has ignored."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Final

import pytest

from tests import processes

os.environ["HPCDIST_CONFIG"] = ""  # for the processes that tests start as well

# A shell has its background jobs ignore INT, which everything that tests start would then do too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

MARK: Final = "TESTS_OF_HPCDIST"
"""A variable of everything that the tests of one worker start."""

BUILDS_ONCE: Final = {"test_wheel"}
"""Files of which each worker would build the same again."""

TRAINS: Final = {
    "test_containers",
    "test_elastic",
    "test_frameworks",
    "test_guides",
    "test_imported",
    "test_nodes",
    "test_pbs_training",
    "test_servers",
    "test_survey",
    "test_training",
}
"""Files whose jobs want all cores: two at once, whose ranks spin, take much more than twice as long."""

COMPARES: Final = {"test_cluster"}
"""Files that look whether this machine is as it was, which it is not while a training uses /dev/shm."""


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let pytest-xdist run side by side what does not disturb each other.

    Tests without a group run wherever there is time. The real ones are two groups: jobs that mostly wait, and
    what needs the machine for itself. Each worker has clusters of its own, in namespaces; one has accounting.
    """
    for item in items:
        if group := group_of(item):
            item.add_marker(pytest.mark.xdist_group(group))


def group_of(item: pytest.Item) -> str:
    """Return the name of the group whose tests run one after the other; empty where there is none."""
    folder, name = item.path.parent.name, item.path.stem
    if item.get_closest_marker("real") is None:
        return name if name in BUILDS_ONCE else ""
    is_alone = name in TRAINS | COMPARES or "accounting_cluster" in getattr(item, "fixturenames", ())
    return "jobs" if folder in {"lsf", "pbs", "sge", "slurm"} and not is_alone else "machine"


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """End what tests started, by accident or not, and did not end; and name these tests."""
    mark = f"{os.getpid()}.{time.time_ns()}"
    os.environ[MARK] = mark
    yield
    if left := processes.ended(MARK, mark):
        pytest.fail("these processes outlived their tests:\n" + "\n".join(left), pytrace=False)
