# ruff: noqa: E501 - a message is compared as one line
"""The directives of all batch systems: each becomes a key, a directive, or a remark with its line."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.base.tree import Map, Seq
from hpcdist.importers.job_scripts import document_of
from hpcdist.importers.job_scripts.directives import SYSTEMS, OptionRow, options_in
from tests.importers.job_scripts.reading import read

PREFIXES = {"slurm": "#SBATCH ", "pbs": "#PBS ", "lsf": "#BSUB ", "flux": "#flux: ", "sge": "#$ "}


def headed(system: str, *lines: str, body: str = "./solver") -> str:
    """Return a script with these directives."""
    return "\n".join(["#!/bin/bash", *(f"{PREFIXES[system]}{line}" for line in lines), body, ""])


def replica(**amounts: Any) -> dict[str, Any]:
    """Return the section of replicas with these amounts."""
    return {"resources": {name: {"requests": amount} for name, amount in amounts.items()}}


CASES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "slurm": (
        headed(
            "slurm",
            "--job-name=train --account=abc  # whose",
            "-p gpu,long",
            "-N 2",
            "--ntasks-per-node=4 -c 8",
            "--gres=gpu:a100:4",
            "--mem-per-cpu=4G",
            "-t 1-12",
            "--array=0-7%2",
            "--dependency=afterok:12",
            "--signal=B:USR1@120",
            "--exclude=n[1-2]",
            "--exclusive",
            "--no-requeue",
            "-o logs/%x_%A_%a.out",
            "--mail-type=END,FAIL --mail-user=me@example.org",
            "--hint=nomultithread",
            "--reservation=course",
            body="srun ./solver",
        ),
        {
            "name": "train",
            "framework": "mpi",
            "environment": {
                **replica(gpu=4, cpu=32, memory=131072),
                "node_selector": {"gpu_type": "a100"},
                "replicas": {
                    "n_workers": 1,
                    "default_worker": replica(gpu=4, cpu=32, memory=131072)
                    | {"node_selector": {"gpu_type": "a100"}},
                },
            },
            "run": {"cmd": "./solver"},
            "batch": {
                "account": "abc",
                "partition": "gpu,long",
                "walltime": "1-12:00:00",
                "array": "0-7%2",
                "dependency": "afterok:12",
                "signal": "B:USR1@120",
                "exclude_nodes": ["n1", "n2"],
                "exclusive": True,
                "requeue": False,
                "output": "logs/%x_%A_%a.out",
                "mail": {"user": "me@example.org", "events": ["end", "fail"]},
                "directives": ["--hint=nomultithread", "--reservation=course"],
                "nodes": 2,
            },
        },
        [],
    ),
    "remarks": (
        headed(
            "slurm",
            "--job-name=my job",
            "--nodes=2-4",
            "--nodes=1",
            "--output=%N.out",
            "--open-mode=append --comment=x",
            "--time=UNLIMITED",
            "--mail-type=END",
            "--export=NONE",
            "--chdir=/work/me",
            body="./solver\n#SBATCH --mem=4G",
        ),
        {"name": "my", "run": {"cmd": "cd /work/me || exit\n./solver"}},
        [
            "2:9: 'job' is not an option of Slurm, which ignores or refuses it",
            "3:9: --nodes=2-4 has no effect: --nodes=1 in line 4 replaces it",
            "5:9: --output=%N.out is not kept: the output is in the folder of the run, where `hpcdist logs` finds it",
            "6:9: --open-mode=append has no effect: the output of each run of the job is kept",
            "6:9: --comment=x has no effect: it carries the token by which hpcdist finds the job again",
            "7:9: --time=UNLIMITED is not kept: 'UNLIMITED' is no time limit, so the partition's applies",
            "9:9: --export=NONE is not kept: the site file decides whether the job inherits the variables of the shell",
            "8:9: the script names no address for mail: none is sent; write `batch: {mail: ADDRESS}`",
            "12:9: `--mem=4G` has no effect: it stands behind the first command, where Slurm reads no directive",
        ],
    ),
    "fewer tasks than nodes, no value, one file": (
        headed(
            "slurm",
            "--nodes=4 --ntasks=1",
            "--account=",
            "--error=a-%j.out",
            "--output=a-%j.out",
            body="./solver",
        ),
        {"batch": {"output": "a-%j.out"}, "run": {"cmd": "./solver"}},
        [
            "3:9: --account= is not kept: it has no value",
            "2:9: 1 task cannot run on 4 nodes: Slurm gives the job 1",
        ],
    ),
    "whole nodes of Flux": (
        headed("flux", "--nodes=2", "--time=30", body="flux run -N 2 -n 16 python t.py"),
        {
            "framework": "pytorch",
            "pytorch": {"launch": "env"},
            "environment": {"replicas": {"n_workers": 1}, "processes_per_replica": 8},
            "run": {"cmd": "python t.py"},
            "batch": {"exclusive": True, "walltime": "00:30:00", "nodes": 2},
        },
        [],
    ),
    "whole nodes of LSF": (
        headed("lsf", "-nnodes 2", "-W 2:00", body="mpirun -np 8 ./solver"),
        {
            "framework": "mpi",
            "environment": {"replicas": {"n_workers": 1}, "processes_per_replica": 4},
            "run": {"cmd": "./solver"},
            "batch": {"exclusive": True, "walltime": "02:00:00", "nodes": 2},
        },
        [],
    ),
    "mail without a kind": (
        headed("pbs", "-M me@x.org", body="./solver"),
        {"batch": {"mail": {"user": "me@x.org", "events": ["fail"]}}, "run": {"cmd": "./solver"}},
        [],
    ),
    "one file of Grid Engine": (
        headed("sge", "-o out.log", "-e err.log", "-j y", body="./solver"),
        {"batch": {"output": "out.log"}, "run": {"cmd": "./solver"}},
        [
            "4:4: -j y has no effect: standard output and error are one file",
            "3:4: err.log is not written: `-j y` puts both in one file",
        ],
    ),
    "what flux batch lacks": (
        headed("flux", "--gpus-per-task=1", "--priority=16", body="./solver"),
        {"run": {"cmd": "./solver"}},
        [
            "2:8: --gpus-per-task=1 has no effect: `flux batch` has no such option",
            "3:8: --priority=16 has no effect: `flux batch` has no such option",
        ],
    ),
    "pbs": (
        headed(
            "pbs",
            "-N hvd -q gpu -A abc",
            "-l select=2:system=polaris:ncpus=16:ngpus=4:mpiprocs=4:mem=100gb,walltime=02:00:00",
            "-l place=scatter:excl",
            "-W depend=afterok:123.server",
            "-J 1-5",
            "-j oe -V",
            "-m abe -M me@example.org",
            body="cd $PBS_O_WORKDIR\nmpiexec -n 8 -ppn 4 ./solver",
        ),
        {
            "name": "hvd",
            "framework": "mpi",
            "environment": {
                **replica(gpu=4, cpu=16, memory=102400),
                "replicas": {"n_workers": 1, "default_worker": replica(gpu=4, cpu=16, memory=102400)},
            },
            "run": {"cmd": "./solver"},
            "batch": {
                "account": "abc",
                "partition": "gpu",
                "walltime": "02:00:00",
                "exclusive": True,
                "dependency": "afterok:123.server",
                "array": "1-5",
                "mail": {"user": "me@example.org", "events": ["fail", "begin", "end"]},
                "nodes": 2,
            },
        },
        [
            "3:6: system=polaris is not kept: the site file names the system",
            "7:6: -j oe has no effect: standard output and error are one file",
            "9:1: `cd $PBS_O_WORKDIR` is dropped: the job runs where it is submitted",
        ],
    ),
    "torque": (
        headed("pbs", "-l nodes=2:ppn=8,mem=64gb", "-l walltime=3600", body="mpirun ./solver"),
        {
            "framework": "mpi",
            "environment": {
                **replica(cpu=8, memory=32768),
                "processes_per_replica": 8,
                "replicas": {"n_workers": 1, "default_worker": replica(cpu=8, memory=32768)},
            },
            "run": {"cmd": "./solver"},
            "batch": {"walltime": "01:00:00", "nodes": 2},
        },
        [],
    ),
    "lsf": (
        headed(
            "lsf",
            '-J "train[1-4]%2"',
            "-n 8",
            '-R "span[ptile=4] rusage[mem=4G]"',
            '-gpu "num=4:mode=exclusive_process"',
            "-W 2:30 -q gpu -P abc",
            "-o out.%J.%I",
            '-w "done(123)"',
            body="mpirun -np 8 python train.py",
        ),
        {
            "name": "train",
            "framework": "mpi",
            "environment": {
                **replica(gpu=4, memory=16384),
                "replicas": {"n_workers": 1, "default_worker": replica(gpu=4, memory=16384)},
            },
            "run": {"cmd": "python train.py"},
            "batch": {
                "array": "1-4%2",
                "walltime": "02:30:00",
                "partition": "gpu",
                "account": "abc",
                "output": "out.%j.%a",
                "dependency": "afterok:123",
                "nodes": 2,
            },
        },
        [],
    ),
    "flux": (
        headed("flux", "-N 2 -n 8", "--gpus-per-slot=1", "-t 2h", "-q pbatch", body="flux run -N2 -n8 python train.py"),
        {
            "framework": "pytorch",
            "pytorch": {"launch": "env"},
            "environment": {
                **replica(gpu=4),
                "replicas": {"n_workers": 1, "default_worker": replica(gpu=4)},
            },
            "run": {"cmd": "python train.py"},
            "batch": {"walltime": "02:00:00", "partition": "pbatch", "gpu_visibility": "task", "nodes": 2},
        },
        [],
    ),
    "sge": (
        headed("sge", "-N train -cwd -V", "-l h_rt=01:00:00,gpu=2", "-pe smp 16", "-t 1-5 -tc 2", "-hold_jid 7,8"),
        {
            "name": "train",
            "environment": replica(gpu=2, cpu=16),
            "run": {"cmd": "./solver"},
            "batch": {"walltime": "01:00:00", "array": "1-5%2", "dependency": "afterany:7:8"},
        },
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_directives_become_keys(name: str) -> None:
    text, data, remarks = CASES[name]
    assert read(text) == (data, remarks)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("--ntasks=1", (None, replica())),
        ("--nodes=2 --ntasks=8", (2, replica(cpu=4))),
        ("--ntasks=8 --ntasks-per-node=4", (2, replica(cpu=4))),
        ("-N2 -n2 --gpus=8", (2, replica(gpu=4))),
        ("-N2 --gpus-per-task=v100:1 --ntasks-per-node=2", (2, replica(gpu=2))),
        ("-N2 --gres=gpu", (2, replica(gpu=1))),
        ("--gpus=4 --gpus-per-node=1 -n4", (4, replica(gpu=1))),
        ("-N2 --mem=0", (2, replica(memory="all"))),
        (
            "-N2 --gpus-per-node=2 --cpus-per-gpu=8 --mem-per-gpu=16G",
            (2, replica(gpu=2, cpu=16, memory=32768)),
        ),
    ],
)
def test_sizes_of_slurm(text: str, size: tuple[int | None, dict[str, Any]]) -> None:
    data = read(headed("slurm", text, body="srun python train.py")).data
    nodes = data.get("batch", Map()).get("nodes")
    section = data.get("environment", Map())
    assert (nodes, {"resources": section.get("resources", {})}) == size


@pytest.mark.parametrize(
    ("limit", "walltime"),
    [
        ("90", "01:30:00"),
        ("10:30", "00:10:30"),
        ("2:00:00", "02:00:00"),
        ("1-0", "1-00:00:00"),
        ("0-1:30", "01:30:00"),
    ],
)
def test_time_limits_of_slurm(limit: str, walltime: str) -> None:
    assert read(headed("slurm", f"--time={limit}")).data["batch"] == {"walltime": walltime}


def test_tasks_that_are_unequal_are_refused() -> None:
    read_as = read(headed("slurm", "--nodes=4 --ntasks=6")).remarks
    assert read_as[:1] == ["2:9: 6 tasks on 4 nodes are not the same number on each; write 8"]


OPTIONS = [
    (system.name, flag, row)
    for system in SYSTEMS.values()
    for flag, row in system.rows.items()
    if row.target not in ("-", "export", "folder") and not row.target.startswith("size")
]


def places(node: object) -> set[int]:
    """Return the lines from which a tree has values."""
    if isinstance(node, Map):
        own = {place.line for place in node.value_places.values()}
        return own.union(*map(places, node.values()))
    return set().union(*map(places, node)) if isinstance(node, Seq) else set()


@pytest.mark.parametrize(
    ("system", "flag", "row"), OPTIONS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_no_directive_is_dropped_in_silence(system: str, flag: str, row: OptionRow) -> None:
    value = {"name": "x", "batch.walltime": "1:00:00", "select": "2", "place": "pack", "gres": "gpu:1"}.get(
        row.target, "1"
    )
    text = (
        flag if row.value is False else f"{flag}{'=' if ' ' in flag or flag.startswith('--') else ' '}{value}"
    )
    found = read(headed(system, text))
    lines = {int(remark.split(":")[0]) for remark in found.remarks}
    assert 2 in places(found.data) | lines


def test_forms_of_options() -> None:
    slurm = SYSTEMS["slurm"]
    found = [
        (one.flag, one.value)
        for one in options_in(slurm, "-N2 -n 4 --part=gpu --mem 4G --exclusive -t=5 # x")
    ]
    assert found == [
        ("--nodes", "2"),
        ("--ntasks", "4"),
        ("--partition", "gpu"),
        ("--mem", "4G"),
        ("--exclusive", None),
        ("--time", "5"),
    ]


@pytest.mark.parametrize(
    "text", ["", "#!/bin/bash\necho\n", "name: x\n#SBATCH -N1\n", "#!/usr/bin/python3\n#SBATCH -N1\n"]
)
def test_other_texts_are_no_job_scripts(text: str) -> None:
    assert document_of(text, "job.sh") is None


@pytest.mark.parametrize("directives", ["--ntasks=4", "--gpus=2", "--ntasks=256"])
def test_a_script_without_a_number_of_nodes(directives: str) -> None:
    why = {
        "--ntasks=256": "the script leaves it to Slurm on how many nodes 256 tasks run; write the number of nodes into the script"
    }
    asked = why.get(directives, "the script sets no number of nodes: one is requested")
    assert read(headed("slurm", directives)).remarks == [f"2:9: {asked}"]


def test_heterogeneous_jobs_are_refused() -> None:
    found = read(headed("slurm", "-N1", "hetjob", "-N2")).remarks
    why = "a heterogeneous job has nodes of several kinds; write an experiment with `replicas`, each with its `resources`"
    assert f"3:9: {why}" in found
