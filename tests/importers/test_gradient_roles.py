"""The commands of the roles of a GRPC experiment, run by bash."""

from __future__ import annotations

import base64
import subprocess

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.loading.load import load_experiment

TEXT = """\
experimentType: GRPC
workerCount: 2
workerMachineType: P4000
workerContainer: tensorflow/tensorflow:2.4.1
workerCommand: |
  echo "it's $INDEX of $TYPE" '{{ a }}' # the end
parameterServerCount: 1
parameterServerMachineType: C7
parameterServerCommand: for i in 1 2; do echo "$i;;esac"; done
experimentEnv: {A: "1"}
"""
CONFIG = '{"cluster": {"ps": ["a:1"]}, "note": "?>?>~~"}'


def output_of(role: str, text: str = TEXT) -> str:
    command = load_experiment(source.parse(text, "f.yml")).experiment.run.command
    known = {"HPCDIST_ROLE": role, "HPCDIST_INDEX": "3", "TF_CONFIG": CONFIG, "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        ["bash", "-c", command], env=known, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize(
    ("role", "out"),
    [
        ("master", "it's 3 of master {{ a }}\n"),
        ("worker", "it's 3 of worker {{ a }}\n"),
        ("ps", "1;;esac\n2;;esac\n"),
    ],
)
def test_each_role_runs_its_own_command(role: str, out: str) -> None:
    assert output_of(role) == out


def test_the_sdk_of_gradient_finds_the_cluster() -> None:
    command = 'echo "$PS_CONFIG"'
    text = "".join(
        f"{line.partition(':')[0]}: {command}\n" if "Command" in line else line
        for line in TEXT.splitlines(keepends=True)
        if not line.startswith(" ")
    )
    assert base64.urlsafe_b64decode(output_of("worker", text)).decode() == CONFIG


@pytest.mark.parametrize(
    ("machine", "count", "native"),
    [
        ("P4000", 1, {}),
        ("P4000", 2, {"replicas": 1}),
        ("P4000x2", 2, {}),
        ("P4000x2", 1, {"processes_per_replica": 1}),
        ("C7", 2, {"replicas": 1, "processes_per_replica": 1}),
    ],
)
def test_mpirun_starts_fewer_processes_than_there_is_room(
    machine: str, count: int, native: dict[str, int]
) -> None:
    text = (
        f"experimentType: MPI\nworkerCount: 3\nworkerMachineType: {machine}\nworkerContainer: a/b:1\n"
        f"masterCommand: mpirun -np {count} python x.py\n"
    )
    found = importers.read(source.parse(text, "f.yml").data)
    section = found.data["environment"]
    nodes = 1 + section.get("replicas", {}).get("n_workers", 0)
    assert nodes == 1 + native.get("replicas", 0)
    assert section.get("processes_per_replica") == native.get("processes_per_replica")
    number = "1 process" if count == 1 else f"{count} processes"
    why = f"mpirun starts {number} (-np) on {nodes} of 3 workers: no other is requested"
    assert why in [remark.message for remark in found.remarks]
