"""Containers: the runtimes in which tasks find their image; one file each, found by name."""

from __future__ import annotations

from hpcdist.layers.protocols import ContainerRuntime
from hpcdist.registry import Registry

containers: Registry[ContainerRuntime] = Registry(
    "container",
    {
        "apptainer": "hpcdist.layers.containers.apptainer:APPTAINER",
        "singularity": "hpcdist.layers.containers.apptainer:SINGULARITY",
        "pyxis": "hpcdist.layers.containers.pyxis:PYXIS",
        "shifter": "hpcdist.layers.containers.shifter:SHIFTER",
        "edf": "hpcdist.layers.containers.edf:EDF",
        "podman-hpc": "hpcdist.layers.containers.podman_hpc:PODMAN_HPC",
    },
)
