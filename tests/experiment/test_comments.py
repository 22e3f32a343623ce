"""Comments that were meant as arguments."""

from __future__ import annotations

import pytest

from hpcdist.base import source
from hpcdist.loading import load
from tests.wording import Wording


@pytest.mark.parametrize(
    "cmd",
    [
        "python t.py --tag #1 --lr 0.1",
        "echo a#b #c",
    ],
)
def test_argument_that_yaml_reads_as_a_comment_warns(cmd: str, wording: Wording) -> None:
    loaded = load.load_experiment(source.parse(f"run:\n  cmd: {cmd}\n", "exp.yml"))
    assert [problem.severity for problem in loaded.problems] == ["warning"]
    wording(map(str, loaded.problems))


@pytest.mark.parametrize(
    "run",
    [
        "run:\n  cmd: python t.py  # the training",
        "run:\n  cmd: python t.py ##",
        "run:\n  cmd: 'python t.py #1'",
        "run:\n  cmd: |\n    python t.py #1",
        "run:\n  cmd: > #x\n    python t.py",
        "run:\n  cmd:\n    - python t.py #1",
        "run: {cmd: python t.py#1}",
    ],
)
def test_what_is_a_comment_or_an_argument(run: str) -> None:
    assert load.load_experiment(source.parse(run, "exp.yml")).problems == ()


def test_a_command_from_the_command_line() -> None:
    document = source.parse("run:\n  cmd: x\n", "exp.yml")
    loaded = load.load_experiment(document, settings=[("run.cmd", "python t.py #1 --lr 0.1")])
    assert (loaded.problems, loaded.experiment.run.cmd) == ((), "python t.py #1 --lr 0.1")
