"""Containers: the runtimes in which tasks find their image; one file each, found by name."""

from __future__ import annotations

from hpcdist.layer import Container
from hpcdist.registry import Registry

containers: Registry[Container] = Registry(
    "container",
    {
        "apptainer": "hpcdist.containers.apptainer:APPTAINER",
        "singularity": "hpcdist.containers.apptainer:SINGULARITY",
        "pyxis": "hpcdist.containers.pyxis:PYXIS",
        "shifter": "hpcdist.containers.shifter:SHIFTER",
        "podman-hpc": "hpcdist.containers.podman_hpc:PODMAN_HPC",
    },
)
