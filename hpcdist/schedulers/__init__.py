"""Schedulers: each returns the commands of its batch system and reads their output; none starts a process.

`base` has the interface. A scheduler is a file, or a folder with what is asked in ``queries``, and what needs
a plan in ``directives``; and a class of ``templates/runtime/supervisor/systems.py``.
``schedulers.get("slurm")`` imports it when asked.
"""

from __future__ import annotations

from typing import Final

from hpcdist.registry import Registry
from hpcdist.schedulers.base import Scheduler

UNSUPPORTED: Final = {
    "torque": "Torque is not supported: of the PBS family only PBS Professional and OpenPBS (pbs) are",
}
"""Schedulers that hpcdist does not support, each with the reason."""

schedulers: Registry[Scheduler] = Registry(
    "scheduler",
    {
        "local": "hpcdist.schedulers.local:LOCAL",
        "slurm": "hpcdist.schedulers.slurm:SLURM",
        "pbs": "hpcdist.schedulers.pbs:PBS",
        "lsf": "hpcdist.schedulers.lsf:LSF",
        "flux": "hpcdist.schedulers.flux:FLUX",
        "sge": "hpcdist.schedulers.sge:SGE",
    },
)
