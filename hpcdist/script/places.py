"""The place of each task: lines of shell that set its rank, node and GPUs as the plan has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Final, NamedTuple

from hpcdist.base.words import Raw
from hpcdist.plan import folding
from hpcdist.plan.model import Plan
from hpcdist.plan.placement import Row, Shape, of_role
from hpcdist.schedulers import schedulers

_MOST_NAMES: Final = 5000
"""How many node names fit into one variable: Linux takes 128 KiB (execve(2), MAX_ARG_STRLEN)."""

DEVICES: Final = {
    "CUDA_VISIBLE_DEVICES": "/dev/nvidia[0-9]*",
    "ROCR_VISIBLE_DEVICES": "/dev/dri/renderD*",
    "ZE_AFFINITY_MASK": "/dev/dri/renderD*",
}
"""Where the GPUs of a node can be counted when no variable names them."""


class Segment(NamedTuple):
    """Equal tasks with consecutive ranks, on nodes with equal tasks."""

    row: Row
    shape: Shape
    first: int
    tasks: int

    @property
    def end(self) -> int:
        """The rank behind the last one."""
        return self.first + self.tasks


class Places:
    """The places of a plan's tasks; ``uses``: whether the script names this variable."""

    def __init__(self, plan: Plan, uses: Callable[[str], bool]) -> None:
        self.plan = plan
        self.uses = uses
        self.shapes = [*plan.placement.shapes()]
        variables = plan.launch.rank_variables
        self.rank = Raw(variables.rank if variables else "")
        self.size = Raw(variables.size or "" if variables else "")
        self.local_rank = Raw(variables.local_rank if variables else "")

    @cached_property
    def is_uniform(self) -> bool:
        """Whether all nodes have equally many tasks, all with the same CPUs and GPUs, in one launch."""
        if self.plan.role_launches:
            return False
        rows, alike = self.plan.placement.rows, len(self.shapes) > 0
        kinds = {(row.cpus, row.gpus, row.tasks_per_gpu, row.processes) for row in rows}
        in_order = all(row.gpu == row.local_rank // row.tasks_per_gpu * row.gpus for row in rows)
        return alike and len({s.tasks for s in self.shapes}) == 1 and len(kinds) == 1 and in_order

    @property
    def per_node(self) -> int:
        """The tasks on a node of a uniform job."""
        return self.shapes[0].tasks

    @property
    def segments(self) -> list[Segment]:
        """All tasks, in the order of their ranks."""
        found = []
        for shape in self.shapes:
            for row in shape.rows:
                first = row.rank + (shape.node - row.node) * row.tasks_per_node
                found.append(Segment(row, shape, first, shape.nodes * row.tasks_per_node))
        return sorted(found, key=lambda segment: segment.first)

    @property
    def check(self) -> str:
        """How each task checks that it is on its node; empty: not."""
        if self.plan.placement.nodes == 1:
            return ""
        if self.plan.launch.launcher == "srun" and self.is_uniform and not self.plan.launch.components:
            return "number"
        if self.plan.launch.orders_nodes and self.is_uniform:
            return "local rank"
        return "name" if self.plan.placement.nodes <= _MOST_NAMES else ""

    @property
    def tells_hosts(self) -> bool:
        """Whether tasks need the names of the nodes."""
        return self.plan.launch.mode == "tasks" and (self.check == "name" or self.uses("HPCDIST_ADDRESS"))

    @property
    def lines(self) -> Iterator[Raw]:
        """The lines that set a task's place."""
        size = self.plan.placement.size
        own = f"export HPCDIST_RANK=${self.rank} HPCDIST_SIZE={size}"
        by_role = self.uses("HPCDIST_ROLE") or self.uses("HPCDIST_INDEX")
        if self.plan.role_launches:
            yield Raw(f"export HPCDIST_ROLE=$1 HPCDIST_SIZE={size}")
            yield from self._by_role()
        elif self.is_uniform:
            one = self.plan.placement.nodes == 1
            local = "$HPCDIST_RANK" if one else _along("HPCDIST_RANK", 0, self.per_node)
            node = "0" if one else _across("HPCDIST_RANK", 0, self.per_node, 0)
            yield Raw(f"{own} HPCDIST_LOCAL_SIZE={self.per_node}")
            yield Raw(f"export HPCDIST_LOCAL_RANK={local} HPCDIST_NODE={node}")
            yield from self._by_segment(by_role=True) if by_role else ()
        else:
            yield Raw(own)
            yield from self._by_segment(by_role=by_role)
        if self.uses("HPCDIST_CPUS"):
            yield Raw(
                f"export HPCDIST_CPUS={self.plan.placement.rows[0].cpus if self.is_uniform else '$cpus'}"
            )
        if self.uses("HPCDIST_NODES"):
            yield Raw(f"export HPCDIST_NODES={self.plan.placement.nodes}")

    @property
    def tasks_of_roles(self) -> Raw:
        """The number of tasks of each role with a separate launch, as a bash array."""
        roles = dict.fromkeys(one.role for one in self.plan.role_launches)
        return Raw(" ".join(f"[{role}]={of_role(self.plan.placement, role).size}" for role in roles))

    def _by_role(self) -> Iterator[Raw]:
        """Yield the lines for a task that knows its role, and its number among the tasks of that role."""
        before: dict[str, int] = {}
        segments = self.segments
        for place, segment in enumerate(segments):
            role, first = segment.row.role, before.setdefault(segment.row.role, 0)
            before[role] += segment.tasks
            is_last = all(other.row.role != role for other in segments[place + 1 :])
            test = f"[[ $1 == {role} ]]" + (
                "" if is_last else f" && (({self.rank} < {first + segment.tasks}))"
            )
            yield Raw(f"{'elif' if place else 'if'} {test}; then")
            yield from (Raw(f"  {line}") for line in self._of_segment(segment, by_role=True, told=first))
        yield Raw("fi")

    def _by_segment(self, *, by_role: bool) -> Iterator[Raw]:
        segments = self.segments
        for place, segment in enumerate(segments):
            if len(segments) > 1 and segment is segments[-1]:
                yield Raw("else")
            elif len(segments) > 1:
                yield Raw(f"{'elif' if place else 'if'} ((HPCDIST_RANK < {segment.end})); then")
            pad = "  " if len(segments) > 1 else ""
            yield from (Raw(f"{pad}{line}") for line in self._of_segment(segment, by_role=by_role))
        if len(segments) > 1:
            yield Raw("fi")

    def _of_segment(self, segment: Segment, *, by_role: bool, told: int | None = None) -> Iterator[str]:
        """Yield the lines of one segment.

        ``told``: the first task's number in its role, where tasks know their role and their number in it.
        """
        row, per_node = segment.row, segment.row.tasks_per_node
        if by_role:
            first = row.index + (segment.first - row.rank) // row.tasks_per_replica
            name, start = ("HPCDIST_RANK", segment.first) if told is None else (self.rank, told)
            index = _across(name, start, row.tasks_per_replica, first, segment.tasks)
            known = f"ROLE={row.role}" if told is None else f"RANK={_sum(self.rank, segment.first - told)}"
            yield f"export HPCDIST_{known} HPCDIST_INDEX={index}"
        if self.is_uniform and told is None:
            return
        local = _along("HPCDIST_RANK", segment.first, per_node, row.local_rank, segment.tasks)
        node = _across("HPCDIST_RANK", segment.first, per_node, segment.shape.node, segment.tasks)
        yield (
            f"export HPCDIST_LOCAL_RANK={local} HPCDIST_LOCAL_SIZE={segment.shape.tasks} HPCDIST_NODE={node}"
        )
        own = []
        if self.threads or self.uses("HPCDIST_CPUS"):
            own.append(f"cpus={row.cpus}")
        if self.has_gpus:
            own += [] if self.plan.gpus.visibility == "launcher" else [f"gpu={_first_gpu(row)}"]
            own.append(f"count={row.gpus}")
        if self._moves_gpus and self._gpus_on_node == "on_node":
            own.append(f"on_node={segment.shape.gpus or 1}")
        if self.uses("HPCDIST_PROCESSES"):
            yield f"export HPCDIST_PROCESSES={row.processes}"
        if own:
            yield " ".join(own)

    @cached_property
    def threads(self) -> Raw | None:
        """The value of OMP_NUM_THREADS of a task."""
        if self.plan.launch.starts_processes or self.plan.launch.mode == "once":
            return None
        cpus = str(self.plan.placement.rows[0].cpus) if self.is_uniform else "$cpus"
        sets = schedulers.get(self.plan.identity.scheduler).sets_threads
        named = any(item.name == "OMP_NUM_THREADS" for item in self.plan.environment.variables)
        if self.plan.launch.launcher == "jsrun":
            return Raw("$HPCDIST_THREADS" if self.is_uniform else "${HPCDIST_THREADS:-$cpus}")
        return Raw(cpus if sets and not named else f"${{OMP_NUM_THREADS:-{cpus}}}")

    # --- GPUs

    @property
    def has_gpus(self) -> bool:
        """Whether some node has GPUs of the job."""
        return any(group.gpus for group in self.plan.placement.groups)

    @property
    def hides_gpus(self) -> bool:
        """Whether the job would see other jobs' GPUs."""
        return folding.hidden(self.plan)

    @property
    def gpu_variable(self) -> Raw:
        """The variable that names a task's GPUs."""
        return Raw(self.plan.gpus.variable)

    @property
    def gpu_devices(self) -> Raw:
        """The files of the GPUs of a node."""
        return Raw(DEVICES[self.plan.gpus.variable])

    @property
    def sets_gpus(self) -> bool:
        """Whether the batch system always sets that variable."""
        by_request = self.plan.identity.scheduler == "slurm" and self.plan.request.gpu_request != "none"
        by_slurm = self.plan.launch.launcher == "srun" or not self.plan.launch.components  # else by ssh
        return by_request and by_slurm and self.plan.gpus.variable == "CUDA_VISIBLE_DEVICES"

    @property
    def lacks_gpu_assignment(self) -> bool:
        """Whether the job must have all GPUs of its nodes, as nothing says which are its own."""
        return folding.lacks_gpu_assignment(self.plan)

    @property
    def gpus_seen(self) -> Raw:
        """How many GPUs a task must see, as an expression."""
        if not self.is_uniform:
            return Raw("count" if self.plan.gpus.visibility == "launcher" else "gpu + count")
        row = self.plan.placement.rows[0]
        return Raw(str(row.gpus if self.plan.gpus.visibility == "launcher" else self.shapes[0].gpus))

    @property
    def gpus_told(self) -> Raw:
        """`gpus_seen` for a message."""
        return self.gpus_seen if self.is_uniform else Raw(f"$(({self.gpus_seen}))")

    @property
    def gpu_lines(self) -> Iterator[Raw]:
        """The lines that choose a task's GPUs."""
        row, variable, visibility = self.plan.placement.rows[0], self.gpu_variable, self.plan.gpus.visibility
        share = f" / {row.tasks_per_gpu}" if row.tasks_per_gpu > 1 else ""
        if not self.is_uniform and visibility == "task":
            yield Raw(f'export {variable} && {variable}=$(IFS=, && echo "${{gpus[*]:gpu:count}}")')
        elif visibility == "task" and row.gpus == 1:
            place = f"HPCDIST_LOCAL_RANK{share}" if self.per_node > 1 else "0"
            yield Raw(f"export {variable}=${{gpus[{place}]}}")
        elif visibility == "task":
            first = f"HPCDIST_LOCAL_RANK{share} * {row.gpus}" if self.per_node > 1 else "0"
            yield Raw(f'export {variable} && {variable}=$(IFS=, && echo "${{gpus[*]:{first}:{row.gpus}}}")')
        elif self._moves_gpus:
            yield from self._reordered()
        elif (
            visibility == "node" and not self.is_uniform and not all(r.gpus for r in self.plan.placement.rows)
        ):
            yield Raw(f"((count)) || export {variable}=")
        if self.uses("HPCDIST_GPUS"):
            yield from self._numbers_of_gpus()

    def _reordered(self) -> Iterator[Raw]:
        """Yield the lines for a task that sees all GPUs of the job on its node, in another order.

        Programs use the device whose number is their rank on the node, as far as there are so many.
        """
        variable = self.gpu_variable
        if self.is_uniform:
            row = self.plan.placement.rows[0]
            share = f" / {row.tasks_per_gpu}" if row.tasks_per_gpu > 1 else ""
            yield Raw(f"gpu=$((HPCDIST_LOCAL_RANK{share} * {row.gpus})) count={row.gpus}")
        yield Raw("# Programs use the device whose number is their rank on the node: it is one of their own.")
        yield Raw(f"place=$((HPCDIST_LOCAL_RANK % {self._gpus_on_node}))")
        yield Raw("if ((count && (place < gpu || place >= gpu + count))); then")
        yield Raw("  first=${gpus[gpu]} && gpus[gpu]=${gpus[place]} && gpus[place]=$first")
        yield Raw("fi")
        yield Raw("((count)) || gpus=()")
        yield Raw(f'export {variable} && {variable}=$(IFS=, && echo "${{gpus[*]}}")')

    @cached_property
    def _moves_gpus(self) -> bool:
        return folding.moved(self.plan)

    @cached_property
    def _gpus_on_node(self) -> str:
        """How many GPUs each node with GPUs has; where they differ, a variable of each task."""
        counts = {shape.gpus for shape in self.shapes if shape.gpus}
        return str(counts.pop()) if len(counts) == 1 else "on_node"

    def _numbers_of_gpus(self) -> Iterator[Raw]:
        row = self.plan.placement.rows[0]
        if self.plan.gpus.visibility != "node" and self.is_uniform:
            yield Raw(f"export HPCDIST_GPUS={','.join(map(str, range(row.gpus)))}")
            return
        first = "gpu" if self.plan.gpus.visibility == "node" else "0"
        if self.is_uniform and not self._moves_gpus:
            share = f" / {row.tasks_per_gpu}" if row.tasks_per_gpu > 1 else ""
            yield Raw(f"gpu=$((HPCDIST_LOCAL_RANK{share} * {row.gpus})) count={row.gpus}")
        yield Raw(f'export HPCDIST_GPUS && HPCDIST_GPUS=$(seq -s, "$(({first}))" "$(({first} + count - 1))")')
        if self._moves_gpus:
            test = "count && (place < gpu || place >= gpu + count)"
            yield Raw(f'(({test})) && HPCDIST_GPUS=$place${{HPCDIST_GPUS#"$gpu"}}')


def _along(rank: str, first: int, per_node: int, base: int = 0, tasks: int = 0) -> str:
    """Return a task's number on its node, from a variable with its rank."""
    if per_node == 1:
        return str(base)
    if tasks and tasks <= per_node:
        return _sum(rank, base - first)
    offset = f"({rank} - {first})" if first else rank
    return f"$(({f'{base} + ' if base else ''}{offset} % {per_node}))"


def _across(rank: str, first: int, each: int, base: int, tasks: int = 0) -> str:
    """Return a number that grows by one every ``each`` tasks."""
    if tasks and tasks <= each:
        return str(base)
    if each == 1:
        return _sum(rank, base - first)
    offset = f"({rank} - {first})" if first else rank
    return f"$(({f'{base} + ' if base else ''}{offset} / {each}))"


def _first_gpu(row: Row) -> str:
    """Return the number of a task's first GPU on its node."""
    if not row.gpus or row.tasks_per_node <= row.tasks_per_gpu:
        return str(row.gpu)
    if row.gpus == row.tasks_per_gpu == 1:
        return _sum("HPCDIST_LOCAL_RANK", row.gpu - row.local_rank)
    slot = f"(HPCDIST_LOCAL_RANK - {row.local_rank})" if row.local_rank else "HPCDIST_LOCAL_RANK"
    share = f" / {row.tasks_per_gpu}" if row.tasks_per_gpu > 1 else ""
    times = f" * {row.gpus}" if row.gpus > 1 else ""
    return f"$(({f'{row.gpu} + ' if row.gpu else ''}{slot}{share}{times}))"


def _sum(name: str, number: int) -> str:
    """Return the sum of a variable and a number."""
    return f"$(({name} {'-+'[number > 0]} {abs(number)}))" if number else f"${name}"
