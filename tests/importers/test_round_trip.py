"""What was imported, written and read again is the same, whatever it was before."""

from __future__ import annotations

from pathlib import Path as File

import pytest

from hpcdist import load, source
from hpcdist.cli.import_ import origins
from hpcdist.errors import ConfigError, Path, errors_in
from hpcdist.experiment import Experiment
from hpcdist.load import Native
from hpcdist.native_text import write

FILES = sorted(
    file for file in File(__file__).parent.glob("*/*.yml") if not file.name.endswith(".expected.yml")
)


def again(native: Native) -> Native:
    text = write(native.document.data, origins(native))
    return load.to_native(source.parse(text, native.document.file, several=True))


def outcome(native: Native) -> Experiment | set[tuple[Path, str]]:
    """Return the experiment, or what keeps it from being one: inputs without a param."""
    try:
        return load.checked(native).experiment
    except ConfigError as error:
        return {(problem.path, problem.message) for problem in errors_in(error.problems)}


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_native_stays_native(file: File) -> None:
    native = load.to_native(source.load(file, several=True))
    once = again(native)
    assert once.problems == ()
    assert once.document.data == native.document.data
    assert once.document.data == once.foreign.data
    assert outcome(once) == outcome(native)
