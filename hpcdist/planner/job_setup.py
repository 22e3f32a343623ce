"""Preparing: the lines that make the job's shell ready before anything starts, in their order.

``load_module`` and ``activate_spack`` are functions of the script (``templates/preparing.sh.j2``), which end
the job with a sentence where something is missing; their word is the origin, for that sentence.
"""

from __future__ import annotations

from collections.abc import Iterator

from hpcdist.experiment.model import Experiment
from hpcdist.plan.model import Word
from hpcdist.planner.feasibility import Where
from hpcdist.site.model import Site
from hpcdist.words import join


def setup(experiment: Experiment, site: Site, where: Where) -> Iterator[Word]:
    """Yield the site's files, modules and own lines, then the experiment's modules and Spack environment.

    A Spack environment comes last: what it brings is to be found before what modules bring.
    """
    yield from _of_the_site(site)
    for index, module in enumerate(experiment.batch.modules):
        yield _loaded(module, where(("batch", "modules", index)))
    if place := experiment.batch.spack_env:
        origin = where(("batch", "spack_env"))
        words = ("--dir", place) if place.startswith(("/", ".")) else (place,)
        yield _call("activate_spack", origin, *words, origin=origin)


def _of_the_site(site: Site) -> Iterator[Word]:
    # The files come first: /etc/profile.d/modules.sh is what makes `module` known (ABCI, Azure).
    for file in site.source:
        line = f'if [[ -r {file} ]]; then source {file}; else fail "there is no {file} on $(uname -n)"; fi'
        yield Word.raw(line, f"site {site.name}: source")
    for module in site.modules:
        yield _loaded(module, f"site {site.name}: modules")
    for line in site.setup:
        yield Word.raw(line, f"site {site.name}: setup")


def _loaded(module: str, origin: str) -> Word:
    return _call("load_module", module, origin, origin=origin)


def _call(*words: str, origin: str) -> Word:
    return Word.raw(str(join(words)), origin)
