"""`make docs` builds the pages, strictly, and they fetch nothing from elsewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import CHECKOUT, DOCS, PAGES, README

pytestmark = [pytest.mark.real, pytest.mark.extended]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    mkdocs = Path(sys.executable).parent / "mkdocs"
    words: list[str | Path] = [mkdocs, "build", "--strict", "--site-dir", folder]
    built = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_every_page_is_built(site: Path) -> None:
    pages = {page.relative_to(DOCS).with_suffix(".html") for page in PAGES if page != README}
    assert {file.relative_to(site) for file in site.rglob("*.html")} == pages | {Path("404.html")}


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    loading = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"?(?:https?:)?//[^>]*>")
    styles = re.compile(r"(?:@import|url\()\s*[\"']?(?:https?:)?//[^)]*")
    found = [
        (file.name, match)
        for pattern, kind in ((loading, "html"), (styles, "html"), (styles, "css"))
        for file in site.rglob(f"*.{kind}")
        for match in pattern.findall(file.read_text())
    ]
    assert found == []


def test_a_copied_block_has_no_prompts_and_no_output(site: Path) -> None:
    """The button reads the text that is shown while the block has this attribute."""
    from playwright.sync_api import sync_playwright

    read = """block => { block.setAttribute("data-md-copying", ""); return block.innerText.trimEnd() }"""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto((site / "how-to/sweeps.html").as_uri())
        copied = [block.evaluate(read) for block in page.query_selector_all(".highlight code")]
        browser.close()
    assert "hpcdist plan tune.yml" in copied


def test_make_docs_is_this_build() -> None:
    # Under `make test`, a make inside would say which directory it leaves.
    made = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "docs"],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert made.stdout.splitlines()[-1].endswith("mkdocs build --strict")
