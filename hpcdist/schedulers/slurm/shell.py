"""An allocation of Slurm for a shell: salloc, and in it the step that interactive shells have since 20.11.

Sources: salloc(1) and ``InteractiveStepOptions`` of slurm.conf(5); tried on 22.05.8. That step takes nothing
of the allocation, so that others run beside it; salloc ends the job when its program ends, or by a signal.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final

from hpcdist.host.command import Command
from hpcdist.schedulers.base import ShellRequest
from hpcdist.schedulers.shells import options
from hpcdist.schedulers.slurm.queries import DROP, KEEP

_OF_SBATCH: Final = ("--requeue", "--no-requeue", "--open-mode", "--export")


def shell(request: ShellRequest) -> Command:
    """Return the salloc command; its token is the job's comment, as that of a batch job."""
    words = ["salloc", f"--comment=hpcdist:{request.submission.token}"]
    for component, own in groupby(request.directives, key=lambda directive: directive.group):
        words += [":"] if component else []
        words += options(own, _OF_SBATCH)
    terminal = ["--pty"] if request.terminal else []
    words += ["srun", "--interactive", "--preserve-env", "--mpi=none", *terminal]
    drop = (*DROP, "SALLOC_", "SRUN_")
    return Command((*words, "bash", request.submission.script), (), drop, (*KEEP, "LC_ALL"))
