"""Whole scripts, compared as they stand in ``tests/golden/``: what a change does to them is seen in its diff.

To write them anew: ``HPCDIST_REWRITE_GOLDEN=1 pytest tests/test_golden.py``. That run fails wherever a script
changed, so that it can never pass in CI; read ``git diff tests/golden``, then run the test without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcdist import load, source
from hpcdist.planner import make_plan
from hpcdist.renderer import Script, render
from tests.sites import site_named

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = Path(__file__).parents[1] / "examples"
RUN_DIR = "/scratch/me/runs/{name}-1"


@dataclass(frozen=True)
class Case:
    """An experiment file on a site; ``settings`` as for ``--set``."""

    file: Path
    site: str
    settings: tuple[tuple[str, str], ...] = ()
    annotate: bool = False
    by_hand: bool = False


QUICKSTART = EXAMPLES / "quickstart.yml"
HOROVOD = EXAMPLES / "horovod_digits.yml"
ACCOUNT = ("batch.account", "proj")
FOUR_GPUS = (
    ACCOUNT,
    ("environment.resources", "{gpu: {requests: 4}}"),
    ("environment.replicas.default_worker.resources", "{gpu: {requests: 4}}"),
)
SIX_GPUS = (
    ACCOUNT,
    ("environment.resources", "{gpu: {requests: 6}}"),
    ("environment.replicas.default_worker.resources", "{gpu: {requests: 6}}"),
)
ONE_GPU = (
    ACCOUNT,
    ("environment.resources", "{gpu: {requests: 1}}"),
    ("environment.replicas.default_worker.resources", "{gpu: {requests: 1}}"),
)
UNEVEN = (
    ("environment.resources", "{gpu: {requests: 2}}"),
    ("environment.replicas.default_worker.resources", "{gpu: {requests: 2}}"),
)

CASES = {
    "quickstart.local": Case(QUICKSTART, "local"),
    "quickstart.slurm": Case(QUICKSTART, "slurm", by_hand=True),
    "quickstart.lsf": Case(QUICKSTART, "lsf", by_hand=True),
    "horovod.slurm": Case(HOROVOD, "slurm"),
    "array.pbs": Case(GOLDEN / "array.yml", "pbs"),
    "array.lsf": Case(GOLDEN / "array.yml", "lsf"),
    "array.sge": Case(GOLDEN / "array.yml", "sge"),
    "quickstart.testbed": Case(QUICKSTART, "testbed", annotate=True),
    "quickstart.flux": Case(QUICKSTART, "flux", by_hand=True),
    "horovod.flux": Case(HOROVOD, "flux", annotate=True),
    "horovod.tuolumne-like": Case(HOROVOD, "tuolumne-like", FOUR_GPUS),
    "horovod.polaris-like-pals": Case(HOROVOD, "polaris-like", (*FOUR_GPUS, ("batch.launcher", "pals"))),
    "horovod.vista-like": Case(HOROVOD, "vista-like", ONE_GPU),
    "unequal.testbed.hydra": Case(GOLDEN / "unequal.yml", "testbed", (("batch.launcher", "hydra"),)),
    "horovod.testbed": Case(HOROVOD, "testbed"),
    "horovod.testbed.mpirun": Case(HOROVOD, "testbed", (("batch.launcher", "mpirun"),)),
    "horovod.local.horovodrun": Case(HOROVOD, "local", (("batch.launcher", "horovodrun"),)),
    "horovod.lsf": Case(HOROVOD, "lsf"),
    "horovod.summit-like": Case(HOROVOD, "summit-like", SIX_GPUS, annotate=True),
    "unequal.summit-like": Case(GOLDEN / "unequal.yml", "summit-like", (ACCOUNT,)),
    "quickstart.sge": Case(QUICKSTART, "sge", by_hand=True),
    "horovod.sge": Case(HOROVOD, "sge"),
    "horovod.sge-like": Case(
        HOROVOD, "sge-like", (*UNEVEN, ACCOUNT, ("batch.partition", "gpu")), annotate=True
    ),
    "quickstart.pbs": Case(QUICKSTART, "pbs", by_hand=True),
    "horovod.pbs": Case(HOROVOD, "pbs"),
    "horovod.polaris-like": Case(HOROVOD, "polaris-like", FOUR_GPUS, annotate=True),
    "horovod.gadi-like": Case(HOROVOD, "gadi-like", FOUR_GPUS),
    "horovod.abci-like": Case(HOROVOD, "abci-like", FOUR_GPUS),
    "heterogeneous.derecho-like": Case(GOLDEN / "heterogeneous.yml", "derecho-like", (ACCOUNT,)),
    "unequal.derecho-like": Case(GOLDEN / "unequal.yml", "derecho-like", (ACCOUNT,)),
    "parameter_servers.cabeus-like": Case(GOLDEN / "parameter_servers.yml", "cabeus-like", (ACCOUNT,)),
    "horovod.perlmutter": Case(HOROVOD, "perlmutter", FOUR_GPUS),
    "horovod.frontier": Case(HOROVOD, "frontier", FOUR_GPUS, annotate=True),
    "horovod.juwels-booster": Case(HOROVOD, "juwels-booster", FOUR_GPUS),
    "heterogeneous.testbed": Case(GOLDEN / "heterogeneous.yml", "testbed"),
    "unequal.testbed": Case(GOLDEN / "unequal.yml", "testbed"),
    "operations.testbed": Case(GOLDEN / "operations.yml", "testbed"),
    "own_mpirun.testbed": Case(GOLDEN / "own_mpirun.yml", "testbed"),
    "torchrun.testbed": Case(GOLDEN / "torchrun.yml", "testbed"),
    "parameter_servers.testbed": Case(GOLDEN / "parameter_servers.yml", "testbed"),
    "parameter_servers.1.15.testbed": Case(GOLDEN / "parameter_servers_1.15.yml", "testbed"),
    "pytorch_torchrun.juwels-booster": Case(
        GOLDEN / "pytorch_torchrun.yml", "juwels-booster", (ACCOUNT,), annotate=True
    ),
    "pytorch_torchrun.testbed": Case(GOLDEN / "pytorch_torchrun.yml", "testbed", UNEVEN),
    "mxnet.testbed": Case(GOLDEN / "mxnet.yml", "testbed"),
}


def rendered(case: Case) -> Script:
    document = source.load(case.file)
    loaded = load.load_experiment(document, settings=case.settings)

    def where(path: tuple[str | int, ...]) -> str:
        return f"{case.file.name} {'.'.join(map(str, path))}"

    plan = make_plan(loaded.experiment, site_named(case.site), where)
    run_dir = None if case.by_hand else RUN_DIR.format(name=plan.name)
    return render(plan, run_dir=run_dir, annotate=case.annotate)


@pytest.mark.parametrize("name", CASES)
def test_the_script_is_the_same(name: str) -> None:
    file = GOLDEN / f"{name}.sh"
    script = rendered(CASES[name]).job
    before = file.read_text() if file.exists() else ""
    if os.environ.get("HPCDIST_REWRITE_GOLDEN") and script != before:
        file.write_text(script)
        pytest.fail(f"{file.name} was written anew: read `git diff`, then test again without rewriting")
    assert script == before


def test_no_script_is_left_over() -> None:
    assert sorted(file.name for file in GOLDEN.glob("*.sh")) == sorted(f"{name}.sh" for name in CASES)


@pytest.mark.parametrize("name", CASES)
def test_bash_and_shellcheck_have_nothing_to_say(name: str, tmp_path: Path) -> None:
    script = rendered(CASES[name])
    files = [tmp_path / "job.sh", tmp_path / "task.sh"]
    for file, text in zip(files, (script.job, script.task), strict=True):
        file.write_text(text or "#!/bin/bash\n")
        subprocess.run(["bash", "-n", file], check=True)
    shellcheck = Path(sys.executable).parent / "shellcheck"
    done = subprocess.run([shellcheck, "-s", "bash", *files], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
