from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hpcdist.errors import PlanError
from hpcdist.plan import Plan, Task, Word
from hpcdist.renderer import render
from hpcdist.site import LauncherOptions, RankVariables, problems_of
from hpcdist.words import join
from tests.experiments import environment, resources
from tests.launchers.jsrun_checker import Machine, Placed, RefusedError, check
from tests.plans import WRAPPED, changed, planned, words
from tests.sites import site_named

SUMMIT = site_named("summit-like")
BATCH = {"account": "abc"}
UNSET = '"${hpcdist_unset[@]}"'


def summit(machine: Any = SUMMIT, **data: Any) -> Plan:
    return planned(machine, **({"framework": "mpi", "batch": BATCH} | data))


def meant(plan: Plan, folder: Path) -> tuple[Placed, ...]:
    """Return where jsrun puts the tasks of a plan, by its launch line and its resource file."""
    hosts = tuple(f"h{number}" for number in range(plan.placement.nodes))
    line = [
        "--erf_input=resources" if word.text.startswith("--erf_input") else word.text
        for word in plan.launch[: words(plan).index(UNSET)]
    ]
    step = check(
        [*line, "bash"], Machine(hosts), {"LSB_JOBID": "1"}, lambda _: resource_file(plan, hosts, folder)
    )
    assert step.program == ("bash",)
    return step.tasks


