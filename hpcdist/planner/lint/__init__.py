"""The lint: checks a job's variables for NCCL, RCCL, oneCCL, libfabric, UCX, Open MPI and Horovod.

Its tables are imported only where such a variable is set, so that other renders stay fast.

    finding    a finding; a known variable and its allowed values; the site's values
    others nccl_others    tables of known variables
    knowledge    NCCL's and Horovod's tables, and all tables by name
    rules    the checks
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from hpcdist.experiment.shell_words import assignments, is_computed, simple_commands, unquoted
from hpcdist.plan.fabric_variables import text_of
from hpcdist.plan.model import PreparedJob
from hpcdist.plan.values import Directive, Origin, Variable, Word
from hpcdist.planner.lint.finding import (
    INTERFACES,
    PREFIXES,
    LintContext,
    LintFinding,
    constant_site_values,
    misspelt_prefix,
    site_values_of,
    summarized,
    versions_of,
)
from hpcdist.site.model import Site

__all__ = [
    "PREFIXES",
    "LintContext",
    "LintFinding",
    "constant_site_values",
    "findings",
    "of_job",
    "summarized",
    "versions_of",
]


def findings(variables: Iterable[Variable], context: LintContext) -> tuple[LintFinding, ...]:
    """Return the findings on variables, without those that the site's file declares as known."""
    checked = [item for item in variables if _is_checked(item, context)]
    if not checked and not any("rdzv_get" in word.text for word in context.words or ()):
        return ()
    from hpcdist.planner.lint.rules import all_findings  # with all that is known

    found = all_findings(checked, context)
    return tuple(item for item in found if not (item.origin.kind == "site" and item.name in context.known))


def _is_checked(variable: Variable, context: LintContext) -> bool:
    own = variable.origin.kind != "site"
    overrides = own and (variable.name in context.site_values or variable.name in INTERFACES)
    return overrides or variable.name.upper().startswith(PREFIXES) or bool(misspelt_prefix(variable.name))


def of_job(
    job: PreparedJob, words: Iterable[Word], directives: Iterable[Directive], site: Site
) -> tuple[LintFinding, ...]:
    """Return the findings on the variables of a job, and on the ``--mca`` parameters of mpirun."""
    context = LintContext(
        network=site.network_of(job.facts.node_types),
        library=job.facts.library,
        nodes=job.facts.nodes,
        words=(*_directives(job, directives), *job.request.site_directives, *words),
        versions=versions_of(job.environment.modules),
        known=site.fabric.known,
        site_values=site_values_of(site, job.facts),
    )
    variables = (*job.environment.variables, *_parameters(job, site), *_of_command(job.identity.command))
    return tuple(summarized(findings(variables, context)))


def _of_command(command: str) -> Iterator[Variable]:
    """Yield the variables that a command sets itself, and those of `mpirun -x`, whose values are literal."""
    commands = [*simple_commands(command)]
    passed = (word.partition("=") for one in commands for last, word in pairwise(one.words) if last == "-x")
    exporting = (one for one in commands if one.words)  # others set variables of the shell alone
    own = [pair for one in exporting for pair in assignments(one)]
    for name, value in (*own, *((name, unquoted(value)) for name, equals, value in passed if equals)):
        if not is_computed(value):
            yield Variable(name=name, value=value, origin=Origin("key", "run.cmd"))


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
