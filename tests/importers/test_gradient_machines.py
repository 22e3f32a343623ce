"""Machine types of Gradient, and one of unknown size."""

from __future__ import annotations

import pytest

from hpcdist import importers
from hpcdist.documents import source
from hpcdist.importers.gradient.machines import Machine, machine


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("P4000", Machine(1)),
        ("GPU+", Machine(1)),
        ("Free-P5000", Machine(1)),
        ("Free-CPU", Machine(0, 2)),
        ("GV100x8", Machine(8)),
        ("A100-80Gx2", Machine(2)),
        ("P5000x3", None),
        ("p3.16xlarge", Machine(8)),
        ("C7", Machine(0, 12)),
        ("C2", Machine(0, 0)),
        ("TPUv2", None),
    ],
)
def test_machines(name: str, found: Machine | None) -> None:
    assert machine(name) == found


def test_a_machine_of_unknown_size_is_a_warning() -> None:
    document = source.parse("name: a\nmachineType: C2\ncommand: x\n", "f.yml")
    imported = importers.read(document.data)
    assert imported.data == {"name": "a", "run": {"cmd": "x"}}
    assert [str(document.locate(problem)) for problem in imported.remarks] == [
        (
            "f.yml:2:14: machineType: the number of CPUs of the machine type 'C2' is unknown; "
            "write `--set environment.resources.cpu.requests=N` for N of them"
        )
    ]
