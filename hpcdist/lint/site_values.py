"""The values that a site file sets for a job, and the values of users that differ from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hpcdist.lint.finding import Finding, LintContext, SiteValue, finding_on
from hpcdist.plan.fabric_variables import text_of
from hpcdist.plan.values import Variable
from hpcdist.site.conditions import JobFacts
from hpcdist.site.fabric import ResolvedSetting, resolve_settings
from hpcdist.site.model import Site


def site_values_of(site: Site, job: JobFacts) -> dict[str, SiteValue]:
    """Return the values that the site always sets: none that depends on a file being there."""
    items = (item for item in resolve_settings(site.fabric, job) if item.found is None and item.links is None)
    return {item.name: _site_value(item, site) for item in items}


def constant_site_values(site: Site, jobs: Iterable[JobFacts]) -> dict[str, SiteValue]:
    """Return the values that the site sets equally for all these jobs."""
    first, *others = (site_values_of(site, job) for job in jobs)
    return {name: item for name, item in first.items() if all(other.get(name) == item for other in others)}


def _site_value(item: ResolvedSetting, site: Site) -> SiteValue:
    why = site.fabric.known.get(item.name, item.why)
    return SiteValue(text_of(item.value), site.name, why, _source(item.key, site))


def _source(key: str, site: Site) -> str:
    """Return the source of a key of the site file: that of its longest documented prefix."""
    sources = {prefix: source.where for source in reversed(site.sources) for prefix in source.of}
    fitting = [prefix for prefix in sources if f"{key}.".startswith(f"{prefix}.")]
    return sources[max(fitting, key=len)] if fitting else f"site {site.name}: {key}"


def differing_values(values: Mapping[str, Variable], context: LintContext) -> Iterator[Finding]:
    """Yield the user's values that differ from the site's."""
    for name, variable in values.items():
        own = context.site_values.get(name)
        if own is None or variable.origin.kind in ("site", "default"):
            continue
        if variable.value.strip().lower() != own.value.lower():
            happens = f"site {own.site} sets it to {own.value}" + (f": {own.why}" if own.why else "")
            yield finding_on(variable, happens, "remove it, unless you know better", own.source)
