"""Variables and substitutions of a shell that are not the same in all tasks of a job.

Sources: sbatch(1) and srun(1), "OUTPUT ENVIRONMENT VARIABLES", qsub(1B), bsub(1), submit(1) of Grid Engine,
flux-environment(7), bash(1), "Shell Variables", mpirun(1), torchrun's documentation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hpcdist.experiment.launch_options import by_kind

SCOPES: Final[Mapping[str, str]] = by_kind(
    node="HOSTNAME SLURMD_NODENAME SLURM_TOPOLOGY_ADDR SLURM_NODEID HPCDIST_NODE HPCDIST_ADDRESS GROUP_RANK",
    task="""SLURM_PROCID SLURM_TASK_PID OMPI_COMM_WORLD_RANK PMI_RANK PMIX_RANK PALS_RANKID FLUX_TASK_RANK
        JSM_NAMESPACE_RANK MV2_COMM_WORLD_RANK RANK HPCDIST_RANK""",
    local="""SLURM_LOCALID OMPI_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID PALS_LOCAL_RANKID FLUX_TASK_LOCAL_ID
        JSM_NAMESPACE_LOCAL_RANK MV2_COMM_WORLD_LOCAL_RANK LOCAL_RANK HPCDIST_LOCAL_RANK""",
    login="SLURM_SUBMIT_HOST PBS_O_HOST LSB_SUB_HOST SGE_O_HOST",
)
"""Variables with another value on each node, in each task, in each task of a node, or of the login node."""
OWN_HOST: Final = re.compile(
    r"(?:\$\(|`)(?!.*\bscontrol\b).*?\b(?:hostname|gethostname|uname\s+-n|ifconfig"
    r"|ip\s+(?:-\S+\s+)*(?:a|addr|address|route))\b"
    r"|\$\{?(?:HOSTNAME|SLURMD_NODENAME|SLURM_TOPOLOGY_ADDR|HPCDIST_ADDRESS)\b"
)
"""Expansions that are the name or the address of the host on which they are expanded."""
DRAWN: Final = re.compile(
    r"\$\{?(?:S?RANDOM|BASHPID|EPOCHREALTIME|EPOCHSECONDS|SECONDS)\b|\$\$|\$\(\(.*\bS?RANDOM\b"
    r"|(?:\$\(|`)[^`]*\b(?:getsockname|uuidgen|shuf|jot\s+-r|mktemp|openssl\s+rand|/dev/u?random|random/uuid"
    r"|random\b|date\s+\S*\+\S*%[sN]\b|get_free_port|free_port)"
)
"""Expansions that give another text each time."""
_SCHEDULERS: Final[Mapping[str, str]] = {
    "SLURM": "slurm", "PBS_": "pbs", "LSB_": "lsf", "LS_SUBCWD": "lsf", "FLUX_": "flux", "SGE_": "sge",
    "NSLOTS": "sge", "NHOSTS": "sge", "PE_HOSTFILE": "sge",
}  # fmt: skip
"""The batch system that sets the variables with this prefix."""


OF_FIRST_TASK: Final = ("SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID")
"""Variables that a batch script has, too, where they are 0."""


def scheduler_of(name: str) -> str | None:
    """Return the batch system that sets a variable, None for any other variable."""
    return next((own for prefix, own in _SCHEDULERS.items() if name.startswith(prefix)), None)
