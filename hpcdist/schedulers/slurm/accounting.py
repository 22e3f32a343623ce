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
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, TypeVar

from msgspec.structs import replace

from hpcdist.host.command import Command, Completed
from hpcdist.schedulers import hostlist
from hpcdist.schedulers.accounting import Usage, count, seconds, size, times
from hpcdist.schedulers.job import Job, Status
from hpcdist.schedulers.slurm.queries import by_cluster, command, of_components, status

_COLUMNS: Final = (
    "jobid,state,exitcode,submit,start,end,maxrss,nodelist,totalcpu,alloctres,tresusageintot,elapsedraw"
)
_ID: Final = re.compile(r"[0-9]+(?:_(?P<element>[0-9]+)|\+[0-9]+)?(?P<step>\..+)?")
Number = TypeVar("Number", int, float)
_EPOCH: Final = re.compile(r"[0-9]{1,12}")


class Sacct:
    """All starts of a job at once."""

    at_once: Final = True

    def commands(self, jobs: Sequence[Job]) -> Iterator[Command]:
        """Yield one command for each cluster."""
        for cluster, numbers in by_cluster(jobs).items():
            argv = ("sacct", "-D", "-n", "-P", "-j", ",".join(numbers), "-o", _COLUMNS)
            yield command(*argv, cluster=cluster)._replace(environment=(("SLURM_TIME_FORMAT", "%s"),))

    def read(self, completed: Completed, job: Job) -> Iterator[Usage]:
        """Yield the starts; components of a heterogeneous job are one.

        The n-th record of each is of the n-th start: their submit times may be a second apart.
        """
        found: dict[tuple[int | None, int], list[Usage]] = {}
        seen: Counter[str] = Counter()
        last, number = list[Usage](), job.id.partition(";")[0]
        for line in completed.stdout.splitlines():
            if not line.startswith(number) or line[len(number) : len(number) + 1].isdigit():
                continue
            columns = line.split("|")
            match = _ID.fullmatch(columns[0])
            if not match or len(columns) != len(_COLUMNS.split(",")):
                continue
            if not match["step"]:
                element = int(match["element"]) if match["element"] else None
                last = found.setdefault((element, seen[columns[0]]), [])
                last.append(_usage(element, columns))
                seen[columns[0]] += 1
            elif last:
                last[-1] = _with_step(last[-1], columns)
        yield from map(_joined, found.values())


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
        return replace(usage, started=None, cpus=0, gpus=0, elapsed=0.0)
    if started is None:
        return usage
    return replace(usage, cpu_seconds=seconds(cpu), cpus=cpus, gpus=gpus, elapsed=elapsed)


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
    return replace(
        usage,
        max_memory=_most([usage.max_memory, size(columns[6])]),
        total_memory=_sum([usage.total_memory, size(_tres(columns[10]).get("mem", ""))]),
    )


def _joined(parts: Sequence[Usage]) -> Usage:
    """Return the components of a start as one; it is over when all are, and each has its own hours."""
    first, *others = parts
    if not others:
        return first
    ended = of_components([Status(part.state, exit_code=part.exit_code) for part in parts])
    is_over = all(part.ended is not None for part in parts)
    return replace(
        first,
        state=ended.state,
        started=min((part.started for part in parts if part.started is not None), default=None),
        ended=_most(part.ended for part in parts) if is_over else None,
        exit_code=ended.exit_code,
        hosts=(*chain.from_iterable(part.hosts for part in parts),),
        max_memory=_most(part.max_memory for part in parts),
        total_memory=_sum(part.total_memory for part in parts),
        cpu_seconds=_sum(part.cpu_seconds for part in parts),
        cpus=_sum(part.cpus for part in parts),
        gpus=_sum(part.gpus for part in parts),
        elapsed=_most(part.elapsed for part in parts),
        gpu_seconds=_sum(times(part.gpus, part.elapsed) for part in parts),
        cpu_seconds_had=_sum(times(part.cpus, part.elapsed) for part in parts),
    )


def _sum(values: Iterable[Number | None]) -> Number | None:
    """Return the sum of what is known."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None


def _most(values: Iterable[Number | None]) -> Number | None:
    return max((value for value in values if value is not None), default=None)
