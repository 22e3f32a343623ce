"""Launchers: what starts the tasks of a job on its nodes.

native    launchers of batch systems: srun, flux run, jsrun
mpi    mpirun, Hydra, PALS, ibrun, horovodrun; and plain processes
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from hpcdist.base.errors import PlanError, Problem
from hpcdist.base.registry import Registry
from hpcdist.layers.protocols import Launcher, Layer, words_of
from hpcdist.plan.model import JobSpec, RemoteShell
from hpcdist.plan.placement import Group, Placement
from hpcdist.plan.values import Origin, Word
from hpcdist.site.model import LauncherOptions

launchers: Registry[Launcher] = Registry(
    "launcher",
    {
        "srun": "hpcdist.layers.launchers.native:SRUN",
        "mpirun": "hpcdist.layers.launchers.mpi:MPIRUN",
        "horovodrun": "hpcdist.layers.launchers.mpi:HOROVODRUN",
        "horovodrun-mpi": "hpcdist.layers.launchers.mpi:HOROVODRUN_MPI",
        "horovodrun-elastic": "hpcdist.layers.launchers.mpi:HOROVODRUN_ELASTIC",
        "jsrun": "hpcdist.layers.launchers.native:JSRUN",
        "pals": "hpcdist.layers.launchers.mpi:PALS",
        "hydra": "hpcdist.layers.launchers.mpi:HYDRA",
        "ibrun": "hpcdist.layers.launchers.mpi:IBRUN",
        "flux": "hpcdist.layers.launchers.native:FLUX_RUN",
        "processes": "hpcdist.layers.launchers.mpi:PROCESSES",
    },
)


class PlainLauncher(Layer):
    """The defaults of most launchers: no site options, ranks in the plan's order of nodes."""

    kind = "launcher"
    version_words: tuple[str, ...] = ()
    mpi_flavours: tuple[str, ...] = ()
    substitutes: tuple[str, ...] = ()
    frameworks: frozenset[str] = frozenset()
    site_options: frozenset[str] = frozenset()
    reserved_options: frozenset[str] = frozenset()
    lists_cpus: bool = False
    can_go_on: bool = False
    hostfile_line: str = "%s slots=%s"
    unequal_nodes: bool = False
    provides_mpi: bool = False
    provides_pmi: bool = False
    pmi_over_components: str | None = None
    labels_output: bool = False
    labels_single: bool = False
    remote_shell: RemoteShell | None = None
    orders_nodes: bool = False

    def binding(self, job: JobSpec, own: Sequence[str], usual: Sequence[str] = ()) -> Iterator[Word]:
        """Yield the CPU binding of the site file, else the usual one."""
        site = Origin("site", job.identity.site, f"launchers.{self.name}.binding")
        return words_of(site, *own) if own else self.own(*usual)


def binding_of(job: JobSpec, options: LauncherOptions) -> tuple[str, ...]:
    """Return the CPU binding of the site file, which is only for equal tasks."""
    return options.binding if job.placement.is_even else ()


def options_of(words: str) -> frozenset[str]:
    """Return the options of a table, with blanks between them."""
    return frozenset(words.split())


# --- Which CPUs the tasks of a node are bound to, for launchers that take a list for each

_BINDING: Final = re.compile(r"(--(?:cpu|gpu|mem)[-_]bind)(?:=(.+))?")
_REPORTS: Final = frozenset({"verbose", "v", "quiet", "q"})


def cpus_of_tasks(job: JobSpec, group: Group) -> list[tuple[int, ...]]:
    """Return the CPUs of each task on a node of the group; empty where the site file gives none."""
    is_known = any(row.gpu_cpus for row in job.placement.rows if row.node == group.node)
    return [task.cpus for task in job.placement.on_node(group.node)] if is_known else []


def origin_of_cpus(job: JobSpec, group: Group) -> Origin:
    """Return the origin of these CPUs: the key of the site file."""
    return Origin("site", job.identity.site, f"node_types.{group.node_type}.gpu_cpus")


def with_reports(words: Iterable[Word]) -> tuple[Word, ...]:
    """Return a launcher's words with ``--cpu-bind=verbose`` and a binding before it as one option.

    The last of two counts, so a separate report would undo the binding (srun(1), mpiexec(1) of PALS).
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


# --- The number of tasks per node, for launchers that start the same number on each


def tasks_on_each_node(job: JobSpec, why: str) -> int:
    """Return the number of tasks that every node holds; ``why``: the launcher's limit, for the message.

    Raises:
        PlanError: if nodes hold different numbers of tasks; it has the plan's numbers.
    """
    runs = list(job.placement.tasks_per_node())
    if len({tasks for _, tasks in runs}) > 1:
        planned = ", ".join(f"{tasks} on {nodes} node{'s' * (nodes != 1)}" for nodes, tasks in runs)
        able = " or ".join(_for_unequal_nodes(job))
        hint = f"ask for as many replicas as fill all nodes alike{_totals(job.placement)}"
        hint += f", or write another `batch.launcher`: {able}" if able else ""
        message = f"{why}, and the plan has {planned}"
        raise PlanError(Problem(message, ("environment", "replicas"), hint))
    return runs[0][1]


def _totals(placement: Placement) -> str:
    """Return the nearest numbers of processes that fill nodes equally; empty if replicas differ."""
    kinds = {(row.tasks_per_replica, row.cpus, row.gpus, row.memory) for row in placement.rows}
    size, nodes = placement.rows[0].tasks_per_replica, placement.nodes
    count = placement.size // size
    most = -(-count // nodes)
    # The plan does not say how many fit on a node, but the number of nodes gives bounds.
    holds = range(most, (count - 1) // (nodes - 1) + 1)
    balanced = most * size == max(tasks for _, tasks in placement.tasks_per_node())
    if len(kinds) > 1 or len(placement.groups) > 1 or not holds or not balanced:
        return ""
    fewer = next(n for n in range(count - 1, 0, -1) if all(n % -(-n // each) == 0 for each in holds))
    return f", such as {fewer * size} or {most * nodes * size} processes"


def _for_unequal_nodes(job: JobSpec) -> Iterator[str]:
    """Yield the launchers for the plan's scheduler that can start different numbers of tasks per node."""
    for launcher in launchers.objects():
        usable = launcher.rank_variables and job.identity.scheduler in launcher.schedulers
        if (
            usable
            and launcher.unequal_nodes
            and job.identity.framework in (launcher.frameworks or {job.identity.framework})
        ):
            yield launcher.name
