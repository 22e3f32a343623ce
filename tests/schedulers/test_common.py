"""The commands that start programs inside running jobs; those of LSF are by its manuals alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hpcdist.schedulers import schedulers
from hpcdist.schedulers.answers import by_ssh
from hpcdist.schedulers.base import Nodes

TWO = Nodes("12", ("n1", "n4"), (0, 3))
OPTIONS = (
    "--quiet",
    "--overlap",
    "--nodes=2",
    "--ntasks=2",
    "--ntasks-per-node=1",
    "--nodelist=n1,n4",
    "--mem=0",
)
STEP = [*OPTIONS, "uname", "-n"]


def argv(
    name: str, nodes: Nodes, words: tuple[str, ...] = ("uname", "-n"), *, terminal: bool = False
) -> list[tuple[str, ...]]:
    scheduler = schedulers.get(name)
    return [command.argv for command in scheduler.inside(nodes, words, terminal=terminal)]


def test_slurm_starts_one_step_on_all_nodes() -> None:
    assert argv("slurm", TWO) == [("srun", "--jobid=12", *STEP)]


def test_a_step_of_an_element_asks_for_its_own_number() -> None:
    ((bash, flag, text, name, element, *words),) = argv("slurm", TWO._replace(job="12_3"))
    assert (bash, flag, name, element, words) == ("bash", "-c", "hpcdist", "12_3", STEP)
    assert 'squeue -h -j "$1" -o %A' in text


def test_a_step_of_a_component_names_its_place_in_the_job() -> None:
    assert argv("slurm", TWO._replace(job="12+1")) == [("srun", "--jobid=12", "--het-group=1", *STEP)]


@pytest.mark.parametrize(
    ("name", "terminal", "expected"),
    [
        ("slurm", True, ("srun", "--jobid=12", *OPTIONS, "--pty", "uname", "-n")),
        ("lsf", True, ("lsrun", "-P", "-m", "n1", "uname", "-n")),
        ("lsf", False, ("lsrun", "-m", "n1", "uname", "-n")),
        ("local", False, ("uname", "-n")),
    ],
)
def test_the_first_command(name: str, terminal: bool, expected: tuple[str, ...]) -> None:  # noqa: FBT001
    assert argv(name, TWO, terminal=terminal)[0] == expected


@pytest.mark.parametrize("shell", ["bash", "sh", "tcsh"])
def test_flux_proxy_hands_one_line_to_the_users_shell(shell: str, tmp_path: Path) -> None:
    """As Flux does: it joins its words by spaces."""
    odd = "$(touch evil) 'b' !e\n ä"
    flux = tmp_path / "flux"
    flux.write_text('#!/bin/bash\nprintf "%s|" "$@"\n')
    flux.chmod(0o755)
    [(program, verb, job, *words)] = argv("flux", TWO, ("echo", odd))
    assert (program, verb, job) == ("flux", "proxy", "12")
    done = subprocess.run(
        [shell, "-c", " ".join(words)],
        cwd=tmp_path, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, f"exec|--quiet|--rank=0,3|echo|{odd}|", "")
    assert [*tmp_path.iterdir()] == [flux]


@pytest.mark.parametrize("name", ["pbs", "sge"])
def test_ssh_where_nothing_is_started_from_outside(name: str) -> None:
    one, other = argv(name, TWO)
    assert one[:-2] == ("ssh", "-o", "ConnectTimeout=20", "-o", "LogLevel=ERROR", "-o", "BatchMode=yes", "--")
    assert (one[-2], other[-2], one[-1]) == ("n1", "n4", other[-1])
    assert argv(name, TWO, terminal=True)[0][5] == "-t"


@pytest.mark.parametrize("shell", ["bash", "sh", "tcsh"])
def test_every_login_shell_reads_the_words_of_ssh(shell: str) -> None:
    odd = "a 'b' $c `d` !e\n\\ \"f\" ä"
    [command] = by_ssh(
        TWO._replace(names=("n1",)),
        ("bash", "-c", 'printf "%s|" "$@"; cat; exit 3', "x", odd),
        terminal=False,
    )
    words = [shell, "-c", command.argv[-1]]
    done = subprocess.run(words, input="typed", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, f"{odd}|typed", "")
