"""What ``tools/setup`` does with a machine: its functions are sourced, and those that reach out replaced."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from tests.sge.requirements import PACKAGES

CHECKOUT: Final = Path(__file__).parents[1]
FILES: Final = (
    "tools/setup", "tools/horovod-wheel", "tools/cxx17", "pyproject.toml",
    "tests/slurm/packages.txt", "tests/sge/packages.txt",
)  # fmt: skip
LEVELS: Final = ("demo", "docs", "fast", "test", "all")
NOTHING: Final = "make_venv() { :; }\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree that has what tools/setup reads."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, tmp_path / name)
    (tmp_path / ".venv").mkdir()
    return tmp_path


def begun(tree: Path, text: str, python: str = "") -> subprocess.Popen[str]:
    """Start lines of bash after the functions of tools/setup."""
    environment = os.environ | {"PYTHON": python}
    words = ["bash", "-c", f". tools/setup\n{text}"]
    both = subprocess.PIPE
    return subprocess.Popen(words, cwd=tree, env=environment, stdout=both, stderr=both, text=True)


def said(tree: Path, text: str, *, code: int = 0, python: str = "") -> str:
    """Return what they print, which must end with this exit code."""
    process = begun(tree, text, python)
    out, err = process.communicate()
    assert process.returncode == code, out + err
    return out + err


@pytest.mark.parametrize("level", LEVELS)
def test_each_piece_of_a_level_is_a_function(level: str, tree: Path) -> None:
    pieces = said(tree, f"pieces {level}").split()
    assert pieces
    assert said(tree, f"declare -F {' '.join(pieces)}").split() == pieces


def test_another_level_is_answered_with_the_usage(tree: Path) -> None:
    assert said(tree, "BASH_SOURCE=tools/setup; main full", code=2).startswith(
        "Usage: tools/setup demo|docs|fast|test|all\n"
    )


@pytest.mark.parametrize("level", ["test", "all"])
def test_without_root_or_apt_it_says_at_once_what_it_cannot_do(level: str, tree: Path) -> None:
    text = said(tree, f"can_apt() {{ false; }}; reaching() {{ echo reached; }}; main {level}", code=1)
    assert text.startswith(
        f"tools/setup: level '{level}' boots a Slurm of its own in namespaces and installs "
    )
    assert text.endswith("; `make test-fast` has the tests that need neither\n")
    assert text.count("\n") == 1
    assert [*(tree / ".venv").iterdir()] == []


@pytest.mark.parametrize(
    ("usable", "named", "chosen"),
    [
        ("/usr/bin/python3 python3 python3.12", "", "/usr/bin/python3"),
        ("python3.11 python3.10", "", "python3.11"),  # of RHEL 9 and SLES 15, whose python3 is older
        ("python3 /opt/python", "/opt/python", "/opt/python"),
    ],
)
def test_the_first_python_that_can_make_a_venv_is_taken(
    usable: str, named: str, chosen: str, tree: Path
) -> None:
    fake = f'usable() {{ [[ " {usable} " == *" $1 "* ]]; }}'
    assert said(tree, f"{fake}; find_python", python=named) == f"{chosen}\n"


def test_a_python_that_is_named_is_taken_or_none(tree: Path) -> None:
    text = said(tree, "make_venv x", code=1, python="/bin/false")
    assert text.startswith("tools/setup: please have Python 3.10 or newer with its venv module")
    assert text.endswith("tried /bin/false\n")


@pytest.mark.parametrize(("version", "code"), [("3, 9, 18", 1), ("3, 10, 0", 0)])
def test_a_python_must_be_new_enough(version: str, code: int, tree: Path) -> None:
    python = tree / "python"
    program = f"import sys; sys.version_info = ({version}); $2"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{program}"\n')
    python.chmod(0o755)
    said(tree, f"usable {python}", code=code)


@pytest.mark.extended
@pytest.mark.parametrize("left", ["no pip", "half of pip"])
def test_a_half_made_venv_is_made_again(left: str, tree: Path) -> None:
    venv = tree / ".venv"
    # As python3 makes it without python3-venv, or when it is interrupted.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    if left == "half of pip":
        (package,) = venv.glob("lib/python*/site-packages")
        (package / "pip").mkdir()
        (package / "pip" / "__init__.py").write_text("")
    said(tree, "make_venv .venv")
    subprocess.run([venv / "bin" / "pip", "--version"], check=True, capture_output=True)
    (venv / "kept").touch()
    said(tree, "make_venv .venv")
    assert (venv / "kept").exists()


def test_only_missing_packages_are_installed(tree: Path) -> None:
    fakes = "installed() { [[ $1 == munge ]]; }; apt_get() { echo apt-get $*; }; dpkg() { :; }"
    assert said(tree, f"{fakes}; apt_need munge slurmd tcsh") == (
        "apt-get update\napt-get install --yes --no-install-recommends slurmd tcsh\n"
        "tools/setup: installing with apt: slurmd tcsh\n"
    )
    assert said(tree, f"{fakes}; apt_need munge") == ""


@pytest.mark.parametrize(
    ("program", "error", "sentence"),
    [
        ("pip", "[Errno -3] Temporary failure in name resolution", "pip cannot reach its package index"),
        (
            "apt",
            "W: Failed to fetch x  Temporary failure resolving 'x'",
            "apt cannot reach Debian's packages",
        ),
        (
            "apt",
            "E: Unable to connect to x:80: Could not connect to x:80",
            "apt cannot reach Debian's packages",
        ),
    ],
)
def test_without_a_network_one_sentence_says_so(program: str, error: str, sentence: str, tree: Path) -> None:
    text = said(tree, f'failing() {{ echo "$1" >&2; false; }}; reaching {program} failing "{error}"', code=1)
    assert text.startswith(f"tools/setup: {sentence}: please connect this machine, or name a proxy or ")
    assert text.count("\n") == 1


def test_any_other_error_is_shown_whole(tree: Path) -> None:
    text = said(tree, "failing() { printf 'a\\nb\\n' >&2; false; }; reaching pip failing one", code=1)
    assert text == "a\nb\ntools/setup: pip could not do it: failing one\n"


def test_what_is_there_is_not_prepared_again(tree: Path) -> None:
    text = "once test echo prepared"
    prepared = "prepared\ntools/setup: preparing .venv: test\n"
    assert said(tree, text) == prepared
    assert said(tree, text) == ""
    (tree / "pyproject.toml").write_text("other")
    assert said(tree, text) == prepared


def test_what_failed_is_prepared_again(tree: Path) -> None:
    said(tree, "once test false", code=1)
    assert said(tree, "once test echo prepared").startswith("prepared\n")


def test_where_unstable_cannot_be_unpacked_stable_has_the_newest_slurm(tree: Path) -> None:
    text = said(
        tree,
        """\
