from __future__ import annotations

import json
from pathlib import Path

import pytest

from hpcdist.runs import address
from hpcdist.runs.address import Address
from hpcdist.runs.rundir import RunDirectory

TUNNEL = "ssh -N -L 4000:localhost:4000 -J me@login.example.org me@n1"
FOUND = Address("notebook", "n1", 4000, "http://localhost:4000/lab", TUNNEL, "/runs/nb-1/token")


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
        *(
            json.dumps(FOUND._asdict() | {name: value})
            for name, value in (
                ("kind", "x`id`"), ("node", "-oProxyCommand=x"), ("node", "n1;id"), ("port", 65536),
                ("url", "http://elsewhere/"), ("url", "http://localhost:1/`id`"), ("token", "t"),
                ("token", "/t\n"), ("tunnel", "ssh -N n1"), ("tunnel", f"{TUNNEL};id"),
                ("tunnel", TUNNEL.replace("me@n1", "me@$(id)")), ("tunnel", TUNNEL.replace("me@n1", "-oX=y")),
                ("tunnel", TUNNEL.replace("me@login", "-me@login")), ("tunnel", f"{TUNNEL}\n"),
                ("tunnel", TUNNEL.replace("localhost", "a'b")), ("tunnel", TUNNEL.replace("me@n1", "n1%h")),
            )
        ),
    ],
)  # fmt: skip
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
