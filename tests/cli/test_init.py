# ruff: noqa: E501 - a file is compared as it is written
"""A first experiment: its whole text, what is refused, and that all of it passes `check` on every site."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from hpcdist.cli.experiment import starter
from tests.sites import SHIPPED

from .conftest import Hpcdist, Said, argv

ACCOUNTS: Final = {"lumi": "project_1", "jean-zay": "abc@v100", "local": None}
"""What is no account like any other."""


def account(site: str) -> list[str]:
    name = ACCOUNTS.get(site, "abc")
    return ["--account", name] if name else []


@pytest.mark.parametrize("site", SHIPPED)
def test_it_passes_check_on_every_site(site: str, hpcdist: Hpcdist) -> None:
    made = hpcdist("init", "--site", site, *account(site), "-o", "-")
    assert made.code == 0, made.err
    assert hpcdist("check", "-", stdin=made.out).code == 0


@pytest.mark.parametrize("site", ["abci3", "anvil", "delta", "gadi", "levante", "pbs", "polaris", "vista"])
def test_nodes_are_whole_nodes(site: str, hpcdist: Hpcdist) -> None:
    said = hpcdist("init", "--site", site, "--nodes", "2", *account(site))
    assert said.code == 0, said.err
    first = said.out.splitlines()[0]
    assert first.startswith("wrote experiment.yml: ")
    assert ", 2 nodes" in first


@pytest.mark.parametrize("framework", starter.choices())
@pytest.mark.parametrize("site", ["perlmutter", "local"])
def test_it_passes_check_for_every_framework(framework: str, site: str, hpcdist: Hpcdist) -> None:
    made = hpcdist("init", "--site", site, "--framework", framework, *account(site), "-o", "-")
    assert made.code == 0, made.err
    assert hpcdist("check", "-", stdin=made.out).code == 0


ON_PERLMUTTER = """\
# Written by `hpcdist init` for site perlmutter: NERSC Perlmutter, A100 and Slingshot 11.
version: 1              # of the file format
name: resnet            # name of its runs and jobs
framework: pytorch      # also horovod, mpi, tensorflow, mxnet, jax, deepspeed, lightning, accelerate, chainermn
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
framework: mxnet        # also horovod, mpi, pytorch, tensorflow, jax, deepspeed, lightning, accelerate, chainermn
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
          requests: 8   # of each worker; a node has 4 a100, 4 a40, 8 a100 or 8 h200
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
    said = hpcdist(
        "init", "--site=perlmutter", "--name=resnet", "--framework=pytorch", "--nodes=4",
        "--account=m1234_g", "--qos=regular", "--yes",
    )  # fmt: skip
    assert (said.code, said.err) == (0, "")
    assert said.out == (
        "wrote resnet.yml: 16 tasks by srun, 4 nodes, 16 GPUs (site perlmutter)\n"
        "  hpcdist plan resnet.yml\n"
        "  hpcdist submit resnet.yml\n"
    )
    assert (folder / "resnet.yml").read_text() == ON_PERLMUTTER
    assert hpcdist("check", "resnet.yml").out == (
        "ok: resnet.yml: 16 tasks by srun, 4 nodes, 16 GPUs (site perlmutter)\n"
    )


def test_with_parameter_servers(hpcdist: Hpcdist) -> None:
    said = hpcdist(
        "init", "--site=delta", "--framework=mxnet", "--nodes=2", "--gpus=8", "--account=abcd", "-o-"
    )
    assert (said.code, said.out, said.err) == (0, ON_DELTA, "")


@pytest.mark.parametrize("site", ["toy", "sites/toy.yaml"])
def test_a_site_of_ones_own(site: str, hpcdist: Hpcdist, folder: Path) -> None:
    said = hpcdist("init", "--site", site, "--site-path", "sites", "-o", "my first.yml")
    assert (said.code, said.err) == (0, "")
    assert said.out == (
        "wrote my first.yml: 8 tasks by srun, 2 nodes, 8 GPUs (site toy)\n"
        "  hpcdist plan 'my first.yml'\n"
        "  hpcdist submit 'my first.yml'\n"
    )
    text = (folder / "my first.yml").read_text()
    assert f"  site: {site} " in text
    assert "name: my-first " in text


def test_without_mpi(hpcdist: Hpcdist, bare_path: Callable[..., None]) -> None:
    bare_path()
    said = hpcdist("init", "--site=local", "--yes")
    assert (said.code, said.out) == (3, "")
    assert said.err == (
        "note: there is no mpirun on PATH, so the launcher is processes\n"
        "error: --framework: framework horovod meets over MPI, which launcher processes does not bring; "
        "use --framework pytorch, which needs no MPI, or install Open MPI\n"
    )
    assert hpcdist("init", "--site=local", "--yes", "--framework=pytorch").code == 0


def test_without_a_framework(hpcdist: Hpcdist) -> None:
    said = hpcdist("init", "--site=local", "--framework=none", '--command=echo "a: b"', "-o", "-")
    assert (said.code, said.out, said.err) == (0, ALONE, "")


def test_what_is_there_is_not_written_over(hpcdist: Hpcdist, folder: Path) -> None:
    (folder / "mine.yml").write_text("mine")
    said = hpcdist("init", "--site", "local", "-o", "mine.yml")
    assert (said.code, said.out) == (2, "")
    assert said.err == ("error: mine.yml already exists; remove it, or choose another file with -o\n")
    assert (folder / "mine.yml").read_text() == "mine"


