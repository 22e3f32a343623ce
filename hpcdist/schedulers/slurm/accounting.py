"""The starts of a job in Slurm's accounting: ``sacct -D`` shows each, with its steps below it.

``MaxRSS``: the most that a task of a step used, measured every JobAcctGatherFrequency seconds, on one node.
``TRESUsageInTot``: with ``mem`` the sum of that over the tasks of a step. ``TotalCPU`` of a job is that of
its steps. ``AllocTRES`` is what the job had, and is charged for; one that was cancelled in the queue has
none, and may have its end as its start (tried). ``ElapsedRaw`` is without the time for which it was suspended
(tried).
Sources: sacct(1) of 22.05 (TRESUsageInTot since 18.08); answers of a real 22.05.8, in which a requeued job
has a submit time of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

from hpcdist.host.command import Command, Completed
from hpcdist.schedulers import hostlist
from hpcdist.schedulers.accounting import Usage, count, seconds, size
from hpcdist.schedulers.job import Job
from hpcdist.schedulers.slurm.queries import by_cluster, command, status

_COLUMNS: Final = (
    "jobid,state,exitcode,submit,start,end,maxrss,nodelist,totalcpu,alloctres,tresusageintot,elapsedraw"
)
_ID: Final = re.compile(r"[0-9]+(?:_(?P<element>[0-9]+)|\+[0-9]+)?(?P<step>\..+)?")
Number = TypeVar("Number", int, float)
_EPOCH: Final = re.compile(r"[0-9]{1,12}")


class Sacct:
    """All starts of a job at once."""

    def commands(self, job: Job) -> Iterator[Command]:
        """Yield one command."""
        yield from self.commands_of([job])

    def commands_of(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for each cluster."""
        for cluster, numbers in by_cluster(jobs).items():
            argv = ("sacct", "-D", "-n", "-P", "-j", ",".join(numbers), "-o", _COLUMNS)
            yield command(*argv, cluster=cluster)._replace(environment=(("SLURM_TIME_FORMAT", "%s"),))

    def read(self, completed: Completed, job: Job) -> Iterator[Usage]:
        """Yield the starts; components of a heterogeneous job are one."""
        found: dict[tuple[int | None, float | None], Usage] = {}
        last, number = None, job.id.partition(";")[0]
        for line in completed.stdout.splitlines():
            if not line.startswith(number) or line[len(number) : len(number) + 1].isdigit():
                continue
            columns = line.split("|")
            match = _ID.fullmatch(columns[0])
            if not match or len(columns) != len(_COLUMNS.split(",")):
                continue
            if not match["step"]:
                usage = _usage(int(match["element"]) if match["element"] else None, columns)
                last = usage.element, usage.queued
                found[last] = _joined(found[last], usage) if last in found else usage
            elif last:
                found[last] = _with_step(found[last], columns)
        yield from found.values()


def _usage(element: int | None, columns: list[str]) -> Usage:
    _, state, code, submitted, start, end, memory, nodes, cpu, allocated, _, ran = columns
    said = status(state, code)
    queued, started, ended, elapsed = (
        float(text) if _EPOCH.fullmatch(text) else None for text in (submitted, start, end, ran)
    )
    try:
        hosts = tuple(hostlist.expand(nodes)) if nodes != "None assigned" else ()
    except ValueError:
        hosts = ()
    usage = Usage(element, said.state, queued, started, ended, said.exit_code, hosts, size(memory))
    had = _tres(allocated)
    cpus, gpus = count(had.get("cpu", "")), _gpus(had)
    if said.state.is_final and not (allocated and started):
        return usage._replace(started=None, cpus=0, gpus=0, elapsed=0.0)
    if started is None:
        return usage
    return usage._replace(cpu_seconds=seconds(cpu), cpus=cpus, gpus=gpus, elapsed=elapsed)


def _tres(text: str) -> dict[str, str]:
    """Return the values of ``cpu=4,gres/gpu:a100=2,mem=8G`` by their names."""
    return dict(item.split("=", 1) for item in text.split(",") if "=" in item)


def _gpus(had: Mapping[str, str]) -> int | None:
    """Return the GPUs, by their types where only these are in AccountingStorageTRES; None where none are."""
    typed = [count(number) or 0 for name, number in had.items() if name.startswith("gres/gpu:")]
    whole = count(had.get("gres/gpu", ""))
    return sum(typed) or None if whole is None else whole


def _with_step(usage: Usage, columns: list[str]) -> Usage:
    """Add what a step used. Steps may run beside each other, as srun's beside the job's script."""
    return usage._replace(
        max_memory=_most(usage.max_memory, size(columns[6])),
        total_memory=_sum(usage.total_memory, size(_tres(columns[10]).get("mem", ""))),
    )


def _joined(one: Usage, other: Usage) -> Usage:
    """Return two components as one; the first has the state and the exit code of the job's script."""
    ends = [end for end in (one.ended, other.ended) if end is not None]
    return one._replace(
        ended=max(ends, default=None),
        hosts=one.hosts + other.hosts,
        max_memory=_most(one.max_memory, other.max_memory),
        cpu_seconds=_sum(one.cpu_seconds, other.cpu_seconds),
        cpus=_sum(one.cpus, other.cpus),
        gpus=_sum(one.gpus, other.gpus),
        elapsed=_most(one.elapsed, other.elapsed),
    )


def _sum(one: Number | None, other: Number | None) -> Number | None:
    """Return the sum of what is known."""
    return other if one is None else one if other is None else one + other


def _most(one: Number | None, other: Number | None) -> Number | None:
    return max((each for each in (one, other) if each is not None), default=None)
