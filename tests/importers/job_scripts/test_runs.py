"""Imported job scripts start the same programs as the originals: both run under stand-ins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpcdist.loading.planning import ExperimentOptions, plan_experiment
from hpcdist.script.renderer import render
from tests.importers.job_scripts import cluster
from tests.importers.job_scripts.reading import request_of
from tests.importers.job_scripts.scripts import SHAPES, Shape

Process = tuple[tuple[str, ...], tuple[str, ...]]
"""The words of a process, and its variables."""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return a folder with the stand-ins, and what the scripts read."""
    programs = tmp_path / "bin"
    programs.mkdir()
    text = Path(cluster.__file__).read_text()
    for name in cluster.PROGRAMS:
        (programs / name).write_text(f"#!{sys.executable} -SE\n{text}")
        (programs / name).chmod(0o755)
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/activate").write_text("export VIRTUAL_ENV=venv\n")
    (tmp_path / "settings.sh").write_text("export A=of_the_file B=of_the_file\n")
    (tmp_path / "work").mkdir()
    return tmp_path


def processes(script: Path, shape: Shape, work: Path) -> list[Process]:
    """Return what a script starts, in any order."""
    found = work / f"{script.name}.jsonl"
    (work / "hosts").write_text("".join(f"n{node + 1}\n" * shape.each for node in range(shape.nodes)))
    nodes = [f"n{number + 1}" for number in range(shape.nodes)]
    total = shape.nodes * shape.each
    environment = {
        "PATH": f"{work}/bin:{os.environ['PATH']}",
        "HOME": str(work),
        "RECORD": str(found),
        "NODES": " ".join(nodes),
        "EACH": str(shape.each),
        "CPUS": str(shape.cpus),
        "GPUS": str(shape.gpus),
        "SLURM_JOB_ID": "42",
        "SLURM_JOB_NODELIST": "n[1-2]",
        "SLURM_JOB_NUM_NODES": str(shape.nodes),
        "SLURM_NNODES": str(shape.nodes),
        "SLURM_NTASKS": str(total),
        "SLURM_NPROCS": str(total),
        "SLURM_CPUS_PER_TASK": str(shape.cpus),
        "SLURM_GPUS_ON_NODE": str(shape.gpus),
        "SLURM_ARRAY_TASK_ID": "2",
        "PBS_O_WORKDIR": str(work),
        "PBS_NODEFILE": str(work / "hosts"),
        "LSB_DJOB_HOSTFILE": str(work / "hosts"),
        "LSB_DJOB_NUMPROC": str(total),
        "LS_SUBCWD": str(work),
        "NSLOTS": str(total),
        "NHOSTS": str(shape.nodes),
        "MODULES_CMD": "modulecmd",
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(shape.gpus))),
    }
    ran = subprocess.run(
        ["bash", script], cwd=work, env=environment, check=False, capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, found.exists()) == (0, True), ran.stderr
    records = [json.loads(line) for line in found.read_text().splitlines()]
    return sorted(
        (tuple(one["words"]), tuple(f"{name}={one['env'].get(name)}" for name in shape.variables))
        for one in records
    )


@pytest.mark.parametrize("name", SHAPES)
def test_an_imported_script_starts_the_same_processes(name: str, work: Path) -> None:
    shape, original = SHAPES[name], work / f"{name}.sh"
    original.write_text(shape.text)
    made = plan_experiment(ExperimentOptions(str(original), site="slurm"))
    rendered = work / f"rendered_{name}.sh"
    rendered.write_text(render(made.plan))
    assert processes(rendered, shape, work) == processes(original, shape, work)


@pytest.mark.parametrize("name", SHAPES)
def test_an_imported_script_requests_the_same(name: str, work: Path) -> None:
    original = work / f"{name}.sh"
    original.write_text(SHAPES[name].text)
    made = plan_experiment(ExperimentOptions(str(original), site="slurm"))
    assert request_of(render(made.plan)) == request_of(SHAPES[name].text)
