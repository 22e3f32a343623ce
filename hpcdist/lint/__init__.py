"""The lint: what NCCL, RCCL, oneCCL, libfabric, UCX and Open MPI do with the variables of a job.

What is known is imported only where a variable of theirs is set: a render without one pays nothing.

    entry kinds    a variable, and what it may be
    nccl nccl_debugging nccl_others libfabric others    what is known, one line a variable
    knowledge    all of it by name
    finding given values together openmpi rules    what is odd, and why
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from hpcdist.lint.finding import Finding, LintContext, summarized, versions_of
from hpcdist.lint.given import constant_site_values, given
from hpcdist.plan.fabric_variables import job_facts, text_of
from hpcdist.plan.model import PreparedJob
from hpcdist.plan.origin import Origin
from hpcdist.plan.values import Directive, Variable, Word
from hpcdist.site.model import Site

PREFIXES: Final = (
    "NCCL_", "RCCL_", "OFI_NCCL_", "TORCH_NCCL_", "FI_", "UCX_", "OMPI_MCA_", "PRTE_MCA_",
    "PMIX_MCA_", "CCL_", "RDMAV_",
)  # fmt: skip
"""The prefixes of the variables that the lint knows."""

__all__ = [
    "PREFIXES",
    "Finding",
    "LintContext",
    "constant_site_values",
    "findings",
    "of_job",
    "summarized",
    "versions_of",
]


def findings(variables: Iterable[Variable], context: LintContext) -> tuple[Finding, ...]:
    """Return the findings on variables, without those that the site's file declares as known."""
    concerned = [item for item in variables if _is_concerned(item, context)]
    if not concerned and not any("rdzv_get" in word.text for word in context.words or ()):
        return ()
    from hpcdist.lint.rules import all_findings  # with all that is known

    found = all_findings(concerned, context)
    return tuple(item for item in found if not (item.origin.kind == "site" and item.name in context.known))


def _is_concerned(variable: Variable, context: LintContext) -> bool:
    overrides = variable.name in context.given and variable.origin.kind != "site"
    return overrides or variable.name.upper().startswith(PREFIXES)


def of_job(
    job: PreparedJob, words: Iterable[Word], directives: Iterable[Directive], site: Site
) -> tuple[Finding, ...]:
    """Return the findings on the variables of a job, and on the ``--mca`` parameters of mpirun."""
    facts = job_facts(site, job.placement, container=job.container is not None)
    context = LintContext(
        network=site.fabric.network,
        library=facts.library,
        nodes=job.placement.nodes,
        words=(*_directives(job, directives), *job.request.site_directives, *words),
        versions=versions_of(job.environment.modules),
        known=site.fabric.known,
        given=given(site, facts),
    )
    return tuple(summarized(findings((*job.environment.variables, *_parameters(job, site)), context)))


def _directives(job: PreparedJob, directives: Iterable[Directive]) -> Iterator[Word]:
    for item in directives:
        yield Word(text=item.flag if item.value is None else f"{item.flag}={item.value}", origin=item.origin)
    for text in job.request.extra_directives:
        yield Word(text=text, origin=Origin("key", "batch.directives"))


def _parameters(job: PreparedJob, site: Site) -> Iterator[Variable]:
    launcher = job.launch.launcher
    for name, value in site.options(launcher).mca.items():
        origin = Origin("site", site.name, f"launchers.{launcher}.mca.{name}")
        yield Variable(name=f"OMPI_MCA_{name}", value=text_of(value), origin=origin)
