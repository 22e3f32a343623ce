"""Whose scripts a key of a site file changes: tried on a small machine of each batch system."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, Literal, Union, get_args, get_origin

from hpcdist.base import fields
from hpcdist.base.errors import HpcdistError
from hpcdist.base.units import Memory, Walltime
from hpcdist.experiment.model import Experiment
from hpcdist.planner.make_plan import make_plan
from hpcdist.script.renderer import render
from hpcdist.site.model import Site
from hpcdist.site.problems import problems_of
from tests.docs.honours import OWN_WORDS, SCHEDULERS
from tests.experiments import environment, experiment, resources, where

Data = dict[str, Any]

_MACHINE: Final[Data] = {
    "name": "x",
    "description": "x",
    "node_types": {"NAME": {"cpus": 8, "memory": 16000, "gpus": 2, "gpu_type": "a100"}},
    "partitions": {"NAME": {"nodes": {"NAME": 4}}},
    "default_partition": "NAME",
    "default_cpu_partition": "NAME",
    "sge": {"environments": {"*": "mpi{slots}"}, "memory": "h_vmem", "exclusive": "exclusive"},
}
_LAUNCHERS: Final = {"slurm": "srun", "flux": "flux"}
_MEMORY: Final = {"replica": {"memory": 1000}}
"""What all but Flux can be asked for."""


def changes(kind: Any, scheduler: str) -> Iterator[Any]:
    """Yield values of a type to try, none of them a usual default."""
    if kind in _VALUES:
        yield from _VALUES[kind]
    elif get_origin(kind) is Literal:
        yield from get_args(kind)
    elif get_origin(kind) is tuple:
        yield from (["x7"], [OWN_WORDS[scheduler]])
    elif get_origin(kind) in (dict, Mapping):
        yield from ({"X7": value} for value in changes(get_args(kind)[1], scheduler))
    elif get_origin(kind) in (Union, types.UnionType):
        for member in get_args(kind):
            yield from changes(member, scheduler)


_VALUES: Final[dict[Any, tuple[Any, ...]]] = {
    str: ("x7",),
    int: (1, 3),
    float: (3.5,),
    bool: (True, False),
    Walltime: ("1h",),
    Memory: (2000,),
}


def changed_by(path: tuple[str, ...], kind: Any) -> tuple[str, ...]:
    """Return the batch systems for which some value of this key makes another script, or none at all."""
    return tuple(name for name in SCHEDULERS if _changes(name, path, kind))


def _changes(scheduler: str, path: tuple[str, ...], kind: Any) -> bool:
    every = (_with(_machine(scheduler), path, value) for value in changes(kind, scheduler))
    sites = (site for data in every if (site := _sound(data)))
    return any(_said(site) != _usual(scheduler) for site in sites)


def _machine(scheduler: str) -> Data:
    own = {"scheduler": scheduler, "launcher": _LAUNCHERS.get(scheduler, "mpirun")}
    return _MACHINE | own | (_MEMORY if scheduler != "flux" else {})


def _with(data: Data, path: tuple[str, ...], value: Any) -> Data:
    first, *rest = path
    return data | {first: _with(data.get(first, {}), tuple(rest), value) if rest else value}


def _sound(data: Data) -> Site | None:
    site, problems = fields.build(Site, data)
    return site if site and not problems and not [*problems_of(site)] else None


@cache
def _usual(scheduler: str) -> str:
    site = _sound(_machine(scheduler))
    assert site is not None
    return _said(site)


def _said(site: Site) -> str:
    """Return the script of a small job there, or why there is none."""
    try:
        return render(make_plan(_experiment(site.scheduler), site, where), run_dir="/r")
    except HpcdistError as error:
        return str(error)


@cache
def _experiment(scheduler: str) -> Experiment:
    each = resources(cpu=2, gpu=2)
    return experiment(framework="pytorch", environment=environment(int(scheduler != "local"), each=each))
