"""DeepSpeed: ``deepspeed.init_distributed`` reads the variables of PyTorch's ``env://``, a task a GPU.

Source: https://www.deepspeed.ai/getting-started/#launching-deepspeed-training. Users who start the program
``deepspeed`` themselves find the hosts in ``$HPCDIST_HOSTFILE``, whose form is DeepSpeed's.
"""

from __future__ import annotations

from hpcdist.experiment import Experiment
from hpcdist.frameworks.plain import Plain, expressions
from hpcdist.frameworks.pytorch import SHARED, environment, gloo_interface
from hpcdist.layer import Topology
from hpcdist.plan import Plan, Variable
from hpcdist.site import Site

_ORIGIN = "framework deepspeed"


class DeepSpeed(Plain):
    """DeepSpeed over torch.distributed."""

    name = "deepspeed"

    def topology(self, experiment: Experiment) -> Topology:
        """Return a task a GPU; DeepSpeed takes the one whose number is the task's LOCAL_RANK."""
        del experiment
        return Topology(task="gpu", sees="node")

    def variables(self, plan: Plan, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return where rank 0 listens."""
        del plan, experiment
        return (*expressions(SHARED, _ORIGIN), *gloo_interface(site))

    def task_variables(self, plan: Plan, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return the task's place in the world."""
        del experiment, site
        return tuple(expressions(environment(plan), _ORIGIN))


DEEPSPEED = DeepSpeed()
