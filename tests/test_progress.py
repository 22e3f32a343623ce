"""A line of progress once a minute, and the table at the end of a run."""

from __future__ import annotations

from pathlib import Path

from tests.progress import Progress


def test_a_line_a_minute() -> None:
    progress = Progress(Path("/nowhere"), began=100.0)
    progress.total = 3
    assert progress.line(159.0) == ""
    progress.add("tests/a/test_a.py::test_one", 1.0, failed=False)
    progress.add("tests/a/test_a.py::test_one", 1.0, failed=True)
    assert progress.line(160.0) == "1/3 tests, 1 failed, 60 s"
    assert progress.line(161.0) == ""
    assert progress.line(220.0) == "1/3 tests, 1 failed, 120 s"


def test_the_table(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "test_a.py").write_text('"""Something\n\nmore"""')
    (tmp_path / "a" / "test_b.py").write_text('"""Something else."""')
    (tmp_path / "a" / "b" / "__init__.py").write_text('"""A folder."""')
    (tmp_path / "a" / "b" / "test_c.py").write_text('"""Not this."""')
    progress = Progress(tmp_path, began=0.0)
    for name, seconds in (
        ("a/test_a.py::test_one", 1.0),
        ("a/test_a.py::test_two", 3.0),
        ("a/test_b.py::test_one", 20.0),
        ("a/b/test_c.py::test[x]", 6.0),
    ):
        progress.add(name, seconds, failed=False)
    assert [*progress.table()] == [
        " tests  seconds  what they prove",
        "     3       24  a: Something Something else.",
        "     1        6  a/b: A folder.",
        "the 10 longest:",
        "           20.0  a/test_b.py::test_one",
        "            6.0  a/b/test_c.py::test[x]",
        "            3.0  a/test_a.py::test_two",
        "            1.0  a/test_a.py::test_one",
    ]
