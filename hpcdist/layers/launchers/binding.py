"""Which CPUs the tasks of a node are bound to, for launchers that take a list for each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from hpcdist.plan.model import JobSpec
from hpcdist.plan.origin import Origin
from hpcdist.plan.placement import Group
from hpcdist.plan.values import Word

_BINDING: Final = re.compile(r"(--(?:cpu|gpu|mem)[-_]bind)(?:=(.+))?")
_REPORTS: Final = frozenset({"verbose", "v", "quiet", "q"})


def cpus_of_tasks(job: JobSpec, group: Group) -> list[tuple[int, ...]]:
    """Return the CPUs of each task on a node of the group; empty where the site file gives none."""
    tasks = list(job.placement.on_node(group.node))
    return [task.cpus for task in tasks] if _is_known(job, group) else []


def _is_known(job: JobSpec, group: Group) -> bool:
    return any(row.gpu_cpus for row in job.placement.rows if row.node == group.node)


def origin_of(job: JobSpec, group: Group) -> Origin:
    """Return the origin of these CPUs: the key of the site file."""
    return Origin("site", job.identity.site, f"node_types.{group.node_type}.gpu_cpus")


def with_reports(words: Iterable[Word]) -> tuple[Word, ...]:
    """Return a launcher's words with ``--cpu-bind=verbose`` and a binding before it as one option.

    Of two the last counts, so that a report alone would undo the binding (srun(1), mpiexec(1) of PALS).
    """
    found: list[Word] = []
    for word in words:
        found.append(word)
        last = _option(found)
        if last is None or last[2] not in _REPORTS:
            continue
        for end in range(len(found) - last[0], 0, -1):
            bound = _option(found[:end])
            if bound and bound[1] == last[1]:
                own = found[end - 1]
                text = own.text.removesuffix(bound[2]) + f"{last[2]},{bound[2]}"
                found[end - 1] = replace(own, text=text)
                del found[-last[0] :]
                break
    return tuple(found)


def _option(words: list[Word]) -> tuple[int, str, str] | None:
    """Return the number of words, the name and the value of a binding that these words end with.

    ``--cpu_bind`` is srun's older name.
    """
    if match := _BINDING.fullmatch(words[-1].text):
        return (1, match[1].replace("_", "-"), match[2]) if match[2] else None
    for name, value in pairwise(words[-2:]):
        if _BINDING.fullmatch(name.text) and "=" not in name.text:
            return 2, name.text.replace("_", "-"), value.text
    return None
