from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcdist.runs import address
from hpcdist.runs.address import Address
from hpcdist.runs.rundir import RunDirectory

FOUND = Address("notebook", "n1", 4000, "http://localhost:4000/lab", "ssh -N n1", "/runs/nb-1/token")


def test_it_is_what_the_job_wrote(tmp_path: Path) -> None:
    (tmp_path / "address.json").write_text(json.dumps(FOUND._asdict()))
    assert address.read(RunDirectory(tmp_path)) == FOUND


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "[1]",
        '{"kind": "notebook"}',
        json.dumps(FOUND._asdict() | {"port": "4000"}),
        json.dumps(FOUND._asdict() | {"url": None}),
        json.dumps(FOUND._asdict() | {"more": 1}),
        " " * 5000,
    ],
)
def test_anything_else_is_none(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "address.json").write_text(text)
    assert address.read(RunDirectory(tmp_path)) is None


@pytest.mark.parametrize(
    ("tunnel", "expected"),
    [
        ("ssh -N -L 1:localhost:1 -J me@login me@n1", "ssh -N -L 1:localhost:1 -J far me@n1"),
        ("ssh -N -L 1:n1:1 me@login", "ssh -N -L 1:n1:1 far"),
    ],
)
def test_it_is_reached_through_a_host_of_the_users_own_config(tunnel: str, expected: str) -> None:
    here, found = RunDirectory(Path("/here/nb-1")), FOUND._replace(tunnel=tunnel)
    assert found.through("far", here) == Address(*FOUND[:-2], expected, "/here/nb-1/token")
    assert Address(*found[:-1], "").through("far", here) == Address(*FOUND[:-2], expected, "")
