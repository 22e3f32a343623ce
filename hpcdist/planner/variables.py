"""Variables of every task: each name once, with the value of the last source that sets it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from hpcdist.experiment.model import Experiment
from hpcdist.layers import polyaxon_variables
from hpcdist.plan.fabric_variables import of_fabric, text_of
from hpcdist.plan.model import JobSpec
from hpcdist.plan.origin import DEFAULT, Origin, Where
from hpcdist.plan.placeholders import JOB_ID, template
from hpcdist.plan.values import Variable
from hpcdist.planner.steps import uses_local_disk
from hpcdist.site.model import Site


def variables(
    experiment: Experiment, site: Site, job: JobSpec, shared: Iterable[Variable], where: Where
) -> Iterator[Variable]:
    """Yield each variable once, from the last source that sets it: site, Polyaxon, framework, experiment."""
    found: dict[str, Variable] = {}
    for variable in (
        Variable(name="PYTHONUNBUFFERED", value="1", origin=DEFAULT),
        *of_fabric(site, job.facts),
        *polyaxon_variables.variables(experiment, job, site),
        *(msgspec.structs.replace(item, origin=located(item.origin, where)) for item in shared),
        *_of_stage(experiment, site),
        *_own_variables(experiment, where),
    ):
        earlier = found.pop(variable.name, None)
        origin = variable.origin.with_note(f"instead of {earlier.origin}") if earlier else variable.origin
        found[variable.name] = msgspec.structs.replace(variable, origin=origin)
    yield from found.values()


def _of_stage(experiment: Experiment, site: Site) -> Iterator[Variable]:
    """Yield the folder on a local disk of each node, where the job has one."""
    if uses_local_disk(experiment):
        folder = template(f"{site.node_local}/hpcdist-", JOB_ID)
        yield Variable.filled("HPCDIST_STAGE", folder, Origin("site", site.name, "node_local"))


def located(origin: Origin, where: Where) -> Origin:
    """Return an origin; for a key of the experiment (``horovod.autotune``), its file and line."""
    return where(tuple(origin.name.split("."))) if origin.kind == "key" else origin


def _own_variables(experiment: Experiment, where: Where) -> Iterator[Variable]:
    if experiment.build:
        for index, (name, value) in enumerate(experiment.build.env_vars):
            yield Variable(name=str(name), value=text_of(value), origin=where(("build", "env_vars", index)))
    for name, value in experiment.environment.env_vars.items():
        yield Variable(name=name, value=text_of(value), origin=where(("environment", "env_vars", name)))
