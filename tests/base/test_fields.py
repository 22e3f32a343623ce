from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.base import fields
from hpcdist.base.errors import Problem, did_you_mean
from hpcdist.base.fields import Model
from hpcdist.base.tree import Map, Seq
from hpcdist.base.units import Memory, Walltime
from hpcdist.experiment.model import Experiment
from hpcdist.plan.model import Plan
from hpcdist.site.model import Site
from tests.wording import Wording


class Inner(Model, frozen=True):
    count: int
    ratio: float = 1.0


class Amount(Model, frozen=True):
    main = "requests"
    elsewhere: ClassVar = {"size": "write `requests`", "memory": "write it in `resources`"}

    requests: int = 0


def every_model(base: type[Model] = Model) -> Iterator[type[Model]]:
    for model in base.__subclasses__():
        yield model
        yield from every_model(model)


def test_fields_are_what_msgspec_takes_them_for() -> None:
    models = [*every_model()]
    assert {Experiment, Site, Plan} <= {*models}
    for model in models:
        read = fields._fields(model)
        assert [
            (key, field.name, fields._type(model, field.name), field.required, field.default)
            for key, field in read.items()
        ] == [
            (item.encode_name, item.name, item.type, item.required, read[item.encode_name].default)
            for item in msgspec.structs.fields(model)
            if item.name != model.rest
        ]


class Outer(Model, frozen=True, kw_only=True):
    name: str
    flag: bool = False
    inner: Inner | None = None
    amount: Amount = Amount()
    items: tuple[Inner, ...] = ()
    tags: tuple[str, ...] = ()
    table: dict[str, str | int | float | bool] = {}
    walltime: Walltime | None = None
    memory: Memory | None = None
    kind: Literal["red", "blue"] = "red"
    either: str | Inner | None = None
    words: str | tuple[str, ...] = ()
    number: str | int | None = None
    anything: dict[str, Any] = {}


class Open(Model, frozen=True):
    rest = "others"

    known: int = 0
    inner: Inner | None = None
    others: dict[str, Any] = {}


def found(**data: object) -> list[str]:
    return [str(problem) for problem in fields.build(Outer, {"name": "x", **data})[1]]


def test_plain_data_becomes_a_model() -> None:
    data = {
        "name": "x",
        "flag": True,
        "inner": {"count": 2, "ratio": 3},
        "items": [{"count": 1}, {"count": "2"}],
        "tags": ["a"],
        "table": {"a": 1, "b": "c"},
        "walltime": "1h",
        "memory": "1G",
        "kind": "blue",
        "either": {"count": 1},
        "words": ["a", "b"],
        "number": 4,
        "anything": {"a": [{"b": None}]},
    }
    assert fields.build(Outer, data) == (
        Outer(
            name="x",
            flag=True,
            inner=Inner(2, 3.0),
            items=(Inner(1), Inner(2)),
            tags=("a",),
            table={"a": 1, "b": "c"},
            walltime=Walltime(3600),
            memory=Memory(1024),
            kind="blue",
            either=Inner(1),
            words=("a", "b"),
            number=4,
            anything={"a": [{"b": None}]},
        ),
        [],
    )


@pytest.mark.parametrize("value", [None, "text"])
def test_null_is_absent(value: object) -> None:
    assert fields.build(Outer, {"name": "x", "either": value, "items": None, "kind": None}) == (
        Outer(name="x", either=None if value is None else "text"),
        [],
    )


@pytest.mark.parametrize(
    "data",
    [
        {"nmae": 1},
        {"inner": {}},
        {"inner": {"count": "many"}},
        {"inner": {"count": 1.5}},
        {"inner": {"count": True}},
        {"inner": {"count": 1, "ratio": []}},
        pytest.param({"inner": {"count": 1, "ratio": 10**400}}, id="a number of 401 digits"),
        {"inner": 3},
        {"amount": 3},
        {"amount": "a: b"},
        {"amount": [1, 2]},
        {"amount": {"size": 1, "memory": 2, "request": 3}},
        {"items": {"count": 1}},
        {"items": [{"count": 1}, {"cuont": 1}]},
        {"tags": "a"},
        {"tags": [1]},
        {"table": {"a": [1]}},
        {"table": {"a": None}},
        {"table": []},
        {"kind": "bleu"},
        {"flag": "perhaps"},
        {"walltime": 60},
        {"memory": "much"},
        {"words": {"a": 1}},
        {"number": [1]},
        {"name": []},
    ],
    ids=str,
)
def test_problems_of_invalid_data(data: dict[str, object], wording: Wording) -> None:
    wording(found(**data))


