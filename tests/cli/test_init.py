# ruff: noqa: E501 - a file is compared as it is written
"""A first experiment: its whole text, what is refused, and that all of it passes `check` on every site."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcdist.cli.experiment import init
from tests.sites import SHIPPED, account_on, shipped_site
from tests.tiers import sweep
from tests.wording import Wording

from .conftest import Hpcdist, Result, argv


def account(site: str) -> list[str]:
    return [] if site == "local" else ["--account", account_on(shipped_site(site))]


@pytest.mark.parametrize("site", sweep(SHIPPED))
def test_it_passes_check_on_every_site(site: str, hpcdist: Hpcdist) -> None:
    made = hpcdist("init", "--site", site, *account(site), "-o", "-")
    assert made.code == 0, made.err
    assert hpcdist("check", "-", stdin=made.out).code == 0


@pytest.mark.parametrize("site", ["abci3", "anvil", "delta", "gadi", "levante", "pbs", "polaris", "vista"])
def test_nodes_are_whole_nodes(site: str, hpcdist: Hpcdist) -> None:
    result = hpcdist("init", "--site", site, "--nodes", "2", *account(site))
    assert result.code == 0, result.err
    first = result.out.splitlines()[0]
    assert first.startswith("wrote experiment.yml: ")
    assert ", 2 nodes" in first


@pytest.mark.parametrize("framework", init.choices())
@pytest.mark.parametrize("site", ["perlmutter", "local"])
def test_it_passes_check_for_every_framework(framework: str, site: str, hpcdist: Hpcdist) -> None:
    made = hpcdist("init", "--site", site, "--framework", framework, *account(site), "-o", "-")
    assert made.code == 0, made.err
    assert hpcdist("check", "-", stdin=made.out).code == 0


ON_PERLMUTTER = """\
# Written by `hpcdist init` for site perlmutter: NERSC Perlmutter, A100, CPU nodes and Slingshot 11.
version: 1              # of the file format
name: resnet            # name of its runs and jobs
framework: pytorch      # also horovod, mpi, tensorflow, mxnet, jax, deepspeed, lightning, accelerate, ray, chainermn
environment:
  resources:
    gpu:
      requests: 4       # of the master; a node has 4 a100
  replicas:
    n_workers: 3        # besides the master
    default_worker:
      resources:
        gpu:
          requests: 4   # of each worker; a node has 4 a100
run:
  cmd: python train.py  # command of every task
pytorch:
  launch: env           # env: one process per GPU; torchrun: one torchrun per node; default: one process per replica
batch:
  site: perlmutter      # see `hpcdist sites show`
  account: m1234_g      # account to charge
  qos: regular          # default: that of the partition
  walltime: "01:00:00"  # time limit of the job
"""

ON_DELTA = """\
# Written by `hpcdist init` for site delta: NCSA Delta, A100, A40, H200 and Slingshot 11.
version: 1              # of the file format
name: experiment        # name of its runs and jobs
framework: mxnet        # also horovod, mpi, pytorch, tensorflow, jax, deepspeed, lightning, accelerate, ray, chainermn
environment:
  resources:
    cpu:
      requests: 1       # of the master
  replicas:
    n_workers: 2        # besides the master
    n_ps: 1             # parameter servers
    default_worker:
      resources:
        gpu:
          requests: 8   # of each worker; a node has 4 a100, 4 a40, 8 a100, 8 h200 or 8 mi100
    default_ps:
      resources:
        cpu:
          requests: 1   # of each server
run:
  cmd: python train.py  # command of every task
batch:
  site: delta           # see `hpcdist sites show`
  account: abcd         # account to charge
  walltime: "01:00:00"  # time limit of the job
"""

ALONE = """\
# Written by `hpcdist init` for site local: this machine, without a scheduler.
version: 1            # of the file format
name: experiment      # name of its runs and jobs
environment:
  resources:
    cpu:
      requests: 1     # of the master
run:
  cmd: 'echo "a: b"'  # command of every task
