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
        "jsrun": "hpcdist.launchers.jsrun:JSRUN",
        "pals": "hpcdist.launchers.pals:PALS",
        "hydra": "hpcdist.launchers.hydra:HYDRA",
        "ibrun": "hpcdist.launchers.ibrun:IBRUN",
        "flux": "hpcdist.launchers.flux:FLUX_RUN",
        "processes": "hpcdist.launchers.processes:PROCESSES",
    },
)
