"""What the lint says of a site's own variables, in every kind of job that they may come in."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from hpcdist import lint
from hpcdist.errors import Path, Problem
from hpcdist.plan.fabric_variables import of_fabric
from hpcdist.plan.values import Word
from hpcdist.site.fabric import JobFacts, groups
from hpcdist.site.model import Site, libraries_of


def findings(site: Site) -> Iterator[Problem]:
    """Yield each finding once, at the variable's key; notes are not for a site, which speaks for a centre."""
    seen: set[tuple[Path, str]] = set()
    for around in _jobs(site):
        for found in lint.findings(of_fabric(site, around), _around(site, around)):
            path = _path(site, found)
            if found.severity != "note" and (path, found.text) not in seen:
                seen.add((path, found.text))
                yield Problem(found.text, path, found.hint, severity=found.severity)


def _jobs(site: Site) -> Iterator[JobFacts]:
    """Yield what the conditions of the file can meet: one node or two, each library, containers or none."""
    libraries = libraries_of(site.node_types.values())
    images = (False, True) if site.container else (False,)
    for nodes, library, container in product((2, 1), libraries or (None,), images):
        yield JobFacts(nodes, library, container)


def _around(site: Site, around: JobFacts) -> lint.LintContext:
    return lint.LintContext(
        network=site.fabric.network,
        library=around.library,
        nodes=around.nodes,
        words=tuple(_words(site, around)),
        versions=lint.versions_of(site.modules),
        known=site.fabric.known,
    )


def _words(site: Site, around: JobFacts) -> Iterator[Word]:
    together = (text for _, group in groups(site.fabric, around) for text in (*group.directives, *group.args))
    for text in (*site.directives.mandatory, *together, *site.options(site.launcher).args):
        yield Word(text=text, origin=f"site {site.name}")


def _path(site: Site, found: lint.Finding) -> Path:
    """Return the key of the variable, by what its origin begins with; of one that is not set, the section."""
    if found.name in site.fabric.env:
        return ("fabric", "env", found.name)
    for index, group in enumerate(site.fabric.together):
        if found.name in group.env and f": fabric.together.{index}:" in found.origin:
            return ("fabric", "together", index, "env", found.name)
    return ("fabric",)
