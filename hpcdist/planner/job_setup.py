"""Setup: the lines that make the job's shell ready before anything starts, and the variables of its tasks.

Where something is missing, a line ends the script with a sentence that names its origin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpcdist.documents.text_checks import MODULE_RESETS
from hpcdist.experiment.model import Experiment
from hpcdist.layers import polyaxon_variables
from hpcdist.plan.model import Environment, JobSpec, PreparedJob, extended
from hpcdist.plan.origin import Origin, Where
from hpcdist.plan.values import Word
from hpcdist.planner import container_choice
from hpcdist.planner.launcher_choice import LaunchChoice
from hpcdist.planner.variables import variables
from hpcdist.site.conditions import JobFacts, applying
from hpcdist.site.model import Site
from hpcdist.words import join, quote


def prepared(
    spec: JobSpec, experiment: Experiment, site: Site, choice: LaunchChoice, where: Where
) -> PreparedJob:
    """Return the job with its setup lines and its variables."""
    shared = choice.framework.variables(spec, experiment, site)
    own = choice.framework.task_variables(spec, experiment, site)
    every = tuple(variables(experiment, site, spec, shared, where))
    environment = Environment(
        modules=(*(name for name, _ in applying(site.modules, spec.facts)), *experiment.batch.modules),
        spack_env=experiment.batch.spack_env,
        setup=(*setup(experiment, site, spec.facts, where), *container_choice.setup(spec, site, every)),
        task_setup=tuple(container_choice.lines(site, "task_setup", site.task_setup, spec.facts)),
        variables=every,
        task_variables=(*polyaxon_variables.task_variables(), *own),
        framework_variables=tuple(dict.fromkeys(variable.name for variable in (*shared, *own))),
    )
    by_container = container_choice.launcher_words(spec, site, environment)
    return extended(
        PreparedJob, spec, environment=environment, arguments=(*spec.launch.arguments, *by_container)
    )


_SPACK: Final = (
    "[[ $(type -t spack) == function ]] || source "
    '"${SPACK_ROOT:-$(spack location --spack-root)}/share/spack/setup-env.sh" ||\n'
    '  fail "there is no Spack on $(uname -n); load its module, or set SPACK_ROOT"'
)
"""A program cannot change the shell that calls it: Spack activates environments by a function."""


def setup(experiment: Experiment, site: Site, facts: JobFacts, where: Where) -> Iterator[Word]:
    """Yield the site's files, modules and own lines, then the experiment's modules and Spack environment.

    A Spack environment comes last: what it brings is to be found before what modules bring.
    """
    yield from _of_the_site(site, facts)
    for index, module in enumerate(experiment.batch.modules):
        yield _loaded(module, where(("batch", "modules", index)))
    if place := experiment.batch.spack_env:
        origin = where(("batch", "spack_env"))
        words = ("--dir", place) if place.startswith(("/", ".")) else (place,)
        yield Word.raw(_SPACK, origin)
        yield _or_fail(f"spack env activate {join(words)}", origin)


def _of_the_site(site: Site, facts: JobFacts) -> Iterator[Word]:
    # The files come first: /etc/profile.d/modules.sh is what makes `module` known (ABCI, Azure).
    for file in site.source:
        line = f'if [[ -r {file} ]]; then source {file}; else fail "there is no {file} on $(uname -n)"; fi'
        yield Word.raw(line, Origin("site", site.name, "source"))
    for module, notes in applying(site.modules, facts):
        yield _loaded(module, Origin("site", site.name, "modules", notes=notes))
    yield from container_choice.lines(site, "setup", site.setup, facts)


def _loaded(module: str, origin: Origin) -> Word:
    if module in MODULE_RESETS or module.startswith("-"):
        what = module if module in MODULE_RESETS else f"unload {quote(module[1:])}"
        return _or_fail(f"module {what}", origin)
    return _or_fail(f"module load {quote(module)}", origin)


def _or_fail(line: str, origin: Origin) -> Word:
    return Word.raw(container_choice.or_fail(line, origin), origin)
