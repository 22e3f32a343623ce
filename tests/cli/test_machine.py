"""Whether a Slurm is set up for the sbatch on PATH, asked of programs that only pretend."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcdist.cli.machine import has_slurm, this
from hpcdist.host.resources import shipped

from .conftest import Hpcdist

SITES = [shipped("site_configs")]
NOT_SET_UP = "scontrol: fatal: Could not establish a configuration source"
DOWN = "Slurmctld(primary) at head is DOWN"


@pytest.fixture
def sbatch(tmp_path: Path) -> Path:
    """Make an sbatch; PATH is its folder."""
    return program(tmp_path / "prefix" / "bin" / "sbatch", "")


def program(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def asked(sbatch: Path, **environment: str) -> bool:
    return has_slurm(sbatch, {"PATH": str(sbatch.parent), **environment}, configurations=())


def test_a_configuration_that_is_named(sbatch: Path) -> None:
    program(sbatch.parent / "scontrol", f"echo '{NOT_SET_UP}' >&2; exit 1")
    assert asked(sbatch, SLURM_CONF="/somewhere/slurm.conf")
    assert not asked(sbatch)


def test_a_configuration_where_slurm_looks_for_it(sbatch: Path, tmp_path: Path) -> None:
    program(sbatch.parent / "scontrol", f"echo '{NOT_SET_UP}' >&2; exit 1")
    file = tmp_path / "slurm.conf"
    file.touch()
    assert has_slurm(sbatch, {"PATH": str(sbatch.parent)}, [str(file)])
    beside = tmp_path / "prefix" / "etc" / "slurm.conf"
    beside.parent.mkdir()
    beside.touch()
    assert asked(sbatch)


@pytest.mark.parametrize(
    ("said", "answers"),
    [
        (NOT_SET_UP, False),
        ("scontrol: fatal: Unable to process configuration file", False),
        ("scontrol: error: s_p_parse_file: /etc/slurm.conf: No such file or directory", False),
        (DOWN, True),
    ],
)
def test_what_scontrol_says(sbatch: Path, said: str, answers: bool) -> None:  # noqa: FBT001 - a column
    program(sbatch.parent / "scontrol", f"echo '{said}' >&2; exit 1")
    assert asked(sbatch) is answers


def test_name_servers_that_do_not_answer_do_not_make_a_slurm(sbatch: Path) -> None:
    """Seen with scontrol 22.05: 10 s, and 1 s with this variable of resolv.conf(5)."""
    slow = f'[ "$RES_OPTIONS" = "timeout:1 attempts:1" ] || exec sleep 30; echo "{NOT_SET_UP}" >&2; exit 1'
    program(sbatch.parent / "scontrol", slow)
    assert not asked(sbatch)


def test_sbatch_alone_is_believed(sbatch: Path) -> None:
    assert asked(sbatch)


def test_without_a_slurm_the_site_is_local(
    hpcdist: Hpcdist, bare_path: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare_path("sbatch")
    program(tmp_path / "bin" / "scontrol", f"echo '{NOT_SET_UP}' >&2; exit 1")
    said = hpcdist("sites", "detect", "--json")
    assert json.loads(said.out)["name"] == "local"
    assert said.err == "note: there is sbatch, but no Slurm is set up for it, so the site is local\n"
    monkeypatch.setenv("SLURM_CONF", "/somewhere/slurm.conf")
    assert json.loads(hpcdist("sites", "detect", "--json").out)["name"] == "slurm"


@pytest.mark.parametrize(
    ("command", "variable", "site"),
    [
        ("qsub", "PBS_CONF_FILE", "pbs"),
        ("qsub", "SGE_ROOT", "sge"),
        ("bsub", "LSF_ENVDIR", "lsf"),
        ("flux", "FLUX_URI", "flux"),
    ],
)
def test_other_batch_systems_that_are_set_up(command: str, variable: str, site: str, tmp_path: Path) -> None:
    file = program(tmp_path / command, "")
    environment = {"PATH": str(file.parent)}
    assert this(SITES, environment).site.name == "local"
    assert this(SITES, environment | {variable: "/somewhere"}).site.name == site
