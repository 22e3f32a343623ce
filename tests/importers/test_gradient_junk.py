"""Whatever a file or a command line holds: a located sentence, never a traceback, and no key is lost."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from hpcdist.base.errors import ConfigError, HpcdistError
from hpcdist.base.tree import Document, Map, Seq
from hpcdist.experiment.launch_options import with_hostfile
from hpcdist.importers.gradient import IMPORTER, parse
from hpcdist.importers.gradient.options import KNOWN
from hpcdist.importers.launch_lines import UnsupportedLaunch, parse_launch_line
from hpcdist.loading.load import load_experiment

_CHARACTERS = some.characters(codec="utf-8", exclude_characters="\0")  # no file holds a NUL
_TEXTS = some.one_of(
    some.text(_CHARACTERS, max_size=8),
    some.sampled_from(
        ("MPI", "grpc", "P4000", "C7", "2", "0", "sleep 1", "a/b:1", '{"A": 1}', '["\\ud800"]', "{{ a",
         "secret:x",
         "mpirun -np 2 --hostfile /generated/hostfile -x A=$B python x", "mpirun -np 3 x", "s3://a", "a.git")
    ),
)  # fmt: skip
_SCALARS = some.one_of(some.none(), some.booleans(), some.integers(), some.floats(), _TEXTS)
_KEYS = some.one_of(some.sampled_from(sorted(KNOWN)), some.text(max_size=4))


def _tree(value: Any) -> Any:
    if isinstance(value, dict):
        return Map({key: _tree(item) for key, item in value.items()})
    return Seq(map(_tree, value)) if isinstance(value, list) else value


_VALUES = some.recursive(
    _SCALARS,
    lambda inner: some.one_of(some.lists(inner, max_size=3), some.dictionaries(_KEYS, inner, max_size=3)),
    max_leaves=6,
)
_FILES = some.dictionaries(_KEYS, some.one_of(_SCALARS, _VALUES), max_size=14)
_SAID = {
    "experimentType": some.sampled_from(("MPI", "GRPC")),
    "workerCount": some.integers(0, 4),
    "workerMachineType": some.just("P4000"),
    "masterCommand": _TEXTS,
}


@given(_FILES, some.fixed_dictionaries({}, optional=_SAID))
def test_no_file_raises_and_every_unknown_key_is_reported(
    junk: dict[str, Any], valid: dict[str, Any]
) -> None:
    data = _tree({**junk, **valid})
    IMPORTER.recognises(data)
    try:
        problems = IMPORTER.read(data).remarks
    except ConfigError as error:
        problems = error.problems
    remarks = [problem.path[0] for problem in problems if problem.path]
    empty = [key for key, value in data.items() if value in (None, "", [], {}) or value is False]
    assert set(data) - KNOWN - set(empty) <= set(remarks)
    with contextlib.suppress(HpcdistError):
        load_experiment(Document(data, "junk.yml"), importer="gradient")


_OF_CI = some.sampled_from(
    ("version", "type", "worker", "master", "parameter-server", "container", "command", "machine-type",
     "count", "dockerfile", "use", "workflows", "steps", "name", "params", "paramsFile", "checks", "jobs",
     "uses", "with", "image", "args", "script", "env", "resources", "instance-type", "defaults", "inputs",
     "experiment", "paths", "workdir")
)  # fmt: skip
_SAID_OF_CI = some.sampled_from(
    ("container@v1", "script@v1", "experiment.run_single_node", "multi-mpi", "single")
)
_CI = some.recursive(
    some.one_of(_SCALARS, _SAID_OF_CI),
    lambda inner: some.one_of(some.lists(inner, max_size=2), some.dictionaries(_OF_CI, inner, max_size=4)),
    max_leaves=20,
)


@given(
    junk=some.dictionaries(_OF_CI, _CI, max_size=5),
    form=some.sampled_from(
        (
            {"worker": {"machine-type": "P4000"}},
            {"workflows": {"a": {"steps": [{"command": "experiment.run_single_node"}]}}},
        )
    ),
    inside=_CI,
)
def test_no_file_of_gradientci_raises(junk: dict[str, Any], form: dict[str, Any], inside: Any) -> None:
    (key, section), *_ = form.items()
    more = inside if isinstance(inside, dict) else {}
    data = _tree({**junk, key: {**more, **section}})
    with contextlib.suppress(HpcdistError):
        load_experiment(Document(data, "junk.yml"), importer="gradient")


@given(some.lists(some.one_of(_TEXTS, _KEYS.map("--{}".format), some.text(max_size=6)), max_size=8))
def test_no_command_line_raises(words: list[str]) -> None:
    with contextlib.suppress(HpcdistError):
        parse(["experiments", "create", "multinode", "--experimentType=MPI", *words])


@given(some.text(alphabet="mpirun -x\"'\\$(`;&|<>#=/ab\n{}:", max_size=30))
def test_no_command_raises(text: str) -> None:
    with contextlib.suppress(UnsupportedLaunch):
        parse_launch_line("mpirun " + text, {"a": "it's", "b": '$a "b"'})
    assert "/generated/hostfile" not in with_hostfile(text)
