# ruff: noqa: E501 - tables of words
"""Whatever a file of MLRun or Polyaxon 1 holds, it is read or refused in sentences, and no key is lost."""

from __future__ import annotations

import copy
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

HERE = pathlib.Path(__file__).parent
FORMS = ("mlrun", "polyaxon_v1")
FILES = [
    (form, path)
    for form in FORMS
    for path in sorted((HERE / form).glob("*.yml"))
    if "expected" not in path.name
]
KEYS = (
    "version", "kind", "name", "spec", "metadata", "functions", "workflows", "command", "args", "mode", "mpi_args",
    "replicas", "env", "value", "valueFrom", "secretKeyRef", "resources", "limits", "requests", "nvidia.com/gpu",
    "cpu", "memory", "image", "build", "functionSourceCode", "workdir", "parameters", "hyperparams", "state_thresholds",
    "executing", "url", "run", "component", "inputs", "params", "matrix", "container", "launcher", "worker", "master",
    "chief", "ps", "evaluator", "scheduler", "server", "slotsPerWorker", "elasticPolicy", "nProcPerNode", "init",
    "environment", "termination", "timeout", "maxRetries", "type", "isOptional", "argFormat", "toEnv", "ref",
    "file", "filename", "content", "chmod", "runPatch", "patchStrategy", "plugins", "logLevel",
    "workingDir", "pathRef", "presets", "tags", "description", "nodeSelector", "envFrom", "default_handler", "if",
)  # fmt: skip
WORDS = (
    "mpijob", "job", "tfjob", "pytorchjob", "mxjob", "paddlejob", "dag", "component", "operation", "project",
    "dask", "mpirun", "-np", "2", "mpirun -np 2 python x.py", "-x", "A=b", "sh", "-c", "{lr} {{ x }} {%",
    "{{ params.x.as_arg }}", "{{ params.as_args }}", "{{ globals.uuid }}", "{{ x", "pass", "1.1", "500m", "4Gi",
    "YQ==", "train.py", "x", "a b", "$(A)", "s3://x", "",
)  # fmt: skip
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9)
"""No file has a NUL byte: ``documents.compose`` refuses it."""
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-2, 9), st.floats(), st.sampled_from(WORDS), TEXTS)
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


def remarks_of(data: dict[str, Any], form: str) -> tuple[Problem, ...]:
    """Return what an importer says, whether it refuses the file or not."""
    try:
        return importers.read(tree(data), form).remarks
    except HpcdistError as error:
        return error.problems


def refusal(data: dict[str, Any], form: str) -> HpcdistError | None:
    try:
        load_experiment(Document(tree(data), "junk.yml"), importer=form)
    except HpcdistError as error:
        return error
    return None


def paths(node: Any, path: Path = ()) -> list[Path]:
    """Return the paths of all values."""
    steps = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(below for step, item in steps for below in paths(item, (*path, step)))]


def at(data: Any, path: Path) -> Any:
    for step in path:
        data = data[step]
    return data


@examples(150)
@given(TOPS, st.sampled_from(FORMS))
def test_junk_is_reported_in_sentences(data: dict[str, Any], form: str) -> None:
    error = refusal(data, form)
    assert error is None or all(problem.message for problem in error.problems)


@pytest.mark.extended
@pytest.mark.parametrize(("form", "path"), FILES, ids=lambda value: getattr(value, "stem", value))
@examples(60)
@given(st.data())
def test_a_value_replaced_by_junk_is_read_or_refused(
    form: str, path: pathlib.Path, data: st.DataObject
) -> None:
    content = copy.deepcopy(dict(source.load(path).data))
    where = data.draw(st.sampled_from(paths(content)[1:]))
    at(content, where[:-1])[where[-1]] = data.draw(TREES)
    error = refusal(content, form)
    assert error is None or all(problem.message for problem in error.problems)


FREE = ("params", "parameters", "matrix", "env_vars", "options", "default", "value", "outputs",
        "nodeSelector")  # fmt: skip
"""Sections with the user's own keys, of which every one has a meaning."""


@pytest.mark.parametrize(("form", "path"), FILES, ids=lambda value: getattr(value, "stem", value))
def test_an_unknown_key_is_reported(form: str, path: pathlib.Path) -> None:
    original = dict(source.load(path).data)
    sections = [where for where in paths(original) if isinstance(at(original, where), dict)]
    silent = []
    for where in sections:
        content = copy.deepcopy(original)
        at(content, where)["zzz"] = "1"
        remarks = [remark.path for remark in remarks_of(content, form)]
        place = ("component", "run", *where[1:]) if where[:1] == ("runPatch",) else where  # patched there
        full = (*place, "zzz")
        if not any(full[: len(one)] == one for one in remarks if one) and not (set(where) & set(FREE)):
            silent.append(full)
    assert silent == []
