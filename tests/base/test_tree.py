from __future__ import annotations

from typing import Any

from hpcdist.base import source
from hpcdist.base.errors import Key, Place, Problem
from hpcdist.base.tree import Document, Map, Seq, value_at


def read(text: str) -> Any:
    return source.parse(text, "e.yml").data


def test_every_value_knows_its_place() -> None:
    text = "run:\n  cmd: python x.py\nlist:\n- a\n- {b: 1, 'c': [2]}\nblock: |\n  x\n"
    document = source.parse(text, "e.yml")
    places = {
        (): (1, 1),
        ("run",): (1, 1),
        ("run", "cmd"): (2, 8),
        ("run", "cmd", "deeper"): (2, 8),
        ("run", "missing"): (1, 1),
        ("list",): (3, 1),
        ("list", 0): (4, 3),
        ("list", 1): (5, 3),
        ("list", 1, "b"): (5, 7),
        ("list", 1, "c"): (5, 10),
        ("list", 1, "c", 0): (5, 16),
        ("list", 2): (3, 1),
        ("list", -1): (3, 1),
        ("block",): (6, 8),
        ("nothing",): (1, 1),
    }
    assert {path: document.place(path) for path in places} == {
        path: Place("e.yml", *place) for path, place in places.items()
    }
    assert document.place(("run", Key("cmd"))) == Place("e.yml", 2, 3)


def test_problems_get_places_and_keep_those_they_have() -> None:
    document = source.parse("a: 1\nb: 2", "e.yml")
    elsewhere = Problem("x", ("b",), place=Place("--set", 0, 0))
    assert document.locate(Problem("x", ("b",))) == Problem("x", ("b",), place=Place("e.yml", 2, 4))
    assert document.locate(elsewhere) is elsewhere


def test_data_not_read_from_a_file_has_no_places() -> None:
    document = Document(Map({"a": Map({"b": Seq([1])})}), "x")
    assert document.place(("a", "b", 0)) is None


def test_copied_entries_keep_their_places() -> None:
    data = read("old:\n  x: 0x1F\n")
    new = Map()
    new.copy_from(data["old"], "x", "y")
    assert (new, new.texts, new.place_of("y")) == ({"y": 31}, {"y": "0x1F"}, Place("e.yml", 2, 6))
    new.rename("y", "z")
    new.rename("missing", "w")
    assert (new, new.texts) == ({"z": 31}, {"z": "0x1F"})
    new.put("z", 1)
    assert (new.place_of("z"), new.texts) == (None, {})
    assert data == {"old": {"x": 31}}


def test_the_value_at_a_path() -> None:
    tree = {"run": {"args": ["a", "b"]}, "none": None}
    paths: list[tuple[str | int, ...]] = [(), ("run", "args", 1), ("run", Key("args"), 0), ("none",)]
    assert [value_at(tree, path) for path in paths] == [tree, "b", "a", None]
    beyond: list[tuple[str | int, ...]] = [
        ("run", "args", 2), ("run", "args", -1), ("run", "args", "a"),
        ("run", 0), ("run", "args", 0, 0), ("x", "y"),
    ]  # fmt: skip
    assert [value_at(tree, path) for path in beyond] == [None] * 6
