"""Where each launcher puts its tasks, by its documentation: models that read a launch line and a host file.

Each model takes the words of the line and what stands in the host file, and returns for each rank the node
and the local rank.
"""

from __future__ import annotations

import json
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.plan.model import Plan
from hpcdist.schedulers.slurm import SLURM
from hpcdist.script.renderer import render
from hpcdist.site.model import Site
from tests.layers.launchers.jsrun_checker import check
from tests.layers.launchers.jsrun_erf import Machine, Placed
from tests.layers.launchers.jsrun_script import resource_file

Seats = list[tuple[int, int]]
"""For each rank its node and its local rank."""


class Launch(NamedTuple):
    """What a launcher reads: its words, its host file, and the allocation in the words of its scheduler.

    jsrun reads a resource file as well, and knows its machine.
    """

    words: Sequence[str]
    hostfile: str
    allocation: Mapping[str, int]
    component_nodes: Sequence[int]
    machine: Machine
    resources: Callable[[str], str]

    def value(self, *names: str) -> int:
        """Return the number behind an option, ``--name=4``, ``--name 4`` or ``-n 4``."""
        return number(self.words, *names)

    def hosts(self, pattern: str) -> list[tuple[int, int]]:
        """Return node and slots of each line of the host file; each must be of this form."""
        found = [re.fullmatch(pattern, line) for line in self.hostfile.splitlines()]
        assert all(found), self.hostfile
        return [(int(match["node"]), int(match.groupdict().get("slots") or 1)) for match in found if match]


def number(words: Sequence[str], *names: str) -> int:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name in names:
            return int(value if equals else following)
    raise AssertionError(f"no {names} in {words}")


def has(words: Sequence[str], name: str) -> bool:
    return any(word.partition("=")[0] == name for word in words)


def seats(nodes: Sequence[int]) -> Seats:
    """Number the tasks on each node, in rank order."""
    counts: Counter[int] = Counter()
    found = []
    for node in nodes:
        found.append((node, counts[node]))
        counts[node] += 1
    return found


def filled(hosts: Sequence[tuple[int, int]], tasks: int) -> Seats:
    """Fill the slots of one host after the other; there must be enough of them."""
    slots = [node for node, count in hosts for _ in range(count)]
    assert tasks <= len(slots), "more tasks than slots"
    return seats(slots[:tasks])


def mpirun(launch: Launch) -> Seats:
    """mpirun(1), "Mapping, Ranking, and Binding": --map-by slot fills the hosts of the file in its order."""
    assert "--map-by slot" in " ".join(launch.words)
    return filled(launch.hosts(r"node(?P<node>\d+) slots=(?P<slots>\d+)"), launch.value("-np"))


def horovodrun(launch: Launch) -> Seats:
    """horovod/runner/common/util/hosts.py, get_host_assignments: hosts in order, each to its last slot."""
    return filled(launch.hosts(r"node(?P<node>\d+) slots=(?P<slots>\d+)"), launch.value("-np"))


def hydra(launch: Launch) -> Seats:
    """Using the Hydra Process Manager, "Host file": host:n takes n processes before the next."""
    assert has(launch.words, "-machinefile")
    return filled(launch.hosts(r"node(?P<node>\d+):(?P<slots>\d+)"), launch.value("-n"))


