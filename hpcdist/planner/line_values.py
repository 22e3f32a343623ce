"""The variables and substitutions of a launch line: where each differs, and which value it has in a job.

A line that is written for one shell runs in each task, or is expanded once by the first node: a port by
``$RANDOM`` is then another one on each node, ``$SLURM_LOCALID`` is 0 on each, and ``$SLURM_NTASKS_PER_NODE``
is 1 where one torchrun runs on a node. Sources: sbatch(1) and srun(1), "OUTPUT ENVIRONMENT VARIABLES",
qsub(1B), bsub(1), flux-environment(7), bash(1), "Shell Variables", mpirun(1), torchrun's documentation.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from hpcdist.experiment.launch_line import UserLaunch
from hpcdist.experiment.launch_options import by_kind, is_local
from hpcdist.experiment.shell_variables import DRAWN, OF_FIRST_TASK, OWN_HOST, SCOPES, scheduler_of
from hpcdist.experiment.shell_words import assignments, expand, filled, simple_commands, unquoted
from hpcdist.plan.model import PreparedJob

WHOLE: Final = re.compile(r"\$\(\(.*?\)\)|\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`|\$\{[^{}]*\}|\$\$|\$\w+")
_GPU_COUNT: Final = re.compile(r"\$\(\s*nvidia-smi\s+(?:-L|--list-gpus)\s*\|\s*wc\s+-l\s*\)")
_DEFAULT: Final = re.compile(r"\$\{(\w+):?[-=]\"?([^{}$\"]*)\"?\}")
_NAME: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")

# --- The values that a plan knows

Count = Callable[[PreparedJob], int | None]


def _tasks_per_node(job: PreparedJob) -> int | None:
    runs = {number for _, number in job.placement.tasks_per_node()}
    return runs.pop() if len(runs) == 1 else None


def _gpus_on_node(job: PreparedJob) -> int | None:
    found = {group.gpus for group in job.placement.groups}
    return found.pop() if len(found) == 1 else None


def _cpus_per_task(job: PreparedJob) -> int | None:
    found = {group.cpus_per_task for group in job.placement.groups}
    return found.pop() if len(found) == 1 else None


_NODES: Final[Count] = lambda job: job.placement.nodes  # noqa: E731 - a row of the table below
_TASKS: Final[Count] = lambda job: job.placement.size  # noqa: E731
_COUNTS: Final[Mapping[str, Count]] = MappingProxyType({
    "SLURM_NNODES": _NODES,
    "SLURM_JOB_NUM_NODES": _NODES,
    "SLURM_NTASKS": _TASKS,
    "SLURM_NPROCS": _TASKS,
    "SLURM_NTASKS_PER_NODE": _tasks_per_node,
    "SLURM_CPUS_PER_TASK": _cpus_per_task,
    "SLURM_GPUS_ON_NODE": _gpus_on_node,
    "HPCDIST_SIZE": _TASKS,
    "HPCDIST_LOCAL_SIZE": _tasks_per_node,
})  # fmt: skip
"""Variables that are the same in the whole job, and their value."""
_BY_ASKING: Final = {
    "SLURM_GPUS_PER_NODE": "gpus_per_node",
    "SLURM_GPUS_PER_TASK": "gpus_per_task",
    "SLURM_GPUS": "gpus",
}
"""Variables that Slurm sets only where GPUs are requested by that option (sbatch(1))."""
_OF_LAUNCHERS: Final = frozenset(
    ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "NODE_RANK", "NNODES")
)
"""Variables that a framework's launcher sets for its own processes, or the user."""


def value_in_job(job: PreparedJob, text: str, *, early: bool = False) -> str:
    """Return a text with the variables whose value the plan knows.

    ``early``: the batch script expands the text on the first node, before any task starts.
    """
    found = {name: str(count(job)) for name, count in _COUNTS.items() if count(job) is not None}
    if job.identity.scheduler != "slurm":
        found = {name: value for name, value in found.items() if not name.startswith("SLURM")}
    if early:
        found |= dict.fromkeys(OF_FIRST_TASK, "0")
    elif _tasks_per_node(job) == 1:
        found |= {name: "0" for name, scope in SCOPES.items() if scope == "local"}
    text = _GPU_COUNT.sub(str(_gpus_on_node(job)), filled(text, found))
    own = _set_in(job)
    return _DEFAULT.sub(lambda match: match[0] if match[1] in own else found.get(match[1], match[2]), text)


