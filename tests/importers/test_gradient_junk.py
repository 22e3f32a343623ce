"""Whatever a file or a command line holds: a located sentence, never a traceback, and no key is lost."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from hpcdist.errors import HpcdistError
from hpcdist.importers.gradient import IMPORTER
from hpcdist.importers.gradient.mpirun import taken_apart, with_hostfile
from hpcdist.importers.gradient.options import KNOWN
from hpcdist.importers.gradient.words import from_words
from hpcdist.load import load_experiment
from hpcdist.tree import Document, Map, Seq

_TEXTS = some.one_of(
    some.text(max_size=8),
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
def test_no_file_is_a_traceback_and_no_unknown_key_is_lost(
    junk: dict[str, Any], said: dict[str, Any]
) -> None:
    data = _tree({**junk, **said})
    IMPORTER.recognises(data)
    with contextlib.suppress(HpcdistError):
        told = [problem.path[0] for problem in IMPORTER.read(data).remarks if problem.path]
        empty = [key for key, value in data.items() if value in (None, "", [], {}) or value is False]
        assert set(data) - KNOWN - set(empty) <= set(told)
    with contextlib.suppress(HpcdistError):
        load_experiment(Document(data, "junk.yml"), importer="gradient")


@given(some.lists(some.one_of(_TEXTS, _KEYS.map("--{}".format), some.text(max_size=6)), max_size=8))
def test_no_command_line_is_a_traceback(words: list[str]) -> None:
    with contextlib.suppress(HpcdistError):
        from_words(["experiments", "create", "multinode", "--experimentType=MPI", *words])


@given(some.text(alphabet="mpirun -x\"'\\$(`;&|<>#=/ab\n{}:", max_size=30))
def test_no_command_is_a_traceback(text: str) -> None:
    taken_apart("mpirun " + text)
    assert "/generated/hostfile" not in with_hostfile(text)
