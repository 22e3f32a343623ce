"""What is written is read again as the same data, and is what its user would have written."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from hpcdist.base import source
from hpcdist.base.source import PARSER
from hpcdist.experiment.writing import printable, write
from hpcdist.loading import load

EXAMPLES = sorted(
    file for file in (Path(__file__).parents[2] / "examples").glob("*.yml") if file.stem != "pipeline"
)
"""Experiments; no pipeline is written."""

ODD = "abn 01-:#'\"\\{}[]%,&*!|>?@`=<~./\t\n\r\x07\x7f\x85\xa0\u2028\ufeff\ufffdé😀"
SENDABLE = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXTS = st.one_of(
    st.text(st.sampled_from(ODD), max_size=12),
    st.text(SENDABLE, max_size=12),
    st.sampled_from(
        ["no", "1e3", "007", "0x1F", "2:00:00", "null", "~", "---", "...", "<<", "{{ lr }}", "# a", "a: b"]
    ),
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS)
TREES = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(TEXTS, below, max_size=3),
    max_leaves=12,
)


def plain(node: Any) -> Any:
    """Return the tree without places, with the type of each scalar beside it: 1, 1.0 and true differ."""
    if isinstance(node, dict):
        return {key: plain(item) for key, item in node.items()}
    return [plain(item) for item in node] if isinstance(node, list) else (type(node), node)


@given(st.dictionaries(TEXTS, TREES, max_size=4), st.text(max_size=9))
@example({"a": {"b" * 2000: [{"c" * 2000: "d\ne"}, [["f"]]]}}, "")
def test_written_data_round_trip(data: dict[str, Any], comment: str) -> None:
    text = write(data, lambda _: comment)
    for parser in {PARSER, yaml.SafeLoader}:
        assert plain(source.parse(text, "e.yml", parser).data) == plain(data)


@given(st.text(st.sampled_from(" \t\nab#:-"), min_size=1))
def test_commands_stay_byte_for_byte(cmd: str) -> None:
    data = {"run": {"cmd": cmd}, "batch": cmd, "deep": [{"cmd": cmd, "x": 1}, cmd, [cmd]]}
    for parser in {PARSER, yaml.SafeLoader}:
        assert plain(source.parse(write(data), "e.yml", parser).data) == plain(data)


@pytest.mark.parametrize(
    "word", ["1.10", "007", "0x1F", "1e-3", "True", ".5", ".inf", "+3", "0o17", "!!int '12'", "!!float 1"]
)
def test_numbers_keep_their_source_spelling(word: str) -> None:
    data = source.parse(f"a: {word}\nb: [{word}]\n", "e.yml").data
    again = source.parse(write(data), "e.yml").data
    assert plain(again) == plain(data)
    assert (again.texts["a"], again["b"].texts[0]) == (word, word) if "!" not in word else True


def test_not_a_number() -> None:
    assert math.isnan(source.parse(write({"a": math.nan}), "e.yml").data["a"])


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_examples_stay_the_same(file: Path) -> None:
    native = load.to_native(source.load(file, several=True))
    again = source.parse(write(native.document.data, str), str(file))
    assert again.data == native.foreign.data == source.load(file).data
    assert load.load_experiment(again).experiment == load.load_experiment(source.load(file)).experiment


def test_layout_of_written_yaml() -> None:
    data = {
        "batch": {
            "walltime": "02:00:00",
            "partition": "gpu",
            "launcher": {"args": ["-x", "A"], "name": "mpirun"},
        },
        "run": {"cmd": "set -e\n\npython train.py \\\n  --lr={{ lr }}  # quick\n"},
        "pytorch": {"launch": "torchrun"},
        "environment": {
            "env_vars": {"Z": "no", "A": 'say "x"', "B": ""},
            "replicas": {
                "worker": [{"resources": {"gpu": {"requests": 2}}, "index": 0}, {"index": 1}],
                "n_workers": 2,
            },
        },
        "tags": [],
        "name": "train",
        "params": {"lr": 0.1, "2 b": None, "list": [[1, 2], [True]]},
    }
    assert (
        write(data, lambda path: f"line {len(path)}" if path[0] in ("name", "run", "params") else "")
        == """\
name: train    # line 1
tags: []
params:
  lr: 0.1      # line 2
  "2 b": null  # line 2
  list:
    - - 1      # line 4
      - 2      # line 4
    - - true   # line 4
environment:
  replicas:
    n_workers: 2
    worker:
      - index: 0
        resources:
          gpu:
            requests: 2
      - index: 1
  env_vars:
    Z: "no"
    A: say "x"
    B: ""
run:
  cmd: |       # line 2
    set -e

    python train.py \\
      --lr={{ lr }}  # quick
pytorch:
  launch: torchrun
batch:
  partition: gpu
  walltime: "02:00:00"
  launcher:
    name: mpirun
    args:
      - "-x"
      - A
"""
    )


def test_comments_are_one_line() -> None:
    assert printable("a\nb\x1b[1m\u2028é") == "a\\nb\\x1b[1m\\u2028é"