def test_all_problems_are_found_at_once() -> None:
    assert fields.build(Outer, {"x": 1, "flag": 3, "inner": {"count": "a", "ratio": "b"}}) == (
        None,
        [
            Problem("unknown key 'x'", ("x",), did_you_mean("x", Outer.__struct_fields__)),
            Problem("'name' is missing"),
            Problem("expected true or false, got 3", ("flag",)),
            Problem("expected a whole number, got 'a'", ("inner", "count")),
            Problem("expected a number, got 'b'", ("inner", "ratio")),
        ],
    )


def test_text_keeps_its_source_spelling() -> None:
    data = Map({"name": 7, "number": 7, "words": True, "table": Map({"A": 1.1, "B": True})})
    data.texts.update(name="007", number="007", words="true")
    data["table"].texts.update(A="1.10", B="true")
    tags = Seq()
    tags.add(16, None, "0x10")
    data["tags"] = tags
    built, problems = fields.build(Outer, data)
    assert problems == []
    assert built == Outer(
        name="007", number=7, table={"A": "1.10", "B": "true"}, tags=("0x10",), words="true"
    )


# --- The keys that are no field's


class Words(Model, frozen=True):
    may_be_empty = frozenset({"remark"})

    must: str
    name: str | None = None
    either: str | Inner | None = None
    remark: str | None = None
    prefix: str = ""


def test_empty_text_is_a_problem() -> None:
    empty = dict.fromkeys(fields.key_names(Words), "")
    hint = "write a value, or remove the key"
    assert fields.build(Words, empty) == (
        Words(**empty),
        [Problem("the value is empty", (name,), hint) for name in ("must", "name", "either")],
    )


def test_rest_field_collects_unknown_keys() -> None:
    data = {"known": 1, "a": {"b": [None]}, "c": None, "konwn": 2}
    expected = Open(known=1, others={"a": {"b": [None]}, "c": None, "konwn": 2})
    assert fields.build(Open, data) == (expected, [])
    assert fields.build(Open, {}) == (Open(), [])


def test_rest_field_is_not_a_key() -> None:
    assert fields.build(Open, {"others": {"a": 1}}) == (Open(others={"others": {"a": 1}}), [])
    assert fields.key_names(Open) == ["known", "inner"]
    assert fields.key_names(Inner) == ["count", "ratio"]


def test_rest_field_of_a_nested_section(wording: Wording) -> None:
    _, problems = fields.build(Open, {"inner": {"count": 1, "a": 2}, "b": 3})
    wording(map(str, problems))


def test_rest_field_keeps_keys_as_written() -> None:
    data = Map({"section": Map({"version": 1.1})})
    data["section"].texts["version"] = "1.10"
    built, _ = fields.build(Open, data)
    assert built
    assert built.others["section"].texts == {"version": "1.10"}


def test_unknown_key_is_a_problem() -> None:
    assert fields.unknown_key("nmae", ("a",), ["name"]) == Problem(
        "unknown key 'nmae'", ("a", "nmae"), "did you mean 'name'?"
    )


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
FLAT = SCALARS | st.lists(SCALARS, max_size=3) | st.dictionaries(st.text(), SCALARS, max_size=3)
JSON = FLAT | st.lists(FLAT, max_size=3) | st.dictionaries(st.text(), FLAT, max_size=3)


@given(st.dictionaries(st.sampled_from([*Outer.__struct_fields__, "other"]), JSON))
def test_any_data_becomes_a_model_or_problems(data: dict[str, object]) -> None:
    built, problems = fields.build(Outer, data)
    assert (built is None) <= bool(problems)
