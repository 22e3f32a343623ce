"""Every example, submitted on this machine alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hpcdist.base.resources import shipped

CHECKOUT = shipped("site_configs").parent
SEARCHES = {"horovod_search", "packed_search"}
"""Of many trials; the first needs arrays of a batch system: `tests/slurm/test_sweeps.py` runs that."""
PIPELINES = {"pipeline"}
"""They need a batch system: `tests/docs/test_pipelines.py` checks it."""
EXAMPLES = sorted({file.stem for file in (CHECKOUT / "examples").glob("*.yml")} - SEARCHES - PIPELINES)
FRAMEWORKS = {
    "accelerate_tiny": "lightning",
    "chainermn_digits": "mxnet",
    "jax_distributed": "jax",
    "lightning_trainer": "lightning",
    "mxnet_kvstore": "mxnet",
    "ray_actors": "ray",
    "tensorflow_mirrored": "tensorflow",
    "tensorflow_ps": "tensorflow",
}
"""Those that need an environment of `.frameworks`; the others find all in `.venv`."""
POLITE = {"OMPI_MCA_mpi_yield_when_idle": "1"}
"""Ranks that wait let others compute: the machine may have fewer CPUs than there are ranks."""
LEARNT = re.compile(r"loss (?P<first>\S+) -> (?P<last>\S+) |test accuracy (?P<accuracy>\S+)")


def submitted(folder: Path, example: str, *options: str) -> str:
    """Submit an example where it has nothing but itself, and return what it wrote."""
    (folder / "examples").symlink_to(CHECKOUT / "examples")
    own = CHECKOUT / ".frameworks" / FRAMEWORKS.get(example, "") / "bin"
    path = os.pathsep.join([str(own), str(Path(sys.executable).parent), os.environ["PATH"]])
    argv = [sys.executable, "-m", "hpcdist", "submit", f"examples/{example}.yml", "--site", "local", "--wait"]
    environ = os.environ | {"PATH": path, **POLITE}
    done = subprocess.run(
        [*argv, *options], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    (log,) = folder.glob("runs/*/logs/job.out")
    assert done.returncode == 0, done.stderr + log.read_text()
    return log.read_text()


@pytest.mark.extended
@pytest.mark.long
@pytest.mark.real
@pytest.mark.parametrize("example", EXAMPLES)
def test_example(tmp_path: Path, example: str) -> None:
    log = submitted(tmp_path, example)
    (learnt,) = LEARNT.finditer(log)
    if learnt["accuracy"]:
        assert float(learnt["accuracy"]) > 0.9, log
    else:
        assert float(learnt["last"]) < float(learnt["first"]) / 2, log


@pytest.mark.extended
@pytest.mark.real
def test_the_example_of_a_packed_search(tmp_path: Path) -> None:
    submitted(tmp_path, "packed_search")
    logs = [log.read_text() for log in tmp_path.glob("runs/*/logs/job-*.out")]
    learnt = [LEARNT.search(log) for log in logs]
    assert (len(logs), max(float(match["accuracy"]) for match in learnt if match) > 0.9) == (12, True)
    assert all("on 1 ranks" in log for log in logs)


@pytest.mark.extended
@pytest.mark.real
@pytest.mark.parametrize("launcher", ["processes", "mpirun"])
@pytest.mark.parametrize("example", ["jax_distributed", "mxnet_kvstore"])
def test_with_either_launcher_of_one_machine(tmp_path: Path, example: str, launcher: str) -> None:
    assert LEARNT.search(submitted(tmp_path, example, f"--set=batch.launcher={launcher}"))
