"""What a release says of itself is the same in all its files."""

from __future__ import annotations

import hashlib
import re
from importlib.metadata import metadata

import yaml

from hpcdist import __version__
from hpcdist.base.resources import shipped

CHECKOUT = shipped("site_configs").parent


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((CHECKOUT / "CITATION.cff").read_text())
    needed = {key: citation[key] for key in ("cff-version", "title", "version", "license", "authors")}
    assert needed == {
        "cff-version": "1.2.0",
        "title": "hpcdist",
        "version": __version__,
        "license": metadata("hpcdist")["License-Expression"],
        "authors": [{"name": "The hpcdist developers"}],
    }
    assert citation["message"]


def test_the_changelog_begins_with_this_version() -> None:
    text = (CHECKOUT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## \[(.+?)\] - (?:unreleased|\d{4}-\d\d-\d\d)$", text, re.MULTILINE)
    assert versions[0] == __version__
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert {*re.findall(r"^### (.*)$", text, re.MULTILINE)} <= kinds


def test_the_license_is_apaches_whole_text() -> None:
    text = (CHECKOUT / "LICENSE").read_bytes()
    # That of https://www.apache.org/licenses/LICENSE-2.0.txt, which Debian has in /usr/share/common-licenses.
    digest = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
    assert hashlib.sha256(text).hexdigest() == digest
