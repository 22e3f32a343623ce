"""check, plan, explain, render: from a file to a plan, without a batch system."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from hpcdist.plan.folding import Gap, folded, number_list
from tests.calls import calls
from tests.wording import Wording

from .conftest import RANKS, Hpcdist

TRAIN: Final = """\
framework: horovod
params: {lr: 0.1}
environment:
  resources: {cpu: {limits: 4}, memory: {limits: 7500}, gpu: {limits: 2}}
  replicas:
    n_workers: 2
    default_worker:
      resources: {cpu: {limits: 4}, memory: {limits: 7500}, gpu: {limits: 2}}
    worker:
      - {index: 1, resources: {cpu: {limits: 2}, memory: {limits: 1Gi}}}
run: {cmd: "python train.py --lr={{ lr }}"}
batch: {walltime: 1h}
"""

UNEQUAL: Final = (
    "warning: train.yml:10:20: environment.replicas.worker[0].resources: worker 1 has no GPU, the master "
    "has 2, and they do the same work; write `gpu: {requests: 2}`\n"
)
COST: Final = "cost: at most 4 GPU-hours, 2 node-hours (2 nodes with 4 GPUs for 01:00:00)\n"
ON_TOY: Final = ("--site", "toy", "--site-path", "sites")


@pytest.fixture(autouse=True)
def _train(folder: Path) -> None:
    (folder / "train.yml").write_text(TRAIN)


def test_check_prints_a_summary(hpcdist: Hpcdist) -> None:
    result = hpcdist("check", "train.yml", *ON_TOY)
    assert (result.code, result.err) == (0, UNEQUAL)
    assert result.out == f"ok: train.yml: 5 tasks by srun, 2 nodes, 4 GPUs (site toy)\n{COST}"


def test_check_reads_stdin(hpcdist: Hpcdist) -> None:
    result = hpcdist("check", "-", stdin=RANKS)
    assert result.out == "ok: -: 3 tasks by processes, 1 node (site local)\n"


def test_check_as_json_gives_all_problems(hpcdist: Hpcdist) -> None:
    result = hpcdist("check", "ranks.yml", "--json", "--set", "project=mine", "--set", "batch.wall=1")
    assert (result.code, result.err) == (2, "")
    assert json.loads(result.out) == [
        {
            "severity": "error",
            "file": "--set batch.wall=1",
            "line": 0,
            "column": 0,
            "path": "batch.wall",
            "message": "unknown key 'wall'",
            "hint": "did you mean 'walltime'?",
        },
        {
            "severity": "warning",
            "file": "--set project=mine",
            "line": 0,
            "column": 0,
            "path": "project",
            "message": "'project' has no effect: runs are kept by name and date",
            "hint": "put it in `tags`",
        },
    ]


def test_check_as_json_gives_warnings_too(hpcdist: Hpcdist) -> None:
    result = hpcdist("check", "ranks.yml", "--json", "--set", "project=mine")
    assert (result.code, result.err) == (0, "")
    assert [(one["severity"], one["path"]) for one in json.loads(result.out)] == [("warning", "project")]


def test_warnings_go_to_stderr_and_do_not_fail(hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist("render", "ranks.yml", "--set", "project=mine")
    assert result.code == 0
    assert result.out.startswith("#!/bin/bash\n")
    wording(result.err)


def test_plan_prints_the_map(hpcdist: Hpcdist) -> None:
    result = hpcdist("plan", "train.yml", *ON_TOY)
    assert (result.code, result.err) == (0, UNEQUAL)
    assert result.out == (
        "train on site toy: 5 tasks by srun, 2 nodes, 4 GPUs\n"
        f"{COST}"
        "nodes 0-1: partition gpu, big nodes\n"
        "of the fullest node: 6 of 8 CPUs, 2 of 4 GPUs, 8524 of 15000 MiB of memory\n"
        "node  rank  role      cpus  gpus  memory\n"
        "0     0     master    0-1   0     3750 MiB\n"
        "0     1     master    2-3   1     3750 MiB\n"
        "1     2     worker 0  0-1   0     3750 MiB\n"
        "1     3     worker 0  2-3   1     3750 MiB\n"
        "1     4     worker 1  4-5   -     1024 MiB\n"
    )


def test_plan_folds_equal_nodes(hpcdist: Hpcdist) -> None:
    many = ("--set", "environment.replicas={n_workers: 3999}", "--set", "environment.resources.gpu=null")
    result = hpcdist("plan", "train.yml", *ON_TOY, *many, "--set", "environment.replicas.default_worker=null")
    assert result.err == ""
    lines = result.out.splitlines()
    assert lines[0] == "train on site toy: 4000 tasks by srun, 501 nodes"
    assert ["...", "497", "nodes", "like", "these"] in [line.split() for line in lines]
    assert lines[-1].split() == ["500", "3999", "worker", "3998", "2", "-", "1875", "MiB"]
    assert len(lines) < 32


def test_plan_folds_equal_tasks(hpcdist: Hpcdist) -> None:
    result = hpcdist(
        "plan", "-", "--site", "local", "--set", "environment.replicas.n_workers=63", stdin=RANKS
    )
    assert result.out == (
        "experiment on site local: 64 tasks by processes, 1 node\n"
        "node 0: partition local, this-machine nodes\n"
        "node  rank  role           cpus  gpus  memory\n"
        "0     0     master         0     -     -\n"
        "0     1     worker 0       1     -     -\n"
        "      ...   61 like these\n"
        "0     63    worker 62      63    -     -\n"
        "all tasks\n"
        "  MASTER_ADDR=node0\n"
        "  MASTER_PORT=PORT\n"
        "  GLOO_SOCKET_IFNAME=lo\n"
        "rank  WORLD_SIZE  RANK  LOCAL_RANK  LOCAL_WORLD_SIZE  NODE_RANK\n"
        "0     64          0     0           64                0\n"
        "1     64          1     1           64                0\n"
        "63    64          63    63          64                0\n"
    )


def test_plan_gives_long_values_lines_of_their_own(hpcdist: Hpcdist) -> None:
    as_tensorflow = ("--set", "framework=tensorflow", "--set", "environment.replicas.n_workers=1")
    lines = hpcdist("plan", "-", "--site", "local", *as_tensorflow, stdin=RANKS).out.splitlines()
    cluster = '"cluster": {"worker": ["node0:PORT","node0:PORT+1"]}'
    rest = '"model_dir": "$HPCDIST_OUTPUTS", "environment": "cloud"'
    form = "TF_CONFIG: a cluster of workers alone; its first worker is the master"
    assert lines[lines.index(form) :] == [
        form,
        "rank 0",
        f'  TF_CONFIG={{{cluster}, "task": {{"type": "worker", "index": 0}}, {rest}}}',
        "rank 1",
        f'  TF_CONFIG={{{cluster}, "task": {{"type": "worker", "index": 1}}, {rest}}}',
    ]


def test_plan_as_json_has_the_cost_and_each_task(hpcdist: Hpcdist) -> None:
    shown = json.loads(hpcdist("plan", "train.yml", *ON_TOY, "--json").out)
    assert [*shown] == ["cost", "search", "tasks"]
    assert (
        shown["cost"] == json.loads(hpcdist("plan", "train.yml", *ON_TOY, "--balance", "--json").out)["cost"]
    )
    tasks = shown["tasks"]
    assert [task["rank"] for task in tasks] == [0, 1, 2, 3, 4]
    assert tasks[3] == {
        "rank": 3,
        "role": "worker",
        "index": 0,
        "node": 1,
        "local_rank": 1,
        "cpus": [2, 3],
        "gpus": [1],
        "memory": 3750,
        "processes": 1,
        "devices": [1],
        "variables": {},
    }


def test_folded_shows_the_ends_of_long_runs() -> None:
    assert [*folded("aaaaabb", str, 3)] == ["a", Gap(3), "a", "b", "b"]
    assert [*folded("aaa", str, 3)] == ["a", "a", "a"]
    assert [number_list(()), number_list((4,)), number_list((4, 5, 6))] == ["-", "4", "4-6"]


@pytest.mark.parametrize("verb", ["plan", "render", "check", "explain"])
def test_a_million_equal_tasks_take_as_much_as_a_hundred(verb: str, hpcdist: Hpcdist) -> None:
    replicas = "environment: {replicas: {n_workers: %d, default_worker: {resources: {cpu: {limits: 1}}}}}"
    site = "description: x\nscheduler: slurm\nlauncher: srun\nnode_types: {n: {cpus: 4}}\n"
    Path("endless.yaml").write_text(f"name: endless\n{site}partitions: {{p: {{nodes: {{n: null}}}}}}\n")
    work: list[int] = []
    for tasks in (100, 1_000_000):
        Path("many.yml").write_text(f"framework: mpi\n{replicas % (tasks - 1)}\nrun: {{cmd: ./a}}\n")
        result = hpcdist(verb, "many.yml", "--site", "./endless.yaml")
        assert (result.code, len(result.out.splitlines()) < 5_000) == (0, True)
        work.append(calls(lambda: hpcdist(verb, "many.yml", "--site", "./endless.yaml")))
    assert work[1] == pytest.approx(work[0], rel=0.02)


def test_explain_prints_every_origin(hpcdist: Hpcdist) -> None:
    result = hpcdist("explain", "train.yml", *ON_TOY, "--set", "batch.walltime=2h", "-p", "lr=0.5")
    assert (result.code, result.err) == (0, UNEQUAL)
    rows = [tuple(line.strip().split("  ", 1)) for line in result.out.splitlines() if line.startswith("  ")]
    origins = {row[0]: row[1].strip() for row in rows}
    assert origins["site: toy"] == "--site"
    assert origins["name: train"] == "the name of train.yml"
    assert origins["walltime: 02:00:00"] == "--set batch.walltime"
    assert origins["master: ranks 0-1 on node 0, each 2 CPUs, 1 GPU, 3750 MiB"] == "train.yml:4"
    assert origins["worker 0: ranks 2-3 on node 1, each 2 CPUs, 1 GPU, 3750 MiB"] == "train.yml:8"
    assert origins["worker 1: rank 4 on node 1, 2 CPUs, 1024 MiB"] == "train.yml:10"
    assert origins["#SBATCH --time=02:00:00"] == "--set batch.walltime"
    assert origins["#SBATCH --partition=gpu"] == "site toy: partitions.gpu"
    assert origins["command: python train.py --lr=0.5"] == "train.yml:11"
    assert origins['"$commands"'] == "train.yml:11"
    assert [line for line in result.out.splitlines() if line and line[0] != " "] == [
        "decided",
        "placement",
        "directives",
        "variables",
        "variables of each task",
        "launch",
    ]


DIRECTIVES: Final = {
    "slurm": """\
