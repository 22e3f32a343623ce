"""Which nodes are left out of later attempts."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hpcdist.host.resources import template_folders
from hpcdist.nodes import suspicion
from hpcdist.nodes.evidence import Evidence, Kind
from hpcdist.nodes.suspicion import THRESHOLD
from tests.tiers import examples

RUNTIME = template_folders()[-1] / "runtime"
DAY = 24 * 3600
CLOSE = 0.001
"""By so much the suspicion of a node decays in a quarter of an hour."""


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
    assert bad_nodes(tmp_path, "".join(lines)) == bad


EVENTS = st.tuples(st.sampled_from(("lost", "blamed")), st.integers(-DAY, 30 * DAY), st.sampled_from("abc"))


@given(st.lists(EVENTS))
@examples(50)
def test_the_law_is_that_of_the_ledger(events: list[tuple[str, int, str]]) -> None:
    now = int(time.time())
    kinds: dict[str, Kind] = {"lost": "lost", "blamed": "failed"}
    events.sort(key=lambda event: -event[1])  # as a log is written
    found = [Evidence(now - age, "s", node, kinds[what], "r", 0, "") for what, age, node in events]
    suspicions = {node.name: node.suspicion for node in suspicion.nodes(found, now)}
    assume(all(abs(each - THRESHOLD) > CLOSE for each in suspicions.values()))
    with TemporaryDirectory() as folder:
        log = "".join(f"{what} 7 {now - age} {node}\n" for what, age, node in events)
        shown = bad_nodes(Path(folder), log)
    assert sorted(shown) == sorted(node for node, each in suspicions.items() if each >= THRESHOLD)


EARLIER = """
declare -A hpcdist=([scheduler]=toy)
hpcdist_call_if_there() { "$@"; }
hpcdist_log_event() { echo "$1 $2"; }
down_toy() { echo "asked $1" >&2; printf '%s\\n' n2 n3; }
HPCDIST_RUN_DIR=. hpcdist_attempts=attempts HPCDIST_ATTEMPT=1
"""


def test_what_a_killed_script_could_not_record_is_found_by_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "attempts").mkdir()
    (tmp_path / "jobs" / "7_2").mkdir(parents=True)
    (tmp_path / "attempts" / "1").write_text("7_2 3.0 7_2\n")
    script = f"{EARLIER}. {RUNTIME}/bad_nodes.sh; hpcdist_blame_earlier"

    def found() -> tuple[str, str]:
        words = ["bash", "-c", script]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout, done.stderr

    assert found() == ("", "")  # its nodes are not known
    (tmp_path / "jobs" / "7_2" / "nodes.3").write_text("n1\nn2\nn3\n")
    assert found() == ("lost n2\nlost n3\n", "asked n1,n2,n3\n")
    (tmp_path / "attempts" / "1.why").write_text("timeout\n")
    assert found() == ("", "")


def bad_nodes(folder: Path, events: str) -> list[str]:
    """The nodes that the next attempt of a run with these events is to do without."""
    (folder / "events").write_text(events)
    script = f"declare -A hpcdist=(); . {RUNTIME}/bad_nodes.sh; HPCDIST_RUN_DIR=. hpcdist_bad_nodes"
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.split()
