"""Lint of a site's own variables, for every kind of job that may get them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from hpcdist import lint
from hpcdist.errors import Path, Problem
from hpcdist.plan.fabric_variables import of_fabric
from hpcdist.plan.origin import Origin
from hpcdist.plan.values import Word
from hpcdist.site.conditions import JobFacts, applying
from hpcdist.site.fabric import active_groups
from hpcdist.site.model import Site
from hpcdist.site.nodes import libraries_of


def findings(site: Site) -> Iterator[Problem]:
    """Yield each finding once, at the variable's key, without notes: a site follows its centre's advice."""
    seen: set[tuple[Path, str]] = set()
    for facts in _jobs(site):
        for found in lint.findings(of_fabric(site, facts), _context(site, facts)):
            path = _path(site, found)
            if found.severity != "note" and (path, found.text) not in seen:
                seen.add((path, found.text))
                yield Problem(found.text, path, found.hint, severity=found.severity)


def _jobs(site: Site) -> Iterator[JobFacts]:
    """Yield the facts that conditions of the file can test: nodes, container or none, framework or none."""
    kinds: list[tuple[str, ...]] = [(name,) for name in site.node_types] or [()]
    images = (False, True) if any(site.containers()) else (False,)
    frameworks = (None, *site.conditional_frameworks())
    for nodes, names, image, framework in product((2, 1), kinds, images, frameworks):
        library = next(iter(libraries_of(site.node_types[name] for name in names)), None)
        yield JobFacts(nodes, library, image, library is not None, framework, names)


def _context(site: Site, facts: JobFacts) -> lint.LintContext:
    return lint.LintContext(
        network=site.network_of(facts.node_types),
        library=facts.library,
        nodes=facts.nodes,
        words=tuple(_words(site, facts)),
        versions=lint.versions_of(name for name, _ in applying(site.modules, facts)),
        known=site.fabric.known,
    )


def _words(site: Site, facts: JobFacts) -> Iterator[Word]:
    together = (
        text for _, group in active_groups(site.fabric, facts) for text in (*group.directives, *group.args)
    )
    for text in (*site.directives.mandatory, *together, *site.options(site.launcher).args):
        yield Word(text=text, origin=Origin("site", site.name))


def _path(site: Site, found: lint.Finding) -> Path:
    """Return the path of the variable's key; of a variable that is not set, the section."""
    if found.name in site.fabric.env:
        return ("fabric", "env", found.name)
    for index, group in enumerate(site.fabric.together):
        if found.name in group.env and found.origin.key == f"fabric.together.{index}":
            return ("fabric", "together", index, "env", found.name)
    return ("fabric",)
