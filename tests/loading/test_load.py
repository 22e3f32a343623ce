# ruff: noqa: E501 - a table
from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.base import source
from hpcdist.base.errors import ConfigError, Place, Problem
from hpcdist.base.fields import Model
from hpcdist.base.units import Walltime
from hpcdist.experiment.batch import Batch
from hpcdist.experiment.model import Build, Environment, Experiment
from hpcdist.experiment.program import Run
from hpcdist.loading import load
from tests.wording import Wording

Settings = Sequence[tuple[str, str]]


def loaded(text: str, params: dict[str, str] | None = None, settings: Settings = ()) -> load.Loaded:
    return load.load_experiment(source.parse(text, "e.yml"), params=params, settings=settings)


def said(text: str, params: dict[str, str] | None = None, settings: Settings = ()) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        loaded(text, params, settings)
    return [str(problem) for problem in caught.value.problems]


def problems_of(text: str, settings: Settings = ()) -> tuple[Problem, ...]:
    try:
        return loaded(text, settings=settings).problems
    except ConfigError as error:
        return error.problems


def test_a_file_becomes_an_experiment() -> None:
    text = """
version: 1
kind: experiment
name: 2024
declarations: {lr: 0.10, opts: {steps: [1, 2]}}
environment:
  env_vars: {VERSION: 1.10, FLAG: true, HEX: 0x1F, LR: "{{ lr }}"}
run:
  cmd: python train.py --lr={{ lr }} --steps={{ opts.steps[1] }} ${#array[@]}
batch: {account: 007, walltime: 2:00:00}
"""
    done = loaded(text)
    assert done.experiment == Experiment(
        name="2024",
        params={"lr": 0.1, "opts": {"steps": [1, 2]}},
        environment=Environment(env_vars={"VERSION": "1.10", "FLAG": "true", "HEX": "0x1F", "LR": "0.10"}),
        run=Run("python train.py --lr=0.10 --steps=2 ${#array[@]}"),
        batch=Batch(account="007", walltime=Walltime(7200)),
    )
    assert done.problems == ()
    assert done.document.place(("params", "lr")) == Place("e.yml", 5, 20)


def test_command_line_overrides_the_file() -> None:
    text = "params: {lr: 0.1, name: a}\nbatch: {walltime: 1h}\nrun: {cmd: 'x {{ lr }} {{ name }}'}"
    changes = [
        ("batch.walltime", "2:00:00"),
        ("batch.account", "01"),
        ("environment.env_vars.V", "1.10"),
        ("build.build_steps", "[a]"),
        ("build.build_steps[0]", "b"),
    ]
    done = loaded(text, {"lr": "0.2", "name": "a: b # c"}, changes)
    assert done.experiment == Experiment(
        params={"lr": 0.2, "name": "a: b # c"},
        environment=Environment(env_vars={"V": "1.10"}),
        build=Build(build_steps=("b",)),
        run=Run("x 0.2 a: b # c"),
        batch=Batch(walltime=Walltime(7200), account="01"),
    )
    assert [
        str(done.document.place(path)) for path in (("batch", "walltime"), ("params", "lr"), ("run", "cmd"))
    ] == [
        "--set batch.walltime=2:00:00",
        "-p lr=0.2",
        "e.yml:3:12",
    ]


def test_a_setting_overrides_the_native_form_of_an_old_file() -> None:
    text = "environment: {pytorch: {n_workers: 1}}\nrun: {cmd: x}"
    replicas = loaded(
        text, settings=[("environment.replicas.n_workers", "3")]
    ).experiment.environment.replicas
    assert replicas is not None
    assert replicas.n_workers == 3


@pytest.mark.parametrize(
    ("params", "changes"),
    [
        ({"l": "1"}, []),
        ({"lr": "[1"}, []),
        ({}, [("batch.acount", "x")]),
        ({}, [("batch.walltime", "60")]),
        ({}, [("run.cmd.x", "1")]),
        ({}, [("tags[0]", "1")]),
        ({}, [("tags", "[a]"), ("tags[1]", "1")]),
        ({}, [("", "1")]),
        ({}, [("a..b", "1"), ("[0]", "2"), ("a[x]", "3")]),
        ({}, [("batch.qos", "'x")]),
    ],
    ids=str,
)
def test_broken_options(params: dict[str, str], changes: Settings, wording: Wording) -> None:
    wording(said("params: {lr: 1}\nrun: {cmd: 'true'}", params, changes))


