"""Users of machines whose batch system is the PBS of ``tests/pbs/fake``: one host, or the cluster's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import here
from tests.slurm.cluster import CHECKOUT, Cluster
from tests.slurm.conftest import cluster, standing
from tests.slurm.conftest import workdir as workdir_on_cluster
from tests.slurm.process import SYSTEM_PATH
from tests.slurm.users import ENVIRONMENT, User

__all__ = ["cluster", "standing", "workdir_on_cluster"]

FAKES = CHECKOUT / "tests" / "pbs" / "fake"
SITES = CHECKOUT / "tests" / "sites"

Completed = subprocess.CompletedProcess[str]


def machine(spool: Path, hosts: Mapping[str, Mapping[str, int]], **settings: Any) -> Path:
    """Set up a PBS in this folder."""
    spool.mkdir(parents=True, exist_ok=True)
    data = {"hosts": hosts, "queues": ["workq"], **settings}
    (spool / "config.json").write_text(json.dumps(data))
    return spool


@dataclass(frozen=True)
class Person:
    """Somebody on a login node of a machine with PBS, in one directory."""

    directory: Path
    environment: Mapping[str, str]

    def run(self, *words: str | Path, **environment: str) -> Completed:
        """Run a program to its end."""
        return subprocess.run(
            words,
            cwd=self.directory,
            env={**self.environment, "PWD": str(self.directory), **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def hpcdist(self, *words: str | Path, **environment: str) -> Completed:
        """Run hpcdist to its end."""
        own = {**self.environment, "PWD": str(self.directory), **environment}
        return here.hpcdist(*words, folder=self.directory, environment=own)

    def json(self, *words: str | Path) -> Any:
        """Run hpcdist with --json and return what it says."""
        done = self.hpcdist(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def write(self, name: str, command: str, workers: int = 0, **batch: Any) -> Path:
        """Write an experiment whose command starts everything itself: it runs once, on the first host."""
        path = self.directory / f"{name}.yml"
        data = {
            "version": 1,
            "name": name,
            "framework": "mpi",
            "backend": "mpi",
            "environment": {"replicas": {"n_workers": workers}},
            "run": {"cmd": command},
            "batch": {"walltime": "10m", **batch},
        }
        path.write_text(yaml.safe_dump(data, sort_keys=False))
        return path

    def script(self, *lines: str) -> Path:
        """Write a script for a plain qsub."""
        path = self.directory / "job.sh"
        path.write_text("".join(f"{line}\n" for line in ("#!/bin/bash", *lines)))
        return path


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    """A machine of three hosts, all of which are this one; only the first runs anything."""
    hosts = {name: {"ncpus": 8, "ngpus": 4} for name in (os.uname().nodename, "other1", "other2")}
    spool = machine(tmp_path / "spool", hosts)
    work = tmp_path / "work"
    work.mkdir()
    environment = {
        "PATH": f"{FAKES}:{Path(sys.executable).parent}:{SYSTEM_PATH}",
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "FAKE_PBS": str(spool),
        "HPCDIST_SITE": "pbs",
        "PYTHONPATH": str(CHECKOUT),
    }
    yield Person(work, environment)
    told = written(spool)
    assert not told, told


def written(spool: Path) -> str:
    """Return what the processes of jobs wrote: the end of one that broke."""
    return (spool / "log").read_text() if (spool / "log").exists() else ""


@dataclass(frozen=True)
class PbsUser(User):
    """Somebody at the cluster's head node, where PBS's commands come before all others."""

    spool: Path = Path()

    def hpcdist(
        self, *words: str | Path, env: Mapping[str, str] | None = None, timeout: float = 600
    ) -> Completed:
        """Run hpcdist to its end."""
        own = {
            "PATH": f"{FAKES}:{ENVIRONMENT['PATH']}",
            "FAKE_PBS": str(self.spool),
            "HPCDIST_SITE": "pbs-testbed",
            "HPCDIST_SITE_PATH": str(SITES),
        }
        return super().hpcdist(*words, env=own | dict(env or {}), timeout=timeout)


@pytest.fixture
def user(cluster: Cluster, workdir_on_cluster: Path) -> PbsUser:
    """A user of the cluster: two of its hosts, with four GPUs each."""
    hosts = {
        "n1": {"ncpus": 16, "ngpus": 4},
        "n2": {"ncpus": 16, "ngpus": 4},
    }
    spool = machine(workdir_on_cluster / "spool", hosts, ssh=True)
    owner = workdir_on_cluster.stat()
    for path in (spool, *spool.iterdir()):
        os.chown(path, owner.st_uid, owner.st_gid)
    (workdir_on_cluster / "examples").symlink_to(CHECKOUT / "examples")
    return PbsUser(cluster, workdir_on_cluster, spool=spool)
