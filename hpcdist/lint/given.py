"""What a site's file gives a job, and a user's value that differs from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hpcdist.lint.finding import Finding, LintContext, SiteValue, told
from hpcdist.plan.fabric_variables import text_of
from hpcdist.plan.values import Variable
from hpcdist.site.fabric import JobFacts, ResolvedSetting, resolve_settings
from hpcdist.site.model import Site


def given(site: Site, around: JobFacts) -> dict[str, SiteValue]:
    """Return what the site sets for certain: not what waits for a file that may be there."""
    items = (item for item in resolve_settings(site.fabric, around) if item.found is None)
    return {item.name: _given(item, site) for item in items}


def always_given(site: Site, arounds: Iterable[JobFacts]) -> dict[str, SiteValue]:
    """Return what the site sets alike in all surroundings."""
    first, *others = (given(site, around) for around in arounds)
    return {name: item for name, item in first.items() if all(other.get(name) == item for other in others)}


def _given(item: ResolvedSetting, site: Site) -> SiteValue:
    why = site.fabric.known.get(item.name, item.why)
    return SiteValue(text_of(item.value), site.name, why, _source(item.key, site))


def _source(key: str, site: Site) -> str:
    """Return who vouches for a key of the site's file; the longest key that is said counts."""
    vouched = {said: source.where for source in reversed(site.sources) for said in source.of}
    fitting = [said for said in vouched if f"{key}.".startswith(f"{said}.")]
    return vouched[max(fitting, key=len)] if fitting else f"site {site.name}: {key}"


def of_given(values: Mapping[str, Variable], around: LintContext) -> Iterator[Finding]:
    """Yield the user's values that differ from the site's."""
    for name, variable in values.items():
        own = around.given.get(name)
        if own is None or variable.origin.kind in ("site", "default"):
            continue
        if variable.value.strip().lower() != own.value.lower():
            happens = f"site {own.site} sets it to {own.value}" + (f": {own.why}" if own.why else "")
            yield told(variable, happens, "remove it, unless you know better", own.source)
