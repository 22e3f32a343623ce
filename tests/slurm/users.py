"""Running hpcdist on the test cluster as its users do: on the head, from a directory of their own."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.slurm.cluster import CHECKOUT, Cluster, Completed
from tests.slurm.process import SYSTEM_PATH

PYTHON = CHECKOUT / ".venv" / "bin" / "python"
ENVIRONMENT = {
    "HPCDIST_SITE": "testbed",
    "PATH": f"{PYTHON.parent}:{SYSTEM_PATH}",
    # Nodes claim 16 CPUs; the machine has fewer, which threads that spin would keep from those that compute.
    "OMP_WAIT_POLICY": "passive",
}


def framework_path(name: str) -> str:
    """Return the PATH of somebody who has loaded a framework that `tools/setup all` has installed apart."""
    own = f"{CHECKOUT}/.frameworks/{name}/bin:" if name else ""
    return f"{own}{ENVIRONMENT['PATH']}"


PROBE = (
    'own=; IFS=, read -ra seen <<<"${CUDA_VISIBLE_DEVICES-0,1,2,3,4,5,6,7}"; '
    "for gpu in ${HPCDIST_GPUS//,/ }; do own+=,${seen[gpu]}; done; "
    "echo probe $HPCDIST_RANK $HPCDIST_ROLE $HPCDIST_INDEX $(uname -n) $HPCDIST_LOCAL_RANK ${own:--}"
)
"""A command that prints what a task finds around itself; the line is read by `probes`."""


@dataclass(frozen=True)
class User:
    """Somebody at the head node, in one directory."""

    cluster: Cluster
    directory: Path
    name: str = "hu1"

    def hpcdist(
        self, *words: str | Path, env: Mapping[str, str] | None = None, timeout: float = 600
    ) -> Completed:
        """Run hpcdist to its end."""
        return self.cluster.run(
            [PYTHON, "-m", "hpcdist", *words],
            user=self.name,
            cwd=self.directory,
            env=ENVIRONMENT | dict(env or {}),
            timeout=timeout,
        )

    def json(self, *words: str | Path) -> Any:
        """Run hpcdist with --json and return what it says."""
        done = self.hpcdist(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def write(self, name: str, experiment: Mapping[str, Any]) -> Path:
        """Write an experiment file."""
        path = self.directory / f"{name}.yml"
        path.write_text(yaml.safe_dump({"version": 1, "name": name, **experiment}, sort_keys=False))
        return path

    def log(self, run: str) -> str:
        """Return all that a run's job has printed."""
        return (self.directory / "runs" / run / "logs" / "job.out").read_text()

    def events(self, run: str) -> list[tuple[str, str]]:
        """Return the names and values of the events of a run so far."""
        log = self.directory / "runs" / run / "events"
        lines = log.read_text().splitlines() if log.exists() else []
        return [(line.split()[0], line.split()[3]) for line in lines]

    def await_log(self, run: str, text: str, seconds: float = 300) -> str:
        """Return the log once it holds this text."""
        end = time.monotonic() + seconds
        log = self.directory / "runs" / run / "logs" / "job.out"
        while not (log.exists() and text in log.read_text()):
            assert time.monotonic() < end, (
                f"{text!r} did not come: {log.read_text() if log.exists() else 'no log'}"
            )
            time.sleep(0.1)
        return log.read_text()


def probes(user: User, run: str) -> list[dict[str, Any]]:
    """Return what the tasks of a run printed by `PROBE`, as records like those of `hpcdist plan --json`."""
    (nodes,) = (user.directory / "runs" / run / "jobs").glob("*/nodes")
    return probes_in(user.log(run), nodes.read_text().split())


def probes_in(log: str, nodes: Sequence[str]) -> list[dict[str, Any]]:
    """Return what tasks on these nodes printed by `PROBE`."""
    numbers = {host: number for number, host in enumerate(nodes)}
    found = re.findall(r"probe (\d+) (\w+) (\d+) (\S+) (\d+) (\S+)", log)
    return sorted(
        (
            {
                "rank": int(rank),
                "role": role,
                "index": int(index),
                "node": numbers[host],
                "local_rank": int(local_rank),
                "gpus": [] if gpus == "-" else [int(gpu) for gpu in gpus[1:].split(",")],
            }
            for rank, role, index, host, local_rank, gpus in found
        ),
        key=lambda record: record["rank"],
    )