def resource_file(plan: Plan, hosts: tuple[str, ...], folder: Path) -> str:
    """Return what the script writes for jsrun."""
    job = render(plan).job
    function = job[job.index("  numbers() {") : job.index("  type jsrun >")]
    (arguments,) = re.findall(r"\$\((resource_file [^)]*)\)", "\n".join(words(plan)))
    text = f"start() {{\n{function}\n{arguments}\n}}\nhpcdist_nodes=({join(hosts)})\nstart"
    done = subprocess.run(
        ["bash", "-c", text], env={"HPCDIST_JOB_DIR": str(folder)}, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == (f"{folder}/resources.erf\n", "")
    return (folder / "resources.erf").read_text()


def shape(task: Task) -> tuple[int, int, int]:
    return task.node, task.local_rank, len(task.cpus)


def agrees(plan: Plan, folder: Path) -> None:
    """Hold that jsrun's map is the plan's: hosts, numbers of cores that nobody shares, and GPUs."""
    tasks, placed = list(plan.placement.tasks), meant(plan, folder)
    assert [(int(p.host[1:]), p.local_rank, len(p.cores)) for p in placed] == [shape(task) for task in tasks]
    cores = [(p.host, core) for p in placed for core in p.cores]
    assert len(cores) == len(set(cores))
    if plan.gpu_visibility == "launcher":
        assert [p.gpus for p in placed] == [task.gpus for task in tasks]
    else:
        assert all(set(task.gpus) <= set(p.gpus) for p, task in zip(placed, tasks, strict=True))


def test_a_set_for_each_task() -> None:
    plan = summit(environment=environment(11, each=resources(cpu=7, gpu=1)))
    assert words(plan) == [
        "jsrun",
        "--nrs=12",
        "--tasks_per_rs=1",
        "--cpu_per_rs=7",
        "--gpu_per_rs=1",
        "--rs_per_host=6",
        "--launch_distribution=packed",
        "--latency_priority=gpu-cpu",
        "--bind=packed:7",
        "--exit_on_error=1",
        "--smpiargs=-gpu",
        UNSET,
        *WRAPPED,
    ]
    assert plan.launch[10] == Word(text="--smpiargs=-gpu", origin="site summit-like: launchers.jsrun.args")
    assert (plan.gpu_visibility, plan.label_in_task, plan.needs_pmi) == ("launcher", True, False)
    assert plan.rank_variables == RankVariables(
        rank="JSM_NAMESPACE_RANK", size="JSM_NAMESPACE_SIZE", local_rank="JSM_NAMESPACE_LOCAL_RANK"
    )


def test_the_wrapper_takes_no_gpu_that_jsrun_has_renumbered() -> None:
    plan = summit(environment=environment(5, each=resources(cpu=7, gpu=1)))
    task = render(plan).task
    assert "${#visible[@]} >= gpus" in task
    assert "visible[@]:gpu" not in task


def test_a_set_for_each_host_where_the_wrapper_chooses_the_gpus() -> None:
    machine = site_named("summit-like-task")
    plan = summit(machine, environment=environment(11, each=resources(cpu=7, gpu=1)))
    assert plan.gpu_visibility == "task"
    assert words(plan)[1:9] == [
        "--nrs=2",
        "--tasks_per_rs=6",
        "--cpu_per_rs=42",
        "--gpu_per_rs=6",
        "--rs_per_host=1",
        "--launch_distribution=packed",
        "--latency_priority=gpu-cpu",
        "--bind=packed:7",
    ]


def test_words_of_the_site_that_bind() -> None:
    options = {"jsrun": LauncherOptions(binding=("--bind=rs",))}
    plan = summit(changed(SUMMIT, launchers=options), environment=environment(1, each=resources(cpu=2)))
    assert words(plan)[7:] == ["--bind=rs", "--exit_on_error=1", UNSET, *WRAPPED]
    assert plan.launch[7].origin == "site summit-like: launchers.jsrun.binding"


def test_a_resource_file_for_unequal_tasks(tmp_path: Path) -> None:
    plan = summit(environment=UNEQUAL)
    assert words(plan) == [
        "jsrun",
        '--erf_input="$(resource_file 4 error)"',
        "--exit_on_error=1",
        "--smpiargs=-gpu",
        UNSET,
        *WRAPPED,
    ]
    assert resource_file(plan, ("h0", "h1"), tmp_path) == (
        "cpu_index_using: logical\n"
        "launch_distribution: packed\n"
        "overlapping_rs: error\n"
        "skip_missing_cpu: error\n"
        "skip_missing_gpu: error\n"
        "\n"
        "rank: 0: { hostname: h0; cpu: {0-79}; gpu: {0-1} }\n"
        "rank: 1: { hostname: h0; cpu: {80-119}; gpu: {2} }\n"
        "rank: 2: { hostname: h1; cpu: {0-39}; gpu: {0} }\n"
        "rank: 3: { hostname: h1; cpu: {40-79}; gpu: {1} }\n"
        "rank: 4: { hostname: h1; cpu: {80-119}; gpu: {2} }\n"
    )


UNEQUAL = {
    "resources": resources(cpu=20, gpu=2),
    "processes_per_replica": 1,
    "replicas": {"n_workers": 4, "default_worker": {"resources": resources(cpu=10, gpu=1)}},
}

SHAPES: dict[str, dict[str, Any]] = {
    "one": {"each": resources(cpu=1)},
    "cpus only": {"workers": 6, "each": resources(cpu=6)},
    "a gpu each": {"workers": 11, "each": resources(cpu=7, gpu=1)},
    "whole nodes": {"workers": 2, "each": resources(gpu=6)},
    "three gpus a replica": {"workers": 3, "each": resources(cpu=21, gpu=3)},
    "five where four fit": {"workers": 4, "each": resources(cpu=10)},
    "seven": {"workers": 6, "each": resources(cpu=7, gpu=1)},
    "eleven cores that span sockets": {"workers": 5, "each": resources(cpu=11)},
    "a hundred": {"workers": 99, "each": resources(cpu=7, gpu=1)},
    "shared gpus": {"workers": 3, "each": resources(cpu=20, gpu=2), "processes_per_replica": 4},
    "one process with many gpus": {
        "workers": 3,
        "each": resources(cpu=20, gpu=3),
        "processes_per_replica": 1,
    },
}


@pytest.mark.parametrize("site", ["summit-like", "summit-like-task"])
@pytest.mark.parametrize("data", [*(environment(**shape) for shape in SHAPES.values()), UNEQUAL],
                         ids=[*SHAPES, "unequal"])  # fmt: skip
def test_jsrun_places_tasks_as_the_plan_does(data: dict[str, Any], site: str, tmp_path: Path) -> None:
    agrees(summit(site_named(site), environment=data), tmp_path)


def test_a_master_without_gpus(tmp_path: Path) -> None:
    data = {
        "resources": resources(cpu=2),
        "replicas": {"n_workers": 3, "default_worker": {"resources": resources(cpu=4, gpu=1)}},
    }
    for site in ("summit-like", "summit-like-task"):
        agrees(summit(site_named(site), environment=data), tmp_path)


@pytest.mark.parametrize(
    ("each", "said"),
    [
        (resources(cpu=43), "has 42 CPUs a node, 43 asked by master"),
        (resources(cpu=7, gpu=7), "has 6 GPUs a node, 7 asked by master"),
    ],
)
def test_what_does_not_fit_a_host_is_refused_with_numbers(each: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError) as error:
        summit(environment=environment(1, each=each))
    assert said in str(error.value), str(error.value)


def test_other_batch_systems_have_none() -> None:
    with pytest.raises(PlanError, match="launcher jsrun does not start tasks under scheduler slurm"):
        planned(framework="mpi", batch={"launcher": "jsrun"}, environment=environment(1))


TASKS = (
    Placed(0, "h1", 0, (0, 1), (0,)),
    Placed(1, "h1", 1, (2, 3), (1,)),
)


@pytest.mark.parametrize(
    "line",
    [
        "-n2 -a1 -c2 -g1 -r2 -d packed -b packed:2 -l gpu-cpu app",
        "-n 2 -a 1 -c 2 -g 1 -b packed:2 app",
        "--nrs=2 --tasks_per_rs=1 --cpu_per_rs=2 --gpu_per_rs=1 --bind=packed:2 app -n x",
        "--nrs 2 --np 2 --cpu_per_rs 2 --gpu_per_rs 1 --bind packed:smt:8 app",
        "-n2 -a1 -p2 -c2 -g1 -brs -EA=b -E C -DX --smpiargs=-gpu -h /tmp -X1 -e prepended app",
    ],
)
def test_lines_that_mean_the_same(line: str) -> None:
    assert check(["jsrun", *line.split()], environment={"LSB_JOBID": "7"}).tasks == TASKS


@pytest.mark.parametrize(
    ("line", "ranks"),
    [
        ("-n12 -r6 -a1 -g1 -c1 app", {0: ((0,), (0,)), 3: ((21,), (3,)), 5: ((23,), (5,)), 6: ((0,), (0,))}),
        ("-n4 -a6 -c6 -g3 app", {0: ((0,), (0, 1, 2)), 5: ((5,), (0, 1, 2)), 6: ((21,), (3, 4, 5))}),
        ("-n1 -a2 -c8 -g1 -bpacked:4 app", {0: ((0, 1, 2, 3), (0,)), 1: ((4, 5, 6, 7), (0,))}),
        ("-n2 -a2 -c2 -d cyclic app", {0: ((0,), ()), 1: ((2,), ()), 2: ((1,), ()), 3: ((3,), ())}),
        ("-n2 -a4 -c4 -d plane:2 app", {1: ((1,), ()), 2: ((4,), ()), 4: ((2,), ()), 6: ((6,), ())}),
    ],
)
def test_examples_of_the_documentation(line: str, ranks: dict[int, Any]) -> None:
    tasks = check(["jsrun", *line.split()]).tasks
    assert {rank: (tasks[rank].cores, tasks[rank].gpus) for rank in ranks} == ranks


WRONG = [
    ("-n2 -a1 -c1", "no program"),
    ("-N2 -a1 app", "unknown option -N2"),
    ("--ntasks=2 app", "unknown option --ntasks"),
    ("--nodes=2 app", "unknown option --nodes"),
    ("--gpus=2 app", "unknown option --gpus"),
    ("--tasks-per-rs=2 app", "unknown option --tasks-per-rs"),
    ("-z app", "unknown option -z"),
    ("-n -a1 app", "--nrs has no value"),
    ("-a1 -n", "--nrs has no value"),
    ("-n0 -a1 app", "--nrs cannot be '0'"),
    ("-n-1 -a1 app", "--nrs cannot be '-1'"),
    ("-n2.5 -a1 app", "--nrs cannot be '2.5'"),
    ("-n two -a1 app", "--nrs cannot be 'two'"),
    ("-n2 -n3 -a1 app", "--nrs is given twice"),
    ("-n2 --nrs=2 -a1 app", "--nrs is given twice"),
    ("-n2 -a0 app", "--tasks_per_rs cannot be '0'"),
    ("-n2 -a1 -c0 app", "--cpu_per_rs cannot be '0'"),
    ("-n2 -a1 -g-1 app", "--gpu_per_rs cannot be '-1'"),
    ("-n2 -a1 -gALL app", "--gpu_per_rs cannot be 'ALL'"),
    ("-n2 -a1 -r0 app", "--rs_per_host cannot be '0'"),
    ("-n2 -c1 app", "neither --tasks_per_rs nor --np"),
    ("-n2 -a2 -p5 app", "2 sets of 2 tasks are not 5 tasks"),
    ("-n2 -p5 app", "5 tasks cannot be divided by 2 sets"),
    ("-n2 -a1 -c43 app", "a set of 43 cores does not fit a host of 42"),
    ("-n2 -a1 -g7 app", "a set of 7 GPUs does not fit a host of 6"),
    ("-n4 -a1 -c21 -r3 app", "3 sets of 21 cores do not fit a host of 42"),
    ("-n4 -a1 -g3 -r3 app", "3 sets of 3 GPUs do not fit a host of 6"),
    (
        "-n4 -a1 -r1 app",
        "Error: nrs (4) should not be greater than rs_per_host (1) * number of servers available (2).",
    ),
    ("-n13 -a1 -g1 -c7 app", "Error: nrs (13) should not be greater than rs_per_host (6)"),
    ("-n2 -a1 -d block app", "--launch_distribution cannot be 'block'"),
    ("-n2 -a1 -d plane app", "--launch_distribution cannot be 'plane'"),
    ("-n2 -a1 -d plane:0 app", "--launch_distribution cannot be 'plane:0'"),
    ("-n2 -a1 -b packed app", "--bind cannot be 'packed'"),
    ("-n2 -a1 -b cores app", "--bind cannot be 'cores'"),
    ("-n2 -a1 -b packed:0 app", "--bind cannot be 'packed:0'"),
    ("-n2 -a2 -c4 -b packed:4 app", "2 tasks bound to 4 cores each are more than a set of 4"),
    ("-n2 -a1 -l GPU-CPU app", "--latency_priority cannot be 'GPU-CPU'"),
    ("-n2 -a1 -l gpu-cpu, app", "--latency_priority cannot be 'gpu-cpu,'"),
    ("-n2 -a1 -l gpu-mem app", "--latency_priority cannot be 'gpu-mem'"),
    ("-n2 -a1 --smpiargs -gpu app", "--smpiargs and its value are one word"),
    ("-n2 -a1 -M -gpu app", "--smpiargs and its value are one word"),
    ("-n2 -a1 --smpiargs=gpu app", "--smpiargs cannot be 'gpu'"),
    ("-n2 -a1 -E 1A=b app", "--env cannot be '1A=b'"),
    ("-n2 -a1 -E =b app", "--env cannot be '=b'"),
    ("-n2 -a1 -D A=b app", "--env_no_propagate cannot be 'A=b'"),
    ("-n2 -a1 -X yes app", "--exit_on_error cannot be 'yes'"),
    ("-n2 -a1 -e all app", "--stdio_mode cannot be 'all'"),
    ("-n2 -a1 -h", "--chdir has no value"),
    ("--immediate=1 -n2 -a1 app", "--immediate takes no value"),
    ("-n2 -a1 -x h1 app", "--exclude_hosts is not for a generated line"),
    ("-U file app", "--use_resources is not for a generated line"),
    ("--erf_input=good -n2 app", "--erf_input and --nrs contradict each other"),
    ("--erf_input=good -c2 app", "--erf_input and --cpu_per_rs contradict each other"),
]


@pytest.mark.parametrize(("line", "said"), WRONG)
def test_wrong_lines(line: str, said: str) -> None:
    with pytest.raises(RefusedError) as error:
        check(["jsrun", *line.split()], environment={"LSB_JOBID": "7"}, file=lambda _: GOOD)
    assert said in str(error.value)


def test_outside_of_a_job() -> None:
    with pytest.raises(RefusedError, match="there is no LSB_JOBID"):
        check(["jsrun", "-n1", "-a1", "app"], environment={})


HEAD = "cpu_index_using: logical\n"
GOOD = (
    HEAD + "rank: 0: { host: 1; cpu: {0-3}; gpu: {0} }\nrank: 1-2: { hostname: h2; cpu: {0-3, 8} ; gpu: * }\n"
)


def test_a_good_resource_file() -> None:
    step = check(["jsrun", "--erf_input=x", "app"], file=lambda _: GOOD)
    assert step.tasks == (
        Placed(0, "h1", 0, (0,), (0,)),
        Placed(1, "h2", 0, (0, 2), (0, 1, 2, 3, 4, 5)),
        Placed(2, "h2", 1, (0, 2), (0, 1, 2, 3, 4, 5)),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD[:-1], "the last line of the file has no end"),
        (GOOD.removeprefix(HEAD), "does not say how it counts CPUs"),
        (HEAD, "names no ranks"),
        ("cpu_index_using: physical\n" + GOOD, "Error: Line 1: syntax error"),
        ("overlap: allow\n" + GOOD, "Error: Line 1: syntax error"),
        (GOOD + "overlapping_rs: allow\n", "Error: Line 4: syntax error"),
        (GOOD + "3: { host: 1; cpu: {8} }\n", "Error: Line 4: syntax error"),
        (GOOD + "rank: 0: { host: 1; cpu: {8} }\n", "1+ ranks are assigned with multiple resource sets."),
        (GOOD + "rank: 4: { host: 1; cpu: {8} }\n", "the ranks are not 0 to 3"),
        (GOOD + "rank: 3: { host: 1; cpu: {2-9} }\n", "share cores, and overlapping_rs is error"),
        (GOOD + "rank: 3: { host: 1; cpu: {8}; gpu: {0} }\n", "share gpus, and overlapping_rs is error"),
        (GOOD + "rank: 3: { host: 3; cpu: {8} }\n", "there is no host 3"),
        (GOOD + "rank: 3: { host: 0; cpu: {8} }\n", "there is no host 0"),
        (GOOD + "rank: 3: { hostname: h9; cpu: {8} }\n", "there is no host 'h9'"),
        (GOOD + "rank: 3: { cpu: {8} }\n", "a host and its CPUs must be said once"),
        (GOOD + "rank: 3: { host: 1; hostname: h1; cpu: {8} }\n", "a host and its CPUs must be said once"),
        (GOOD + "rank: 3: { host: 1; gpu: {1} }\n", "a host and its CPUs must be said once"),
        (GOOD + "rank: 3: { host: 1; cpu: {8}; gpu: {} }\n", "unexpected CLOSE_BRACKET"),
        (GOOD + "rank: 3: { host: 1; cpu: {8}; gpu: {6} }\n", "(RS GPU): a host has no number 6"),
        (GOOD + "rank: 3: { host: 1; cpu: {168} }\n", "(RS CPU): a host has no number 168"),
        (GOOD + "rank: 3: { host: 1; cpu: {9-9} }\n", "syntax error: '9-9'"),
        (GOOD + "rank: 3: { host: 1; cpu: {9, 8} }\n", "does not ascend"),
        (GOOD + "rank: 3: { host: 1; cpus: {9} }\n", "syntax error: 'cpus: {9}'"),
        (GOOD + "rank: 3: { host: 1; cpu: 8-9 }\n", "syntax error: '8-9'"),
    ],
)
def test_wrong_resource_files(text: str, said: str) -> None:
    with pytest.raises(RefusedError) as error:
        check(["jsrun", "--erf_input=x", "app"], file=lambda _: text)
    assert said in str(error.value)


