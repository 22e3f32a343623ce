"""Variables that depend on what the program links, by the script and a real loader."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from hpcdist.plan.values import DEFAULT, Variable
from hpcdist.script.exports import Exports
from hpcdist.testing.contract import altered
from tests.plans import planned

LIBRARY = "libselinux.so"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "build").mkdir()
    shutil.copy("/bin/ls", tmp_path / "build/simulate")
    (tmp_path / "script.py").write_text("#!python\nbuild/simulate\n")
    (tmp_path / "script.py").chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("build/simulate --n=1", "1"),
        ("cd build && ./simulate", "1"),
        ("cd build\ncd ../other\n./simulate", "1"),
        ("srun -n 4 ${TOP}/build/simulate", "1"),
        ("A=1 build/simulate", "1"),
        ("true\n# build/simulate\nprintf x", "0"),
        ("./script.py", "0"),
        ("printf x 2>&1 | cat &>/dev/null", "0"),
        ("cat ./build/$(touch made)/../simulate", "0"),
    ],
)
def test_a_program_is_found_as_the_command_finds_it(folder: Path, command: str, found: str) -> None:
    assert value(folder, command) == found
    assert not (folder / "made").exists()


@pytest.mark.parametrize(("file", "found"), [("build/sim*", "1"), ("another", "0")])
def test_a_file_may_be_asked_for_as_well(folder: Path, file: str, found: str) -> None:
    assert value(folder, "build/simulate", f"{folder}/{file}") == found


def value(folder: Path, command: str, file: str | None = None) -> str:
    """Return the value that a variable has in a script of this command."""
    own = Variable(name="X", value="1", origin=DEFAULT, links=LIBRARY, found=file, otherwise="0")
    plan = altered(planned(run={"cmd": command}), variables=(own,))
    lines = "\n".join(Exports(plan, modules="", annotate=False).early)
    words = ["bash", "-c", f'TOP=$PWD\n{lines}\necho "$X"']
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.strip()