def is_own(host: str) -> bool:
    """Whether this name means the host itself on each node (localhost, $HOSTNAME)."""
    return is_local(host) or bool(OWN_HOST.match(host))


def why_unequal(job: PreparedJob, text: str, *, early: bool = False) -> str:
    """Return why a text that all nodes must share is not the same on each, empty where it may be.

    ``early`` as for `value_in_job`: such a text is expanded once.
    """
    if (drawn := DRAWN.search(text)) and not early:
        whole = next(match[0] for match in WHOLE.finditer(text) if match.end() >= drawn.end())
        return f"{whole} is another value on each"
    for name in _names(text):
        if SCOPES.get(name) == "login":
            return f"${name} is the host from which the job is submitted"
        if not early and SCOPES.get(name) in ("node", "task"):
            return f"${name} is another value on each"
    return why_empty(job, text)


def why_empty(job: PreparedJob, text: str) -> str:
    """Return why a variable in a text has no value in a job, empty where all may have one."""
    return next(filter(None, (_why_empty(job, name) for name in _names(text))), "")


def _names(text: str) -> list[str]:
    return [match[1] or match[2] for match in _NAME.finditer(text)]


def _why_empty(job: PreparedJob, name: str) -> str:
    if name in _set_in(job):
        return ""
    by = _BY_ASKING.get(name)
    if by and job.identity.scheduler == "slurm" and by != job.request.gpu_request:
        return f"${name} is empty: Slurm sets it only where GPUs are requested by --{by.replace('_', '-')}"
    scheduler = scheduler_of(name)
    if scheduler and scheduler != job.identity.scheduler:
        return f"${name} is empty: site {job.identity.site} has {job.identity.scheduler}"
    return f"${name} is empty: nothing in this job sets it" if name in _OF_LAUNCHERS else ""


def _set_in(job: PreparedJob) -> set[str]:
    """Return the variables that the job, or the command itself, sets before the program."""
    commands = [*simple_commands(job.identity.command)]
    own = {name for simple in commands for name, value in assignments(simple) if f"${{{name}" not in value}
    sourced = (simple.words[1:] for simple in commands if simple.words[:1] in (("source",), (".",)))
    if not all(map(_sets_up, sourced)):
        own |= {*_OF_LAUNCHERS}  # it may
    environment = job.environment
    return {*own, *(item.name for item in (*environment.variables, *environment.task_variables))}


def _sets_up(words: tuple[str, ...]) -> bool:
    """Whether a sourced file activates an environment, and sets nothing of a launch."""
    return any(re.search(r"activate$|conda\.sh$|setvars\.sh$|/profile|bashrc", word) for word in words[:1])


# --- Warnings about what a command sets itself

_RENDEZVOUS: Final = {
    "MASTER_ADDR": 'MASTER_ADDR="$HPCDIST_HEAD_ADDRESS"',
    "MASTER_PORT": 'MASTER_PORT="$HPCDIST_PORT"',
}
"""Variables that must be the same in all tasks, and what to write."""
_GPU_VARIABLES: Final = frozenset(
    ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
)
_NUMBERS: Final = re.compile(r"\d+(?:,\d+)*")


def about_rendezvous(job: PreparedJob) -> Iterator[str]:
    """Yield a warning where each task would set another address or port for the rendezvous."""
    values = defaultdict[str, list[str]](list)
    for simple in simple_commands(job.identity.command):
        for name, value in assignments(simple):
            values[name].append(value)
    for item in job.environment.variables:
        if item.name in _RENDEZVOUS and not item.shell:
            values[item.name].append(item.value)
    for name, instead in _RENDEZVOUS.items() if job.placement.nodes > 1 else ():
        own = [value for value in values[name] if is_own(value)]
        if own and own == values[name]:
            yield f"{name} is {own[0]}, which is another machine on each node; write {instead}"
        elif why := next(filter(None, (why_unequal(job, value) for value in values[name])), ""):
            yield f"{name}: {why}; write {instead}"


