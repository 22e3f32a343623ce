"""The page on costs shows what hpcdist prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcdist.base import fields, source
from hpcdist.cli import main
from hpcdist.loading.preferences import Config
from hpcdist.site.model import Site
from tests.docs.pages import block, keeps_block


def test_check_shows_what_the_example_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCDIST_CONFIG", "")
    Path("tune.yml").write_text(block("cost"))
    shown = CliRunner().invoke(main, ["check", "tune.yml"])
    assert (shown.exit_code, shown.stderr) == (0, "")
    keeps_block("cost check", f"$ hpcdist check tune.yml\n{shown.stdout}")


def test_the_config_and_the_site_are_as_they_are_read() -> None:
    assert fields.build(Config, source.parse(block("cost config"), "config").data)[1] == []
    plain = source.parse(block("site"), "site").data
    part = source.parse(block("cost site"), "site").data
    assert fields.build(Site, {**plain, **part})[1] == []
