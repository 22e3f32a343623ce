"""The variables that Polyaxon sets in a run, so that programs written for it run unmodified.

Names of Polyaxon 0.6 with the older ones beside them (polyaxon/polyaxon 0.6.1, ``polypod``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from hpcdist.experiment.model import Experiment
from hpcdist.plan.model import JobSpec
from hpcdist.plan.placeholders import INDEX, OUTPUTS, ROLE, RUN_DIR, template
from hpcdist.plan.values import Origin, Variable
from hpcdist.site.model import Site

_ORIGIN = Origin("polyaxon")


def variables(experiment: Experiment, job: JobSpec, site: Site) -> Iterator[Variable]:
    """Yield the variables that are the same for all tasks: parameters, paths, identity."""
    for name in ("POLYAXON_RUN_OUTPUTS_PATH", "POLYAXON_OUTPUTS_PATH"):
        yield Variable.filled(name, template(OUTPUTS), _ORIGIN)
    yield Variable.filled("POLYAXON_LOGS_PATH", template(RUN_DIR, "/logs"), _ORIGIN)
    data = {name: site.volumes[name] for name in _data_names(experiment) if name in site.volumes}
    for name in ("POLYAXON_RUN_DATA_PATHS", "POLYAXON_DATA_PATHS"):
        yield _plain(name, json.dumps(data))
    for name, params in of_params(experiment.params).items():
        yield _plain(name, params)
    if experiment.logging.level:
        yield _plain("POLYAXON_LOG_LEVEL", experiment.logging.level)
    name = "POLYAXON_JOB_INFO" if experiment.kind == "job" else "POLYAXON_EXPERIMENT_INFO"
    yield _plain(name, json.dumps(_info(experiment, job)))


def of_params(params: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables in which programs find the params."""
    return dict.fromkeys(("POLYAXON_PARAMS", "POLYAXON_DECLARATIONS"), json.dumps(params, default=str))


def _data_names(experiment: Experiment) -> tuple[str, ...]:
    persistence = experiment.environment.persistence
    return (persistence.data if persistence else ()) + experiment.environment.data_refs


def _info(experiment: Experiment, job: JobSpec) -> dict[str, object]:
    project = experiment.project or "hpcdist"
    return {
        "project_name": project,
        "experiment_name": f"{project}.{job.identity.name}",
        "experiment_uuid": job.identity.name,
        "framework": experiment.framework,
        "user": None,
    }


def _plain(name: str, value: str) -> Variable:
    return Variable(name=name, value=value, origin=_ORIGIN)


def task_variables() -> tuple[Variable, ...]:
    """Return the variable in which Polyaxon gives the role and index of a task's replica."""
    text = template('{"type": "', ROLE, '", "index": ', INDEX, "}")
    return (Variable.filled("POLYAXON_TASK_INFO", text, _ORIGIN),)
