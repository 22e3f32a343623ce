"""No test depends on how it is run: neither on a config, nor on signals that a shell has ignored.

The tests have two tiers. A test is marked ``extended`` where a test without that mark proves the same
mechanism on fewer frameworks, sites, examples or sizes: `make test` runs those without the mark,
`make test-all` all.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests import processes, wording

os.environ["HPCDIST_CONFIG"] = ""  # for the processes that tests start as well

# A shell has its background jobs ignore INT, which everything that tests start would then do too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples each time, so that a change is refused for what it did; `make chaos` looks for new ones
# by the profile "explore", which prints a line `@reproduce_failure(...)`. A busy machine is no failure.
settings.register_profile(
    "hpcdist",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("explore", settings.get_profile("hpcdist"), derandomize=False, print_blob=True)
settings.load_profile("hpcdist")

MARK: Final = "TESTS_OF_HPCDIST"
"""A variable of everything that the tests of one worker start."""

BUILDS_ONCE: Final = frozenset({"test_wheel"})
"""Files of which each worker would build the same again."""

CLUSTERS: Final = frozenset({"lsf", "pbs", "sge", "slurm"})
"""Folders whose real tests boot clusters."""

TRAINS: Final = frozenset(
    {
        "test_commands",
        "test_containers",
        "test_elastic",
        "test_examples",
        "test_frameworks",
        "test_guides",
        "test_imported",
        "test_laptop",
        "test_launch_lines",
        "test_nodes",
        "test_pbs_training",
        "test_ray",
        "test_servers",
        "test_survey",
        "test_tracking",
        "test_training",
    }
)
"""Files whose jobs want all cores, and meet in /dev/shm."""

LASTS: Final = frozenset({"test_attempts", "test_rehearse", "test_restarts", "test_resume", "test_sweeps"})
"""Files whose jobs wait for limits, for grace times and for nodes that come back."""

COMPARES: Final = frozenset({"test_cluster"})
"""Files that look whether this machine is as it was, which it is not while a training uses /dev/shm."""

ACCOUNTS: Final = frozenset({"test_states"})
"""Files with the cluster that has accounting, of which one worker boots one."""


class Groups(LoadScopeScheduling):  # type: ignore[misc] # pytest-xdist has no types for it
    """Let pytest-xdist run side by side what does not disturb each other.

    The real tests on clusters are three groups: two of jobs that mostly wait, and what wants the machine's
    cores.
    Each worker has clusters of its own, in namespaces. Other tests run wherever there is time: of the real
    ones each file, of the others each test. Marks of pytest-xdist would say the same, but its 3.8 does not
    read them under pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(PurePath(nodeid.partition("::")[0]), real=only_real(self.config)) or nodeid


def only_real(config: pytest.Config) -> bool:
    """Whether only tests marked ``real`` were asked for."""
    return bool(config.option.markexpr.startswith("real"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files without real tests unread where only those are asked for: each worker would read them."""
    if only_real(config) and collection_path.match("test_*.py"):
        return "pytest.mark.real" not in collection_path.read_text() or None
    return None


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups:
    """Have the groups, whatever --dist says."""
    return Groups(config, log)


def group_of(file: PurePath, *, real: bool) -> str:
    """Return the name of the group whose tests run one after the other; empty where there is none."""
    if not real:
        return file.stem if file.stem in BUILDS_ONCE else ""
    if file.stem in TRAINS | COMPARES | ACCOUNTS:
        return "machine"
    if file.stem in LASTS:
        return "long jobs"
    return "jobs" if file.parent.name in CLUSTERS else str(file)


COLLECTED: Final = pytest.StashKey[list[str]]()
"""The names of all tests that were found, before any was deselected by its mark."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the names of the tests."""
    config.stash[COLLECTED] = [item.nodeid for item in items]


@pytest.fixture(name="wording")
def _wording(request: pytest.FixtureRequest) -> Iterator[wording.Wording]:
    """What compares a text with the file of the test's room."""
    yield from wording.of(request.node.nodeid)


@pytest.fixture(scope="session")
def collected(pytestconfig: pytest.Config) -> list[str]:
    """The names of all tests of the files that this run was given."""
    return pytestconfig.stash[COLLECTED]


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """End what tests started, by accident or not, and did not end; and name these tests."""
    mark = f"{os.getpid()}.{time.time_ns()}"
    os.environ[MARK] = mark
    yield
    if left := processes.ended(MARK, mark):
        pytest.fail("these processes outlived their tests:\n" + "\n".join(left), pytrace=False)
