"""What the verbs of jobs say of runs that nobody may read."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from hpcdist.base.errors import ConfigError, Place, Problem
from hpcdist.cli import main
from hpcdist.cli.jobs import runs
from tests.wording import Wording

from .conftest import Hpcdist


def unread(file: str, cause: OSError) -> ConfigError:
    error = ConfigError(Problem("the record cannot be read", place=Place(file, 1, 1)))
    error.__cause__ = cause
    return error


def test_runs_of_other_users_are_summed_up_in_one_note(
    capsys: pytest.CaptureFixture[str], wording: Wording
) -> None:
    broken = unread("/runs/a-1/record.json", IsADirectoryError())
    with click.Context(main):
        runs.warn_unreadable(
            [broken, *(unread(f"/runs/b-{n}/record.json", PermissionError()) for n in range(1, 7))]
        )
    wording(capsys.readouterr().err)


@pytest.mark.parametrize("words", ["status", "status --offline"])
def test_a_folder_of_runs_that_cannot_be_read(hpcdist: Hpcdist, folder: Path, words: str) -> None:
    name = "x" * 300  # permissions are none for root, as whom these tests may run
    result = hpcdist(*words.split(), "--runs-dir", name)
    assert (result.code, result.out, result.err) == (2, "", f"error: {folder}/{name}: File name too long\n")
