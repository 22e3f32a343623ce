"""Affinity: the CPUs next to each GPU of a node, as a site file lists them, and each GPU's share of them.

A CPU list is written as in Linux: ``48-63,112-127``, the first threads of the cores, then the second ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

_LIST: Final = re.compile(r"\d{1,6}(?:-\d{1,6})?(?:,\d{1,6}(?:-\d{1,6})?)*")


def parse_cpu_list(text: str) -> list[range]:
    """Return the ranges of CPUs in a CPU list.

    Raises:
        ValueError: when it is not a CPU list.
    """
    if not _LIST.fullmatch(text):
        raise ValueError(f"{text!r} is not a CPU list")
    ends = [[int(number) for number in part.split("-")] for part in text.split(",")]
    runs = [range(run[0], run[-1] + 1) for run in ends]
    if not all(runs):
        raise ValueError(f"{text!r} is not a CPU list: the end of a range is below its start")
    return runs


@lru_cache
def cpus_of_each_gpu(gpu_cpus: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the CPUs of each GPU; GPUs with the same list divide each of its ranges evenly."""
    return tuple(
        tuple(
            cpu
            for run in parse_cpu_list(text)
            for cpu in _part(run, gpu_cpus[:gpu].count(text), gpu_cpus.count(text))
        )
        for gpu, text in enumerate(gpu_cpus)
    )


def _part(run: range, part: int, parts: int) -> range:
    return run[len(run) * part // parts : len(run) * (part + 1) // parts]


def cpus_next_to(gpu_cpus: tuple[str, ...], gpus: Iterable[int]) -> tuple[int, ...]:
    """Return the CPUs next to these GPUs, in the order of the GPUs."""
    each = cpus_of_each_gpu(gpu_cpus)
    return tuple(cpu for gpu in gpus for cpu in each[gpu])


def format_cpu_list(cpus: Sequence[int]) -> str:
    """Return CPUs as a CPU list: ``48-63,112-127``."""
    ordered = sorted(cpus)
    starts = [at for at, cpu in enumerate(ordered) if at == 0 or cpu != ordered[at - 1] + 1]
    ends = [*(start - 1 for start in starts[1:]), len(ordered) - 1]
    runs = [(ordered[start], ordered[end]) for start, end in zip(starts, ends, strict=True)]
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)


def cpu_mask(cpus: Iterable[int]) -> str:
    """Return CPUs as a mask, ``0xfe``: bit 0 is CPU 0."""
    return hex(sum(1 << cpu for cpu in set(cpus)))
