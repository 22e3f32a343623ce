"""Every entry keeps what its type promises, and every shipped site lints clean."""

from __future__ import annotations

import re

import pytest

from hpcdist.plan.fabric_variables import text_of
from hpcdist.plan.values import Origin, Variable, Word
from hpcdist.planner.lint import findings
from hpcdist.planner.lint.finding import INTERFACES, PREFIXES, Entry, LintContext, versions_of
from hpcdist.planner.lint.knowledge import DEBUGGING, KNOWN, SYSTEM, TABLES, family_of
from hpcdist.site.fabric import JobFacts, active_groups, resolve_settings
from tests.sites import SHIPPED, shipped_site
from tests.tiers import sweep

ENTRIES = [entry for table in TABLES for entry in table]


def test_each_name_is_known_once() -> None:
    assert len(KNOWN) == len(ENTRIES)
    assert len(SYSTEM) + len(DEBUGGING) == 113


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_entry(entry: Entry) -> None:
    assert re.fullmatch(r"[A-Z][A-Za-z0-9_]*", entry.name)
    assert entry.name.startswith((*PREFIXES, *INTERFACES))
    assert family_of(entry.name)
    assert re.fullmatch(r"(\d+(\.\d+)+)?", entry.since)
    assert entry.where
    assert not entry.default or entry.kind.wrong(entry.default) is None
    assert not entry.successor or (entry.gone and not KNOWN[entry.successor].gone)


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("name", sweep(SHIPPED))
def test_shipped_sites_are_clean(name: str, nodes: int) -> None:
    site = shipped_site(name)
    libraries = {kind.library for kind in site.node_types.values() if kind.gpus != 0}
    for library in libraries:
        around = JobFacts(nodes, library)
        variables = [
            Variable(
                name=item.name,
                value=text_of(item.value),
                origin=Origin("site", name, item.key),
                found=item.found,
                otherwise=None if item.otherwise is None else text_of(item.otherwise),
            )
            for item in resolve_settings(site.fabric, around)
        ]
        words = [
            Word(text=text, origin=Origin("site", name))
            for _, group in active_groups(site.fabric, around)
            for text in (*group.directives, *group.args)
        ]
        versions = versions_of(item for item in site.modules if isinstance(item, str))
        network, known = site.fabric.network, site.fabric.known
        context = LintContext(network, library, nodes, tuple(words), versions, known)
        assert [str(item) for item in findings(variables, context)] == []