batch:
  site: local         # see `hpcdist sites show`
"""


def test_the_file(hpcdist: Hpcdist, folder: Path) -> None:
    result = hpcdist(
        "init", "--site=perlmutter", "--name=resnet", "--framework=pytorch", "--nodes=4",
        "--account=m1234_g", "--qos=regular", "--yes",
    )  # fmt: skip
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        "wrote resnet.yml: 16 tasks by srun, 4 nodes, 16 GPUs (site perlmutter)\n"
        "  hpcdist plan resnet.yml\n"
        "  hpcdist submit resnet.yml\n"
    )
    assert (folder / "resnet.yml").read_text() == ON_PERLMUTTER
    assert hpcdist("check", "resnet.yml").out == (
        "ok: resnet.yml: 16 tasks by srun, 4 nodes, 16 GPUs (site perlmutter)\n"
        "cost: at most 16 GPU-hours, 4 node-hours (4 nodes with 16 GPUs for 01:00:00)\n"
    )


def test_with_parameter_servers(hpcdist: Hpcdist) -> None:
    result = hpcdist(
        "init", "--site=delta", "--framework=mxnet", "--nodes=2", "--gpus=8", "--account=abcd", "-o-"
    )
    assert (result.code, result.out, result.err) == (0, ON_DELTA, "")


@pytest.mark.parametrize("site", ["toy", "sites/toy.yaml"])
def test_a_site_of_ones_own(site: str, hpcdist: Hpcdist, folder: Path) -> None:
    result = hpcdist("init", "--site", site, "--site-path", "sites", "-o", "my first.yml")
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        "wrote my first.yml: 8 tasks by srun, 2 nodes, 8 GPUs (site toy)\n"
        "  hpcdist plan 'my first.yml'\n"
        "  hpcdist submit 'my first.yml'\n"
    )
    text = (folder / "my first.yml").read_text()
    assert f"  site: {site} " in text
    assert "name: my-first " in text


def test_without_mpi(hpcdist: Hpcdist, bare_path: Callable[..., None], wording: Wording) -> None:
    bare_path()
    result = hpcdist("init", "--site=local", "--yes")
    assert (result.code, result.out) == (3, "")
    wording(result.err)
    assert hpcdist("init", "--site=local", "--yes", "--framework=pytorch").code == 0


def test_without_a_framework(hpcdist: Hpcdist) -> None:
    result = hpcdist("init", "--site=local", "--framework=none", '--command=echo "a: b"', "-o", "-")
    assert (result.code, result.out, result.err) == (0, ALONE, "")


def test_an_existing_file_is_not_overwritten(hpcdist: Hpcdist, folder: Path, wording: Wording) -> None:
    (folder / "mine.yml").write_text("mine")
    result = hpcdist("init", "--site", "local", "-o", "mine.yml")
    assert (result.code, result.out) == (2, "")
    wording(result.err)
    assert (folder / "mine.yml").read_text() == "mine"


def test_a_missing_directory_is_created(hpcdist: Hpcdist, folder: Path) -> None:
    result = hpcdist("init", "--site", "local", "-o", "new/er/mine.yml")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[1] == "  hpcdist plan new/er/mine.yml"
    assert (folder / "new" / "er").stat().st_mode & 0o777 == 0o700
    assert hpcdist("check", "new/er/mine.yml").code == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [(["--site=perlmutter"], 3), (["--site=lumi", "--account=abc"], 3), (["--site=toy", "--site-path=sites", "--nodes=2", "--gpus=3"], 2), (["--site=testbed", "--nodes=2", "--gpus=2"], 2), (["--site=local", "--nodes=2"], 2), (["--site=local", "--framework=none", "--workers=1"], 2)],
 ids=lambda value: " ".join(value) if isinstance(value, list) else str(value))  # fmt: skip
def test_an_experiment_that_fails_check_is_not_written(
    words: list[str], code: int, hpcdist: Hpcdist, folder: Path, wording: Wording
) -> None:
    result = hpcdist("init", *words)
    assert (result.code, result.out) == (code, "")
    wording(result.err)
    assert not (folder / "experiment.yml").exists()


@pytest.mark.parametrize(
    "words",
    [["--nodes=2", "--workers=1"], ["--name=a b"], ["--command= "], ["--walltime=30"], ["--nodes=0"]],
    ids=" ".join,
)
def test_wrong_usage(words: list[str], hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist("init", "--site", "local", *words)
    assert (result.code, result.out) == (2, "")
    wording(result.err)


def test_keys_of_the_config_are_left_out_of_the_file(
    hpcdist: Hpcdist, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "config.yml").write_text("site: lumi\nsites: {lumi: {account: project_7, walltime: 2h}}\n")
    monkeypatch.setenv("HPCDIST_CONFIG", str(folder / "config.yml"))
    result = hpcdist("init", "--partition", "standard-g", "-o", "-")
    assert (result.code, result.err) == (0, "")
    assert result.out.partition("batch:\n")[2] == (
        "  site: lumi             # see `hpcdist sites show`\n"
        "  partition: standard-g  # default: that of the site, or the first that fits\n"
    )


ASKED = """\
Name [experiment]: \
Framework (horovod, mpi, pytorch, tensorflow, mxnet, jax, deepspeed, lightning, accelerate, ray, chainermn, none) [horovod]: \
Workers besides the master [1]: \
Error: 'many' is not a valid number.
Workers besides the master [1]: \
Command [python train.py]: \
Account: \
Error: 'abc' is not a valid account name on site lumi; write `batch: {account: project_NUMBER}`.
Account: \
Walltime [01:00:00]: \
"""


ANSWERED = """\
# Written by `hpcdist init` for site lumi: LUMI, MI250X, CPU nodes and Slingshot 11.
version: 1              # of the file format
name: asked             # name of its runs and jobs
framework: jax          # also horovod, mpi, pytorch, tensorflow, mxnet, deepspeed, lightning, accelerate, ray, chainermn
environment:
  resources:
    gpu:
      requests: 8       # of the master; a node has 8 mi250x
  replicas:
    n_workers: 3        # besides the master
    default_worker:
      resources:
        gpu:
          requests: 8   # of each worker; a node has 8 mi250x
