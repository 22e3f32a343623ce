"""Launchers: what starts the tasks of a job on its nodes; one file each, found by name."""

from __future__ import annotations

from hpcdist.layers.protocols import Launcher
from hpcdist.registry import Registry

launchers: Registry[Launcher] = Registry(
    "launcher",
    {
        "srun": "hpcdist.layers.launchers.srun:SRUN",
        "mpirun": "hpcdist.layers.launchers.mpirun:MPIRUN",
        "horovodrun": "hpcdist.layers.launchers.horovodrun:HOROVODRUN",
        "horovodrun-mpi": "hpcdist.layers.launchers.horovodrun:HOROVODRUN_MPI",
        "horovodrun-elastic": "hpcdist.layers.launchers.horovodrun:HOROVODRUN_ELASTIC",
        "jsrun": "hpcdist.layers.launchers.jsrun:JSRUN",
        "pals": "hpcdist.layers.launchers.pals:PALS",
        "hydra": "hpcdist.layers.launchers.hydra:HYDRA",
        "ibrun": "hpcdist.layers.launchers.ibrun:IBRUN",
        "flux": "hpcdist.layers.launchers.flux:FLUX_RUN",
        "processes": "hpcdist.layers.launchers.processes:PROCESSES",
    },
)
