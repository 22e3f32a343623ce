"""What the machine must offer before a cluster can be booted."""

from __future__ import annotations

import os
import shutil

from tests.slurm.process import SYSTEM_PATH

PACKAGES = {
    "ip": "iproute2",
    "mpicc": "libopenmpi-dev",
    "mpirun": "openmpi-bin",
    "munged": "munge",
    "nsenter": "util-linux",
    "python3": "python3",
    "scontrol": "slurm-client",
    "setpriv": "util-linux",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "ssh": "openssh-client",
    "sshd": "openssh-server",
    "unshare": "util-linux",
}
ACCOUNTING_PACKAGES = {
    "mariadbd": "mariadb-server",
    "mariadb-install-db": "mariadb-server",
    "slurmdbd": "slurmdbd",
}


def missing(*, accounting: bool = False, path: str = SYSTEM_PATH) -> str:
    """What this machine lacks for a cluster, as one sentence; empty where nothing is missing."""
    if os.geteuid() != 0:
        return "The Slurm test cluster is made of namespaces and devices: its tests must run as root."
    packages = PACKAGES | (ACCOUNTING_PACKAGES if accounting else {})
    lacking = {
        program: package for program, package in packages.items() if not shutil.which(program, path=path)
    }
    if not lacking:
        return ""
    words = " ".join(sorted(set(lacking.values())))
    return (
        f"The Slurm test cluster needs {', '.join(lacking)}: apt-get install --no-install-recommends {words}"
    )
