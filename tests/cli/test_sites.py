"""The sites that are known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcdist.base.resources import shipped
from tests.wording import Wording

from .conftest import TOY, Hpcdist

PATH = ("--site-path", "sites")


def test_list(hpcdist: Hpcdist) -> None:
    result = hpcdist("sites", "list", *PATH)
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0].split() == ["site", "scheduler", "launcher", "status", "description"]
    assert ["toy", "slurm", "srun", "unverified", "two", "kinds", "of", "nodes"] in [
        line.split() for line in lines
    ]


def test_list_as_json(hpcdist: Hpcdist) -> None:
    found = json.loads(hpcdist("sites", "list", *PATH, "--json").out)
    assert {"local", "slurm", "toy"} <= {site["name"] for site in found}


PAGES = [
    ("2001-05", "https://x.example/old"),
    ("2999-01-31", "https://x.example/new"),
    ("2999-01-31", "copy@(2003-02-01)"),
]


@pytest.fixture
def sourced(folder: Path) -> None:
    """Give the site ``toy`` sources of which one was read long ago."""
    pages = "".join(f"  - {{where: {where!r}, read: {read}}}\n" for read, where in PAGES)
    (folder / "sites" / "toy.yaml").write_text(f"{TOY}sources:\n{pages}")


@pytest.mark.extended
@pytest.mark.usefixtures("sourced")
def test_list_of_old_pages(hpcdist: Hpcdist) -> None:
    result = hpcdist("sites", "list", *PATH, "--old", "240")
    assert (result.code, result.err) == (0, "")
    rows = [line.split() for line in result.out.splitlines()]
    assert rows == [
        ["site", "from", "read", "page"],
        ["toy", "2001-05-01", "2001-05", "https://x.example/old"],
        ["toy", "2003-02-01", "2999-01-31", "copy@(2003-02-01)"],
    ]
    found = json.loads(hpcdist("sites", "list", *PATH, "--old", "240", "--json").out)
    assert found == [dict(zip(("site", "from", "read", "where"), row, strict=True)) for row in rows[1:]]


def test_no_page_is_older_than_a_century(hpcdist: Hpcdist) -> None:
    result = hpcdist("sites", "list", *PATH, "--old", "1200")
    assert (result.code, result.out[:26], result.err) == (0, "no page was read before 19", "")
    assert hpcdist("sites", "list", *PATH, "--old", "-1").code == 2


def test_a_broken_site_is_reported_and_skipped(hpcdist: Hpcdist, folder: Path) -> None:
    (folder / "sites" / "toy.yaml").write_text("name: toy\n\tdetect: x\n")
    (folder / "sites" / "binary.yaml").write_bytes(b"\xff\xfe")
    result = hpcdist("sites", "list", *PATH)
    assert result.code == 0
    assert [line.split(": ")[:2] for line in result.err.splitlines()] == [
        ["warning", "sites/binary.yaml:1:1"],
        ["warning", "sites/toy.yaml:2:1"],
    ]
    assert hpcdist("check", "ranks.yml", *PATH).err == ""
    unnamed = hpcdist("check", "-", *PATH, stdin="run: {cmd: x}")
    assert unnamed.code == 0
    assert "warning: sites/binary.yaml:1:1: " in unnamed.err


def test_show(hpcdist: Hpcdist) -> None:
    assert hpcdist("sites", "show", "toy", *PATH).out == f"# sites/toy.yaml\n{TOY}"
    found = json.loads(hpcdist("sites", "show", "toy", *PATH, "--json").out)
    assert found["partitions"]["gpu"]["nodes"] == {"big": 2000}


def test_show_an_unknown_site(hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist("sites", "show", "toi", *PATH)
    assert (result.code, result.out) == (2, "")
    wording(result.err)


def test_detect(hpcdist: Hpcdist, monkeypatch: pytest.MonkeyPatch, bare_path: Callable[..., None]) -> None:
    bare_path()
    result = hpcdist("sites", "detect", *PATH)
    assert result.out.startswith("local (this is no known site, and no batch system is set up here)\n\nsite")
    monkeypatch.setenv("TOY_MACHINE", "yes")
    found = json.loads(hpcdist("sites", "detect", *PATH, "--json").out)
    assert (found["name"], found["origin"]) == ("toy", "detected: TOY_MACHINE=yes")
    expected = {"site": "toy", "expected": "TOY_MACHINE=yes", "found": "TOY_MACHINE=yes", "matches": True}
    assert expected in found["clues"]


def test_a_slurm_that_is_not_set_up_is_noted(
    hpcdist: Hpcdist,
    bare_path: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wording: Wording,
) -> None:
    bare_path("sbatch", "scontrol")
    denial = "scontrol: fatal: Could not establish a configuration source"
    (tmp_path / "bin" / "scontrol").write_text(f"#!/bin/sh\necho '{denial}' >&2; exit 1\n")
    result = hpcdist("sites", "detect", "--json")
    assert json.loads(result.out)["name"] == "local"
    wording(result.err)
    monkeypatch.setenv("SLURM_CONF", "/somewhere/slurm.conf")
    assert json.loads(hpcdist("sites", "detect", "--json").out)["name"] == "slurm"


def test_detect_warns_of_a_broken_site_once(hpcdist: Hpcdist, folder: Path) -> None:
    (folder / "sites" / "binary.yaml").write_bytes(b"\xff\xfe")
    assert hpcdist("sites", "detect", *PATH).err.count("binary.yaml") == 1


def test_a_machine_that_matches_two_sites(
    hpcdist: Hpcdist, folder: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    (folder / "sites" / "twin.yaml").write_text(TOY.replace("name: toy", "name: twin"))
    monkeypatch.setenv("TOY_MACHINE", "yes")
    result = hpcdist("check", "-", *PATH, stdin="run: {cmd: x}")
    assert result.code == 2
    wording(result.err)


def test_path(hpcdist: Hpcdist) -> None:
    lines = [line.split()[0] for line in hpcdist("sites", "path", *PATH).out.splitlines()]
    assert (lines[0], lines[-1]) == ("sites", str(shipped("site_configs")))
    found = json.loads(hpcdist("sites", "path", *PATH, "--json").out)
    assert [found[0]["exists"], found[1]["exists"]] == [True, False]


def test_unknown_launchers_and_schedulers(hpcdist: Hpcdist, folder: Path, wording: Wording) -> None:
    (folder / "sites" / "odd.yaml").write_text(
        "name: odd\ndescription: x\nscheduler: slrum\nlauncher: srnu\n"
        "launchers:\n  mpirum: {args: [a]}\n  srun: {mpi: pmix, mca: {a: b}}\n  processes: {args: [a]}\n"
        "container: {runtime: aptainer}\n"
    )
    result = hpcdist("sites", "show", "odd", *PATH)
    assert (result.code, result.out) == (2, "")
    wording(result.err)
