"""Schedulers: each returns the commands of its batch system and reads their output; none starts a process.

`base` has the interface. A scheduler is a file, or a folder with ``directives``, which needs a plan, and
``survey``, which describes a machine. In a job it is a class of ``templates/runtime/supervisor/systems.py``.
``schedulers.get("slurm")`` imports it.

base    the interface of a batch system, on one page
slurm pbs lsf flux sge local    one scheduler each; ``directives`` has its options, such as --gpus-per-node
job    a submitted job: its id, its state, what accounting has of it
directives flags answers    shared: directives, the table of flags by keys, how answers are read
hostlist    ``n[001-003,7]`` to names, and back
surveyors    the commands that describe a machine, for `sites init`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hpcdist.base.command import Command
from hpcdist.base.registry import Registry
from hpcdist.schedulers.base import Installation, Scheduler

UNSUPPORTED: Final = {
    "torque": "Torque is not supported: of the PBS family only PBS Professional and OpenPBS (pbs) are"
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

INSTALLATIONS: Final[Mapping[str, Installation]] = {
    "slurm": Installation(
        "Slurm",
        "sbatch",
        "SLURM_CONF",
        (
            "/etc/slurm/slurm.conf",
            "/etc/slurm-llnl/slurm.conf",
            "/usr/local/etc/slurm.conf",
            "/run/slurm/conf/slurm.conf",
            "etc/slurm.conf",
        ),
        # Without a file it asks the DNS for its configuration: for 10 s, where no name server answers.
        Command(("scontrol", "ping"), environment=(("RES_OPTIONS", "timeout:1 attempts:1"),), timeout=15),
        # What scontrol prints where it finds no configuration; 22.05 prints the first.
        ("configuration source", "Unable to process configuration", "No such file"),
    ),
    "pbs": Installation("PBS", "qsub", "PBS_CONF_FILE", ("/etc/pbs.conf",)),
    "sge": Installation("Grid Engine", "qsub", "SGE_ROOT", ("/etc/profile.d/sge.sh",)),
    "lsf": Installation("LSF", "bsub", "LSF_ENVDIR", ("/etc/lsf.conf",)),
    "flux": Installation("Flux", "flux", "FLUX_URI", ("/run/flux/local",)),
}
"""How built-in batch systems are detected, in this order; `hpcdist.loading.machine` does it.

The table imports no scheduler, which would take 25 to 60 ms; plug-ins set ``installation``.
"""
