"""``hpcdist schema``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcdist.loading.schema import MODELS, schema
from tests.cli.conftest import Hpcdist
from tests.wording import Wording


@pytest.mark.parametrize("kind", MODELS)
def test_it_is_printed(hpcdist: Hpcdist, kind: str) -> None:
    result = hpcdist("schema", kind)
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out)["title"] == f"hpcdist {kind}"


def test_it_is_written(hpcdist: Hpcdist, folder: Path) -> None:
    result = hpcdist("schema", "site", "-o", "site.json")
    assert (result.code, result.out, result.err) == (0, "", "")
    assert json.loads((folder / "site.json").read_text()) == schema("site")


def test_an_unknown_kind(hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist("schema", "sites")
    assert result.code == 2
    wording(result.err)


def test_a_file_that_cannot_be_written(hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist("schema", "site", "-o", "no/site.json")
    assert result.code == 2
    wording(result.err)
