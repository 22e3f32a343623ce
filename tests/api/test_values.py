"""Arguments of a wrong type are hpcdist's own errors, which name the argument and what to write."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hpcdist

ON: Any = hpcdist.define(name="called", site="local")
PATH = "is no path; write a text, or a pathlib.Path"
RUN = "does not belong here; write a list of values of the type Run"
WRONG: Any = 3
"""No type checker lets it pass."""


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: hpcdist.load(WRONG), f"path: 3 {PATH}"),
        (lambda: hpcdist.load_pipeline(WRONG), f"path: 3 {PATH}"),
        (lambda: hpcdist.define(cmd="x", site=WRONG), f"site: 3 {PATH}"),
        (lambda: ON.changed(site=WRONG), f"site: 3 {PATH}"),
        (
            lambda: hpcdist.sweep(WRONG, {"x": [1]}),
            "experiment: 3 is no Experiment; write an experiment, such as `hpcdist.define(site=...)`",
        ),
        (
            lambda: hpcdist.sweep(ON, [1]),  # type: ignore[arg-type]
            "matrix: [1] is no dict with names as its keys; write {'NAME': VALUE}",
        ),
        (lambda: ON.submit(WRONG), f"runs_dir: 3 {PATH}"),
        (lambda: hpcdist.find_run(WRONG), f"name: 3 {PATH}"),
        (lambda: hpcdist.find_runs(WRONG), f"runs_dir: 3 {PATH}"),
        (lambda: hpcdist.find_pipeline(WRONG), f"name: 3 {PATH}"),
        (lambda: hpcdist.wait(WRONG), f"runs: 3 {RUN}"),
        (lambda: hpcdist.wait([WRONG]), f"runs: 3 {RUN}"),
        (lambda: asyncio.run(hpcdist.wait_async([WRONG])), f"runs: 3 {RUN}"),
        (lambda: hpcdist.wait([], timeout="x"), "timeout: 'x' is no number; write a number such as 60"),  # type: ignore[arg-type]
        (lambda: hpcdist.wait([], float("nan")), "timeout: nan is no number; write a number such as 60"),
        (lambda: hpcdist.call(WRONG, on=ON), "3 is no function; write its name, without parentheses"),
        (
            lambda: hpcdist.call(abs, 1, on=WRONG),
            "on: 3 is no Experiment; write an experiment, such as `hpcdist.define(site=...)`",
        ),
        (
            lambda: hpcdist.call_each(abs, [WRONG], on=ON),
            "arguments: 3 does not belong here; write a list of values of the type tuple",
        ),
    ],
)
def test_what_is_of_a_wrong_type_is_named(use: Callable[[], object], message: str) -> None:
    with pytest.raises(hpcdist.ConfigError) as raised:
        use()
    assert str(raised.value) == message


def test_a_site_may_be_a_path() -> None:
    site: Any = Path(__file__).parents[2] / "site_configs" / "local.yaml"
    assert hpcdist.define(cmd="x", site=site).plan().site == "local"


LOADS = """\
import sys, hpcdist
{}
try:
    hpcdist.load("-")
except hpcdist.ConfigError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("closed", "before"), [("", "sys.stdin.close()"), ("<&-", "assert sys.stdin is None")]
)
def test_a_closed_input_is_named(closed: str, before: str) -> None:
    argv = ["bash", "-c", f'exec "$@" {closed}', "bash", sys.executable, "-c", LOADS.format(before)]
    assert subprocess.check_output(argv, text=True) == "-: standard input is closed; name a file\n"


def test_a_folder_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(hpcdist.ConfigError, match="the current directory no longer exists"):
        hpcdist.find_runs()
    assert len(hpcdist.find_runs(tmp_path)) == 0
