from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcdist.runs import endings
from hpcdist.schedulers.job import Job


@pytest.mark.parametrize(
    ("array", "elements"),
    [
        ("1-7:3", (1, 4, 7)),
        ("0-1,5%2", (0, 1, 5)),
        ("1-5:0", ()),
        (f"1-{'9' * 5000}", ()),
        (["1-2"], ()),
        ("-", ()),
    ],
)
def test_elements_of_an_array(tmp_path: Path, array: object, elements: tuple[int, ...]) -> None:
    (tmp_path / "plan.json").write_text(json.dumps({"array": array}))
    found = endings.elements(Job("12", "a-1", str(tmp_path), "t"))
    assert (tuple(found.outside(())), found.size) == (elements, len(elements))


def test_an_array_is_as_large_as_its_plan_says(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text('{"array": "0-999999999999"}')
    assert endings.elements(Job("12", "a-1", str(tmp_path), "t")).size == 1_000_000_000_000
