"""How to detect that a batch system is installed on a machine: files, variables and commands.

Nothing here looks; `hpcdist.loading.machine` does. The built-in ones stand apart from their schedulers, which
name them as their ``installation``: which machine this is, is asked before a scheduler is chosen, and
importing all five for it took 25 to 60 ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from hpcdist.host.command import Command, Completed


class Installation(NamedTuple):
    """What a batch system named ``title`` has where it is installed.

    Its ``command`` is on PATH, and ``variable`` is set, or one of the ``files`` exists (relative: below the
    prefix of the command), or the answer to ``question`` does not deny it.
    """

    title: str
    command: str
    variable: str
    files: tuple[str, ...] = ()
    question: Command | None = None
    denials: tuple[str, ...] = ()

    def is_confirmed_by(self, completed: Completed) -> bool:
        """Whether the command's output does not deny it: a missing program denies nothing."""
        return completed.missing or not any(text in completed.stderr for text in self.denials)


SLURM: Final = Installation(
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
)
PBS: Final = Installation("PBS", "qsub", "PBS_CONF_FILE", ("/etc/pbs.conf",))
SGE: Final = Installation("Grid Engine", "qsub", "SGE_ROOT", ("/etc/profile.d/sge.sh",))
LSF: Final = Installation("LSF", "bsub", "LSF_ENVDIR", ("/etc/lsf.conf",))
FLUX: Final = Installation("Flux", "flux", "FLUX_URI", ("/run/flux/local",))

BUILT_IN: Final[Mapping[str, Installation]] = {
    "slurm": SLURM,
    "pbs": PBS,
    "sge": SGE,
    "lsf": LSF,
    "flux": FLUX,
}
"""By the names of their schedulers, in the order in which they are looked for."""