def test_a_folder_that_is_not_there_is_made(hpcdist: Hpcdist, folder: Path) -> None:
    said = hpcdist("init", "--site", "local", "-o", "new/er/mine.yml")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[1] == "  hpcdist plan new/er/mine.yml"
    assert (folder / "new" / "er").stat().st_mode & 0o777 == 0o700
    assert hpcdist("check", "new/er/mine.yml").code == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ["--site=perlmutter"],
            3,
            (
                "error: --account: batch.account: site perlmutter requires an account; write "
                "`batch: {account: PROJECT}`; for GPU time it mostly ends in _g; for all experiments "
                "`sites: {perlmutter: {account: NAME}}` in ~/.config/hpcdist/config.yml\n"
            ),
        ),
        (
            ["--site=lumi", "--account=abc"],
            3,
            (
                "error: --account: batch.account: site lumi has no accounts like 'abc' (project_\\d+); "
                "write `batch: {account: project_NUMBER}`\n"
            ),
        ),
        (
            ["--site=toy", "--site-path=sites", "--partition=cpu"],
            3,
            "error: --partition: batch.partition: site toy has no partition 'cpu'; did you mean 'gpu'?\n",
        ),
        (
            ["--site=toy", "--site-path=sites", "--nodes=2", "--gpus=3"],
            2,
            "error: --nodes: a node of site toy has 4 GPUs; use --workers, and --gpus for the GPUs of each\n",
        ),
        (
            ["--site=testbed", "--nodes=2", "--gpus=2"],
            2,
            (
                "error: --nodes: replicas of that size share nodes, so the job has 4 tasks by srun, 1 node, "
                "4 GPUs (site testbed); request all GPUs of a node, or choose a partition of smaller nodes\n"
            ),
        ),
        (
            ["--site=local", "--nodes=2"],
            2,
            "error: --nodes: site local has only one node; use --workers, and --gpus for the GPUs of each\n",
        ),
        (
            ["--site=local", "--framework=none", "--workers=1"],
            2,
            "error: --framework: workers need a framework; choose one, or request one node\n",
        ),
    ],
)  # fmt: skip
def test_what_does_not_pass_is_not_written(
    words: list[str], code: int, message: str, hpcdist: Hpcdist, folder: Path
) -> None:
    said = hpcdist("init", *words)
    assert (said.code, said.out) == (code, "")
    assert said.err == message
    assert not (folder / "experiment.yml").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--nodes=2", "--workers=1"], "Error: --nodes cannot be combined with --workers.\n"),
        (
            ["--name=a b"],
            "'a b' is not a valid job name; use up to 235 letters, digits, - and _, such as 'a-b'.\n",
        ),
        (["--command= "], "The command is empty; give the command that starts the program.\n"),
        (
            ["--walltime=30"],
            "'30' is not a walltime; write HH:MM:SS, D-HH:MM:SS or a number with d, h, m or s",
        ),
        (["--nodes=0"], "0 is not in the range x>=1."),
    ],
)
def test_wrong_usage(words: list[str], message: str, hpcdist: Hpcdist) -> None:
    said = hpcdist("init", "--site", "local", *words)
    assert (said.code, said.out) == (2, "")
    assert message in said.err


def test_what_stands_in_the_config_need_not_stand_in_the_file(
    hpcdist: Hpcdist, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "config.yml").write_text("site: lumi\nsites: {lumi: {account: project_7, walltime: 2h}}\n")
    monkeypatch.setenv("HPCDIST_CONFIG", str(folder / "config.yml"))
    said = hpcdist("init", "--partition", "standard-g", "-o", "-")
    assert (said.code, said.err) == (0, "")
    assert said.out.partition("batch:\n")[2] == (
        "  site: lumi             # see `hpcdist sites show`\n"
        "  partition: standard-g  # default: that of the site, or the first that fits\n"
    )


ASKED = """\
Name [experiment]: \
Framework (horovod, mpi, pytorch, tensorflow, mxnet, jax, deepspeed, lightning, accelerate, chainermn, none) [horovod]: \
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
# Written by `hpcdist init` for site lumi: LUMI-G, MI250X and Slingshot 11.
version: 1              # of the file format
name: asked             # name of its runs and jobs
framework: jax          # also horovod, mpi, pytorch, tensorflow, mxnet, deepspeed, lightning, accelerate, chainermn
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


def typed(keys: bytes, folder: Path, *words: str) -> Said:
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
    return Said(process.returncode, out, err)


def test_on_a_terminal_it_asks(folder: Path) -> None:
    keys = b"asked\njax\nmany\n3\npython a.py\nabc\nproject_1\n30m\n"
    said = typed(keys, folder, "--site", "lumi", "--gpus", "8")
    assert (said.code, said.err) == (0, ASKED)
    assert said.out.splitlines()[0] == "wrote asked.yml: 4 tasks by srun, 4 nodes, 32 GPUs (site lumi)"
    assert (folder / "asked.yml").read_text() == ANSWERED


def test_more_gpus_than_a_node_has_are_asked_for_again_and_a_break_ends_it(folder: Path) -> None:
    end = b"\x04"  # click takes it as it takes Ctrl-C
    said = typed(b"99\n" + end, folder, "--site", "lumi", "--name=x", "--framework=jax")
    question = "GPUs of each replica (a node has 8 mi250x) [8]: "
    error = "Error: 99 is not in the range 0<=x<=8."
    assert (said.code, said.out, said.err) == (130, "", f"{question}{error}\n{question}\n")
    assert not (folder / "x.yml").exists()