@pytest.mark.parametrize("visibility", ["task", "node"])
def test_whose_gpus_a_task_sees(visibility: str, tmp_path: Path) -> None:
    machine = site_named("summit-like-task")
    batch = BATCH | {"gpu_visibility": visibility}
    for data in (environment(11, each=resources(cpu=7, gpu=1)), UNEQUAL):
        plan = summit(machine, framework="pytorch", batch=batch, environment=data)
        assert plan.gpu_visibility == visibility
        agrees(plan, tmp_path)


def test_nobody_sees_more_than_jsrun_shows() -> None:
    with pytest.raises(
        PlanError, match=r"batch\.gpu_visibility: on site summit-like each task sees the GPUs"
    ):
        summit(batch=BATCH | {"gpu_visibility": "node"}, environment=environment(1, each=resources(gpu=1)))


ONE = HEAD + "rank: 0: { host: 1; cpu: {0-3} }\n"
GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.summit-like.sh"))


@pytest.mark.parametrize("file", GOLDEN, ids=[file.stem for file in GOLDEN])
def test_every_line_of_the_golden_scripts_is_right(file: Path) -> None:
    text = file.read_text().replace("\\\n", "")
    nodes = int(re.findall(r"#BSUB -nnodes (\d+)", text)[0])
    lines = re.findall(r"(?m)^ +(?:exec )?(jsrun .*?) (?:'?\"\$\{hpcdist_unset|bash )", text)
    assert len(lines) == (2 if nodes > 1 else 1)
    for line in lines:
        argv = [*shlex.split(re.sub(r'"\$\([^)]*\)"', "resources", line)), "bash"]
        assert check(argv, Machine(tuple(map(str, range(nodes)))), {"LSB_JOBID": "1"}, lambda _: ONE).tasks


def test_sites_of_these_tests_are_whole() -> None:
    for name in ("summit-like", "summit-like-task", "csm-nodes", "lsf-nodes"):
        assert list(problems_of(site_named(name))) == []