def test_unknown_param_is_reported_once(wording: Wording) -> None:
    text = "inputs: [{name: lr, type: int}]\nparams: {lr: 1}\nrun: {cmd: 'true'}"
    wording(said(text, {"lrr": "3"}))


def test_text_params_keep_their_source_spelling() -> None:
    text = """
inputs: [{name: a, type: str}, {name: b, type: path}, {name: c, type: int}, {name: d, is_optional: true}]
run: {cmd: "{{ a }} {{ b }} {{ c + 1 }} {{ d }}"}
"""
    params = {"a": "010", "b": "true", "c": "010", "d": "010"}
    assert loaded(text, params).experiment.run.command == "010 true 11 010"
    assert loaded(text, params | {"a": "'x'"}).experiment.run.command == "x true 11 010"


def test_all_problems_come_at_once_errors_first_in_the_order_of_the_file(wording: Wording) -> None:
    text = """
project: x
batch: {walltime: 60}
wokers: 3
environment:
  tolerations: [{}]
  resources: {gpu: {request: 1, limits: many}}
run: {cmd: "{{ lr }}"}
"""
    wording(said(text))


def test_missing_param_is_reported_once(wording: Wording) -> None:
    text = """
inputs: [{name: n, type: int}]
environment: {replicas: {n_workers: "{{ n }}"}}
run: {cmd: "x {{ n }} {{ n }}"}
tags: ["{{ m }}"]
"""
    wording(said(text))


@pytest.mark.parametrize("use", ["{{ n }}", "{{ n + 1 }}", "{{ n.x }}", "{% if n %}{{ n }}{% endif %}"])
@pytest.mark.parametrize(
    "param",
    [
        "null",
        "some",
    ],
)
def test_a_null_or_wrong_param_is_one_error_wherever_it_is_used(
    use: str, param: str, wording: Wording
) -> None:
    replicas = f"framework: horovod\nenvironment: {{replicas: {{n_workers: '{use}'}}}}"
    text = f"inputs: [{{name: n, type: int}}]\nparams: {{n: {param}}}\n{replicas}\nrun: {{cmd: 'x {use}'}}"
    wording(said(text))


def test_invalid_field_neither_hides_nor_causes_other_problems(wording: Wording) -> None:
    text = """
name: my exp
environment:
  resources: {cpu: {requests: 2, limits: 1}, memory: {limits: much}}
  replicas: {n_workers: some, worker: [{index: 3}]}
run: {}
"""
    wording(said(text))


def test_problems_beyond_types_are_located(wording: Wording) -> None:
    text = "environment:\n  resources: {gpu: {limits: -1}, tpu: {limits: 1}}\nframework: pytorsh\nrun: {cmd: ' '}"
    wording(said(text))


@pytest.mark.extended
def test_of_many_problems_the_first_are_shown(wording: Wording) -> None:
    text = "run: {cmd: x}\n" + "".join(f"k{number}: 1\n" for number in range(5000))
    with pytest.raises(ConfigError) as raised:
        load.load_experiment(source.parse(text, "e.yml"))
    assert len(raised.value.problems) == 51
    wording(str(raised.value.problems[-1]))


def test_warnings_are_returned(wording: Wording) -> None:
    wording(map(str, loaded("project: p\nrun: {cmd: x}").problems))


@pytest.mark.parametrize(
    "text",
    [
        "name: x",
        "name: x\nrun:\n",
        "name: x\nrun:\n  cmd:\n",
    ],
)
def test_missing_values_are_reported_at_their_line(text: str, wording: Wording) -> None:
    wording(said(text))


@pytest.mark.parametrize("setting", ["batch.partition", "name", "run.cmd", "batch.x.y"])
@pytest.mark.parametrize("empty", ["", " "])
def test_setting_without_a_value_is_refused(setting: str, empty: str, wording: Wording) -> None:
    wording(said("run: {cmd: x}", settings=[(setting, empty)]))


