from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.runs import endings
from hpcdist.schedulers.job import Job
from tests.plans import stored


@pytest.mark.parametrize(
    ("array", "elements"),
    [
        ("1-7:3", (1, 4, 7)),
        ("0-1,5%2", (0, 1, 5)),
    ],
)
def test_elements_of_an_array(tmp_path: Path, array: str, elements: tuple[int, ...]) -> None:
    (tmp_path / "plan.json").write_text(stored(array))
    found = endings.elements(Job("12", "a-1", str(tmp_path), "t"))
    assert (tuple(found.outside(())), found.size) == (elements, len(elements))


def test_an_array_is_as_large_as_its_plan_says(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(stored("0-999999999999"))
    assert endings.elements(Job("12", "a-1", str(tmp_path), "t")).size == 1_000_000_000_000
