"""Runs all rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpcdist.lint.combinations import combination_findings
from hpcdist.lint.finding import Finding, LintContext
from hpcdist.lint.openmpi import open_mpi_findings
from hpcdist.lint.site_values import differing_values
from hpcdist.lint.values import variable_findings
from hpcdist.plan.values import Variable


def all_findings(variables: Sequence[Variable], context: LintContext) -> Iterator[Finding]:
    """Yield the findings on variables: each by itself, then in combination."""
    major = context.versions.get("openmpi")
    for variable in variables:
        yield from variable_findings(variable, context)
        if major and not variable.shell:
            yield from open_mpi_findings(variable, major[0])
    certain = {item.name: item for item in variables if not item.shell and not item.is_late}
    yield from combination_findings(certain, context)
    yield from differing_values(certain, context)
