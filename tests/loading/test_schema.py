"""The schema says what ``fields.build`` says, of whole files and of files that are nearly right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from hpcdist.base import fields, source
from hpcdist.base.resources import shipped
from hpcdist.base.units import Memory, Walltime
from hpcdist.experiment.model import Experiment, Logging
from hpcdist.layers.frameworks import frameworks
from hpcdist.loading.schema import MODELS, meaning, schema
from tests.tiers import sweep

Kind = Literal["site", "experiment", "config"]

CHECKOUT = shipped("site_configs").parent
SITES = sorted(CHECKOUT.glob("site_configs/*.yaml")) + sorted(CHECKOUT.glob("tests/sites/*.yaml"))
EXAMPLES = sorted({*CHECKOUT.glob("examples/*.yml")} - {CHECKOUT / "examples/pipeline.yml"})
"""Experiments; a pipeline has no schema of its own."""
SCHEMA = schema("site")
VALIDATORS = {kind: Draft202012Validator(schema(kind)) for kind in ("site", "experiment", "config")}

CONFIG = """\
site: x
defaults: {account: 007, walltime: 90m, mail: me}
sites: {x: {qos: q, partition: p, mail: {user: me, events: [end]}}}
"""
NATIVE = """\
name: n
framework: tensorflow
backend: native
environment:
  resources: {cpu: {requests: 2}, memory: {limits: 4Gi}, gpu: {requests: 1, limits: 1}}
  replicas:
    n_workers: 2
    worker: [{index: 0, resources: {cpu: {requests: 0.5}}, node_selector: {disk: ssd}}]
    ps_on: cpu_nodes
    n_ps: 1
  env_vars: {A: 1, B: x}
build: {image: i, nocache: true, env_vars: [[A, 1]]}
run: {cmd: [a, b]}
tensorflow: {version: "2.15", ends_with: workers}
batch:
  walltime: 2:00:00
  array: 1-4
  exclusive: true
  launcher: {name: srun, args: [-v]}
  dependency: afterok:1
  mail: {user: me}
