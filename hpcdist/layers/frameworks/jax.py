"""JAX: where process 0 is, how many there are and which this is, for ``jax.distributed.initialize()``.

JAX 0.10 reads JAX_COORDINATOR_ADDRESS and JAX_LOCAL_DEVICE_IDS itself; the number of processes and its own it
asks Slurm or Open MPI, unless the program passes them on (read in its ``_src/distributed.py``, and tried).
"""

from __future__ import annotations

from hpcdist.experiment.model import Experiment
from hpcdist.layers.frameworks.plain import Plain, filled
from hpcdist.plan.model import JobSpec
from hpcdist.plan.placeholders import GPUS, HEAD_ADDRESS, PORT, RANK, SIZE, template
from hpcdist.plan.values import Origin, Variable
from hpcdist.site.model import Site

_ORIGIN = Origin("framework", "jax")


class Jax(Plain):
    """jax.distributed, one task a replica, which has all the replica's GPUs."""

    name = "jax"

    def variables(self, job: JobSpec, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return the address and port of process 0."""
        del job, experiment, site
        return tuple(filled({"JAX_COORDINATOR_ADDRESS": template(HEAD_ADDRESS, ":", PORT)}, _ORIGIN))

    def task_variables(self, job: JobSpec, experiment: Experiment, site: Site) -> tuple[Variable, ...]:
        """Return the process's rank and its GPUs: by default JAX uses one, that of its local rank."""
        del experiment, site
        own = {"JAX_NUM_PROCESSES": template(SIZE), "JAX_PROCESS_ID": template(RANK)}
        if any(group.gpus for group in job.placement.groups):
            own["JAX_LOCAL_DEVICE_IDS"] = template(GPUS)
        return tuple(filled(own, _ORIGIN))


JAX = Jax()
