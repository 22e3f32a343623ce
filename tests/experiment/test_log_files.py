from __future__ import annotations

import pytest

from hpcdist.experiment.batch import Batch
from hpcdist.experiment.log_files import problems, with_name


@pytest.mark.parametrize("pattern", ["x.out", "logs/%x-%j.out", "/scratch/%u/%A.log"])
def test_log_files(pattern: str) -> None:
    assert [*problems(Batch(output=pattern), is_array=False)] == []


@pytest.mark.parametrize(
    ("pattern", "is_array", "message"),
    [
        ("logs/", False, "'logs/' is not the path of a file"),
        ("", False, "'' is not the path of a file"),
        ("~/x", False, "variables and ~ are not expanded in '~/x'"),
        ("$HOME/x", False, "variables and ~ are not expanded in '$HOME/x'"),
        ("%4a.out", True, "'%4a' in a log file's name is not supported"),
        ("%N.out", False, "'%N' in a log file's name is not supported"),
        ("100%", False, "'%' in a log file's name is not supported"),
        ("%A.out", True, "the elements of an array would write to one file"),
        ("%a.out", False, "'%a' is the element of an array, and the job has none"),
    ],
)
def test_wrong_log_files(pattern: str, *, is_array: bool, message: str) -> None:
    [problem] = problems(Batch(output=pattern), is_array=is_array)
    assert (problem.message, problem.path) == (message, ("batch", "output"))


def test_one_file_for_both_is_refused() -> None:
    [problem] = problems(Batch(output="x", error="x"), is_array=False)
    assert problem.path == ("batch", "error")


def test_the_name_of_the_job_is_in_the_pattern() -> None:
    assert with_name("logs/%x-%j.out", "bert") == "logs/bert-%j.out"
