"""Accelerate: ``Accelerator()`` reads the variables of PyTorch's ``env://``, a task a GPU.

Without LOCAL_RANK each process trains alone. On CPUs Accelerate needs to be told besides that it is to use
those: ``Accelerator()`` by ACCELERATE_USE_CPU, ``PartialState()`` by its argument ``cpu`` alone.
Source: ``accelerate/state.py`` of 1.15.0, tried.
"""

from __future__ import annotations

from collections.abc import Iterable

from hpcdist.errors import Problem, warning
from hpcdist.experiment.model import Experiment
from hpcdist.layers.frameworks.pytorch import OverTorch
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.origin import Origin
from hpcdist.plan.values import Variable
from hpcdist.site.model import Site


class Accelerate(OverTorch):
    """Hugging Face's Accelerate, and its Trainer, over torch.distributed."""

    name = "accelerate"

    def variables(self, job: JobSpec, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return where rank 0 listens, and that there are CPUs only where that is so."""
        shared = super().variables(job, experiment, site)
        cpu = Variable(name="ACCELERATE_USE_CPU", value="true", origin=Origin("framework", "accelerate"))
        return shared if _has_gpus(job) else (*shared, cpu)

    def advice(self, job: PreparedJob, experiment: Experiment, site: Site) -> Iterable[Problem]:
        """Yield what no variable tells a program without GPUs."""
        del experiment, site
        if job.placement.size > 1 and job.launch.mode == "tasks" and not _has_gpus(job):
            yield warning(
                "these tasks have no GPUs: `Accelerator()` meets the others, but a program that calls "
                "`PartialState()` first trains alone; write `PartialState(cpu=True)` there"
            )


def _has_gpus(job: JobSpec) -> bool:
    return any(group.gpus for group in job.placement.groups)


ACCELERATE = Accelerate()
