from __future__ import annotations

import pytest

from hpcdist.experiment.batch import Batch
from hpcdist.experiment.log_files import problems, with_name
from tests.wording import Wording


@pytest.mark.parametrize("pattern", ["x.out", "logs/%x-%j.out", "/scratch/%u/%A.log"])
def test_log_files(pattern: str) -> None:
    assert [*problems(Batch(output=pattern), is_array=False)] == []


@pytest.mark.parametrize(
    ("pattern", "is_array"),
    [
        ("logs/", False),
        ("", False),
        ("~/x", False),
        ("$HOME/x", False),
        ("%4a.out", True),
        ("%N.out", False),
        ("100%", False),
        ("%A.out", True),
        ("%a.out", False),
    ],
)
def test_wrong_log_files(pattern: str, wording: Wording, *, is_array: bool) -> None:
    wording(map(str, problems(Batch(output=pattern), is_array=is_array)))


def test_one_file_for_both_is_refused() -> None:
    [problem] = problems(Batch(output="x", error="x"), is_array=False)
    assert problem.path == ("batch", "error")


def test_the_name_of_the_job_is_in_the_pattern() -> None:
    assert with_name("logs/%x-%j.out", "bert") == "logs/bert-%j.out"
