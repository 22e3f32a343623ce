"""What users install: built of the tree, put into empty environments outside it, and compared with it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipapp
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple
from zipfile import ZipFile

import pytest

from tests.pythons import python_of

pytestmark = [pytest.mark.real, pytest.mark.long]

CHECKOUT: Final = Path(__file__).parents[1]
EXP: Final = "examples/quickstart.yml"
COMMANDS: Final = (
    ("--version",),
    ("sites", "list"),
    ("render", EXP, "--site", "perlmutter", "--set", "batch.account=m1234_g", "--annotate"),
    ("plan", EXP, "--site", "local"),
    ("check", EXP, "--site", "local"),
    ("init", "--site", "perlmutter", "--account", "m1234_g", "-o", "-"),
    ("check", EXP, "--site", "perlmutter"),  # refused: it requires an account
)


class Said(NamedTuple):
    """What a command says, and its exit code."""

    code: int
    out: str
    err: str


class Built(NamedTuple):
    """The sdist, the wheel that was built of it, and the one of the tree itself."""

    sdist: Path
    wheel: Path
    of_tree: Path


def interpreters() -> dict[str, str]:
    """Return the oldest and the newest Python that this machine has; of this version the one that runs."""
    versions = ("3.10", "3.11", "3.12", "3.13")
    usable = [(version, python) for version in versions if (python := python_of(version))]
    return dict([usable[0], usable[-1]])


INTERPRETERS: Final = interpreters()
NEWEST: Final = [*INTERPRETERS][-1]


def done(*argv: str | Path, environment: Mapping[str, str] = os.environ) -> None:
    """Run a program that must end well."""
    ended = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def uv(*words: str | Path, **variables: str) -> None:
    environment = os.environ | {"UV_PYTHON_DOWNLOADS": "never"} | variables
    done(sys.executable, "-m", "uv", "--quiet", *words, environment=environment)


def said(folder: Path, program: Sequence[str | Path], *words: str, **variables: str) -> Said:
    """Run hpcdist as a user who has set nothing."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), **variables}
    argv = [*program, *words]
    ended = subprocess.run(
        argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    return Said(ended.returncode, ended.stdout, ended.stderr)


def all_said(folder: Path, *program: str | Path, **variables: str) -> list[Said]:
    """Run all commands, at once: out of an archive they also unpack it at once."""
    with ThreadPoolExecutor() as pool:
        return [*pool.map(lambda words: said(folder, program, *words, **variables), COMMANDS)]


def quickstart(folder: Path) -> Path:
    """Return a folder that has the quickstart and nothing else."""
    (folder / "work" / "examples").mkdir(parents=True)
    for name in ("quickstart.yml", "quickstart.py"):
        shutil.copy(CHECKOUT / "examples" / name, folder / "work" / "examples")
    return folder / "work"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return quickstart(tmp_path)


@pytest.fixture(scope="module")
def of_tree(tmp_path_factory: pytest.TempPathFactory) -> list[Said]:
    """Return what the source tree says to all commands."""
    folder = quickstart(tmp_path_factory.mktemp("tree"))
    return all_said(folder, sys.executable, "-m", "hpcdist", PYTHONPATH=str(CHECKOUT))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    with ThreadPoolExecutor() as pool:
        whole = pool.submit(uv, "build", "--out-dir", folder, CHECKOUT)
        uv("build", "--wheel", "--out-dir", folder / "of_tree", CHECKOUT)
        whole.result()
    (sdist,), (wheel,), (of_tree,) = (folder.glob(kind) for kind in ("*.tar.gz", "*.whl", "of_tree/*.whl"))
    return Built(sdist, wheel, of_tree)


@pytest.fixture(scope="module")
def environment(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return what installs the wheel for a version of Python, once."""

    @cache
    def installed(version: str) -> Path:
        place = tmp_path_factory.mktemp("environment")
        uv("venv", "--seed", "--python", INTERPRETERS[version], place)
        done(place / "bin" / "pip", "install", "--no-compile", built.wheel)
        return place

    return installed


def files(*folders: str) -> set[str]:
    """Return the files of the tree below these folders."""
    found = (file for folder in folders for file in (CHECKOUT / folder).rglob("*") if file.is_file())
    return {str(file.relative_to(CHECKOUT)) for file in found if "__pycache__" not in file.parts}


def test_the_wheel_is_the_package_with_its_data(built: Built) -> None:
    with ZipFile(built.wheel) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    data = {f"hpcdist/{name}" for name in files("templates", "site_configs")}
    assert names == files("hpcdist", "hydra_plugins") | data | {"hpcdist_tracking.py"}


def test_the_sdist_makes_the_wheel_that_the_tree_makes(built: Built) -> None:
    assert built.wheel.read_bytes() == built.of_tree.read_bytes()


def test_the_sdist_has_what_its_tests_need(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    texts = {"LICENSE", "README.md", "Makefile", "pyproject.toml", "tools/setup"}
    assert texts | files(*SOURCES) <= names


SOURCES: Final = ("hpcdist", "hydra_plugins", "templates", "site_configs", "tests", "examples")
EXTRA = re.compile(r"^Requires-Dist: ([\w,\[\]-]+).*; extra == '(all|horovod|mpi|pyslurm)'$", re.MULTILINE)
PYTHON = re.compile(r"^Classifier: Programming Language :: Python :: (3\.\d+)$", re.MULTILINE)


def test_what_the_wheel_says_of_itself(built: Built) -> None:
    with ZipFile(built.wheel) as wheel:
        about = {name.rpartition("/")[2]: name for name in wheel.namelist() if ".dist-info/" in name}
        text = wheel.read(about["METADATA"]).decode()
        assert (
            wheel.read(about["entry_points.txt"])
            == b"[console_scripts]\nhpcdist = hpcdist.__main__:program\n"
        )
    assert sorted(EXTRA.findall(text)) == [
        ("horovod", "all"),
        ("horovod", "horovod"),
        ("mpi4py", "all"),
        ("mpi4py", "mpi"),
        ("pyslurm", "all"),
        ("pyslurm", "pyslurm"),
        ("setuptools", "all"),
        ("setuptools", "horovod"),
    ]
    assert PYTHON.findall(text) == ["3.10", "3.11", "3.12", "3.13"]


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(version, marks=[pytest.mark.extended][: bool(place)])
        for place, version in enumerate(INTERPRETERS)
    ],
)
def test_installed_by_pip_it_says_what_the_tree_says(
    version: str, environment: Callable[[str], Path], folder: Path, of_tree: list[Said]
) -> None:
    place = environment(version)
    assert all_said(folder, place / "bin" / "hpcdist") == of_tree
    done(place / "bin" / "python", "-c", "import hpcdist_tracking")
    where = said(folder, [place / "bin" / "python", "-m", "hpcdist"], "sites", "path").out.splitlines()[-1]
    assert where == f"{place}/lib/python{version}/site-packages/hpcdist/site_configs"


@pytest.mark.extended
def test_uv_tool_install(built: Built, folder: Path, tmp_path: Path) -> None:
    uv("tool", "install", "--python", sys.executable, built.wheel,
       UV_TOOL_DIR=str(tmp_path / "tools"), UV_TOOL_BIN_DIR=str(tmp_path / "bin"))  # fmt: skip
    tool = said(folder, [tmp_path / "bin" / "hpcdist"], "check", EXP, "--site", "local")
    assert tool == Said(0, f"ok: {EXP}: 2 tasks by mpirun, 1 node (site local)\n", "")


def zipped(wheel: Path, place: Path) -> Path:
    """Make a zipapp of the wheel, whose dependencies stay where they are: msgspec is C."""
    with ZipFile(wheel) as whole:
        whole.extractall(place / "app")  # noqa: S202 - built here
    zipapp.create_archive(place / "app", place / "hpcdist.pyz", main="hpcdist.__main__:program")
    return place / "hpcdist.pyz"


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["wheel", "zipapp"])
def test_out_of_an_archive_it_says_what_the_tree_says(  # noqa: PLR0913, PLR0917
    kind: str,
    built: Built,
    environment: Callable[[str], Path],
    folder: Path,
    tmp_path: Path,
    of_tree: list[Said],
) -> None:
    python = environment(NEWEST) / "bin" / "python"
    program: list[str | Path] = [python, "-m", "hpcdist"]
    variables = {"PYTHONPATH": str(built.wheel)}
    if kind == "zipapp":
        program, variables = [python, zipped(built.wheel, tmp_path)], {}
    assert all_said(folder, *program, **variables) == of_tree
    unpacked = {file.name.rpartition("-")[0] for file in (tmp_path / ".cache/hpcdist/shipped").iterdir()}
    assert unpacked == {"site_configs", "templates"}
    assert said(folder, program, "sites", "path", **variables).out.splitlines()[-1].startswith(str(tmp_path))
    refused = said(folder, program, "sites", "list", XDG_CACHE_HOME="/dev/null", **variables)
    archive = variables.get("PYTHONPATH", tmp_path / "hpcdist.pyz")
    assert refused == Said(
        2,
        "",
        f"error: hpcdist runs from {archive}, and there is no folder in which to unpack its site_configs; "
        "set XDG_CACHE_HOME to a folder to which only you can write\n",
    )


def test_an_archive_without_the_data_is_told(folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "tree.zip"
    with ZipFile(archive, "w") as whole:
        for name in files("hpcdist"):
            whole.write(CHECKOUT / name, name)
    assert said(folder, [sys.executable, "-m", "hpcdist"], "sites", "path", PYTHONPATH=str(archive)) == Said(
        2,
        "",
        f"error: there is no site_configs in {archive}; build it from an installed hpcdist: "
        "`pip install --target`, then `python -m zipapp`\n",
    )


def test_the_quickstart_runs(environment: Callable[[str], Path], folder: Path) -> None:
    program = [environment(NEWEST) / "bin" / "hpcdist"]
    own = Path(sys.executable).parent  # what the experiment itself needs is the user's: NumPy, mpi4py
    path = f"{own}:{os.environ['PATH']}"
    ran = said(folder, program, "submit", EXP, "--site", "local", "--follow", PATH=path)
    assert ran.code == 0, ran.out + ran.err
    assert "note: quickstart-1 completed\n" in ran.err
    accuracy = re.search(r"test accuracy (\S+)", ran.out)
    assert accuracy
    assert float(accuracy[1]) > 0.9
