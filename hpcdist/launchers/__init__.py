"""Launchers: what starts the tasks of a job on its nodes; one file each, found by name."""

from __future__ import annotations

from hpcdist.layer import Launcher
from hpcdist.registry import Registry

launchers: Registry[Launcher] = Registry(
    "launcher",
    {
        "srun": "hpcdist.launchers.srun:SRUN",
        "mpirun": "hpcdist.launchers.mpirun:MPIRUN",
        "horovodrun": "hpcdist.launchers.horovodrun:HOROVODRUN",
        "horovodrun-mpi": "hpcdist.launchers.horovodrun:HOROVODRUN_MPI",
        "horovodrun-elastic": "hpcdist.launchers.horovodrun:HOROVODRUN_ELASTIC",
        "processes": "hpcdist.launchers.processes:PROCESSES",
    },
)
