"""Which key of a file of Azure ML says what: where a value comes from, and what ``--set`` changes."""

from __future__ import annotations

import pytest

from hpcdist.base import source
from hpcdist.base.errors import ConfigError
from hpcdist.cli.experiment.import_ import origins
from hpcdist.importers.azure import IMPORTER
from hpcdist.loading import load
from tests.wording import Wording

from .azure_commands import prepared
from .remarks import cases, remarks_of

NAMED = """\
type: command
name: a
display_name: Of A
command: x
tags: {owner: me,
  "k v": null}
version: 0.0.1
environment: {image: i}
"""


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        (
            NAMED,
            {
                "display_name=Of A": "f.yml:3 display_name",
                "version=0.0.1": "f.yml:7 version",
                "owner=me": "f.yml:5 tags.owner",
                "k v": "f.yml:6 tags.k v",
            },
        ),
        (
            "type: command\nversion: 1\ncommand: x\ntags: [a, 1.10]\n",
            {"version=1": "f.yml:2 version", "a": "f.yml:4 tags[0]", "1.10": "f.yml:4 tags[1]"},
        ),
        ("type: command\ncommand: x\ntags: a\n", {"a": "f.yml:3 tags"}),
        ("type: command\ncommand: x\nversion: 2\ntags: {}\n", {"version=2": "f.yml:3 version"}),
    ],
)
def test_the_origin_of_each_tag(text: str, tags: dict[str, str]) -> None:
    native = load.to_native(source.parse(text, "f.yml"))
    origin = origins(native)
    found = {tag: origin(("tags", at)) for at, tag in enumerate(native.document.data["tags"])}
    assert found == tags


TENSORFLOW = (
    "type: command\ncommand: x\ndistribution:\n  type: tensorflow\n{}resources: {{instance_count: 3}}\n"
)


@pytest.mark.parametrize(
    ("count", "remarks"),
    [
        ("  worker_count: 3\n", "f.yml:5 distribution.worker_count"),
        ("", "f.yml:5 resources.instance_count"),
    ],
)
def test_the_origin_of_the_number_of_workers(count: str, remarks: str) -> None:
    native = load.to_native(source.parse(TENSORFLOW.format(count), "f.yml"))
    assert native.document.data["environment"] == {"replicas": {"n_workers": 2}}
    assert origins(native)(("environment", "replicas", "n_workers")) == remarks


SETTINGS = (
    ("display_name", "b"),
    ("experiment_name", "c"),
    ("code", "/src"),
    ("command", "y"),
    ("tags", "[d]"),
)


def test_keys_of_azure_are_set_in_its_file() -> None:
    native = load.to_native(source.parse("type: command\ncommand: x\n", "f.yml"), settings=SETTINGS)
    assert (native.document.data, native.problems) == (
        {"name": "b", "tags": ["d"], "run": {"cmd": prepared("y", before=("cd /src || exit",))}},
        (),
    )


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("inputs.n", "2"),
        ("inputs.n.path", "a b"),
    ],
)
def test_an_input_is_set_as_a_param(key: str, text: str, wording: Wording) -> None:
    document = source.parse("type: command\ncommand: x\ninputs: {n: 1}\n", "f.yml")
    with pytest.raises(ConfigError) as caught:
        load.load_experiment(document, settings=[(key, text)])
    wording(map(str, caught.value.problems))


def test_an_input_of_an_experiment_is_changed_by_its_number() -> None:
    text = "inputs: [{name: n, default: 1, is_optional: true}]\nrun: {cmd: 'x {{ n }}'}\n"
    document = source.parse(text, "f.yml")
    loaded = load.load_experiment(document, settings=[("inputs[0].default", "2")])
    assert loaded.experiment.run.command == "x 2"


def test_a_parent_job_has_no_effect(wording: Wording) -> None:
    wording(remarks_of("type: command\ncommand: x\nparent_job_name: p\n"))


@pytest.mark.parametrize(
    "text",
    [
        "type: pipeline_job\njobs: {a: {}, b: {}}",
        "name: m\nimplementation: {container: {runConfig: {gpuSupport: true}, command: [x]}}",
    ],
    ids=cases(),
)
def test_files_of_the_first_previews_are_recognised(text: str, wording: Wording) -> None:
    assert IMPORTER.recognises(source.parse(text, "f.yml").data)
    wording(remarks_of(text))


def test_a_component_of_kubeflow_is_not_a_module() -> None:
    text = "name: m\nimplementation: {container: {image: i, command: [x]}}"
    assert not IMPORTER.recognises(source.parse(text, "f.yml").data)
