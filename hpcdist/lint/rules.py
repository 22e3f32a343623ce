"""All rules together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hpcdist.lint.finding import Finding, LintContext
from hpcdist.lint.given import of_given
from hpcdist.lint.openmpi import of_open_mpi
from hpcdist.lint.together import of_several
from hpcdist.lint.values import of_one
from hpcdist.plan.values import Variable


def all_findings(variables: Sequence[Variable], context: LintContext) -> Iterator[Finding]:
    """Yield the findings on variables: each alone, then together."""
    major = context.versions.get("openmpi")
    for variable in variables:
        yield from of_one(variable, context)
        if major and not variable.shell:
            yield from of_open_mpi(variable, major[0])
    certain = {item.name: item for item in variables if not item.shell and item.found is None}
    yield from of_several(certain, context)
    yield from of_given(certain, context)
