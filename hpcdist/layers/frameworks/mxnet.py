"""MXNet: the DMLC variables of its parameter-server rendezvous; the master is the scheduler.

Source: ps-lite's environment variables (https://mxnet.apache.org/versions/1.9.1/api/faq/distributed_training);
what Polyaxon 0.6 sets.
"""

from __future__ import annotations

from collections.abc import Iterable

from hpcdist.errors import Problem
from hpcdist.experiment.model import Experiment
from hpcdist.layers.frameworks.plain import Plain, filled, one_process
from hpcdist.layers.protocols import Topology
from hpcdist.plan.model import JobSpec
from hpcdist.plan.placeholders import ADDRESS, HEAD_ADDRESS, INDEX, PORT, template
from hpcdist.plan.values import Origin, Variable
from hpcdist.site.model import Site

_ORIGIN = Origin("framework", "mxnet")
_ROLES = {"master": "scheduler", "worker": "worker", "ps": "server"}


class MxNet(Plain):
    """MXNet's distributed key-value store, one task a replica."""

    name = "mxnet"
    roles = frozenset(_ROLES)

    def problems(self, experiment: Experiment) -> Iterable[Problem]:
        """Yield what is wrong in the section, and a store without servers or without workers."""
        yield from super().problems(experiment)
        yield from one_process(experiment, self.name)
        replicas = experiment.environment.replicas
        for key in ("n_workers", "n_ps") if replicas else ():
            if not getattr(replicas, key):
                path = ("environment", "replicas")
                message = f"MXNet's store needs workers and servers, and there is no {key!r}"
                yield Problem(message, path, f"write `{key}: 1` or more")

    def topology(self, experiment: Experiment) -> Topology:
        """Return the topology: the job ends with its workers, after which nothing is left to do.

        ps-lite binds to an address, and accepts no host name.
        """
        del experiment
        workers = frozenset({"worker"})
        return Topology(required_roles=workers, by_address=True, lockstep_roles=workers)

    def variables(self, job: JobSpec, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return the address of the scheduler, the numbers of the others, and the interface."""
        del experiment
        placement = job.placement
        interface, key = site.interface_of(job.facts.node_types)
        origin = Origin("site", site.name, key)
        return (
            *filled(
                {"DMLC_PS_ROOT_URI": template(HEAD_ADDRESS), "DMLC_PS_ROOT_PORT": template(PORT)}, _ORIGIN
            ),
            Variable(name="DMLC_NUM_WORKER", value=str(placement.replicas("worker")), origin=_ORIGIN),
            Variable(name="DMLC_NUM_SERVER", value=str(placement.replicas("ps")), origin=_ORIGIN),
            *([Variable(name="DMLC_INTERFACE", value=interface, origin=origin)] if interface else []),
        )

    def task_variables(self, job: JobSpec, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return the task's role, the index of a server, and the address where no interface is set."""
        del experiment
        own = [Variable.filled("DMLC_ROLE", template(name), _ORIGIN, role) for role, name in _ROLES.items()]
        own.append(Variable.filled("DMLC_SERVER_ID", template(INDEX), _ORIGIN, "ps"))
        if not site.interface_of(job.facts.node_types)[0]:
            own.append(Variable.filled("DMLC_NODE_HOST", template(ADDRESS), _ORIGIN))
        return tuple(own)


MXNET = MxNet()
