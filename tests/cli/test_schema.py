"""``hpcdist schema``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcdist.loading.schema import MODELS, schema
from tests.cli.conftest import Hpcdist


@pytest.mark.parametrize("kind", MODELS)
def test_it_is_printed(hpcdist: Hpcdist, kind: str) -> None:
    said = hpcdist("schema", kind)
    assert (said.code, said.err) == (0, "")
    assert json.loads(said.out)["title"] == f"hpcdist {kind}"


def test_it_is_written(hpcdist: Hpcdist, folder: Path) -> None:
    said = hpcdist("schema", "site", "-o", "site.json")
    assert (said.code, said.out, said.err) == (0, "", "")
    assert json.loads((folder / "site.json").read_text()) == schema("site")


def test_a_kind_that_there_is_none_of(hpcdist: Hpcdist) -> None:
    said = hpcdist("schema", "sites")
    assert said.code == 2
    assert "'sites' is not one of 'site', 'experiment', 'config'." in said.err


def test_a_file_that_cannot_be_written(hpcdist: Hpcdist) -> None:
    said = hpcdist("schema", "site", "-o", "no/site.json")
    assert (said.code, said.err) == (2, "error: no/site.json: No such file or directory\n")
