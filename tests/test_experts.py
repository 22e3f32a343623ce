"""Every setting of published scripts comes by default, by a line, another way, or differs for a reason."""

from __future__ import annotations

from collections import Counter

import pytest

from tests import experts
from tests.experts import Kind, Note, Ours, Setting

WRONG = ("missing", "contradicts")
LINES = 20
"""The most lines of an experiment."""


@pytest.mark.parametrize("name", experts.names())
def test_every_setting_of_a_script_can_be_said(name: str) -> None:
    found = [*experts.settings_of(name)]
    assert len(experts.experiment_of(name).splitlines()) <= LINES
    assert [setting for setting in found if setting.wrong or setting.kind in WRONG] == []


def test_most_of_them_need_no_line() -> None:
    total: Counter[Kind] = Counter()
    for name in experts.names():
        total += experts.counts_of(name)
    of_all, of_the_others = experts.shares(total)
    assert of_all >= 0.51
    assert of_the_others >= 0.68


OURS = [Ours("--nodes=2", by_user=True), Ours("--output=a/b", by_user=False), Ours("X=1", by_user=False)]


@pytest.mark.parametrize(
    ("key", "note", "expected"),
    [
        ("--nodes=2", None, Setting("--nodes=2", "line")),
        ("--nodes=2", "own", Setting("--nodes=2", "own")),
        ("--nodes=3", None, Setting("--nodes=3", "missing", "it is not in the script")),
        ("--output=a/", None, Setting("--output=a/", "default")),
        ("X=", None, Setting("X=", "default")),
        ("X=1", "own", Setting("X=1", "own", "it is no line of the experiment: default")),
        ("python train.py", None, Setting("python train.py", "line")),
        ("ulimit", "other: why", Setting("ulimit", "other")),
        (
            "ulimit",
            "why",
            Setting("ulimit", "missing", "'why' begins with none of other, differs, contradicts"),
        ),
        ("X=1", "differs: why", Setting("X=1", "differs", "the script has it: remove the note")),
        ("--nodes", "other: why", Setting("--nodes", "other", "the script has it: remove the note")),
        ("X=2", "contradicts: why", Setting("X=2", "contradicts")),
        ("Y=1", {"same": "X=1", "why": "a"}, Setting("Y=1", "default")),
        ("-N 2", {"same": "--nodes=2", "why": "a"}, Setting("-N 2", "line")),
        ("Y=1", {"same": "X=2", "why": "a"}, Setting("Y=1", "default", "X=2 is not in the script")),
        ("cd", {"default": "why", "text": "bash"}, Setting("cd", "default")),
        ("cd", {"default": "why", "text": "! --chdir"}, Setting("cd", "default")),
        ("cd", {"default": "why", "text": "! bash"}, Setting("cd", "default", "not so: ! bash")),
        (
            "cd",
            {"default": "a", "text": "A scr", "file": "tests/experts.py"},
            Setting("cd", "default", "not so: A scr"),
        ),
    ],
)
def test_a_setting_is_found_or_has_a_note(key: str, note: Note, expected: Setting) -> None:
    assert experts.setting_of(key, note, OURS, "bash 'python train.py'", "cmd: python train.py") == expected