"""


SITE = """\
name: x
description: d
status: documented
scheduler: slurm
launcher: srun
launchers: {srun: {mpi: pmix, rank_variables: {rank: R, local_rank: L}, mca: {a: 1}}}
node_types: {n: {cpus: 8, memory: 16G, gpus: 4, gpu_cpus: ["0-1"], library: rccl}}
partitions: {p: {nodes: {n: 4, m: null}, max_walltime: 24h, limits: [{nodes: 1, walltime: 1h}]}}
walltime: "01:00:00"
whole_nodes: true
fabric: {network: efa, env: {A: 1, B: {value: x, when: multi_node}}, together: [{why: w, env: {C: 2}}]}
sources: [{where: w, read: 2026-11, of: [fabric]}]
"""


def refused(kind: Kind, data: Any) -> bool:
    """Tell whether the models refuse it."""
    built, problems = fields.build(MODELS[kind], data)
    if isinstance(built, Experiment):
        for name, section in built.sections.items():
            if name not in frameworks:
                problems.append(fields.unknown_key(name, (), ()))
            elif section is not None:
                problems += fields.build(frameworks.get(name).section, section)[1]
    return bool(problems)


@pytest.mark.parametrize("kind", MODELS)
def test_schema_is_valid_json_schema(kind: Kind) -> None:
    Draft202012Validator.check_schema(schema(kind))


@pytest.mark.parametrize("file", sweep(SITES, lambda file: file.stem), ids=lambda file: file.stem)
def test_every_site_matches_its_schema(file: Path) -> None:
    assert [*VALIDATORS["site"].iter_errors(source.load(file).data)] == []


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_example_matches_its_schema(file: Path) -> None:
    assert [*VALIDATORS["experiment"].iter_errors(source.load(file).data)] == []


def changed(data: Any) -> Iterator[tuple[str, Any]]:
    """Yield data with one value changed, one key too many, or one too few, and what was changed."""
    others: tuple[Any, ...] = (None, 3, -1, 1.5, True, "x", "3", "1h", "4Gi", [], ["a"], [[1]], {}, {"x": 1})
    for other in others:
        yield f"= {other!r}", other
    if isinstance(data, dict):
        yield "+ unknown", data | {"unknown": 1}
        for key in data:
            yield f"- {key}", {name: value for name, value in data.items() if name != key}
            yield from ((f"{key} {how}", data | {key: value}) for how, value in changed(data[key]))
    elif isinstance(data, list):
        for at, item in enumerate(data):
            rest = data[at + 1 :]
            yield from ((f"{at} {how}", [*data[:at], value, *rest]) for how, value in changed(item))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("config", CONFIG),
        pytest.param("experiment", NATIVE, marks=pytest.mark.extended),
        pytest.param("site", SITE, marks=pytest.mark.extended),
        pytest.param(
            "site",
            (CHECKOUT / "tests" / "sites" / "gadi-like.yaml").read_text(),
            marks=pytest.mark.extended,
        ),
    ],
    ids=["config", "experiment", "site", "gadi-like"],
)  # fmt: skip
def test_schema_agrees_with_the_models_on_slightly_invalid_files(kind: Kind, text: str) -> None:
    whole = source.parse(text, "x").data
    assert not refused(kind, whole)
    assert VALIDATORS[kind].is_valid(whole)
    verdicts = []
    for how, wrong in changed(yaml.safe_load(yaml.safe_dump(plain(whole)))):
        if isinstance(wrong, dict) and wrong:
            data = source.parse(yaml.safe_dump(wrong), "x").data  # as it would be spelt
            verdicts.append((how, refused(kind, data), not VALIDATORS[kind].is_valid(data)))
    assert [verdict for verdict in verdicts if verdict[1] != verdict[2]] == []
    assert {verdict[1] for verdict in verdicts} == {True, False}


def plain(data: Any) -> Any:
    """Return the data without its places."""
    if isinstance(data, dict):
        return {str(key): plain(value) for key, value in data.items()}
    return [*map(plain, data)] if isinstance(data, list) else data


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("environment: {replicas: {n_workers: '{{ n }}'}}", True),
        ("environment: {replicas: '{{ replicas }}'}", True),
        ("environment: {replicas: {n_workers: n}}", False),
        ("batch: {walltime: '{{ hours }}h', exclusive: '{% if x %}true{% endif %}'}", True),
        ("batch: {gpu_visibility: '{{ g }}'}", True),
        ("version: '{{ v }}'", False),
        ("horovod: {fusion_threshold_mb: '{{ mb }}'}", True),
        ("horovod:", True),
        ("horovod: {fusion_treshold_mb: 3}", False),
        ("horvod: {}", False),
    ],
)
def test_templates_and_frameworks_in_experiments(text: str, *, right: bool) -> None:
    data = source.parse(f"run: {{cmd: x}}\n{text}\n", "e.yml").data
    assert VALIDATORS["experiment"].is_valid(data) is right


@pytest.mark.parametrize("kind", [Walltime, Memory])
@given(data=st.data())
def test_patterns_of_quantities_match_their_parsers(
    kind: type[Walltime | Memory], data: st.DataObject
) -> None:
    found = SCHEMA["$defs"]
    where = found["site.nodes.Partition"] if kind is Walltime else found["site.nodes.NodeType"]
    pattern = where["properties"]["max_walltime" if kind is Walltime else "memory"]["pattern"]
    text = data.draw(st.from_regex(re.compile(pattern, re.ASCII)))
    if kind is Memory or set(re.findall("[1-9]", text)):  # no time at all is no walltime
        assert isinstance(kind.parse(text), kind)


def test_docstrings_are_descriptions() -> None:
    partition = schema("site")["$defs"]["site.nodes.Partition"]
    assert partition["description"] == "A partition or queue of the machine."
    assert partition["properties"]["submit_as"] == {
        "type": ["string", "number", "boolean", "null"],
        "description": (
            '``submit_as``: the scheduler\'s name of it, "" if none is to be given (Perlmutter: ``-C`` and '
            "``-q``)."
        ),
    }


def test_defaults_and_choices() -> None:
    gpus = schema("site")["$defs"]["site.nodes.Gpus"]["properties"]
    assert gpus["bound_by"]["enum"] == ["task", "launcher", None]
    assert gpus["bound_by"]["default"] == "task"
    assert schema("site")["required"] == ["name", "description", "scheduler", "launcher"]


class Room(fields.Model, frozen=True):
    """A room; ``door`` leads into it.

    ``size``: how large it is. In square metres. ``seats``: how many people can sit.
    """

    door: str
    size: float
    seats: int


class Hall(Room, frozen=True):
    """A large room.

    ``seats``: many.
    """

    roof: str = ""


@pytest.mark.parametrize(
    ("model", "field", "text"),
    [
        (Room, "door", "A room; ``door`` leads into it."),
        (Room, "size", "``size``: how large it is. In square metres."),
        (Room, "seats", "``seats``: how many people can sit."),
        (Hall, "seats", "``seats``: many."),
        (Hall, "size", "``size``: how large it is. In square metres."),
        (Hall, "roof", ""),
        (Logging, "formatter", "has no effect: the program writes its own log."),
        (Experiment, "project", "has no effect: runs are kept by name and date; put it in `tags`."),
    ],
)
def test_meaning_of_a_field_is_its_description_or_its_warning(
    model: type[fields.Model], field: str, text: str
) -> None:
    assert meaning(model, field) == text
