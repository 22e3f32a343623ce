"""The flags that hpcdist writes for each batch system: a table by the keys of an experiment."""

from __future__ import annotations

from typing import Final

_COLUMNS: Final = ("slurm", "pbs", "lsf", "flux", "sge")

KEYS: Final = """
name                          | --job-name        | -N            | -J       | --job-name       | -N
environment.replicas          | --ntasks          | -l mpiprocs   | -n       | --nslots         | -pe
environment.replicas          |                   | -l select     |          |                  |
environment.replicas.per_node | --ntasks-per-node |               |          |                  |
environment.resources.cpu     | --cpus-per-gpu    | -l ncpus      |          | --cores-per-slot |
environment.resources.cpu     | --cpus-per-task   | -l ompthreads |          |                  |
environment.resources.cpu     | --mincpus         |               |          |                  |
environment.resources.gpu     | --gpus            | -l ngpus      | -gpu     | --gpus-per-slot  |
environment.resources.gpu     | --gpus-per-node   |               |          |                  |
environment.resources.gpu     | --gpus-per-task   |               |          |                  |
environment.resources.gpu     | --gres            |               |          |                  |
environment.resources.memory  | --mem             | -l mem        |          |                  |
environment.resources.memory  | --mem-per-cpu     |               |          |                  |
environment.resources.memory  | --mem-per-gpu     |               |          |                  |
environment.env_vars          | --export          | -V, -v        | -env     |                  | -V, -v
batch.account                 | --account         |               |          | --bank           |
batch.partition               | --partition       | -q            | -q       | --queue          | -q
batch.qos                     | --qos             |               |          |                  |
batch.nodes                   | --nodes           | -l nodes      | -nnodes  | --nodes          |
batch.constraint              | --constraint      |               | -R       | --requires       |
batch.exclude_nodes           | --exclude         |               |          |                  | -l hostname
batch.exclusive               | --exclusive       | -l place      | -x       | --exclusive      |
batch.walltime                | --time            | -l walltime   | -W       | --time-limit     | -l h_rt
batch.array                   | --array           | -J            |          |                  | -t, -tc
batch.dependency              | --dependency      | -W depend     | -w       | --dependency     | -hold_jid
batch.signal                  | --signal          |               | -wa, -wt | --signal         |
batch.requeue                 | --no-requeue      | -r            | -r, -rn  |                  | -r
batch.requeue                 | --open-mode       |               |          |                  |
batch.requeue                 | --requeue         |               |          |                  |
batch.mail                    | --mail-type       | -M, -m        | -B, -N   |                  | -M, -m
batch.mail                    | --mail-user       |               | -Ne      |                  |
batch.mail                    |                   |               | -notify  |                  |
batch.mail                    |                   |               | -u       |                  |
horovod.elastic               | --no-kill         |               |          |                  |
"""
"""By key: the flags of Slurm, PBS, LSF, Flux and Grid Engine that hpcdist writes for it.

And flags that contradict one of those. What a site file names, such as the account of PBS, is not here.
"""

_FOUND: Final = "it carries the token by which hpcdist finds the job again"
RESERVED: Final = f"""
use `batch.output`                   | --output   | -o         | -o, -oo | --output  | -o
use `batch.error`                    | --error    | -e         | -e, -eo | --error   | -e
use `batch.output` and `batch.error` |            | -j         |         |           | -j
use `hpcdist wait`                   | --wait     | -W block   | -K      |           | -sync
use `hpcdist render`                 |            |            |         | --dry-run | -verify
the job runs where it is submitted   | --chdir    | -W sandbox | -cwd    | --cwd     | -cwd, -wd
the script is bash                   |            | -S         |         |           | -S, -shell
hpcdist writes the script            | --wrap     |            |         | --wrap    | -b
hpcdist reads the job's id itself    | --parsable | -z         |         |           | -terse
{_FOUND}                             | --comment  |            | -Jd     |           | -ac, -dc, -sc
"""
"""By reason: flags that only hpcdist may set."""


def by_flag(table: str, scheduler: str) -> dict[str, str]:
    """Return the keys of a table, or the reasons, by the flags of one scheduler."""
    column = 1 + _COLUMNS.index(scheduler)
    rows = ([cell.strip() for cell in line.split("|")] for line in table.strip().splitlines())
    return {flag: row[0] for row in rows for flag in row[column].split(", ") if flag}
