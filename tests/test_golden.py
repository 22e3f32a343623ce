"""Scripts, or their first parts, as they stand in ``tests/golden/``: a change of them is seen in its diff.

To write them anew: ``HPCDIST_REWRITE_GOLDEN=1 pytest tests/test_golden.py``. That run fails wherever a script
changed, so that it can never pass in CI; read ``git diff tests/golden``, then run the test without it.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcdist.base import source
from hpcdist.loading import load
from hpcdist.plan.model import Plan
from hpcdist.plan.values import Origin
from hpcdist.planner.make_plan import make_plan
from hpcdist.runs import inside
from hpcdist.script import runtime
from hpcdist.script.renderer import render
from tests import published
from tests.sites import SHIPPED, shipped_site, site_named
from tests.tiers import SAMPLE, sweep

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = Path(__file__).parents[1] / "examples"
_RUN = "/scratch/me/runs/x-1"
_NOT_OWN = "is not your own: another could change it"
_EACH_RANK = [
    '  [[ ${POLYAXON_OFFLINE_ROOT:-} != "$HPCDIST_TRACKING"/* ]] || # each rank has its own',
    "    POLYAXON_OFFLINE_ROOT=${POLYAXON_OFFLINE_ROOT%-*}-$HPCDIST_RANK",
]
_LOG = re.compile("[-+] #(SBATCH --(output|open-mode)|PBS -[jo]|BSUB -[oe]|\\$ -[jo]|flux: --output)")


@dataclass(frozen=True)
class Case:
    """An experiment file on a site; ``settings`` as for ``--set``."""

    file: Path
    site: str
    settings: tuple[tuple[str, str], ...] = ()
    annotate: bool = False


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
FEW_CPUS = (
    ACCOUNT,
    ("environment.resources", "{gpu: {requests: 4}, cpu: {requests: 8}}"),
    ("environment.replicas.default_worker.resources", "{gpu: {requests: 4}, cpu: {requests: 8}}"),
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
TWO_NODES = (("environment.replicas.default_worker.resources", "{cpu: {requests: 42}}"),)
CONTAINER = GOLDEN / "container.yml"
SIF = ("build.image", "/images/torch.sif")
EIGHT_GPUS = (
    ("environment.resources", "{gpu: {requests: 8}}"),
    ("environment.replicas.default_worker.resources", "{gpu: {requests: 8}}"),
)

CASES = {
    "quickstart.local": Case(QUICKSTART, "local"),
    "array.pbs": Case(GOLDEN / "array.yml", "pbs"),
    "array.lsf": Case(GOLDEN / "array.yml", "lsf"),
    "array.sge": Case(GOLDEN / "array.yml", "sge"),
    "quickstart.testbed": Case(QUICKSTART, "testbed", annotate=True),
    "horovod.tuolumne-like": Case(HOROVOD, "tuolumne-like", FOUR_GPUS),
    "horovod.polaris-like-pals": Case(HOROVOD, "polaris-like", (*FOUR_GPUS, ("batch.launcher", "pals"))),
    "horovod.vista-like": Case(HOROVOD, "vista-like", ONE_GPU),
    "unequal.testbed.hydra": Case(GOLDEN / "unequal.yml", "testbed", (("batch.launcher", "hydra"),)),
    "horovod.testbed": Case(HOROVOD, "testbed"),
    "horovod.testbed.mpirun": Case(HOROVOD, "testbed", (("batch.launcher", "mpirun"),)),
    "horovod.local.horovodrun": Case(HOROVOD, "local", (("batch.launcher", "horovodrun"),)),
    "horovod.summit-like": Case(HOROVOD, "summit-like", SIX_GPUS, annotate=True),
    "unequal.summit-like": Case(GOLDEN / "unequal.yml", "summit-like", (ACCOUNT,)),
    "unequal.summit-like-task": Case(GOLDEN / "unequal.yml", "summit-like-task", (ACCOUNT,)),
    "horovod.sge-like": Case(
        HOROVOD, "sge-like", (*UNEVEN, ACCOUNT, ("batch.partition", "gpu")), annotate=True
    ),
    "horovod.polaris-like": Case(HOROVOD, "polaris-like", FOUR_GPUS, annotate=True),
    "horovod.gadi-like": Case(HOROVOD, "gadi-like", FEW_CPUS, annotate=True),
    "horovod.abci-like": Case(HOROVOD, "abci-like", FOUR_GPUS),
    "heterogeneous.derecho-like": Case(GOLDEN / "heterogeneous.yml", "derecho-like", (ACCOUNT,)),
    "unequal.derecho-like": Case(GOLDEN / "unequal.yml", "derecho-like", (ACCOUNT,)),
    "parameter_servers.cabeus-like": Case(GOLDEN / "parameter_servers.yml", "cabeus-like", (ACCOUNT,)),
    "heterogeneous.testbed": Case(GOLDEN / "heterogeneous.yml", "testbed"),
    "unequal.testbed": Case(GOLDEN / "unequal.yml", "testbed"),
    "operations.testbed": Case(GOLDEN / "operations.yml", "testbed"),
    "ray.snellius": Case(GOLDEN / "ray.yml", "snellius", annotate=True),
    "steps.testbed": Case(GOLDEN / "steps.yml", "testbed", annotate=True),
    "modules.testbed": Case(
        GOLDEN / "modules.yml", "testbed", (("batch.launcher", "mpirun"),), annotate=True
    ),
    "modules.summit-like": Case(GOLDEN / "modules.yml", "summit-like", (ACCOUNT, *TWO_NODES)),
    "own_mpirun.testbed": Case(GOLDEN / "own_mpirun.yml", "testbed"),
    "torchrun.testbed": Case(GOLDEN / "torchrun.yml", "testbed"),
    "parameter_servers.testbed": Case(GOLDEN / "parameter_servers.yml", "testbed"),
    "parameter_servers.1.15.testbed": Case(GOLDEN / "parameter_servers_1.15.yml", "testbed"),
    "pytorch_torchrun.juwels-booster": Case(
        GOLDEN / "pytorch_torchrun.yml", "juwels-booster", (ACCOUNT,), annotate=True
    ),
    "pytorch_torchrun.testbed": Case(GOLDEN / "pytorch_torchrun.yml", "testbed", UNEVEN),
    "mxnet.testbed": Case(GOLDEN / "mxnet.yml", "testbed"),
    "packed.polaris-like": Case(GOLDEN / "packed.yml", "polaris-like", (ACCOUNT,), annotate=True),
    "packed.tuolumne-like": Case(GOLDEN / "packed.yml", "tuolumne-like", (ACCOUNT,)),
    "container.apptainer": Case(CONTAINER, "snellius", (SIF,)),
    "container.venv": Case(
        CONTAINER,
        "snellius",
        (SIF, ("run.cmd", "source venv/bin/activate && python train.py")),
        annotate=True,
    ),
    "container.singularity": Case(
        CONTAINER, "lumi", (SIF, *EIGHT_GPUS, ("batch.account", "project_465000001")), annotate=True
    ),
    "container.pyxis": Case(CONTAINER, "gcp-a3-ultra", EIGHT_GPUS, annotate=True),
    "container.frontier": Case(CONTAINER, "frontier", (SIF, *EIGHT_GPUS, ACCOUNT), annotate=True),
    "container.polaris": Case(CONTAINER, "polaris", (SIF, *FOUR_GPUS, ACCOUNT), annotate=True),
    "container.edf": Case(CONTAINER, "clariden", annotate=True),
    "container.shifter": Case(CONTAINER, "perlmutter", (ACCOUNT,)),
    "container.podman-hpc": Case(CONTAINER, "podman-like", annotate=True),
}


def _of_sites() -> Iterator[tuple[str, Case]]:
    """Yield on each machine the three examples that are compared with what its centre publishes."""
    for name in sorted({*SHIPPED} - published.GENERIC):
        site = shipped_site(name)
        for example in published.examples_of(site):
            settings = published.settings_of(site, example)
            file = published.FOLDER / f"{example}.yml"
            yield f"sites/{name}.{example}", Case(file, name, settings, annotate=example != "mpi")


CASES |= dict(_of_sites())


def machine(name: str) -> str:
    """Return the site of a case of all sites; empty for the others."""
    return name.removeprefix("sites/").partition(".")[0] if name.startswith("sites/") else ""


def plan_of(case: Case) -> Plan:
    document = source.load(case.file)
    loaded = load.load_experiment(document, settings=case.settings)

    def where(path: tuple[str | int, ...]) -> Origin:
        return Origin("place", f"{case.file.name} {'.'.join(map(str, path))}")

    return make_plan(loaded.experiment, site_named(case.site), where)


def shellcheck(*files: Path) -> None:
    """Let bash and ShellCheck read these, one start of ShellCheck for all: it names the bad one."""
    for file in files:
        subprocess.run(["bash", "-n", file], check=True)
    program = Path(sys.executable).parent / "shellcheck"
    done = subprocess.run([program, "-s", "bash", *files], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("name", sweep(CASES, machine))
def test_the_script_is_the_same(name: str) -> None:
    file = GOLDEN / f"{name}.sh"
    script = render(plan_of(CASES[name]), annotate=CASES[name].annotate)
    before = file.read_text() if file.exists() else ""
    if os.environ.get("HPCDIST_REWRITE_GOLDEN") and script != before:
        file.write_text(script)
        pytest.fail(f"{file.name} was written anew: read `git diff`, then test again without rewriting")
    assert script == before


def test_no_script_is_left_over() -> None:
    files = (file.relative_to(GOLDEN) for file in GOLDEN.rglob("*.sh"))
    assert sorted(map(str, files)) == sorted(f"{name}.sh" for name in CASES)


@pytest.mark.parametrize("is_sample", [True, pytest.param(False, marks=pytest.mark.extended)])
def test_bash_and_shellcheck_have_nothing_to_say_on_a_script(*, is_sample: bool) -> None:
    sample = {"", *SAMPLE}
    shellcheck(*(GOLDEN / f"{name}.sh" for name in CASES if (machine(name) in sample) == is_sample))


@pytest.mark.parametrize("name", sweep(CASES, machine))
def test_a_submitted_script_has_the_handover_and_the_place_of_its_log_more(name: str) -> None:
    plan = plan_of(CASES[name])
    handover = f"{runtime.digest()} job.sh {runtime.needs(plan)}".rstrip()
    own, submitted = render(plan).splitlines(), render(plan, run_dir=_RUN).splitlines()
    changes = [line for line in difflib.ndiff(own, submitted) if line[0] in "+-"]
    logs = [line for line in changes if _LOG.match(line)]
    added = [line[2:] for line in changes if line not in logs]
    assert added[:8] == [
        "",
        f"export HPCDIST_RUN_DIR={_RUN} # whose files start this script anew, and record what becomes of it",
        'if [[ ${HPCDIST_SUPERVISED:-} != "$HPCDIST_RUN_DIR $PPID" ]]; then',
        f'  [[ ! -e $HPCDIST_RUN_DIR || -O $HPCDIST_RUN_DIR ]] || fail "$HPCDIST_RUN_DIR {_NOT_OWN}"',
        "  # shellcheck source=/dev/null # it takes the place of this shell",
        f'  source "$HPCDIST_RUN_DIR/runtime/supervise.sh" {handover}',
        '  fail "$(uname -n) has no $HPCDIST_RUN_DIR/runtime; is its file system mounted there?"',
        "fi",
    ]
    assert added[8:] in ([], _EACH_RANK)


def test_bash_and_shellcheck_have_nothing_to_say_on_what_lies_beside_a_script(tmp_path: Path) -> None:
    texts = {name: text for name, text in runtime.files().items() if name.endswith(".sh")}
    texts |= {name: inside.text(name) for name in ("inside.sh", "stacks.sh")}
    for name, text in texts.items():
        (tmp_path / Path(name).name).write_text(text if text.startswith("#!") else f"#!/bin/bash\n{text}")
    shellcheck(*tmp_path.iterdir())