export XDG_CACHE_HOME=$PWD/cache
apt_need() { :; }
debootstrap() { stat -c '%a' "$4" && mkdir "$4/bin" && { [[ $3 != sid ]] || ! echo 'munge is broken' >&2; }; }
reaching() { "${@:2}" >&2 || die "apt could not do it: $2"; }
newest
ls cache/hpcdist/slurm""",
    )
    assert text.splitlines() == [
        "trixie",
        f"tools/setup: preparing {tree}/cache/hpcdist/slurm/sid",
        "755",
        "munge is broken",
        "tools/setup: apt could not do it: debootstrap",
        "tools/setup: Debian's unstable cannot be unpacked today: its stable has the newest Slurm then",
        f"tools/setup: preparing {tree}/cache/hpcdist/slurm/trixie",
        "755",
    ]


def test_pieces_of_a_line_are_prepared_side_by_side(tree: Path) -> None:
    pieces = (
        "pieces() { echo one other; echo last; }\n"
        "one() { doing 'doing one'; mkfifo fifo; touch there; read -r <fifo; }\n"
        "other() { until [[ -e there ]]; do sleep 0.1; done; echo >fifo; }\n"
        "last() { echo last; }\n"
    )
    lines = said(tree, f"{NOTHING}{pieces}main demo").splitlines()
    assert lines[0] == "last"
    assert lines[1] == "tools/setup: doing one"
    assert lines[2].startswith("tools/setup: one: ")
    assert lines[3].startswith("tools/setup: level 'demo' is there, after ")


def test_a_piece_that_fails_ends_it_when_those_of_its_line_have_ended(tree: Path) -> None:
    pieces = (
        "pieces() { echo bad slow; echo last; }\n"
        "bad() { false; }\n"
        "slow() { sleep 0.5; touch ended; }\n"
        "last() { touch reached; }\n"
    )
    assert said(tree, f"{NOTHING}{pieces}main demo", code=1) == ""
    assert (tree / "ended").exists()
    assert not (tree / "reached").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_what_is_under_way(number: signal.Signals, tree: Path) -> None:
    pieces = "pieces() { echo slow; }\nslow() { touch begun; sleep 600; }\n"
    process = begun(tree, f"{NOTHING}{pieces}main demo")
    while not (tree / "begun").exists():
        time.sleep(0.05)
    process.send_signal(number)
    assert process.communicate() == ("", "")  # which ends when all that hold its output have
    assert process.returncode == 130


def test_the_packages_of_grid_engine_are_all() -> None:
    listed = (CHECKOUT / "tests/sge/packages.txt").read_text().split()
    assert {*PACKAGES.values()} <= {*listed}