run:
  cmd: python a.py      # command of every task
batch:
  site: lumi            # see `hpcdist sites show`
  account: project_1    # account to charge
  walltime: "00:30:00"  # time limit of the job
"""


def typed(keys: bytes, folder: Path, *words: str) -> Result:
    """Run `init` on a terminal on which these keys are pressed."""
    keyboard, terminal = pty.openpty()
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv(["init", *words]), cwd=folder, stdin=terminal, stdout=pipe, stderr=pipe, text=True
    ) as process:
        os.write(keyboard, keys)
        out, err = process.communicate(timeout=60)
    os.close(keyboard)
    os.close(terminal)
    return Result(process.returncode, out, err)


def test_prompts_on_a_terminal(folder: Path) -> None:
    keys = b"asked\njax\nmany\n3\npython a.py\nabc\nproject_1\n30m\n"
    result = typed(keys, folder, "--site", "lumi", "--gpus", "8")
    assert (result.code, result.err) == (0, ASKED)
    assert result.out.splitlines()[0] == "wrote asked.yml: 4 tasks by srun, 4 nodes, 32 GPUs (site lumi)"
    assert (folder / "asked.yml").read_text() == ANSWERED


def test_too_many_gpus_prompt_again_and_end_of_file_aborts(folder: Path) -> None:
    end = b"\x04"  # click takes it as it takes Ctrl-C
    result = typed(b"99\n" + end, folder, "--site", "lumi", "--name=x", "--framework=jax")
    question = "GPUs of each replica (a node has 8 mi250x) [8]: "
    error = "Error: 99 is not in the range 0<=x<=8."
    assert (result.code, result.out, result.err) == (130, "", f"{question}{error}\n{question}\n")
    assert not (folder / "x.yml").exists()
