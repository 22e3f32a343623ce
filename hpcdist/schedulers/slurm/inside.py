"""Commands in a job of Slurm that runs: steps that share its resources with the others.

Sources: srun(1) of 22.05, and a real 22.05.8, whose ``--jobid`` takes no element of an array (``2_0``). A
component of a heterogeneous job (``2+1``) is reached by the job's own number and ``--het-group``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpcdist.host.command import Command
from hpcdist.schedulers.base import Nodes
from hpcdist.schedulers.slurm.queries import DROP, KEEP

# $1 the element of an array; the number of its own under which Slurm keeps it is known to squeue.
_OF_ELEMENT: Final = """\
id=$(squeue -h -j "$1" -o %A) && [[ $id ]] || exit
shift
exec srun --jobid="$id" "$@"
"""


def inside(nodes: Nodes, words: Sequence[str], *, terminal: bool) -> Command:
    """Return one srun for all of the nodes.

    ``--quiet`` leaves out remarks; errors are still printed.
    """
    count = len(nodes.names)
    options = (
        "--quiet",
        "--overlap",
        f"--nodes={count}",
        f"--ntasks={count}",
        "--ntasks-per-node=1",
        f"--nodelist={','.join(nodes.names)}",
        "--mem=0",
        *(["--pty"] if terminal else []),
        *words,
    )
    job, is_component, component = nodes.job.partition("+")
    group = (f"--het-group={component}",) if is_component else ()
    start = ("bash", "-c", _OF_ELEMENT, "hpcdist", job) if "_" in job else ("srun", f"--jobid={job}", *group)
    return Command((*start, *options), drop_environment=DROP, keep_environment=(*KEEP, "LC_ALL"))
