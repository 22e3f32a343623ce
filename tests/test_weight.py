"""hpcdist does not get heavier: what a change adds is paid for elsewhere."""

from __future__ import annotations

from typing import Final

from tests.weight import figures

LIMITS: Final = {
    "lines of the package": 78_990,
    "files of the package": 329,
    "import lines, % of those that are not blank": 7.5,
    "modules that one other imports": 51,
    "class names defined more than once": 6,
    "longest line": 141,
    "rooms": 18,
    "arrows between rooms": 105,
    "floors": 10,
    "lines of templates: job templates": 1_170,
    "lines of templates: supervisor": 5_510,
    "lines of templates: modules for programs": 1_510,
    "lines of templates: report": 877,
    "words of docs": 61_450,
    "odd constructions in package, templates and docs": 365,
    "verbs": 27,
    "options of verbs": 228,
}
"""What each came to when an issue last ended. One is raised only where the decisions in the docs say why."""


def test_nothing_has_grown() -> None:
    found = figures()
    assert {what: found[what] for what, limit in LIMITS.items() if found[what] > limit} == {}
    assert found.keys() - LIMITS.keys() == {"docstrings, % of the same"}  # more code would make it less
