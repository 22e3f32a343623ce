"""Setup: the lines that make the job's shell ready before anything starts, and the variables of its tasks.

``load_module``, ``unload_modules`` and ``activate_spack`` are functions of the script
(``templates/runtime/setup.sh``), which end the job with a sentence where something is missing; their word
is the origin, for that sentence.
"""

from __future__ import annotations

from collections.abc import Iterator

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
        plain = f"spack env activate {join(words)}"
        yield _call(plain, "activate_spack", str(origin), *words, origin=origin)


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
        return _call(f"module {what}", "unload_modules", module, str(origin), origin=origin)
    return _call(f"module load {quote(module)}", "load_module", module, str(origin), origin=origin)


def _call(plain: str, *words: str, origin: Origin) -> Word:
    return Word.raw(str(join(words)), origin, container_choice.or_fail(plain, origin))
