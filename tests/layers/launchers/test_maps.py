"""Whatever the launcher, every task is where ``hpcdist plan --json`` says: lines are read as manuals say."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcdist.base.errors import PlanError
from hpcdist.cli.experiment.plan import records
from hpcdist.layers.launchers import launchers
from hpcdist.plan.model import Plan
from hpcdist.plan.placement import Placement
from hpcdist.plan.values import DEFAULT, Word
from hpcdist.planner.placement import ReplicaGroup, by_node, place
from hpcdist.planner.pools import Need
from hpcdist.site.model import LauncherOptions
from hpcdist.testing.contract import altered
from tests.layers.launchers import maps
from tests.layers.launchers.jsrun_erf import RefusedError
from tests.layers.launchers.maps import MODELS, Launch, Seats, launch_of, printf
from tests.planner.test_placement import BIG, jobs
from tests.schedulers import plans

SCHEDULERS: Final = {"pals": "pbs", "flux": "flux", "processes": "local", "jsrun": "lsf"}

OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "srun": {"mpi": "pmix", "binding": ("--cpu-bind=cores",), "args": ("--mem=0", "--overlap")},
    "mpirun": {
        "binding": ("--bind-to", "core"),
        "args": ("--report-bindings",),
        "mca": {"btl": "self,tcp"},
        "flavour": "openmpi",
    },
    "horovodrun": {"args": ("--verbose",)},
    "horovodrun-mpi": {"args": ("--verbose",)},
    "hydra": {"binding": ("-bind-to", "core"), "args": ("-launcher", "ssh"), "flavour": "intel"},
    "pals": {"binding": ("--cpu-bind", "list:0-7:8-15"), "args": ("--line-buffer",)},
    "ibrun": {"binding": ("task_affinity",), "args": ("-v",)},
    "flux": {"mpi": "none", "binding": ("--setopt=cpu-affinity=per-task",), "args": ("--unbuffered",)},
    "jsrun": {"binding": ("--bind=rs",), "args": ("--smpiargs=-gpu",), "threads_per_core": 4},
    "processes": {},
}
"""What a site may say of each launcher, beside nothing."""

BINDS: Final = {
    "srun": "--cpu-bind",
    "mpirun": "--bind-to",
    "hydra": "-bind-to",
    "pals": "--cpu-bind",
    "jsrun": "--bind",
    "flux": "--setopt=cpu-affinity",
}
"""The option that binds, which nobody may say twice."""


def planned(
    name: str,
    placement: Placement,
    options: LauncherOptions | None = None,
    visibility: Literal["task", "node", "launcher"] = "task",
) -> Plan:
    """Return a plan whose launch line is the launcher's own part."""
    launcher, options = launchers.get(name), options or LauncherOptions()
    plan = altered(
        plans.PLAN,
        placement=placement,
        launcher=name,
        scheduler=SCHEDULERS.get(name, "slurm"),
        hostfile_line=launcher.hostfile_line,
        visibility=visibility,
        rank_variables=launcher.rank_variables,
        mpi=options.mpi,
        arguments=tuple(Word(text=text, origin=DEFAULT) for text in options.args),
    )
    return altered(plan, words=tuple(launcher.words(plan, options)))


def refused(name: str, placement: Placement) -> bool:
    """Whether the launcher cannot do it: that it cannot is documented, and nothing else is refused."""
    unlike = len(list(placement.tasks_per_node())) > 1
    return {
        "ibrun": unlike or not placement.is_even,
        "jsrun": len(placement.groups) > 1,
        "pals": unlike,
        "processes": placement.nodes > 1,
    }.get(name, False)


def test_every_launcher_that_starts_tasks_has_a_model() -> None:
    """horovodrun-elastic has no fixed tasks."""
    assert sorted(MODELS) == sorted(set(launchers.names()) - {"horovodrun-elastic"})


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_option_that_a_launcher_reads_is_drawn(name: str) -> None:
    assert OPTIONS[name].keys() == launchers.get(name).site_options - {"rank_variables"}


