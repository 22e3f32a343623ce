"""Accelerate: ``Accelerator()`` reads the variables of PyTorch's ``env://``, a task a GPU.

Without LOCAL_RANK each process trains alone. On CPUs Accelerate needs to be told besides that it is to use
those: ``Accelerator()`` by ACCELERATE_USE_CPU, ``PartialState()`` by its argument ``cpu`` alone.
Source: ``accelerate/state.py`` of 1.15.0, tried.
"""

from __future__ import annotations

from collections.abc import Iterable

from hpcdist.experiment import Experiment
from hpcdist.frameworks.plain import Plain, expressions
from hpcdist.frameworks.pytorch import SHARED, environment, gloo_interface
from hpcdist.layer import Topology
from hpcdist.plan import Plan, Variable
from hpcdist.site import Site

_ORIGIN = "framework accelerate"


class Accelerate(Plain):
    """Hugging Face's Accelerate, and its Trainer, over torch.distributed."""

    name = "accelerate"

    def topology(self, experiment: Experiment) -> Topology:
        """Return a task a GPU; Accelerate takes the one whose number is the task's LOCAL_RANK."""
        del experiment
        return Topology(task="gpu", sees="node")

    def variables(self, plan: Plan, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return where rank 0 listens, and that there are CPUs only where that is so."""
        del experiment
        cpu = Variable(name="ACCELERATE_USE_CPU", value="true", origin=_ORIGIN)
        on_cpus = () if _has_gpus(plan) else (cpu,)
        return (*expressions(SHARED, _ORIGIN), *on_cpus, *gloo_interface(site))

    def task_variables(self, plan: Plan, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return the task's place in the world."""
        del experiment, site
        return tuple(expressions(environment(plan), _ORIGIN))

    def advice(self, plan: Plan, experiment: Experiment, site: Site) -> Iterable[str]:
        """Yield what no variable tells a program without GPUs."""
        del experiment, site
        if plan.placement.size > 1 and plan.launches == "tasks" and not _has_gpus(plan):
            yield (
                "these tasks have no GPUs: `Accelerator()` meets the others, but a program that calls "
                "`PartialState()` first trains alone; write `PartialState(cpu=True)` there"
            )


def _has_gpus(plan: Plan) -> bool:
    return any(group.gpus for group in plan.placement.groups)


ACCELERATE = Accelerate()
