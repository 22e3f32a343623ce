"""A user's machine for each test: an empty folder to work in, no site settings, no sites of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from hpcdist.cli import main

TOY: Final = """\
name: toy
description: two kinds of nodes
scheduler: slurm
launcher: srun
node_types:
  big: {cpus: 8, memory: 16000, gpus: 4}
partitions:
  gpu: {nodes: {big: 2000}, max_walltime: 2-00:00:00}
default_partition: gpu
replica: {cpus: 1}
detect: {env: {TOY_MACHINE: "yes"}}
"""

RANKS: Final = """\
framework: pytorch
environment:
  replicas: {n_workers: 2}
run:
  cmd: echo "rank $RANK of $WORLD_SIZE"
batch: {site: local, launcher: processes}
"""


@dataclass(frozen=True)
class Result:
    """What a command result, and its exit code."""

    code: int
    out: str
    err: str


Hpcdist = Callable[..., Result]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("HPCDIST_", "SLURM_", "SBATCH_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    (work / "sites").mkdir()
    (work / "sites" / "toy.yaml").write_text(TOY)
    (work / "ranks.yml").write_text(RANKS)
    return work


@pytest.fixture
def hpcdist() -> Hpcdist:
    """Run a command line in this process."""

    def run(*words: str, stdin: str | bytes = "") -> Result:
        result = CliRunner().invoke(main, words, input=stdin, prog_name="hpcdist")
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return Result(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def real(hpcdist: Hpcdist) -> Hpcdist:
    """Run a command line whose jobs run; in this process, where its end needs no process of its own."""
    return hpcdist


def run_real(*words: str, stdin: str = "") -> Result:
    """Run a command line as its user does."""
    done = subprocess.run(argv(words), input=stdin, capture_output=True, text=True, timeout=300, check=False)
    return Result(done.returncode, done.stdout, done.stderr)


def argv(words: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "hpcdist", *words]


@pytest.fixture
def bare_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put only these programs on PATH; they do nothing."""

    def programs(*names: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        for name in names:
            (folder / name).write_text("#!/bin/sh\n")
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))

    return programs
