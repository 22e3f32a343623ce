"""The rules of `hpcdist check job.sh`: name, batch systems, what is wrong, what to write, source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

_TABLE: Final = """
indented-directive: slurm
`{text}` has no effect: it does not begin in the first column
write `{prefix}` at the beginning of the line
sbatch(1), DESCRIPTION

late-directive: slurm pbs
`{text}` has no effect: {system} reads no directive below the first command, in line {line}
move it above that line
sbatch(1), DESCRIPTION; qsub(1B), "Script Processing"

directive-variable: slurm
`{written}`: Slurm expands no variable in a directive, so the text `{text}` stays as it is
{instead}
sbatch(1), "filename pattern"

output-folder: slurm
`{written}`: only recent releases of Slurm create the folder {folder}; others end the job without a message
write `{instead}`
sbatch(1), "filename pattern"; src/slurmd/slurmstepd/io.c

shared-output: slurm
`{written}`: all elements of the array write the same file
write `{instead}`
sbatch(1), "filename pattern"

no-gpus: slurm
the script requests no GPU, and {why}
write `#SBATCH --gpus-per-node=N`
gres.html, "Running Jobs"

one-cpu: slurm
one CPU for {gpus} GPUs, which slows the loading of data
write `#SBATCH --cpus-per-task=N`, several for each GPU
sbatch(1), --cpus-per-task

srun-cpus: slurm
srun ignores `--cpus-per-task={cpus}` of the job since Slurm 22.05: on many sites each task gets one CPU
write `srun --cpus-per-task="$SLURM_CPUS_PER_TASK"`, or export SRUN_CPUS_PER_TASK
srun(1), --cpus-per-task

task-variable: slurm
the batch script expands ${name} once, to 0 for all tasks
write `srun bash -c '{command}'`, which expands it in each task
srun(1), "OUTPUT ENVIRONMENT VARIABLES"

mpirun-in-srun: slurm
srun starts {program} in each of its {tasks} tasks, and each of these starts all processes
write `{program}` without srun, or the program itself behind srun
mpi_guide.html

launcher-per-task: slurm
srun starts {tasks} times {program} on a node, and each of these starts the processes of the node
write `srun --nodes={nodes} --ntasks={nodes} {program}`
torchrun (Elastic Launch), "Multi-node"

first-node-only: slurm
{program} runs on the first of the {nodes} nodes only
write `srun --nodes={nodes} --ntasks={nodes} {program}`
sbatch(1), DESCRIPTION

all-addresses: slurm
`{text}` is all addresses of the host, with blanks between them
write `{instead}`
hostname(1)

own-address: slurm
{text} is another host on each of the {nodes} nodes, so that they do not meet
write `$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)` in the batch script
docs.pytorch.org/docs/stable/elastic/run.html

fixed-port: slurm
another job on this node that uses port {port}, too, ends with "Address already in use"
write `torchrun --standalone`, which takes a free one
docs.pytorch.org/docs/stable/elastic/run.html, "Single-node multi-worker"

no-port: *
{port} is no port: they end at 65535
write one from 1024 to 65535
RFC 9293, section 3.1

conda-hook: *
the shell of a batch job has no function `conda`, so that `{text}` fails
write `eval "$(conda shell.bash hook)"` above it
conda activate --help; docs.conda.io, "conda init"

lost-exit-code: *
`set -e` does not see that `{program}` fails in front of `|`
write `set -o pipefail` above it
bash(1), "Pipelines"

trap-without-signal: slurm
nothing sends {signal} to the batch script, whose `trap` waits for it
write `#SBATCH --signal=B:{signal}@300`
sbatch(1), --signal

signal-to-tasks: slurm
`{written}` is sent to the tasks only, and the batch script has a `trap` for it
write `--signal=B:{value}`
sbatch(1), --signal

trap-too-late: slurm
bash runs the `trap` of {signal} only after `{program}` has ended
write `{program} ... &`, and `wait` in the next line
bash(1), SIGNALS

no-wait: *
the script ends while `{program}` runs in the background, and with the script the job
write `wait` as the last line
sbatch(1), DESCRIPTION

no-signal: slurm
at the time limit the program has 30 seconds, or those of the site's KillWait, to save a checkpoint
write `#SBATCH --signal=TERM@300` if it saves one on SIGTERM
sbatch(1), --signal; slurm.conf(5), KillWait
"""


class Rule(NamedTuple):
    """What a rule says: the values in braces are those of a finding."""

    name: str
    systems: frozenset[str]
    """The batch systems whose scripts it is for; ``*``: all."""
    message: str
    hint: str
    source: str

    @property
    def severity(self) -> Literal["warning", "note"]:
        """A note where the release of Slurm, the site or the program decides; else a warning."""
        return "note" if self.name in ("no-signal", "output-folder", "srun-cpus") else "warning"


def _rule(block: str) -> Rule:
    head, message, hint, source = block.strip().splitlines()
    name, _, systems = head.partition(": ")
    return Rule(name, frozenset(systems.split()), message, hint, source)


RULES: Final[Mapping[str, Rule]] = {rule.name: rule for rule in map(_rule, _TABLE.strip().split("\n\n"))}
