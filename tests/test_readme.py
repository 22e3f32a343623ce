"""The README's example is what hpcdist says today; `HPCDIST_REWRITE_GOLDEN=1` writes it anew and fails."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcdist.cli import VERBS, main
from tests.sites import SHIPPED, shipped_site

README = Path(__file__).parents[1] / "README.md"
TABLE = r"(<!-- table: sites -->\n)(.*?)(<!-- end of table -->\n)"
BLOCK = r"(<!-- example: {} -->\n```\w+\n)(.*?)(```\n)"


def block(text: str, name: str) -> str:
    found = re.search(BLOCK.format(name), text, re.DOTALL)
    assert found, f"the README has no example {name!r}"
    return found[2]


def said(verb: str, folder: Path) -> str:
    file = folder / "resnet.yml"
    file.write_text(block(README.read_text(), "experiment"))
    done = CliRunner().invoke(main, [verb, str(file)])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize(("name", "verb"), [("plan", "plan"), ("script", "render")])
def test_example(name: str, verb: str, tmp_path: Path) -> None:
    text = README.read_text()
    expected = said(verb, tmp_path)
    if os.environ.get("HPCDIST_REWRITE_GOLDEN"):
        README.write_text(re.sub(BLOCK.format(name), lambda m: m[1] + expected + m[3], text, flags=re.DOTALL))
    assert block(text, name) == expected


def sites_table() -> str:
    rows = [
        "| site | machine | scheduler | launcher | GPUs a node | network | how sure |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in SHIPPED:
        site = shipped_site(name)
        kinds = [
            f"{node.gpus} {node.gpu_type or ''}".strip() for node in site.node_types.values() if node.gpus
        ]
        gpus = ", ".join(dict.fromkeys(kinds)) if name != "local" else ""
        cells = (
            f"`{name}`",
            site.description,
            site.scheduler,
            site.launcher,
            gpus,
            site.fabric.network or "",
            site.status,
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def test_every_site_has_its_row() -> None:
    text, expected = README.read_text(), sites_table()
    if os.environ.get("HPCDIST_REWRITE_GOLDEN"):
        README.write_text(re.sub(TABLE, lambda m: m[1] + expected + m[3], text, flags=re.DOTALL))
    found = re.search(TABLE, text, re.DOTALL)
    assert found
    assert found[2] == expected


def test_every_verb_is_described() -> None:
    table = README.read_text().partition("## Verbs")[2].partition("## The experiment")[0]
    assert set(VERBS) <= set(re.findall(r"[a-z]+(?:-[a-z]+)*", table))
