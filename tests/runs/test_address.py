from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import asdict, replace

from hpcdist.runs import address
from hpcdist.runs.address import Address
from hpcdist.runs.rundir import RunDirectory

TUNNEL = "ssh -N -L 4000:localhost:4000 -J me@login.example.org me@n1"
FOUND = Address("notebook", "n1", 4000, "http://localhost:4000/lab", TUNNEL, "/runs/nb-1/token")


def test_it_is_what_the_job_wrote(tmp_path: Path) -> None:
    (tmp_path / "address.json").write_text(json.dumps(asdict(FOUND)))
    assert address.read(RunDirectory(tmp_path)) == FOUND


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "[1]",
        '{"kind": "notebook"}',
        json.dumps(asdict(FOUND) | {"port": "4000"}),
        json.dumps(asdict(FOUND) | {"url": None}),
        json.dumps(asdict(FOUND) | {"more": 1}),
        " " * 5000,
        *(
            json.dumps(asdict(FOUND) | {name: value})
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
    here, found = RunDirectory(Path("/here/nb-1")), replace(FOUND, tunnel=tunnel)
    assert found.through("far", here) == replace(FOUND, tunnel=expected, token="/here/nb-1/token")  # noqa: S106 - a path
    assert replace(found, token="").through("far", here) == replace(FOUND, tunnel=expected, token="")
