"""Links of the README and of ``docs/`` lead to pages and headings; every page is in the menu."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import CHECKOUT, DOCS, PAGES, README, prose, written


def headings(page: Path) -> set[str]:
    """Return what the headings of a page are called in links; those of generated parts, too."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    words = (re.sub(r"[^\w\s-]", "", title.lower()).strip() for title in titles)
    return {re.sub(r"[-\s]+", "-", word) for word in words}


def broken(page: Path) -> Iterator[str]:
    """Yield the links of a page that lead nowhere; those of a page in ``docs/`` stay there."""
    for link in re.findall(r"\]\((?!https?://)([^)]*)\)", prose(page)):
        name, _, place = link.partition("#")
        file = (page.parent / name).resolve() if name else page
        is_inside = page == README or file.is_relative_to(DOCS)
        if not (file.is_file() and is_inside and (not place or place in headings(file))):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert [*broken(page)] == []


def test_pages_that_messages_name_are_there() -> None:
    folders = ("hpcdist", "templates", "examples")
    files = [file for folder in folders for file in (CHECKOUT / folder).rglob("*.*") if file.is_file()]
    texts = (file.read_bytes().decode(errors="replace") for file in files)
    named = {
        name
        for text in texts
        for name in re.findall(r"\bdocs/(?:tutorial|how-to|reference|explanation)/[\w-]+\.md", text)
    }
    assert {"docs/how-to/plug-ins.md"} <= named
    assert [name for name in named if not (CHECKOUT / name).is_file()] == []


def test_every_page_is_in_the_menu() -> None:
    menu = yaml.safe_load((CHECKOUT / "mkdocs.yml").read_text())["nav"]
    pages = [file for section in menu for entry in section.values() for file in _files(entry)]
    assert sorted(pages) == sorted(str(page.relative_to(DOCS)) for page in PAGES if page != README)


def _files(entry: str | list[str]) -> list[str]:
    return [entry] if isinstance(entry, str) else entry


MOST_WORDS = 1500
LONGER = {"foreign-files.md": 1900}  # one page for all tools, so far


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_a_page_is_read_in_one_go(page: Path) -> None:
    assert page == README or len(written(page).split()) <= LONGER.get(page.name, MOST_WORDS)
