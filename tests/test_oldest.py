"""On the oldest Python and the oldest dependencies that are promised, all is imported, and tests pass."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from hpcdist.cli import VERBS
from tests.pythons import python_of

pytestmark = pytest.mark.extended

CHECKOUT: Final = Path(__file__).parents[1]
TESTS: Final = (
    "tests/test_golden.py",  # renders the examples
    "tests/base/test_units.py",
    "tests/hydra_plugins",
    "tests/studies/test_scaling_results.py",
    "tests/tracking/test_report_page.py",
    "tests/tracking/test_export_tensorboard.py",
    "tests/searches/test_adaptive.py",
    "tests/api/test_values.py",
)
"""A test of each dependency."""

IMPORT: Final = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
"""
HELP: Final = """
import sys
from click.testing import CliRunner
from hpcdist.cli import main
for verb in sys.argv[1:]:
    done = CliRunner().invoke(main, [verb, "--help"], prog_name="hpcdist", catch_exceptions=False)
    assert done.exit_code == 0 and done.output.startswith("Usage: hpcdist " + verb), done.output
"""


def done(*argv: str | Path) -> None:
    ended = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def oldest_version() -> str:
    """Return the version that pyproject.toml promises."""
    (promised,) = re.findall('requires-python = ">=(.*)"', (CHECKOUT / "pyproject.toml").read_text())
    return str(promised)


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the oldest Python, in an environment with the oldest versions of what the tests need."""
    version = oldest_version()
    python = python_of(version)
    if not python:
        pytest.fail(
            f"there is no Python {version}: have python{version} on PATH, or `uv python install {version}`"
        )
    place = tmp_path_factory.mktemp("oldest")
    uv = [sys.executable, "-m", "uv", "--quiet"]
    done(*uv, "venv", "--python", python, place)
    install: list[str | Path] = [*uv, "pip", "install", "--python", place / "bin" / "python"]
    compiled = "mpi4py>=4.1"  # 4.0 has no wheels
    done(*install, "--resolution", "lowest-direct", "-r", "pyproject.toml", "--extra", "test", compiled)
    done(*install, "--no-deps", "--editable", CHECKOUT)
    return place / "bin" / "python"


def modules(*folders: str, root: Path = CHECKOUT) -> list[str]:
    found = (file.relative_to(root) for folder in folders for file in (root / folder).rglob("*.py"))
    return [".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in sorted(found)]


def test_every_module_is_imported(oldest: Path) -> None:
    names = modules("hpcdist", "hydra_plugins") + modules(".", root=CHECKOUT / "templates" / "python")
    done(oldest, "-c", IMPORT, *(name for name in names if not name.endswith("__main__")))


def test_every_verb_has_its_help(oldest: Path) -> None:
    done(oldest, "-c", HELP, *VERBS)


def test_tests_pass(oldest: Path) -> None:
    done(oldest, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not real and not extended", *TESTS)