_ARRAY_INDEX: Final = {
    "slurm": "SLURM_ARRAY_TASK_ID", "pbs": "PBS_ARRAY_INDEX", "lsf": "LSB_JOBINDEX", "sge": "SGE_TASK_ID",
}  # fmt: skip
_EVERYWHERE: Final = by_kind(**{
    "write $HPCDIST_JOB_ID": "SLURM_JOB_ID SLURM_JOBID PBS_JOBID LSB_JOBID FLUX_JOB_ID",
    "write $HPCDIST_SIZE": "SLURM_NTASKS SLURM_NPROCS PBS_NP LSB_DJOB_NUMPROC NSLOTS",
    "write $HPCDIST_HOSTFILE": "SLURM_JOB_NODELIST SLURM_NODELIST PBS_NODEFILE LSB_DJOB_HOSTFILE LSB_HOSTS "
        "LSB_MCPU_HOSTS PE_HOSTFILE",
    "remove it: the command starts in the folder of the submission":
        "SLURM_SUBMIT_DIR PBS_O_WORKDIR LS_SUBCWD SGE_O_WORKDIR FLUX_JOB_CWD",
})  # fmt: skip
"""What to write for a variable of one batch system that is to mean the same in all."""


def about_empty(job: PreparedJob, launch: UserLaunch | None) -> Iterator[str]:
    """Yield a warning for each variable of another batch system outside of the launch line."""
    used: list[str] = []

    def unknown(text: str) -> str:
        used.extend(_names(text))
        return ""

    for simple in simple_commands(job.identity.command):
        for word in (*simple.words, *(value for _, value in simple.assigned)):
            expand(word, {}, unknown)
    own = {name for word in launch.words for name in _names(word)} if launch else set()
    for name in dict.fromkeys(used):
        if scheduler_of(name) and name not in own and (why := _why_empty(job, name)):
            index = _ARRAY_INDEX.get(job.identity.scheduler) if name in _ARRAY_INDEX.values() else None
            instead = f"write ${index}" if index else _EVERYWHERE.get(name)
            yield f"{why}; {instead}" if instead else why


def about_gpus(job: PreparedJob, text: str, who: str = "the command") -> Iterator[str]:
    """Yield a warning where a command or script chooses fewer GPUs than a node has, by their numbers."""
    gpus = {row.gpus * row.tasks_per_node // row.tasks_per_gpu for row in job.placement.rows}
    for simple in simple_commands(text):
        for name, value in assignments(simple):
            count = len(value.split(","))
            if name in _GPU_VARIABLES and _NUMBERS.fullmatch(value) and count < max(gpus, default=0):
                yield (
                    f"{who} sets {name}={value}, and a node has {max(gpus)} GPUs: the others are "
                    "idle, and on shared nodes these numbers may be another job's; remove it, or ask for "
                    f"{count} by `resources: {{gpu: {{requests: {count}}}}}`"
                )


def about_submissions(job: PreparedJob) -> Iterator[str]:
    """Yield a warning where the command submits another job, as a job script may do."""
    for simple in simple_commands(job.identity.command):
        words = [unquoted(word) for word in simple.words[:2]]
        of_slurm = words == ["torchx", "run"] and "slurm" in simple.words
        if words[:1] in (["sbatch"], ["qsub"], ["bsub"]) or words == ["flux", "batch"] or of_slurm:
            each = f"each of the {job.placement.size} tasks" if job.placement.size > 1 else "the task"
            yield f"{each} submits another job by `{words[0]}`; write the program itself as `run.cmd`"
            return


def about_background(job: PreparedJob) -> Iterator[str]:
    """Yield a warning where a command ends while its last program still runs."""
    command = job.identity.command.rstrip()
    if _LAST.search(command) and not _WAIT.search(command):
        yield (
            "the command starts its last program in the background (`&`) and ends: the job ends with it, and "
            "the program is killed; remove the `&`, or write `wait` behind it"
        )


_LAST: Final = re.compile(r"(?<![&>|<])&(?![&>])(?:\s|;|\)|\}|\bdone\b|\bfi\b|\becho\b[^\n;]*)*$")
_WAIT: Final = re.compile(r"(?m)^\s*wait\b|[;&]\s*wait\b")
