"""Accelerate: ``Accelerator()`` reads the variables of PyTorch's ``env://``, a task a GPU.

Without LOCAL_RANK each process trains alone. Without GPUs the use of CPUs must be set as well:
``Accelerator()`` reads ACCELERATE_USE_CPU, ``PartialState()`` has only its argument ``cpu``. Source:
``accelerate/state.py`` of 1.15.0, tried.
"""

from __future__ import annotations

from collections.abc import Iterable

from hpcdist.errors import Problem, warning
from hpcdist.experiment.model import Experiment
from hpcdist.layers.frameworks.pytorch import TorchLibrary
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.values import Origin, Variable
from hpcdist.site.model import Site


class Accelerate(TorchLibrary):
    """Hugging Face's Accelerate, and its Trainer, over torch.distributed."""

    name = "accelerate"

    def variables(self, job: JobSpec, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return the address and port of rank 0, and without GPUs that CPUs are used."""
        shared = super().variables(job, experiment, site)
        cpu = Variable(name="ACCELERATE_USE_CPU", value="true", origin=Origin("framework", "accelerate"))
        return shared if _has_gpus(job) else (*shared, cpu)

    def advice(self, job: PreparedJob, experiment: Experiment, site: Site) -> Iterable[Problem]:
        """Yield a warning for tasks without GPUs: no variable sets that for ``PartialState()``."""
        del experiment, site
        if job.placement.size > 1 and job.launch.mode == "tasks" and not _has_gpus(job):
            yield warning(
                "these tasks have no GPUs: `Accelerator()` meets the others, but a program that calls "
                "`PartialState()` first trains alone; write `PartialState(cpu=True)` there"
            )


def _has_gpus(job: JobSpec) -> bool:
    return any(group.gpus for group in job.placement.groups)


ACCELERATE = Accelerate()
