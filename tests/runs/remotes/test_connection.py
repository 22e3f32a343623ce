"""A kept connection is that of the host which ssh would reach now; the real `ssh -G` says which."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from hpcdist.base.shell import Shell
from hpcdist.runs.remotes.connection import Connection

CONFIG: Final = """\
Host login
  HostName a.example.org
  User me
  ProxyJump you@hop:24
Host hop
  HostName hop.example.org
Host other
  HostName b.example.org
"""


def socket(folder: Path, config: str, host: str = "login") -> Path:
    """Return the socket of the kept connection with a host under this configuration of ssh."""
    file = folder / "config"
    file.write_text(config)
    return Connection("box", host, Shell(), folder, ("-F", str(file))).resolved().socket


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a.example.org", "c.example.org"),
        ("User me", "User you"),
        ("User me", "User me\n  Port 23"),
        ("you@hop:24", "other"),
        ("ProxyJump you@hop:24", "ProxyCommand nc %h %p"),
        ("User me", "User me\n  IdentityFile /keys/second"),
        ("hop.example.org", "hop2.example.org"),
    ],
)
def test_a_host_that_leads_elsewhere_has_another_connection(tmp_path: Path, old: str, new: str) -> None:
    assert socket(tmp_path, CONFIG) != socket(tmp_path, CONFIG.replace(old, new))


def test_what_leads_to_the_same_machine_keeps_its_connection(tmp_path: Path) -> None:
    before = socket(tmp_path, CONFIG)
    assert socket(tmp_path, CONFIG.replace("b.example.org", "d.example.org")) == before
    assert socket(tmp_path, f"{CONFIG}Host x\n") == before


def test_another_home_has_other_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = socket(tmp_path, CONFIG)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert socket(tmp_path, CONFIG) != before


def test_jumps_that_lead_to_each_other_end(tmp_path: Path) -> None:
    config = "Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n"
    assert socket(tmp_path, config, "a") != socket(tmp_path, config, "b")
