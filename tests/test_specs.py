from __future__ import annotations

import pytest

from hpcdist import specs


@pytest.mark.parametrize("text", ["7", "0-15", "0-15:4", "1,3,5-7", "0-15%4", "0-3:2,9%1"])
def test_arrays(text: str) -> None:
    assert [*specs.array_problems(text, ())] == []


@pytest.mark.parametrize("text", ["", "x y", "-1", "3-1", "0-7:0", "1,,2", "1%", "1\n"])
def test_no_arrays(text: str) -> None:
    assert len([*specs.array_problems(text, ())]) == 1


@pytest.mark.parametrize("text", ["USR1", "B:USR1@120", "sigterm@60", "10", "B:12@5", "R:CONT", "KILL"])
def test_signals(text: str) -> None:
    assert [*specs.signal_problems(text, ())] == []


@pytest.mark.parametrize("text", ["", "B:", "B:KILL@60", "B:9", "BOGUS", "USR1@", "USR1@1m", "X:USR1", "99"])
def test_no_signals(text: str) -> None:
    assert len([*specs.signal_problems(text, ())]) == 1


@pytest.mark.parametrize(
    "text", ["4711", "4711:4712", "4711_3", "afterok:1:2", "after:1+5", "singleton", "afterok:1,afterany:2?3"]
)
def test_dependencies(text: str) -> None:
    assert [*specs.dependency_problems([text], ())] == []


@pytest.mark.parametrize("text", ["", "after all", "afterwards:1", "afterok:", "afterok", "resnet-1"])
def test_no_dependencies(text: str) -> None:
    assert len([*specs.dependency_problems([text], ())]) == 1


def test_mail_events() -> None:
    assert [*specs.mail_problems(["begin", "END", "time_limit_80"], ())] == []
    assert [str(problem) for problem in specs.mail_problems(["ends"], ("mail",))] == [
        "mail[0]: no mail comes at 'ends'; did you mean 'end'?"
    ]
