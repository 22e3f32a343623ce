"""The checker of jsrun's lines refuses wrong ones, and means by right ones what the documentation does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.layers.launchers.jsrun_checker import check
from tests.layers.launchers.jsrun_erf import Machine, Placed, RefusedError
from tests.layers.launchers.jsrun_script import resource_file
from tests.layers.launchers.test_jsrun_erf import GOOD

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
    ("--erf_input=good -brs app", "--erf_input and --bind contradict each other"),
]


@pytest.mark.parametrize(("line", "said"), WRONG)
def test_wrong_lines(line: str, said: str) -> None:
    with pytest.raises(RefusedError) as error:
        check(["jsrun", *line.split()], environment={"LSB_JOBID": "7"}, file=lambda _: GOOD)
    assert said in str(error.value)


def test_outside_of_a_job() -> None:
    with pytest.raises(RefusedError, match="there is no LSB_JOBID"):
        check(["jsrun", "-n1", "-a1", "app"], environment={})


GOLDEN = [
    file
    for file in sorted((Path(__file__).parents[2] / "golden").rglob("*.sh"))
    if "\n#BSUB -nnodes " in file.read_text()
]


@pytest.mark.parametrize("file", GOLDEN, ids=[file.stem for file in GOLDEN])
def test_every_line_of_the_golden_scripts_is_right(file: Path, tmp_path: Path) -> None:
    text = file.read_text()
    nodes = int(re.findall(r"#BSUB -nnodes (\d+)", text)[0])
    lines = re.findall(r"(?m)^ *(?:exec )?(jsrun .*?) bash ", text.replace("\\\n", ""))
    assert lines  # the last is its own; another one asks for the order of hosts
    hosts = tuple(f"h{number}" for number in range(nodes))

    def written(_: str) -> str:
        return resource_file(text, hosts, tmp_path)

    for line in lines:
        argv = [*shlex.split(re.sub(r'"\$\([^)]*\)"', "resources", line)), "bash"]
        assert check(argv, Machine(hosts), {"LSB_JOBID": "1"}, written).tasks
