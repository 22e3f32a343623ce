"""TensorFlow: TF_CONFIG for each task (https://www.tensorflow.org/api_docs/python/tf/distribute/cluster_resolver).

Each task listens on the job's port plus its local rank, so tasks that share a node do not collide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from hpcdist.errors import Problem
from hpcdist.experiment import Experiment, Replicas
from hpcdist.fields import Model
from hpcdist.frameworks.plain import Plain, one_process, section_of
from hpcdist.layer import Topology
from hpcdist.plan import Plan, Variable
from hpcdist.site import Site

_ORIGIN = "framework tensorflow"


class Section(Model, frozen=True):
    """``version`` is the program's, such as ``1.15``: before 2 the cluster calls the chief ``master``.

    ``ends_with``: the job ends with the master (its coordinator, under ParameterServerStrategy), or when the
    workers have ended too. Unsaid it is the master where TensorFlow 2 has parameter servers, since workers
    then serve for ever (https://www.tensorflow.org/tutorials/distribute/parameter_server_training).
    """

    version: str = "2"
    ends_with: Literal["master", "workers"] | None = None

    @property
    def chief(self) -> str:
        """What the cluster calls the master."""
        return "master" if self.version.partition(".")[0] in {"0", "1"} else "chief"


class TensorFlow(Plain):
    """TensorFlow's distributed runtime, one task a replica."""

    name = "tensorflow"
    section: type[Model] = Section
    roles = frozenset({"master", "worker", "ps", "evaluator"})

    def problems(self, experiment: Experiment) -> Iterable[Problem]:
        """Yield what is wrong in the section."""
        yield from super().problems(experiment)
        yield from one_process(experiment, self.name)
        replicas = experiment.environment.replicas or Replicas()
        if replicas.n_ps and not replicas.n_workers:
            where = ("environment", "replicas", "n_ps")
            yield Problem("parameter servers need workers that use them", where, "write `n_workers`")
        version = section_of(Section, experiment, self.name).version
        if not re.fullmatch(r"\d+(\.\d+)*(\.x)?", version):
            path = ("tensorflow", "version")
            yield Problem(f"{version!r} is no version of TensorFlow", path, "write one such as 1.15 or 2.16")

    def topology(self, experiment: Experiment) -> Topology:
        """Return the topology: parameter servers and the evaluator do not keep the job.

        A chief that coordinates parameter servers needs no GPU.
        """
        section = section_of(Section, experiment, self.name)
        replicas = experiment.environment.replicas or Replicas()
        coordinated = replicas.n_ps > 0 and section.chief == "chief"
        ends_with = section.ends_with or ("master" if coordinated else "workers")
        every = frozenset({"master", "worker"})
        return Topology(
            awaited=frozenset({"master"}) if ends_with == "master" else every,
            alike=frozenset({"worker"}) if coordinated else every,
        )

    def task_variables(self, plan: Plan, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return TF_CONFIG: where everybody is, and which of them this task is."""
        del site
        chief = section_of(Section, experiment, self.name).chief
        names = {"master": chief, "worker": "worker", "ps": "ps"}
        present = [role for role in names if plan.placement.replicas(role)]
        cluster = ", ".join(rf"\"{names[role]}\": [$(peers {role})]" for role in present)
        task = rf"\"task\": {{\"type\": \"${{HPCDIST_ROLE/master/{chief}}}\", \"index\": $HPCDIST_INDEX}}"
        rest = r"\"model_dir\": \"$HPCDIST_OUTPUTS\", \"environment\": \"cloud\""
        return (Variable.raw("TF_CONFIG", rf"{{\"cluster\": {{{cluster}}}, {task}, {rest}}}", _ORIGIN),)


TENSORFLOW = TensorFlow()
