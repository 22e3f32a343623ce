"""Which nodes are left out of later attempts."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from hpcdist.host.resources import template_folders

RUNTIME = template_folders()[-1] / "runtime"
DAY = 24 * 3600


@pytest.mark.parametrize(
    ("events", "bad"),
    [
        ([("lost", 0, "n1")], ["n1"]),
        ([("blamed", 0, "n1")], []),
        ([("blamed", 1, "n1"), ("blamed", 0, "n2"), ("blamed", 0, "n1")], ["n1"]),
        ([("lost", 8, "n1")], []),
        ([("blamed", 8, "n1"), ("blamed", 0, "n1")], []),
        ([("lost", 0, f"n{number}") for number in range(10)], [f"n{number}" for number in range(8)]),
    ],
)
def test_a_node_is_bad_for_a_week(tmp_path: Path, events: list[tuple[str, int, str]], bad: list[str]) -> None:
    now = int(time.time())
    lines = (f"{what} 7 {now - days * DAY} {node}\n" for what, days, node in events)
    (tmp_path / "events").write_text("".join(lines))
    script = f"declare -A hpcdist=(); . {RUNTIME}/bad_nodes.sh; HPCDIST_RUN_DIR=. hpcdist_bad_nodes"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == bad