directives
  #SBATCH --output=two-%j.out  rule run directory
  #SBATCH --job-name=two       two.yml:1
  #SBATCH --no-requeue         default
  #SBATCH --export=ALL         site slurm: environment
  #SBATCH --time=01:00:00      two.yml:4
  #SBATCH --nodes=2            site slurm: no partitions
  #SBATCH --ntasks-per-node=1  site slurm: no partitions
  #SBATCH --cpus-per-task=1    site slurm: no partitions
""",
    "pbs": """\
directives
  #PBS -S /bin/bash                                 rule the script is bash
  #PBS -j oe                                        rule run directory
  #PBS -N two                                       two.yml:1
  #PBS -l select=2:ncpus=1:mpiprocs=1:ompthreads=1  site pbs: no partitions
  #PBS -l place=scatter                             site pbs: pbs.place
  #PBS -l walltime=01:00:00                         two.yml:4
  #PBS -r n                                         default
  #PBS -k oed                                       site pbs: pbs.keep
  #PBS -V                                           site pbs: environment
""",
    "lsf": """\
directives
  # bsub reads it from its standard input: bsub <job.sh  site lsf: lsf.submit
  #BSUB -o two-%J.out                                    rule run directory
  #BSUB -J two                                           two.yml:1
  #BSUB -W 1:00                                          two.yml:4
  #BSUB -n 2                                             site lsf: no partitions
  #BSUB -R "span[ptile=1]"                               site lsf: no partitions
  #BSUB -rn                                              default