def test_number_without_a_type_keeps_its_source_spelling() -> None:
    """It can be calculated with all the same; one with a type is that number."""
    text = """
inputs: [{name: a}, {name: b}, {name: c, type: float}, {name: f}]
params: {a: 1, b: 0x10, c: 1, f: 1.10}
environment: {env_vars: {A: "{{ a }}", LIST: "{{ a }}/{{ f }}"}}
tags: ["{{ a }}"]
run: {cmd: "t {{ a }} {{ a * 2 }} {{ b }} {{ b + 1 }} {{ c }} {{ f }} {{ a|int }}"}
"""
    done = loaded(text, params={"a": "1e3", "c": "1e3"}).experiment
    assert done.run.command == "t 1e3 2000.0 0x10 17 1000.0 1.10 1000"
    assert done.environment.env_vars == {"A": "1e3", "LIST": "1e3/1.10"}
    assert done.tags == ("1e3",)
    assert done.params == {"a": 1000.0, "b": 16, "c": 1000.0, "f": 1.1}
    assert {type(value) for value in done.params.values()} == {int, float}


class Tiny(Model, frozen=True):
    count: int
    name: str = ""


def test_any_model_is_loaded() -> None:
    assert load.load_model(Tiny, source.parse("count: 3\nname: 010", "s.yml")) == Tiny(3, "010")


def test_problems_of_any_model_are_located_and_ordered(wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        load.load_model(Tiny, source.parse("name: [a]\ncount: x\ncuont: 1", "s.yml"))
    wording(str(caught.value))


EXAMPLE = """
version: 1
kind: experiment
name: a
params: {lr: 0.1, flag: true}
inputs: [{name: lr, type: float}, {name: flag, type: bool, is_flag: true}]
environment:
  resources: &r {gpu: {limits: 1}, memory: {requests: 4G}}
  pytorch: {n_workers: 2, default_worker: {resources: *r}, worker: [{index: 0}]}
  env_vars: {A: "{{ lr }}"}
build: {image: x, env_vars: [[A, b]]}
run: {cmd: "python x.py {{ flag }}"}
batch: {walltime: 1h, mail: {user: me}}
"""


@given(st.data())
def test_a_mutated_file_is_an_experiment_or_problems_with_places(data: st.DataObject) -> None:
    text = EXAMPLE
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 12)))
        piece = data.draw(
            st.sampled_from(
                ["", "null", "3", "-1", "[", "{}", "x", "{{ ", ": ", "\n", " ", "*r", "1e400", ".nan"]
            )
        )
        text = text[:start] + piece + text[end:]
    assert all(problem.place for problem in problems_of(text))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("ab{} %"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", min_size=1), inner, max_size=2),
    max_leaves=4,
)
PATHS = st.sampled_from(
    [
        "version", "kind", "name", "project", "params", "declarations", "inputs", "settings", "framework", "logging",
        "environment", "environment.replicas", "environment.tensorflow", "environment.pytorch", "environment.resources",
        "environment.replicas.worker", "environment.worker_resources", "environment.default_worker_resources",
        "environment.resources.gpu", "environment.n_workers", "environment.env_vars", "run", "run.cmd", "run.image",
        "run.env_vars", "build", "batch", "batch.mail", "horovod", "tags", "environment.replicas.default_worker",
    ]
)  # fmt: skip


@given(st.lists(st.tuples(PATHS, JSON), max_size=5))
def test_any_value_anywhere_is_an_experiment_or_problems(changes: list[tuple[str, object]]) -> None:
    data: dict[str, Any] = {"run": {"cmd": "x"}}
    for path, value in changes:
        *sections, last = path.split(".")
        section = data
        for name in sections:
            below = section.get(name)
            inner: dict[str, Any] = below if isinstance(below, dict) else {}
            section[name] = inner
            section = inner
        section[last] = value
    assert all(problem.place for problem in problems_of(json.dumps(data)))


@given(st.lists(st.tuples(PATHS, JSON), max_size=5))
def test_any_setting_is_accepted_or_refused(changes: list[tuple[str, object]]) -> None:
    pairs = [
        (path, json.dumps(value) if isinstance(value, list | dict) else str(value)) for path, value in changes
    ]
    assert all(problem.place for problem in problems_of("run: {cmd: x}", settings=pairs))
