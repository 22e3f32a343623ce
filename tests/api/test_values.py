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
from tests.wording import Wording

ON: Any = hpcdist.define(name="called", site="local")
WRONG: Any = 3
"""No type checker lets it pass."""


WRONGLY_USED: dict[str, Callable[[], object]] = {
    "load(3)": lambda: hpcdist.load(WRONG),
    "load_pipeline(3)": lambda: hpcdist.load_pipeline(WRONG),
    'define(cmd="x", site=3)': lambda: hpcdist.define(cmd="x", site=WRONG),
    "changed(site=3)": lambda: ON.changed(site=WRONG),
    'sweep(3, {"x": [1]})': lambda: hpcdist.sweep(WRONG, {"x": [1]}),
    "sweep(ON, [1])": lambda: hpcdist.sweep(ON, [1]),  # type: ignore[arg-type]
    "submit(3)": lambda: ON.submit(WRONG),
    "find_run(3)": lambda: hpcdist.find_run(WRONG),
    "find_runs(3)": lambda: hpcdist.find_runs(WRONG),
    "find_pipeline(3)": lambda: hpcdist.find_pipeline(WRONG),
    "wait(3)": lambda: hpcdist.wait(WRONG),
    "wait([3])": lambda: hpcdist.wait([WRONG]),
    "wait_async([3])": lambda: asyncio.run(hpcdist.wait_async([WRONG])),
    'wait([], timeout="x")': lambda: hpcdist.wait([], timeout="x"),  # type: ignore[arg-type]
    'wait([], float("nan"))': lambda: hpcdist.wait([], float("nan")),
    "call(3, on=ON)": lambda: hpcdist.call(WRONG, on=ON),
    "call(abs, 1, on=3)": lambda: hpcdist.call(abs, 1, on=WRONG),
    "call_each(abs, [3], on=ON)": lambda: hpcdist.call_each(abs, [WRONG], on=ON),
}


@pytest.mark.parametrize("use", WRONGLY_USED.values(), ids=WRONGLY_USED)
def test_what_is_of_a_wrong_type_is_named(use: Callable[[], object], wording: Wording) -> None:
    with pytest.raises(hpcdist.ConfigError) as raised:
        use()
    wording(str(raised.value))


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