""",
    "sge": """\
directives
  #$ -S /bin/bash        rule the script is bash
  #$ -cwd                rule the job runs where it is submitted
  #$ -j y                rule run directory
  #$ -o two-$JOB_ID.out  rule run directory
  #$ -N two              two.yml:1
  #$ -r n                default
  #$ -V                  site sge: environment
  #$ -pe mpi 2           site sge: no partitions
  #$ -l h_rt=01:00:00    two.yml:4
""",
    "flux": """\
directives
  #flux: --output=two-{{id}}.out  rule run directory
  #flux: --job-name=two           two.yml:1
  #flux: --time-limit=3600s       two.yml:4
  #flux: --nodes=2                site flux: no partitions
  #flux: --nslots=2               site flux: no partitions
  #flux: --cores-per-slot=1       site flux: no partitions
""",
    "local": "",
}


@pytest.mark.parametrize("site", DIRECTIVES)
def test_explain_shows_directives_as_the_script_has_them(hpcdist: Hpcdist, folder: Path, site: str) -> None:
    text = "name: two\nbackend: mpi\nenvironment: {replicas: {n_workers: 2}}\nbatch: {walltime: 1h}\n"
    (folder / "two.yml").write_text(f"{text}run: {{cmd: 'true'}}\n")
    result = hpcdist("explain", "two.yml", "--site", site)
    assert result.code == 0
    without_sources = re.sub(r"(?m) \[\d+\]$", "", result.out)
    found = [section for section in without_sources.split("\n\n") if section.startswith("directives\n")]
    assert "".join(f"{section}\n" for section in found) == DIRECTIVES[site]
    script = hpcdist("render", "two.yml", "--site", site).out.splitlines()
    shown = [re.split("  +", line.strip())[0] for line in DIRECTIVES[site].splitlines()[1:]]
    assert script[1 : 1 + len(shown)] == shown


def test_explain_names_the_source_behind_a_site(hpcdist: Hpcdist, folder: Path) -> None:
    (folder / "bare.yml").write_text("run: {cmd: 'true'}\nbatch: {account: a, walltime: 1h}\n")
    result = hpcdist("explain", "bare.yml", "--site", "frontier").out
    number = re.findall(
        r"(?m)^  NCCL_CROSS_NIC=1  +site frontier: fabric.env.NCCL_CROSS_NIC \[(\d)\]$", result
    )
    sources = result.partition("\nsources\n")[2].splitlines()
    page = "github.com/olcf/olcf-user-docs @ 2745903 (2026-07-22), software/analytics/pytorch_frontier.rst"
    assert [
        re.split("  +", line.strip()) for line in sources if line.strip().startswith(f"[{number[0]}]")
    ] == [[f"[{number[0]}] {page}", "read 2026-11-23"]]


def test_explain_as_json(hpcdist: Hpcdist) -> None:
    found = json.loads(hpcdist("explain", "train.yml", *ON_TOY, "--json").out)
    assert found[0] == {"section": "decided", "what": "site: toy", "origin": "--site", "source": None}
    assert all(one["origin"] for one in found)


def test_render_needs_no_run_directory(hpcdist: Hpcdist, folder: Path) -> None:
    result = hpcdist("render", "train.yml", *ON_TOY)
    assert (result.code, result.err) == (0, UNEQUAL)
    assert "#SBATCH --job-name=train\n" in result.out
    assert "[run_dir]=" not in result.out
    assert hpcdist("render", "train.yml", *ON_TOY, "-o", "job.sh").out == ""
    assert (folder / "job.sh").read_text() == result.out


def test_render_one_trial_of_a_search(hpcdist: Hpcdist, folder: Path) -> None:
    text = (folder / "train.yml").read_text()
    search = "hptuning: {matrix: {lr: {values: [0.1, 0.2]}}}\n"
    (folder / "search.yml").write_text(re.sub(r"--lr=\S+", "--lr={{ lr }}", text) + search)
    first = hpcdist("render", "search.yml", *ON_TOY)
    assert first.code == 0, first.err
    second = hpcdist("render", "search.yml", *ON_TOY, "--trial", "2")
    assert ("--lr=0.1" in first.out, "--lr=0.2" in second.out, "#SBATCH --array" in second.out) == (
        True,
        True,
        False,
    )
    result = hpcdist("render", "search.yml", *ON_TOY, "--trial", "3")
    assert (result.code, "there is no trial 3; it has 1 to 2" in result.err) == (2, True), result.err


def test_a_rendered_file_is_private(hpcdist: Hpcdist, folder: Path) -> None:
    file = folder / "job.sh"
    for _ in range(2):
        assert hpcdist("render", "train.yml", *ON_TOY, "-o", "job.sh").code == 0
        assert file.stat().st_mode & 0o777 == 0o700
        file.chmod(0o644)


def test_render_as_json(hpcdist: Hpcdist) -> None:
    result = hpcdist("render", "train.yml", *ON_TOY, "--json", "--set", "build.commit=1")
    found = json.loads(result.out)
    assert [*found] == ["script", "warnings"]
    assert found["script"] == hpcdist("render", "train.yml", *ON_TOY).out
    assert found["warnings"] == [line.removeprefix("warning: ") for line in result.err.splitlines()]
    assert "build.commit: 'commit' is not fetched" in result.err
    refused = hpcdist("render", "train.yml", "--json", "-o", "job.sh")
    assert (refused.code, refused.out) == (2, "")


def test_render_annotates_on_request(hpcdist: Hpcdist) -> None:
    assert (
        "# train.yml:12\n#SBATCH --time=01:00:00\n"
        in hpcdist("render", "train.yml", *ON_TOY, "--annotate").out
    )
    assert "train.yml:12" not in hpcdist("render", "train.yml", *ON_TOY).out


@pytest.mark.parametrize(
    ("words", "environment", "programs", "site"),
    [
        (["--site", "toy"], {"HPCDIST_SITE": "slurm"}, [], "toy: --site"),
        (["--set", "batch.site=toy"], {"HPCDIST_SITE": "slurm"}, [], "toy: --set batch.site"),
        ([], {"HPCDIST_SITE": "toy", "HPCDIST_TESTBED": "1"}, [], "toy: $HPCDIST_SITE"),
        ([], {"TOY_MACHINE": "yes"}, ["sbatch"], "toy: detected: TOY_MACHINE=yes"),
        ([], {}, ["sbatch"], "slurm: this is no known site, but there is sbatch"),
        ([], {}, [], "local: this is no known site, and no batch system is set up here"),
    ],
)
def test_precedence_of_the_site(  # noqa: PLR0913, PLR0917 - a table with six columns
    words: list[str],
    environment: dict[str, str],
    programs: list[str],
    site: str,
    hpcdist: Hpcdist,
    bare_path: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bare_path(*programs)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    result = hpcdist("explain", "-", "--site-path", "sites", *words, "--json", stdin="run: {cmd: 'true'}")
    name, _, origin = site.partition(": ")
    assert json.loads(result.out)[0] == {
        "section": "decided",
        "what": f"site: {name}",
        "origin": origin,
        "source": None,
    }


@pytest.mark.parametrize(
    ("framework", "programs", "launcher"),
    [
        ("pytorch", [], "processes"),
        ("pytorch", ["horovodrun"], "processes"),
        ("horovod", ["horovodrun"], "horovodrun"),
        ("horovod", ["horovodrun", "mpirun"], "mpirun"),
    ],
)
def test_local_site_without_mpirun_uses_another_launcher(
    framework: str, programs: list[str], launcher: str, hpcdist: Hpcdist, bare_path: Callable[..., None]
) -> None:
    bare_path(*programs)
    text = f"framework: {framework}\nenvironment: {{replicas: {{n_workers: 1}}}}\nrun: {{cmd: x}}\n"
    result = hpcdist("check", "-", "--site", "local", stdin=text)
    assert result.out == f"ok: -: 2 tasks by {launcher}, 1 node (site local)\n"
    noted = f"note: there is no mpirun on PATH, so the launcher is {launcher}\n"
    assert result.err == ("" if launcher == "mpirun" else noted)


@pytest.mark.parametrize(
    ("text", "words"), [("run: {cmd: true}", []), ("run: {cmd: x}", ["--set", "run.cmd=true"])]
)
def test_true_is_a_program(text: str, words: list[str], hpcdist: Hpcdist) -> None:
    result = hpcdist("render", "-", "--site", "local", *words, stdin=text)
    assert result.code == 0
    assert "\ntrue\nCOMMAND\n" in result.out


def test_the_name_defaults_to_that_of_the_file(hpcdist: Hpcdist, folder: Path) -> None:
    (folder / "my first run.yml").write_text(RANKS)
    assert hpcdist("plan", "my first run.yml").out.startswith("my-first-run on site local: ")
    assert hpcdist("plan", "-", stdin=RANKS).out.startswith("experiment on site local: ")
    assert hpcdist("plan", "ranks.yml", "--set", "name=other").out.startswith("other on site local: ")
