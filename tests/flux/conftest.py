"""A user of a machine with Flux: a fake flux on PATH, four hosts, a site file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

SITE: Final = """\
name: toy
description: four nodes under Flux
scheduler: flux
launcher: flux
node_types:
  node: {cpus: 16, gpus: 4}
partitions:
  pbatch: {nodes: {node: 100}}
default_partition: pbatch
gpus: {request: gpus_per_node}
replica: {cpus: 1}
"""

FAKE: Final = Path(__file__).with_name("fake.py")


@dataclass(frozen=True)
class User:
    """Somebody in a folder of their own."""

    folder: Path

    @property
    def flux_folder(self) -> Path:
        return self.folder / "flux"

    def run(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        own = {
            name: value for name, value in os.environ.items() if not name.startswith(("HPCDIST_", "SLURM_"))
        }
        own |= {
            "PATH": f"{self.folder / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "FAKE_FLUX": str(self.flux_folder),
            "HPCDIST_SITE_PATH": str(self.folder / "sites"),
            "HPCDIST_SITE": "toy",
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
        }
        return subprocess.run(
            words,
            cwd=self.folder,
            env=own | dict(env or {}),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def hpcdist(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "hpcdist", *words, env=env)

    def json(self, *words: str) -> Any:
        done = self.hpcdist(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def status(self, run: str) -> Any:
        """What `hpcdist status` says of one run."""
        (record,) = self.json("status", run)
        return record

    def submitted(self) -> int:
        """The number of jobs that Flux knows."""
        return len(list((self.flux_folder / "jobs").glob("*.json")))

    def await_log(self, run: str, text: str) -> str:
        log = self.folder / "runs" / run / "logs" / "job.out"
        end = time.monotonic() + 300
        while not (log.exists() and text in log.read_text()):
            said = log.read_text() if log.exists() else "no log"
            assert time.monotonic() < end, f"{text!r} did not come: {said}"
            time.sleep(0.05)
        return log.read_text()


@pytest.fixture
def user(tmp_path: Path) -> User:
    for name in ("bin", "sites", "flux/jobs"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "bin" / "flux").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
    (tmp_path / "bin" / "flux").chmod(0o755)
    (tmp_path / "flux" / "hosts").write_text("n1\nn2\nn3\nn4\n")
    (tmp_path / "flux" / "queues").write_text("pbatch 2h -\npdebug 10m 1\n")
    (tmp_path / "sites" / "toy.yaml").write_text(SITE)
    return User(tmp_path)