EIGHT: Final = place([ReplicaGroup("worker", 0, 8, Need(1, 4, 0), BIG, DEFAULT)])
FIVE: Final = place([ReplicaGroup("worker", 0, 5, Need(1, 4, 0), BIG, DEFAULT)])
UNEQUAL: Final = place([
    ReplicaGroup("master", 0, 1, Need(1, 8, 2), BIG, DEFAULT),
    ReplicaGroup("worker", 0, 3, Need(1, 4, 1), BIG, DEFAULT),
])  # fmt: skip


LAST_IS_FULLER: Final = place([
    ReplicaGroup("master", 0, 1, Need(1, 8, 0), BIG, DEFAULT),
    ReplicaGroup("worker", 0, 1, Need(2, 16, 0), BIG, DEFAULT),
])  # fmt: skip


@pytest.mark.parametrize("placement", [EIGHT, FIVE, UNEQUAL, LAST_IS_FULLER])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_tasks_that_chance_may_miss(name: str, placement: Placement) -> None:
    if not refused(name, placement):
        plan = planned(name, placement)
        assert read(name, launch_of(plan, plans.SITE)) == seats(plan)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_launchers_say_whether_they_take_unequal_nodes(name: str) -> None:
    try:
        planned(name, FIVE)
    except PlanError:
        assert not launchers.get(name).unequal_nodes
    else:
        assert launchers.get(name).unequal_nodes


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("pals", "--ppn 4", "--ppn 8"),
        ("srun", "--ntasks-per-node=4 ", "--distribution=cyclic "),
        ("flux", "--nodes=2", "--nodes=1"),
        ("flux", "--ntasks=8", "--ntasks=7"),
        ("flux", "--ntasks=8", "--ntasks=8 --taskmap=manual:[[0,1,5,1],[1,1,3,1]]"),
        ("ibrun", "-o 0", "-o 2"),
        ("mpirun", "-np 8", "-np 9"),
        ("mpirun", "--map-by slot", "--map-by node"),
        ("hydra", "-n 8", "-n 6"),
        ("horovodrun", "-np 8", "-np 7"),
        ("jsrun", "--nrs=8", "--nrs=7"),
        ("jsrun", "--tasks_per_rs=1", "--tasks_per_rs=2"),
        ("jsrun", "--nrs=8 --tasks_per_rs=1 --cpu_per_rs=4", "--nrs=4 --tasks_per_rs=2 --cpu_per_rs=8"),
        ("jsrun", "--rs_per_host=4", "--rs_per_host=3"),
        ("jsrun", "--rs_per_host=4", "--rs_per_host=8"),
        ("jsrun", "--nrs", "--ntasks"),
    ],
)
def test_a_wrong_line_is_noticed(name: str, right: str, wrong: str) -> None:
    plan = planned(name, EIGHT)
    launch = launch_of(plan, plans.SITE)
    assert MODELS[name](launch) == seats(plan) == [(rank // 4, rank % 4) for rank in range(8)]
    line = " ".join(launch.words)
    assert right in line
    assert read(name, launch._replace(words=line.replace(right, wrong).split())) != seats(plan)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("hostname: node1", "hostname: node0"),
        ("rank: 0: ", "rank: 4: "),
        ("rank: 1: ", "rank: 2: "),
        ("cpu: {16-23}", "cpu: {14-23}"),
        ("oversubscribe_cpu: error\n", ""),
        ("gpu: {2}", "gpu: {1}"),
        ("gpu: {2}", "gpu: {9}"),
    ],
)
def test_a_wrong_resource_file_is_noticed(right: str, wrong: str) -> None:
    plan = planned("jsrun", UNEQUAL, LauncherOptions(threads_per_core=2), "launcher")
    launch = launch_of(plan, plans.SITE, threads=2)
    text = launch.resources("")
    assert MODELS["jsrun"](launch) == seats(plan) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert right in text
    assert read("jsrun", launch._replace(resources=lambda _: text.replace(right, wrong))) != seats(plan)


