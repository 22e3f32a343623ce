"""A line of progress once a minute, and at the end what each folder of tests proved, in how many seconds.

`make test-all` asks for it by ``-p tests.progress``; under pytest-xdist only its controller has the reports.
"""

from __future__ import annotations

import ast
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

EVERY: Final = 60.0
"""Seconds between two lines."""

LONGEST: Final = 10


class Test(NamedTuple):
    """A test that has run, with what prepared it and what cleaned up."""

    name: str
    seconds: float

    @property
    def folder(self) -> Path:
        """The folder of its file."""
        return Path(self.name.partition("::")[0]).parent


class Progress:
    """What has run so far."""

    def __init__(self, root: Path, began: float) -> None:
        self.root = root
        self.began = self.said = began
        self.total = 0
        self.failed: set[str] = set()
        self.seconds: dict[str, float] = defaultdict(float)

    def add(self, name: str, seconds: float, *, failed: bool) -> None:
        """Add one of the reports of a test."""
        self.seconds[name] += seconds
        if failed:
            self.failed.add(name)

    def line(self, now: float) -> str:
        """Return a line of progress where the last one is old enough, or an empty one."""
        if now - self.said < EVERY:
            return ""
        self.said = now
        done = f"{len(self.seconds)}/{self.total or '?'} tests"
        return f"{done}, {len(self.failed)} failed, {now - self.began:.0f} s"

    def table(self) -> Iterator[str]:
        """Yield the lines of the summary."""
        tests = [Test(*item) for item in self.seconds.items()]
        yield f"{'tests':>6} {'seconds':>8}  what they prove"
        for folder in sorted({test.folder for test in tests}):
            own = [test for test in tests if test.folder == folder]
            yield f"{len(own):6} {sum(test.seconds for test in own):8.0f}  {folder}: {proved(self.root, own)}"
        yield f"the {LONGEST} longest:"
        for test in sorted(tests, key=lambda test: -test.seconds)[:LONGEST]:
            yield f"{'':6} {test.seconds:8.1f}  {test.name}"


def proved(root: Path, tests: Iterable[Test]) -> str:
    """Return what the folder's docstring says, or else the first lines of those of its files."""
    files = sorted({root / test.name.partition("::")[0] for test in tests})
    said = _first_line(files[0].with_name("__init__.py")) or " ".join(filter(None, map(_first_line, files)))
    return said[:200]


def _first_line(file: Path) -> str:
    if not file.is_file():
        return ""
    return (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n")[0]


class Reporter:
    """Tell of the progress in the terminal of the run."""

    def __init__(self, progress: Progress, config: pytest.Config) -> None:
        self.progress = progress
        self.terminal = config.pluginmanager.getplugin("terminalreporter")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the tests of a run without workers."""
        self.progress.total = max(self.progress.total, len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Count those that each worker has found."""
        self.progress.total = len(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a report, name what failed, and say once a minute how far the run is."""
        self.progress.add(report.nodeid, report.duration, failed=report.failed)
        if report.failed:
            self.terminal.ensure_newline()
            self.terminal.write_line(f"failed: {report.nodeid}")
        if line := self.progress.line(time.monotonic()):
            self.terminal.ensure_newline()
            self.terminal.write_line(line)

    def pytest_terminal_summary(self) -> None:
        """Print the table."""
        self.terminal.section("what was proved")
        for line in self.progress.table():
            self.terminal.write_line(line)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Begin, but not in a worker of pytest-xdist."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reporter(Progress(config.rootpath, time.monotonic()), config))
