"""Variables: what every task finds in its environment, each name once, from whoever says it last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from hpcdist import polyaxon
from hpcdist.errors import Path
from hpcdist.experiment import Experiment
from hpcdist.fabric import Surroundings, settled
from hpcdist.feasibility import Where
from hpcdist.plan import Placement, Plan, Variable
from hpcdist.site import Site, libraries_of


def variables(
    experiment: Experiment, site: Site, plan: Plan, shared: Iterable[Variable], where: Where
) -> Iterator[Variable]:
    """Yield each variable once, at its last giver: site, Polyaxon, framework, then the experiment."""
    found: dict[str, Variable] = {}
    for variable in (
        Variable(name="PYTHONUNBUFFERED", value="1", origin="default"),
        *of_fabric(site, surroundings(site, plan.placement, container=plan.container is not None)),
        *polyaxon.variables(experiment, plan, site),
        *(msgspec.structs.replace(item, origin=located(item.origin, where)) for item in shared),
        *_own_variables(experiment, where),
    ):
        earlier = found.pop(variable.name, None)
        origin = f"{variable.origin} (instead of {earlier.origin})" if earlier else variable.origin
        found[variable.name] = msgspec.structs.replace(variable, origin=origin)
    yield from found.values()


def located(origin: str, where: Where) -> str:
    """Return an origin; of one that names a key of the experiment (``horovod.autotune``), the key's place."""
    path: Path = tuple(origin.split("."))
    return where(path) if len(path) > 1 and " " not in origin else origin


def of_fabric(site: Site, around: Surroundings) -> Iterator[Variable]:
    """Yield what the site's fabric sets for such a job."""
    for item in settled(site.fabric, around):
        yield Variable(
            name=item.name,
            value=text_of(item.value),
            origin=f"site {site.name}: {item.where}",
            found=item.found,
            otherwise=None if item.otherwise is None else text_of(item.otherwise),
        )


def surroundings(site: Site, placement: Placement, *, container: bool = False) -> Surroundings:
    """Return what the conditions of the site's fabric are held against."""
    kinds = [site.node_types[group.node_type] for group in placement.groups if group.node_type]
    kinds = kinds or list(site.node_types.values())
    libraries = libraries_of(kinds)
    return Surroundings(placement.nodes, libraries[0] if len(libraries) == 1 else None, container)


def _own_variables(experiment: Experiment, where: Where) -> Iterator[Variable]:
    if experiment.build:
        for index, (name, value) in enumerate(experiment.build.env_vars):
            yield Variable(name=str(name), value=text_of(value), origin=where(("build", "env_vars", index)))
    for name, value in experiment.environment.env_vars.items():
        yield Variable(name=name, value=text_of(value), origin=where(("environment", "env_vars", name)))


def text_of(value: object) -> str:
    """Write a YAML scalar as a program expects it: true and false in small letters."""
    return str(value).lower() if isinstance(value, bool) else str(value)
