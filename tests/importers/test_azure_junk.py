"""Whatever a file of Azure ML holds, it is read or refused, and no key of it is lost in silence."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist import importers
from hpcdist.base import source
from hpcdist.base.errors import HpcdistError, Path, Place, Problem
from hpcdist.base.tree import Document, Map
from hpcdist.importers.reading import placed
from hpcdist.loading.load import load_experiment
from tests.tiers import examples

FILES = sorted(
    path for path in (pathlib.Path(__file__).parent / "azure").glob("*.yml") if "expected" not in path.name
)
PIPELINE = pathlib.Path(__file__).parent / "azure/pipelines/fit.yml"
KEYS = (
    "$schema", "type", "name", "display_name", "experiment_name", "version", "description", "tags", "inputs",
    "outputs", "code", "command", "environment", "launcher", "distribution", "resources", "compute",
    "runsettings", "limits", "environment_variables", "meta", "path", "mode", "default", "optional", "enum",
    "min", "max", "image", "docker", "conda", "os", "additional_arguments", "process_count_per_instance",
    "process_count", "worker_count", "parameter_server_count", "instance_count", "instance_type",
    "node_count", "resource_layout", "timeout", "timeout_seconds", "value", "data", "local_path",
    "requireGpu", "x", "a-b", "if", "jobs", "trial", "component", "services", "identity",
    "successful_return_code", "overrides", "settings",
)  # fmt: skip
WORDS = (
    "command", "DistributedComponent", "CommandComponent", "mpi", "pytorch", "tensorflow", "ray", "string",
    "Integer", "number", "boolean", "Enum", "uri_folder", "direct", "azureml:x:1", "https://x.org/y", "./a",
    "python x.py {inputs.x} [--y {inputs.a-b}]", "$[[--x ${{inputs.x}}]] '${{outputs.x}}' {{ {%",
    "{${{inputs.x}}}", "2", "Linux", "Standard_NC6s_v3", "", "${{parent.inputs.x}}",
)  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 9), st.floats(), st.sampled_from(WORDS), st.text(max_size=9)
)
TREES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(KEYS), below, max_size=5),
    max_leaves=25,
)
TOPS = st.dictionaries(st.sampled_from(KEYS), TREES, max_size=12)


def tree(data: dict[str, Any]) -> Map:
    found = placed(data, Place("junk.yml", 1, 1))
    assert isinstance(found, Map)
    return found


def errors_of(data: dict[str, Any]) -> list[Problem] | None:
    """Return the problems of data that are refused, None for those that are an experiment."""
    try:
        load_experiment(Document(tree(data), "junk.yml"), importer="azure")
    except HpcdistError as error:
        return list(error.problems)
    return None


@examples(150)
@given(TOPS)
def test_junk_is_read_or_refused_with_a_place(data: dict[str, Any]) -> None:
    problems = errors_of(data)
    assert problems is None or all(problem.place and problem.message for problem in problems)


@examples(150)
@given(
    st.sampled_from([*FILES, *[PIPELINE] * 4]), st.lists(st.integers(0, 50), min_size=6, max_size=6), TREES
)
def test_junk_anywhere_in_a_good_file_is_read_or_refused(
    file: pathlib.Path, steps: list[int], junk: object
) -> None:
    node = data = plain(source.load(file).data)
    for step in steps[1:]:
        keys = [key for key, value in node.items() if isinstance(value, dict) and value]
        if keys and step % 2:
            node = node[keys[step % len(keys)]]
    node[list(node)[steps[0] % len(node)]] = junk
    problems = errors_of(data)
    assert problems is None or all(problem.place and problem.message for problem in problems)


def plain(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: plain(value) for key, value in node.items()}
    return [plain(item) for item in node] if isinstance(node, list) else node


def sections(node: Any, path: Path = ()) -> list[Path]:
    below = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    own = [path] if isinstance(node, dict) else []
    return own + [found for key, value in below for found in sections(value, (*path, key))]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_unknown_key_is_reported_in_every_section(file: pathlib.Path) -> None:
    places = sections(plain(source.load(file).data))
    assert () in places
    for path in places:
        data = plain(source.load(file).data)
        node = data
        for step in path:
            node = node[step]
        node["zz"] = "lost?"
        read = importers.read(tree(data), "azure")
        if path[-1:] not in (("tags",), ("inputs",), ("outputs",), ("environment_variables",)):
            remarks = [problem.path for problem in read.remarks]
            assert any(told_path == (*path, "zz")[: len(told_path)] for told_path in remarks), path
        else:
            assert "lost?" in str(read.data) or path[-1] == "outputs"
