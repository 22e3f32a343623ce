"""Runs whose files were damaged or replaced: they cost themselves, and never what is shown of others."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tiers import examples
from tests.tracking.test_comparison import kept
from tests.tracking.test_series import line, wrote

from .conftest import Hpcdist
from .test_removal import ended

PLACES: Final = (
    "tracking",
    "tracking/1",
    "tracking/1/0.0",
    "tracking/1/0.0/rank-0.node.1.jsonl",
    "tracking/1/0.0/polyaxon-0",
    "tracking/1/0.0/polyaxon-0/runs/u/events/metric",
    "tracking/1/0.0/polyaxon-0/runs/u/events/metric/loss.plx",
    "tracking/1/0.0/polyaxon-0/runs/u/run.plx.json",
    "outputs",
    "outputs/metrics.json",
    "outputs/model",
    "logs",
    "logs/job.out",
    "events",
    "plan.json",
)

KINDS: Final[Mapping[str, Callable[[Path], object]]] = {
    "fifo": os.mkfifo,
    "link": lambda path: path.symlink_to("/dev/zero"),
    "loop": lambda path: path.symlink_to(path.name),
    "folder": lambda path: path.mkdir(),
    "file": lambda path: path.write_bytes(b"\0\xff{\n"),
}
VERBS: Final = (
    ("compare",),
    ("compare", "--json"),
    ("outputs", "--models"),
    ("status", "--offline"),
    ("status", "--offline", "-l"),
    ("status", "--offline", "--json"),
)


def recorded(run: Path, loss: float = 0.25) -> Path:
    """Write what a program records: a metric, and a model."""
    model = line(artifact=kept("model", 0.5))
    wrote(run, "1/0.0/rank-0", line(step=1, metrics={"loss": loss}), model)
    return run


def replaced(run: Path, place: str, kind: str) -> None:
    """Put something else into the place of a file or folder."""
    path = run / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(path):
        path.rename(run / "moved")
    KINDS[kind](path)


@pytest.fixture
def runs(folder: Path) -> Path:
    """Make a run for each place and kind, and one that is whole."""
    for place in PLACES:
        for kind in KINDS:
            replaced(
                recorded(ended(folder / "runs", f"{place}-{kind}".replace("/", "-").lower())), place, kind
            )
    return recorded(ended(folder / "runs", "whole"))


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_what_is_whole_is_shown(runs: Path, verb: tuple[str, ...], hpcdist: Hpcdist) -> None:
    shown = hpcdist(*verb, "--runs-dir", str(runs.parent))
    assert shown.code == 0, shown.err
    assert "whole-1" in shown.out
    assert all(text.startswith(("warning: ", "note: ")) for text in shown.err.splitlines())
    unread = [text for text in shown.err.splitlines() if "was not read: " in text]
    assert len(unread) == len({*unread})
    if verb == ("compare",):
        [cells] = [row.split() for row in shown.out.splitlines() if row.startswith("whole-1 ")]
        assert "0.25" in cells
        assert len(unread) >= len(KINDS)


def test_every_verb_of_one_run_ends_well(runs: Path, hpcdist: Hpcdist) -> None:
    for run in sorted(runs.parent.iterdir()):
        for verb in (("metrics",), ("metrics", "--csv"), ("metrics", "--json"), ("outputs", "--check")):
            shown = hpcdist(verb[0], run.name, *verb[1:], "--runs-dir", str(run.parent))
            assert shown.code in (0, 3), (run.name, verb, shown.err)
        shown = hpcdist("export", run.name, "--csv", "-", "-o", "a.tar", "--runs-dir", str(run.parent))
        assert shown.code in (0, 2), (run.name, shown.err)
        assert "bug in hpcdist" not in shown.err, (run.name, shown.err)


def test_prune_keeps_what_may_have_a_model_and_rm_removes_all(runs: Path, hpcdist: Hpcdist) -> None:
    """Records that cannot be read may be of a model."""
    folder = str(runs.parent)
    assert hpcdist("rm", "--older", "1d", "--yes", "--runs-dir", folder).code == 0
    left = {path.name for path in runs.parent.iterdir()}
    assert {"whole-1", "tracking-1-0-0-rank-0-node-1-jsonl-fifo-1", "tracking-loop-1"} <= left
    assert "tracking-folder-1" not in left
    assert hpcdist("rm", *sorted(left), "--runs-dir", folder).code == 0
    assert [*runs.parent.iterdir()] == []


HOSTILE: Final = (
    "a/b", "../x", "a'b", 'a"b', "\N{SNOWMAN}", "\u202eevil", "\0", "\x1b[2J", "a\nb", "", "-x",
    "[bold]x[/bold]", "<script>", "=1+1", "a,b", "x" * 10_000, "*", "[a-",
)  # fmt: skip


def test_names_of_metrics_and_params_may_be_anything(folder: Path, hpcdist: Hpcdist) -> None:
    run = ended(folder / "runs", "odd")
    everything = dict.fromkeys(HOSTILE, 1.0)
    wrote(run, "1/0.0/rank-0", line(step=1, metrics=everything), line(params=everything), line(tags=HOSTILE))
    for verb in (*VERBS, ("metrics", "odd-1"), ("metrics", "odd-1", "--csv")):
        shown = hpcdist(*verb)
        assert shown.code == 0, shown.err
        if "--json" not in verb:  # JSON has escapes of its own
            assert all(char.isprintable() or char == "\n" for char in shown.out)
    assert {one["name"] for one in json.loads(hpcdist("metrics", "odd-1", "--json").out)} == {*HOSTILE}
    assert json.loads(hpcdist("compare", "--json").out)[0]["metrics"] == everything
    assert hpcdist("metrics", "odd-1", "\x1b[2J").out.splitlines()[1].startswith("\\x1b[2J  1 ")


def test_ten_thousand_names(folder: Path, hpcdist: Hpcdist) -> None:
    run = ended(folder / "runs", "many")
    wrote(run, "1/0.0/rank-0", *(line(step=1, metrics={f"m{number}": number}) for number in range(10_000)))
    assert len(hpcdist("metrics", "many-1").out.splitlines()) == 10_001
    assert json.loads(hpcdist("compare", "--json").out)[0]["metrics"]["m9999"] == 9999


ENTRY: Final = st.fixed_dictionaries(
    {},
    optional={
        name: st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        )
        for name in ("at", "step", "metrics", "params", "tags", "artifact", "other")
    },
)


@pytest.mark.extended
@examples(60)
@given(st.lists(ENTRY.map(json.dumps).map(str.encode) | st.binary(max_size=60), max_size=6))
def test_any_lines_leave_every_verb_standing(
    tmp_path_factory: pytest.TempPathFactory, hpcdist: Hpcdist, lines: list[bytes]
) -> None:
    run = recorded(ended(tmp_path_factory.mktemp("any") / "runs", "any"))
    [file] = run.glob("tracking/1/0.0/*")
    file.write_bytes(b"\n".join([*lines, file.read_bytes()]))
    for verb in (*VERBS, ("metrics", "any-1"), ("outputs", "any-1", "--check")):
        shown = hpcdist(*verb, "--runs-dir", str(run.parent))
        assert shown.code in (0, 3), shown.err
    [found] = json.loads(hpcdist("compare", "--json", "--runs-dir", str(run.parent)).out)
    assert found["metrics"]["loss"] == 0.25
