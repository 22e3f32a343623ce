"""Whatever stands in such a file, nothing but a sentence comes out, and no key is lost in silence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.base import source
from hpcdist.base.errors import HpcdistError, Problem
from hpcdist.importers.kubeflow import IMPORTER
from tests.tiers import examples

KEYS = st.sampled_from([
    "apiVersion", "metadata", "name", "generateName", "spec", "runPolicy", "mpiReplicaSpecs",
    "Launcher", "Worker", "replicas", "template", "containers", "command", "args", "env", "resources",
    "limits", "requests", "cpu", "memory", "nvidia.com/gpu", "image", "slotsPerWorker", "gpus",
    "replicaSpecs", "tfReplicaSpecs", "pytorchReplicaSpecs", "mxReplicaSpecs", "Master", "Chief", "PS",
    "Server", "Scheduler", "Evaluator", "elasticPolicy", "nprocPerNode", "maxRestarts", "restartPolicy",
    "initContainers", "volumes", "volumeMounts", "mountPath", "value", "valueFrom", "envFrom",
    "workingDir", "activeDeadlineSeconds", "backoffLimit", "schedulingPolicy", "tfReplicaType",
    "jobMode", "nodeSelector", "lifecycle", "runLauncherAsWorker", "mainContainer", "gpusPerNode", "odd",
])  # fmt: skip
WORDS = st.sampled_from([
    "mpirun", "-np", "2", "--hostfile", "-x", "A=$B", "torchrun", "--nnodes=2", "python", "train.py", "sh",
    "mpirun -np 4 a.out && b", "horovodrun", "--min-np", "--no-stall-check", "$(A)", "$$", "{{ x }}", "a 'b",
    "-c", "4Gi", "-mca", "bash", "-euo", "pipefail", "deepspeed", ":", "-m", "",
])  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers(-3, 10**9) | st.sampled_from([0.5, 1e300]) | WORDS
TREES = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=4),
    max_leaves=10,
)
KINDS = {
    "MPIJob": ("mpiReplicaSpecs", ("Launcher", "Worker")),
    "TFJob": ("tfReplicaSpecs", ("Chief", "Worker", "PS", "Evaluator")),
    "PyTorchJob": ("pytorchReplicaSpecs", ("Master", "Worker")),
    "MXJob": ("mxReplicaSpecs", ("Scheduler", "Server", "Worker")),
}


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, object]:
    """Draw a job that is half right: each of its sections may be anything."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    text_checks, names = KINDS[kind]

    def either(right: object) -> object:
        return draw(TREES) if draw(st.integers(0, 9)) == 0 else right

    def role() -> object:
        words = draw(st.lists(WORDS, min_size=1, max_size=8))
        member = {"name": "a", "image": either("i"), "command": either(words), "odd": either(None)}
        inner = {"containers": either([either(member | draw(st.dictionaries(KEYS, TREES, max_size=2)))])}
        pod = inner | draw(st.dictionaries(KEYS, TREES, max_size=1))
        return either(
            {"replicas": either(draw(st.integers(0, 3))), "template": either({"spec": either(pod)})}
        )

    spec = {text_checks: either({name: role() for name in names if draw(st.booleans())})}
    spec |= draw(st.dictionaries(KEYS, TREES, max_size=2))
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": either({"name": "a"}),
        "spec": either(spec),
    }


@examples(200)
@given(jobs())
def test_errors_are_sentences(job: dict[str, object]) -> None:
    document = source.parse(yaml.safe_dump(job, allow_unicode=True), "k.yml")
    commands = 1
    problems: tuple[Problem, ...]
    try:
        imported = IMPORTER.read(document.data)
        commands, problems = len(imported.data["run"]), imported.remarks
    except HpcdistError as error:
        problems = error.problems
    assert commands == 1
    assert all(problem.place and problem.message for problem in problems)


@pytest.mark.extended
@examples(150)
@given(jobs(), st.sampled_from([1, "a", {"b": 2}, [3]]), st.integers(0, 10**6))
def test_an_unknown_key_is_reported_at_any_depth(job: dict[str, object], value: object, where: int) -> None:
    sections = [path for path in _sections(job) if path and path[0] == "spec"]
    if not sections:
        return
    path = sections[where % len(sections)]
    _at(job, path)["unheardOf"] = value
    try:
        remarks = IMPORTER.read(source.parse(yaml.safe_dump(job, allow_unicode=True), "k.yml").data).remarks
    except HpcdistError as error:
        remarks = error.problems
    reported = [tuple(map(str, problem.path)) for problem in remarks]
    whole = (*map(str, path), "unheardOf")
    assert any(whole[: len(prefix)] == prefix for prefix in reported) or _taken_whole(path)


def _sections(node: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(node, Mapping):
        yield path
        for key, item in node.items():
            yield from _sections(item, (*path, key))
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from _sections(item, (*path, index))


def _at(node: object, path: tuple[str | int, ...]) -> dict[str, object]:
    for step in path:
        node = node[step]  # type: ignore[index]
    assert isinstance(node, dict)
    return node


def _taken_whole(path: tuple[str | int, ...]) -> bool:
    """Tell whether a section goes into the native form as it is."""
    return "nodeSelector" in path or "volumeMounts" in path
