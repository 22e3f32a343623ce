"""The ``#SBATCH`` lines of a plan, for sbatch, and how sbatch reads them.

Source: sbatch(1) of 22.05; quoting, uneven tasks and heterogeneous jobs were tried on 22.05.8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from hpcdist.base.errors import Problem
from hpcdist.experiment.batch import Dependency, WaitCondition
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.placement import Group
from hpcdist.plan.values import Directive
from hpcdist.schedulers import flags
from hpcdist.schedulers.directives import (
    DirectiveSyntax,
    HeaderSyntax,
    Line,
    added_directives,
    options,
    own_directives,
)
from hpcdist.site.model import Site

FIELDS: Final = flags.by_flag(flags.KEYS, "slurm")
"""Flags that hpcdist writes itself, and the field to use instead."""

_RESERVED: Final = flags.by_flag(flags.RESERVED, "slurm")

_SHORT: Final = {
    "-A": "--account",
    "-C": "--constraint",
    "-D": "--chdir",
    "-G": "--gpus",
    "-J": "--job-name",
    "-N": "--nodes",
    "-W": "--wait",
    "-a": "--array",
    "-c": "--cpus-per-task",
    "-d": "--dependency",
    "-e": "--error",
    "-n": "--ntasks",
    "-o": "--output",
    "-p": "--partition",
    "-q": "--qos",
    "-t": "--time",
    "-x": "--exclude",
}


def directives(job: PreparedJob, site: Site) -> tuple[Directive, ...]:
    """Return the lines of all groups; more than one group is a heterogeneous job.

    Job-wide lines are in the first group only: Slurm applies them to all groups (tried).

    Raises:
        PlanError: with everything that Slurm or the site refuses, each naming its field.
    """
    own = [
        line
        for number, group in enumerate(job.placement.groups)
        for line in own_directives(
            job, (*(() if number else _job_wide(job)), *_of_group(job, site, group)), number
        )
    ]
    extra = added_directives(_SYNTAX, job, site, own, [*_unsupported(job)])
    everywhere = [
        replace(line, group=number) for number in range(len(job.placement.groups)) for line in extra
    ]
    return tuple(sorted([*own, *everywhere], key=lambda line: line.group))


def _job_wide(job: JobSpec) -> Iterator[Line]:
    yield "--job-name", job.identity.name, "name"
    if job.request.array is not None:
        yield "--array", str(job.request.array), "array"
    if job.request.dependency:
        yield "--dependency", ",".join(one.written(_wait) for one in job.request.dependency), "dependency"
    if job.request.signal is not None:
        # Slurm signals steps, such as mpirun's daemons on the other nodes; the script signals all tasks.
        by_script = job.launch.launcher != "srun" and "B" not in job.request.signal.options
        yield "--signal", f"{'B:' if by_script else ''}{job.request.signal}", "signal"
    if job.request.requeue:
        yield "--requeue", None, "requeue"
        yield "--open-mode", "append", "requeue"
    else:
        yield "--no-requeue", None, "requeue"
    if job.completion.elastic:
        yield "--no-kill", None, "elastic"
    elif job.completion.restarts and job.completion.restarts.spare_nodes:
        yield "--no-kill", None, "restart"
    if (mail := job.request.mail) is not None:
        yield "--mail-user", mail.user, "mail"
        yield "--mail-type", ",".join(mail.events).upper() or "NONE", "mail"
    yield "--export", "NONE" if job.request.submit_environment == "clean" else "ALL", "environment"


def _wait(condition: WaitCondition) -> str:
    """Return a condition with its kind, even if the experiment has only ids."""
    return str(WaitCondition(condition.awaited, condition.jobs))


def _is_mixed(waits: Sequence[Dependency]) -> bool:
    """Whether both separators are needed: Slurm takes one (sbatch(1), ``--dependency``)."""
    any_of = [one for one in waits if len(one.alternatives) > 1]
    return any(len(waits) > 1 or len(one.conditions) > len(one.alternatives) for one in any_of)


def _of_group(job: JobSpec, site: Site, group: Group) -> Iterator[Line]:
    yield from _where(job, group)
    if site.directives.size:
        return
    yield "--nodes", str(group.nodes), "nodes"
    if group.gpus and not site.requests_cpus(group.site_partition):
        pass  # its GPUs bring their CPUs, and the launcher says how many tasks there are
    elif group.even:
        yield "--ntasks-per-node", str(group.tasks_per_node), "nodes"
        yield "--cpus-per-task", str(group.cpus_per_task), "cpus"
    else:
        # Tasks of different sizes: each CPU is requested as a task. With `--mincpus` Slurm gives fewer if
        # GPUs are requested too; with one big task, mpirun finds one slot on a node (both tried).
        yield "--ntasks-per-node", str(group.cpus), "cpus"
        yield "--cpus-per-task", "1", "cpus"
    if group.all_memory:
        yield "--mem", "0", "memory"
    elif group.memory is not None:
        yield "--mem", f"{group.memory}M", "memory"
    elif job.request.exclusive and site.memory_in(group.site_partition)[0]:
        # An exclusive job has all CPUs, but only the memory that it requests (sbatch(1), --exclusive).
        yield "--mem", "0", "exclusive"
    if group.gpus:
        yield from _gpus(job, site, group)


def _where(job: JobSpec, group: Group) -> Iterator[Line]:
    asked = (
        ("account", job.request.account),
        ("partition", group.partition),
        ("qos", job.request.qos),
        ("time", str(job.request.walltime) if job.request.walltime else None),
        ("constraint", group.constraint),
    )
    for name, value in asked:
        if value is not None:
            yield f"--{name}", value, "walltime" if name == "time" else name
    if job.request.exclusive:
        yield "--exclusive", None, "exclusive"
    if job.request.exclude_nodes:
        yield "--exclude", ",".join(job.request.exclude_nodes), "exclude_nodes"


def _gpus(job: JobSpec, site: Site, group: Group) -> Iterator[Line]:
    kind = f"{group.gpu_type}:" if group.gpu_type and site.gpus_in(group.site_partition)[0].typed else ""
    if job.request.gpu_request == "gres":
        yield "--gres", f"{job.request.gpu_name}:{kind}{group.gpus}", "gpus"
    elif job.request.gpu_request == "gpus_per_node":
        yield "--gpus-per-node", f"{kind}{group.gpus}", "gpus"
    elif job.request.gpu_request == "gpus_per_task":
        yield "--gpus-per-task", f"{kind}{group.gpus_per_task}", "gpus"


def _unsupported(job: JobSpec) -> Iterator[Problem]:
    groups = job.placement.groups
    if len(groups) > 1 and job.request.array is not None:
        message = "Slurm has no arrays of jobs whose replicas need nodes of different types"
        yield Problem(message, ("batch", "array"), "remove it, or give all replicas the same resources")
    if _is_mixed(job.request.dependency):
        message = "Slurm waits for all conditions or for any, and takes no `?` with others"
        yield Problem(message, ("batch", "dependency"), "write `afterok:ID:ID` for jobs that belong together")
    if job.request.gpu_request != "gpus_per_task":
        return
    for group in groups:
        if group.gpus and not (group.even and group.gpus_per_task):
            name = job.identity.site
            message = f"site {name} asks for GPUs by task, and these tasks do not hold equal whole ones"
            hint = (
                "give all replicas the same resources, or set `gpus.request: gpus_per_node` in the site file"
            )
            yield Problem(message, ("environment", "replicas"), hint)


_SYNTAX: Final = DirectiveSyntax(
    scheduler="Slurm",
    form="write --flag=value, with quotes around spaces",
    read=options(_SHORT),
    fields=FIELDS,
    reserved=_RESERVED,
    free=frozenset({"--gres", "--exclude"}),
    abbreviates=True,
)


def syntax_of(_site: Site) -> DirectiveSyntax:
    """Return how directives are written, which is the same on all machines."""
    return _SYNTAX


# sbatch ends an unquoted value at a space and silently at ``#``; in double quotes everything is
# literal but ``\`` and ``"`` (all tried). ``%`` in a path begins a pattern.
HEADER: Final = HeaderSyntax(
    prefix="#SBATCH ",
    plain=re.compile(r"[A-Za-z0-9_@%+=:,./-]+"),
    output="--output",
    in_run_dir=("logs/job.out", "logs/job-%a.out"),
    without_run_dir=("-%j.out", "-%A_%a.out"),
    directory=lambda path: path.replace("%", "%%"),
    component="hetjob",
)
