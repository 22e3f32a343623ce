"""TensorFlow: TF_CONFIG for each task (https://www.tensorflow.org/api_docs/python/tf/distribute/cluster_resolver).

Each task listens on the job's port plus its local rank, so tasks that share a node do not collide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from hpcdist.base.errors import Problem
from hpcdist.base.fields import Model
from hpcdist.experiment.model import Experiment, Replicas
from hpcdist.layers.frameworks import PlainFramework, section_of
from hpcdist.layers.protocols import Topology
from hpcdist.plan.model import JobSpec
from hpcdist.plan.placeholders import INDEX, OUTPUTS, RANK, ROLE, Peers, Placeholder, template
from hpcdist.plan.values import Origin, Variable
from hpcdist.site.model import Site


class TensorFlowSection(Model, frozen=True):
    """``version`` is the program's, such as ``1.15``: before 2 the cluster calls the chief ``master``.

    ``chief``: whether the master is a chief next to the workers of the cluster, or the first of its workers.
    By default it has one where something needs it: parameter servers, an
    evaluator, TensorFlow 1. ``ends_with``: the job ends with the master (its coordinator, under
    ParameterServerStrategy), or when the workers have ended too. By default it is the master under TensorFlow
    2 with parameter servers, since its workers never end
    (https://www.tensorflow.org/tutorials/distribute/parameter_server_training).
    """

    version: str = "2"
    chief: bool | None = None
    ends_with: Literal["master", "workers"] | None = None

    @property
    def is_first(self) -> bool:
        """Whether the program is for TensorFlow 1."""
        return self.version.partition(".")[0] in {"0", "1"}


def _without_coordination(section: TensorFlowSection, replicas: Replicas) -> Iterator[Problem]:
    """Yield a warning if ParameterServerStrategy of TensorFlow 2 has no coordinator, or no worker.

    It ends with "There must be at least one worker" (2.21); programs that place variables by themselves run.
    """
    rest = "ParameterServerStrategy of TensorFlow 2 does not run; other uses of parameter servers do"
    if section.chief is False:
        why = f"without a chief {rest}"
        hint = "`--set tensorflow.chief=true` makes the master one"
        yield Problem(why, ("tensorflow", "chief"), hint, "warning")
    elif not replicas.n_workers:
        why = f"without a worker next to the chief {rest}"
        path = ("environment", "replicas", "n_ps")
        yield Problem(why, path, "write `n_workers: 1`", "warning")


def _has_chief(section: TensorFlowSection, replicas: Replicas) -> bool:
    """Whether the cluster names a chief.

    Without one, MultiWorkerMirroredStrategy takes worker 0 for it (``is_chief`` of
    ``tensorflow/python/distribute/multi_worker_util.py``, 1.14 to 2.21), and TensorFlow's tutorials for it
    count the workers of such a cluster (https://www.tensorflow.org/tutorials/distribute/multi_worker_with_keras).
    ParameterServerStrategy's coordinator is a chief, and Estimators refuse a cluster that has none
    (``_validate_task_type_and_task_id`` of ``tensorflow_estimator/python/estimator/run_config.py``).
    """
    needed = bool(replicas.n_ps or replicas.evaluator) or section.is_first
    return needed if section.chief is None else section.chief


class TensorFlow(PlainFramework):
    """TensorFlow's distributed runtime, one task a replica."""

    name = "tensorflow"
    section: type[Model] = TensorFlowSection
    roles = frozenset({"master", "worker", "ps", "evaluator"})
    one_process = True

    def problems(self, experiment: Experiment) -> Iterable[Problem]:
        """Yield what is wrong in the section."""
        yield from super().problems(experiment)
        replicas = experiment.environment.replicas or Replicas()
        section = section_of(TensorFlowSection, experiment, self.name)
        version = section.version
        if replicas.n_ps and not section.is_first:
            yield from _without_coordination(section, replicas)
        if not re.fullmatch(r"\d+(\.\d+)*(\.x)?", version):
            path = ("tensorflow", "version")
            yield Problem(f"{version!r} is no version of TensorFlow", path, "write one such as 1.15 or 2.16")

    def topology(self, experiment: Experiment) -> Topology:
        """Return the topology: the job does not wait for parameter servers and the evaluator.

        A chief that coordinates parameter servers needs no GPU.
        """
        section = section_of(TensorFlowSection, experiment, self.name)
        replicas = experiment.environment.replicas or Replicas()
        coordinated = replicas.n_ps > 0 and not section.is_first and section.chief is not False
        ends_with = section.ends_with or ("master" if coordinated else "workers")
        every = frozenset({"master", "worker"})
        return Topology(
            required_roles=frozenset({"master"}) if ends_with == "master" else every,
            lockstep_roles=frozenset({"worker"}) if coordinated else every,
        )

    def task_variables(self, job: JobSpec, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return TF_CONFIG: the addresses of all tasks, and this task's role and index."""
        del site
        section = section_of(TensorFlowSection, experiment, self.name)
        roles = ("master", "worker", "ps", "evaluator")
        present = [role for role in roles if job.placement.replicas(role)]
        if _has_chief(section, experiment.environment.replicas or Replicas()):
            return (_with_chief("master" if section.is_first else "chief", present),)
        return tuple(_of_workers(present))


def _with_chief(chief: str, present: Sequence[str]) -> Variable:
    """Return the variable for a cluster in which the master is the chief."""
    cluster = {role.replace("master", chief): [role] for role in present if role != "evaluator"}
    why = f"a cluster with a {chief}, which is the master"
    return _config(cluster, ROLE.renamed("master", chief), INDEX, why)


def _of_workers(present: Sequence[str]) -> Iterator[Variable]:
    """Yield the variables of a cluster without a chief, whose workers are the first ranks.

    Parameter servers are in it, an evaluator is not.
    """
    servers = [role for role in present if role not in ("master", "worker")]
    cluster = {"worker": [role for role in present if role not in servers]}
    cluster |= {"ps": ["ps"]} if "ps" in servers else {}
    kinds = "workers and parameter servers" if "ps" in servers else "workers alone"
    why = f"a cluster of {kinds}; its first worker is the master"
    for role in cluster["worker"] if servers else [""]:
        yield _config(cluster, "worker", RANK, why, role)
    for role in servers:
        yield _config(cluster, role, INDEX, why, role)


def _config(
    cluster: Mapping[str, Sequence[str]],
    kind: str | Placeholder,
    index: Placeholder,
    why: str,
    role: str = "",
) -> Variable:
    jobs: list[str | Peers] = []
    for name, roles in cluster.items():
        addresses = [part for one in roles for part in (",", Peers(one))][1:]
        jobs += [f'{", " if jobs else ""}"{name}": [', *addresses, "]"]
    task = ('}, "task": {"type": "', kind, '", "index": ', index)
    rest = ('}, "model_dir": "', OUTPUTS, '", "environment": "cloud"}')
    return Variable.filled(
        "TF_CONFIG",
        template('{"cluster": {', *jobs, *task, *rest),
        Origin("framework", "tensorflow", reason=why),
        role,
    )


TENSORFLOW = TensorFlow()
