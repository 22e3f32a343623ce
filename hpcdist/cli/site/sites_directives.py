"""What each batch system would refuse of a site's own directives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from hpcdist.errors import Problem
from hpcdist.schedulers.directives import Language, misdemanded
from hpcdist.schedulers.flux import directives as flux
from hpcdist.schedulers.lsf import directives as lsf
from hpcdist.schedulers.pbs import directives as pbs
from hpcdist.schedulers.sge import directives as sge
from hpcdist.schedulers.slurm import directives as slurm
from hpcdist.site.model import Site

_LANGUAGES: Final[Mapping[str, Callable[[Site], Language]]] = {
    "flux": flux.language,
    "lsf": lsf.language,
    "pbs": pbs.language,
    "sge": sge.language,
    "slurm": slurm.language,
}


def problems(site: Site) -> Iterator[Problem]:
    """Yield what is wrong with them; of schedulers that bring a language of their own nothing is known."""
    if site.scheduler in _LANGUAGES:
        yield from misdemanded(_LANGUAGES[site.scheduler](site), site)