def pals(launch: Launch) -> Seats:
    """HPE PALS: --ppn consecutive ranks on each host of the file, in its order."""
    each = launch.value("--ppn")
    hosts = [node for node, _ in launch.hosts(r"node(?P<node>\d+)")]
    return seats([hosts[rank // each] for rank in range(launch.value("-n"))])


def ibrun(launch: Launch) -> Seats:
    """TACC: -n tasks from the -o'th slot on, in the layout that the directives asked for."""
    each, nodes = launch.allocation["--ntasks-per-node"], launch.allocation["--nodes"]
    slots = [node for node in range(nodes) for _ in range(each)][launch.value("-o") :]
    assert launch.value("-n") == len(slots), "ibrun would leave slots empty"
    return seats(slots)


def flux(launch: Launch) -> Seats:
    """flux-run(1): tasks in blocks, evenly over the nodes of the instance, which are the job's.

    Where they do not come out even the first nodes have one more (src/shell/rcalc.c, rcalc_distribute); a
    taskmap has blocks of first node, nodes, tasks on each, and how often (RFC 34).
    """
    nodes = launch.value("--nodes")
    assert nodes == sum(launch.component_nodes)
    if has(launch.words, "--tasks-per-node"):
        assert not any(
            has(launch.words, name)
            for name in ("--ntasks", "--cores-per-task", "--gpus-per-task", "--taskmap")
        )
        return seats([node for node in range(nodes) for _ in range(launch.value("--tasks-per-node"))])
    tasks = launch.value("--ntasks")
    assert tasks >= nodes
    if has(launch.words, "--taskmap"):
        assert not has(launch.words, "--gpus-per-node")
        (text,) = (word for word in launch.words if word.startswith("--taskmap="))
        blocks = json.loads(text.removeprefix("--taskmap=manual:"))
        on_each = {node: each for first, count, each, once in blocks for node in range(first, first + count)}
        assert all(once == 1 for *_, once in blocks)
        assert (len(on_each), sum(on_each.values())) == (nodes, tasks)
        return seats([node for node in range(nodes) for _ in range(on_each[node])])
    each, more = divmod(tasks, nodes)
    return seats([node for node in range(nodes) for _ in range(each + (node < more))])


def processes(launch: Launch) -> Seats:
    """The script's own loop, on the one node."""
    (count,) = launch.component_nodes
    assert count == 1
    return seats([0] * sum(slots for _, slots in launch.hosts(r"node(?P<node>\d+) slots=(?P<slots>\d+)")))


def srun(launch: Launch) -> Seats:
    """srun(1): --ntasks-per-node in blocks or planes, or --distribution=arbitrary by a file of hosts.

    The components of a heterogeneous job follow each other (srun(1), --het-group).
    """
    found: list[int] = []
    first = 0
    components = [
        list(words) for colon, words in groupby(launch.words[1:], lambda word: word == ":") if not colon
    ]
    for index, (words, nodes) in enumerate(zip(components, launch.component_nodes, strict=True)):
        tasks = number(words, "--ntasks")
        assert not has(words, "--het-group") or number(words, "--het-group") == index
        if "--distribution=arbitrary" in words:
            assert not has(words, "--nodes")
            # A file that `hosts` prints: the first node, how many, and the tasks on each.
            (calls,) = (word for word in words if word.startswith("--nodelist=<("))
            runs = [[*map(int, run)] for run in re.findall(r"hosts (\d+) (\d+) (\d+)", calls)]
            nodelist = [
                node for at, count, each in runs for node in range(at, at + count) for _ in range(each)
            ]
            assert len(nodelist) == tasks
            assert sorted({*nodelist}) == [*range(first, first + nodes)]
            found += nodelist
        else:
            assert number(words, "--nodes") == nodes
            each = number(words, "--ntasks-per-node")
            assert not has(words, "--distribution") or f"--distribution=plane={each}" in words
            assert each * nodes == tasks
            found += [first + rank // each for rank in range(tasks)]
        first += nodes
    return seats(found)


def jsrun(launch: Launch) -> Seats:
    """jsrun_checker.py and jsrun_erf.py: equal resource sets, host after host, or a file of unequal ones."""
    return [(int(task.host.removeprefix("node")), task.local_rank) for task in given(launch)]


def given(launch: Launch) -> tuple[Placed, ...]:
    """Return what jsrun gives to each task: beside its seat its cores and GPUs."""
    return check([*launch.words, "bash"], launch.machine, {"LSB_JOBID": "1"}, launch.resources).tasks


MODELS: Final[Mapping[str, Callable[[Launch], Seats]]] = {
    "srun": srun,
    "mpirun": mpirun,
    "horovodrun": horovodrun,
    "horovodrun-mpi": horovodrun,
    "hydra": hydra,
    "pals": pals,
    "ibrun": ibrun,
    "flux": flux,
    "jsrun": jsrun,
    "processes": processes,
}


def launch_of(plan: Plan, site: Site, threads: int = 1) -> Launch:
    """Return what the launcher of a plan reads; hosts are ``node0``, ``node1``, ..., as large as is asked."""
    words = [
        word
        for one in plan.words
        for word in ([one.text] if "<(" in one.text or not one.shell else shlex.split(one.text))
    ]
    counts = [tasks for nodes, tasks in plan.placement.tasks_per_node() for _ in range(nodes)]
    lines = [printf(plan.launch.hostfile_line, f"node{node}", tasks) for node, tasks in enumerate(counts)]
    allocation = (
        {
            line.flag: int(line.value)
            for line in SLURM.directives(plan, site)
            if line.value and line.value.isdecimal()
        }
        if plan.identity.scheduler == "slurm" and len(plan.placement.groups) == 1
        else {}
    )
    groups = plan.placement.groups
    hosts = tuple(f"node{node}" for node in range(len(counts)))
    machine = Machine(
        hosts,
        cores=max(group.cpus for group in groups),
        gpus=max(group.gpus for group in groups),
        threads=threads,
    )

    def resources(_: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            return resource_file(render(plan), hosts, Path(folder))

    hostfile = "".join(f"{line}\n" for line in lines)
    return Launch(words, hostfile, allocation, [group.nodes for group in groups], machine, resources)


def printf(pattern: str, host: str, tasks: int) -> str:
    """Write a line of the host file as bash's printf does."""
    return pattern % (host, tasks)