def read(name: str, launch: Launch) -> Seats | None:
    """Return what a line means to its launcher; None for nothing."""
    try:
        return MODELS[name](launch)
    except (AssertionError, RefusedError):
        return None


def seats(plan: Plan) -> Seats:
    """Return for each rank its node and local rank, as ``hpcdist plan --json`` prints them."""
    found = [*records(plan)]
    assert [record["rank"] for record in found] == [*range(len(found))]
    return [(record["node"], record["local_rank"]) for record in found]


@pytest.mark.parametrize("pattern", sorted({launchers.get(name).hostfile_line for name in MODELS}))
def test_a_line_of_the_host_file_is_what_bash_prints(pattern: str) -> None:
    done = subprocess.run(
        ["bash", "-c", 'printf "$1" node0 4', "bash", pattern], capture_output=True, text=True, check=True
    )
    assert done.stdout == printf(pattern, "node0", 4)


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    placement = place(draw(jobs()), spread=draw(st.booleans()))
    return by_node(placement) if draw(st.booleans()) else placement


@st.composite
def options_of(draw: st.DrawFn, name: str) -> LauncherOptions:
    said = draw(st.sets(st.sampled_from(sorted(OPTIONS[name])))) if OPTIONS[name] else ()
    return LauncherOptions(**{key: OPTIONS[name][key] for key in said})


@pytest.mark.parametrize("name", sorted(MODELS))
@given(st.data())
def test_every_task_is_where_the_plan_says(name: str, data: st.DataObject) -> None:
    placement, options = data.draw(placements()), data.draw(options_of(name))
    if refused(name, placement):
        with pytest.raises(PlanError):
            planned(name, placement, options)
        return
    plan = planned(name, placement, options)
    launch = launch_of(plan, plans.SITE, options.threads_per_core)
    assert MODELS[name](launch) == seats(plan)
    for words, equal in parts(name, plan, launch.words):
        assert says(words, options.args)
        assert not options.binding or says(words, options.binding) == equal
        assert sum(word.partition("=")[0] == BINDS.get(name) for word in words) <= 1
        assert not options.mpi or any(word.endswith(f"mpi={options.mpi}") for word in words)
        assert all(says(words, ("--mca", key, str(value))) for key, value in options.mca.items())


def parts(name: str, plan: Plan, words: Sequence[str]) -> Iterator[tuple[Sequence[str], bool]]:
    """Yield the words of each component, and whether a site's words bind its tasks: where they are equal."""
    if name == "srun":
        rest = [*words, ":"]
        for group in plan.placement.groups:
            yield rest[: rest.index(":")], group.even
            del rest[: rest.index(":") + 1]
    elif name == "jsrun":
        yield words, not any(word.startswith("--erf_input=") for word in words)
    elif name == "flux":
        yield words, plan.placement.is_even or any(word.startswith("--cores-per-task=") for word in words)
    else:
        yield words, plan.placement.is_even


def says(words: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether these words stand in the line, one after the other."""
    return any([*words[start : start + len(wanted)]] == [*wanted] for start in range(len(words) + 1))


@pytest.mark.extended
@given(st.data(), st.sampled_from(["task", "node", "launcher"]))
def test_jsrun_gives_each_task_its_cores_and_gpus(
    data: st.DataObject, visibility: Literal["task", "node", "launcher"]
) -> None:
    placement = data.draw(placements().filter(lambda found: len(found.groups) == 1))
    options = data.draw(options_of("jsrun"))
    plan = planned("jsrun", placement, options, visibility)
    launch = launch_of(plan, plans.SITE, options.threads_per_core)
    given = maps.given(launch)
    cores = [(task.host, core) for task in given for core in task.cores]
    by_file = any(word.startswith("--erf_input=") for word in launch.words)
    for record, task in zip(records(plan), given, strict=True):
        if by_file:
            assert task.cores == record["cpus"]
        elif not options.binding:
            assert len(task.cores) == len(record["cpus"])
        if visibility == "launcher":
            assert task.gpus == record["gpus"]
        else:
            assert set(record["gpus"]) <= set(task.gpus)
    assert options.binding or len(cores) == len(set(cores))
