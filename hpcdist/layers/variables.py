"""Variables of tasks: Polyaxon's, and the framework's with the values that they will have in the job."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any, Final

from hpcdist.experiment.model import Experiment
from hpcdist.plan import placeholders
from hpcdist.plan.folding import devices
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.placeholders import INDEX, OUTPUTS, ROLE, RUN_DIR, Peers, Placeholder, template
from hpcdist.plan.placement import Task
from hpcdist.plan.values import Origin, Variable
from hpcdist.site.model import Site

# --- The variables that Polyaxon sets in a run, so that programs written for it run unmodified
#
# Names of Polyaxon 0.6, and the older ones (polyaxon/polyaxon 0.6.1, ``polypod``).

_POLYAXON: Final = Origin("polyaxon")


def polyaxon_variables(experiment: Experiment, job: JobSpec, site: Site) -> Iterator[Variable]:
    """Yield the variables that are the same for all tasks: parameters, paths, identity."""
    for name in ("POLYAXON_RUN_OUTPUTS_PATH", "POLYAXON_OUTPUTS_PATH"):
        yield Variable.filled(name, template(OUTPUTS), _POLYAXON)
    yield Variable.filled("POLYAXON_LOGS_PATH", template(RUN_DIR, "/logs"), _POLYAXON)
    data = {name: site.volumes[name] for name in _data_names(experiment) if name in site.volumes}
    for name in ("POLYAXON_RUN_DATA_PATHS", "POLYAXON_DATA_PATHS"):
        yield _plain(name, json.dumps(data))
    for name, params in polyaxon_params(experiment.params).items():
        yield _plain(name, params)
    if experiment.logging.level:
        yield _plain("POLYAXON_LOG_LEVEL", experiment.logging.level)
    name = "POLYAXON_JOB_INFO" if experiment.kind == "job" else "POLYAXON_EXPERIMENT_INFO"
    yield _plain(name, json.dumps(_info(experiment, job)))


def polyaxon_params(params: Mapping[str, Any]) -> dict[str, str]:
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
    return Variable(name=name, value=value, origin=_POLYAXON)


def polyaxon_task_variables() -> tuple[Variable, ...]:
    """Return the variable in which Polyaxon gives the role and index of a task's replica."""
    text = template('{"type": "', ROLE, '", "index": ', INDEX, "}")
    return (Variable.filled("POLYAXON_TASK_INFO", text, _POLYAXON),)


# --- The variables of a framework for each task, computed before the job; bash sets them in the job
#
# Values known only in the job have placeholders: nodes are ``node0``, ``node1``, ..., the job's first port
# is ``PORT``, and the variables of the run keep their ``$``.


class Wiring:
    """The variables that a plan's framework gives to tasks; ``shared``: equal for all tasks."""

    def __init__(self, job: PreparedJob) -> None:
        self._plan = job
        runs = list(job.placement.tasks_per_node())
        self._ends = list(accumulate(count for count, _ in runs))
        self._sizes = [tasks for _, tasks in runs]
        self._peers: dict[str, str] = {}
        self.shared = {
            item.name: self._value(item, {})
            for item in job.environment.variables
            if item.name in job.environment.framework_variables
        }

    def of(self, task: Task) -> dict[str, str]:
        """Return the variables that differ by task; empty without each task's shell."""
        if self._plan.launch.mode == "once":
            return {}
        known = {
            placeholders.RANK.name: task.rank,
            placeholders.LOCAL_RANK.name: task.local_rank,
            placeholders.LOCAL_SIZE.name: self._sizes[bisect_right(self._ends, task.node)],
            placeholders.NODE.name: task.node,
            placeholders.ROLE.name: task.role,
            placeholders.INDEX.name: task.index,
            placeholders.ADDRESS.name: f"node{task.node}",
            placeholders.PROCESSES.name: task.processes,
            placeholders.GPUS.name: ",".join(map(str, devices(self._plan, task))),
        }
        return {
            variable.name: self._value(variable, known)
            for variable in self._plan.environment.task_variables
            if variable.name in self._plan.environment.framework_variables
            and variable.role in ("", task.role)
        }

    def _value(self, variable: Variable, of_task: Mapping[str, object]) -> str:
        if variable.template is None:
            return variable.value
        known: Mapping[str, object] = {
            placeholders.HEAD_ADDRESS.name: "node0",
            placeholders.PORT.name: "PORT",
            placeholders.SIZE.name: self._plan.placement.size,
            placeholders.NODES.name: self._plan.placement.nodes,
            **of_task,
        }

        def value(part: Placeholder | Peers) -> str:
            if isinstance(part, Peers):
                return self._all(part.role)
            text = str(known.get(part.name, f"${part.name}"))
            return text.replace(part.old, part.new, 1) if part.old else text

        return variable.template.filled(value)

    def _all(self, role: str) -> str:
        """Return the output of ``peers``: the addresses of a role's replicas."""
        if role not in self._peers:
            found = (
                f'"node{task.node}:PORT{f"+{task.local_rank}" if task.local_rank else ""}"'
                for row in self._plan.placement.rows
                if row.role == role
                for task in map(row.task, range(0, row.tasks, row.tasks_per_replica))
            )
            self._peers[role] = ",".join(found)
        return self._peers[role]
