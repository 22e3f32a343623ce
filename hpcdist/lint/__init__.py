"""The lint: what NCCL, RCCL, oneCCL, libfabric, UCX and Open MPI will do with the variables they are given.

What is known is imported only where a variable of theirs is set: a render without one pays nothing.

    entry kinds    a variable, and what it may be
    nccl nccl_debugging nccl_others libfabric others    what is known, one line a variable
    knowledge    all of it by name
    finding given values together openmpi rules    what is odd, and why
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from hpcdist.lint.finding import Finding, LintContext, summed, versions_of
from hpcdist.lint.given import always_given, given
from hpcdist.plan.fabric_variables import surroundings, text_of
from hpcdist.plan.model import PreparedJob
from hpcdist.plan.origin import Origin
from hpcdist.plan.values import Directive, Variable, Word
from hpcdist.site.model import Site

PREFIXES: Final = (
    "NCCL_", "RCCL_", "OFI_NCCL_", "TORCH_NCCL_", "FI_", "UCX_", "OMPI_MCA_", "PRTE_MCA_",
    "PMIX_MCA_", "CCL_", "RDMAV_",
)  # fmt: skip
"""How the names begin that the lint knows something about."""

__all__ = [
    "PREFIXES",
    "Finding",
    "LintContext",
    "always_given",
    "findings",
    "of_job",
    "summed",
    "versions_of",
]


def findings(variables: Iterable[Variable], around: LintContext) -> tuple[Finding, ...]:
    """Return what is odd about variables, without what a site's file does and calls known."""
    concerned = [item for item in variables if _is_concerned(item, around)]
    if not concerned and not any("rdzv_get" in word.text for word in around.words or ()):
        return ()
    from hpcdist.lint.rules import judged  # with all that is known

    found = judged(concerned, around)
    return tuple(item for item in found if not (item.origin.kind == "site" and item.name in around.known))


def _is_concerned(variable: Variable, around: LintContext) -> bool:
    overrides = variable.name in around.given and variable.origin.kind != "site"
    return overrides or variable.name.upper().startswith(PREFIXES)


def of_job(
    job: PreparedJob, words: Iterable[Word], directives: Iterable[Directive], site: Site
) -> tuple[Finding, ...]:
    """Return what is odd about the variables of a job, also of those that mpirun is told by ``--mca``."""
    facts = surroundings(site, job.placement, container=job.container is not None)
    around = LintContext(
        network=site.fabric.network,
        library=facts.library,
        nodes=job.placement.nodes,
        words=(*_directives(job, directives), *job.request.site_directives, *words),
        versions=versions_of(job.environment.modules),
        known=site.fabric.known,
        given=given(site, facts),
    )
    return tuple(summed(findings((*job.environment.variables, *_parameters(job, site)), around)))


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
