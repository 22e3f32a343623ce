"""No test depends on how it is run: neither on a config, nor on signals that a shell has ignored.

The tests have two tiers. A test is marked ``extended`` where a test without that mark proves the same
mechanism on fewer frameworks, sites, examples or sizes: `make test` runs those without the mark,
`make test-all` all.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests import processes, wording

os.environ["HPCDIST_CONFIG"] = ""  # for the processes that tests start as well

# A shell has its background jobs ignore INT, which everything that tests start would then do too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples each time, so that a change is refused for what it did; `make test-all` takes more of them
# by the profile "thorough". `make chaos` looks for new ones by the profile "explore", which prints a line
# `@reproduce_failure(...)`. A busy machine is no failure.
settings.register_profile(
    "thorough",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("hpcdist", settings.get_profile("thorough"), max_examples=25)
settings.register_profile("explore", settings.get_profile("thorough"), derandomize=False, print_blob=True)
settings.load_profile("hpcdist")

MARK: Final = "TESTS_OF_HPCDIST"
"""A variable of everything that the tests of one worker start."""


class Files(LoadScopeScheduling):  # type: ignore[misc] # pytest-xdist has no types for it
    """Let pytest-xdist give a worker a whole file, whose real tests share clusters.

    Each worker has clusters of its own, in namespaces. Marks of pytest-xdist would say the same, but its 3.8
    does not read them under pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]


def only_real(config: pytest.Config) -> bool:
    """Whether only tests marked ``real`` were asked for."""
    return bool(config.option.markexpr.startswith("real"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files unread that have no test of those asked for, real or not: each worker would read them."""
    if not collection_path.match("test_*.py"):
        return None
    if only_real(config):
        return "pytest.mark.real" not in collection_path.read_text() or None
    if config.option.markexpr.startswith("not real"):
        return bool(WHOLLY_REAL.search(collection_path.read_text())) or None
    return None


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Files | None:
    """Have real tests run file by file, in their order; of others a worker takes whichever comes next."""
    config.option.loadscopereorder = False
    return Files(config, log) if only_real(config) else None


WHOLLY_REAL: Final = re.compile(r"(?m)^pytestmark = .*pytest\.mark\.real")

COLLECTED: Final = pytest.StashKey[list[str]]()
"""The names of all tests that were found, before any was deselected by its mark."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the names of the tests, and have files with long ones begun first."""
    config.stash[COLLECTED] = [item.nodeid for item in items]
    begun_first = {item.path for item in items if item.get_closest_marker("long")}
    items.sort(key=lambda item: item.path not in begun_first)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what this user may not do; the summary has one line with the number of these tests."""
    if item.get_closest_marker("namespaces") and os.geteuid() != 0:
        pytest.skip("left out: these need root, for mounts, namespaces or files of other users")


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
