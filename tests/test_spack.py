"""Spack's recipe says what pyproject.toml says, and spack.yaml names what is there. No Spack is run here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

import hpcdist

ROOT = Path(__file__).parents[1]
PYPROJECT = (ROOT / "pyproject.toml").read_text()
MANIFEST = (ROOT / "spack.yaml").read_text()
REPOSITORY = ROOT / "spack_repo" / "hpcdist"
RECIPES = {file.parent.name: file for file in (REPOSITORY / "packages").glob("*/package.py")}
VARIANTS = ("mpi", "horovod")
"""The extras that Spack can build; it has no py-pyslurm."""


class Dependency(NamedTuple):
    """A package with its versions, when it is needed, and with which variant."""

    spec: str
    kinds: tuple[str, ...]
    when: str = ""


def calls(name: str, package: str = "py_hpcdist") -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Yield the arguments of each such call in the recipe."""
    for node in ast.walk(ast.parse(RECIPES[package].read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            words = {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
            yield [ast.literal_eval(item) for item in node.args], words


def of_python(key: str) -> Any:
    """Return a value of pyproject.toml: a text or a list of texts, as Python writes them too.

    (Python 3.10 reads no TOML.)
    """
    found = re.search(rf"^{key} = (\".*?\"|\[.*?\])", PYPROJECT, re.MULTILINE | re.DOTALL)
    assert found, key
    return ast.literal_eval(found[1])


def spack_spec(requirement: str) -> str:
    """Return a requirement of Python as Spack writes it: ``PyYAML>=6.0`` is ``py-pyyaml@6.0:``."""
    name, _, least = requirement.partition(">=")
    return f"py-{name.lower()}{f'@{least}:' if least else ''}"


def classes(file: Path) -> list[str]:
    """Return the classes of a recipe: Spack looks for the one that has the name of the folder."""
    return [node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)]


def numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def manifest() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(MANIFEST)["spack"]
    return loaded


def test_the_recipe_depends_on_what_python_is_told() -> None:
    both = ("build", "run")
    expected = {Dependency(spack_spec(text), ("build",)) for text in of_python("requires")}
    expected |= {Dependency(f"python@{of_python('requires-python').removeprefix('>=')}:", both)}
    expected |= {Dependency(spack_spec(text), both) for text in of_python("dependencies")}
    for extra in VARIANTS:
        expected |= {Dependency(spack_spec(text), ("run",), f"+{extra}") for text in of_python(extra)}
    found = set()
    for (spec,), words in calls("depends_on"):
        kinds = (words["type"],) if isinstance(words["type"], str) else words["type"]
        found.add(Dependency(re.split("[ +~]", spec)[0], kinds, words.get("when", "")))
    assert found == expected


def test_the_recipe_has_the_variants_that_python_calls_extras() -> None:
    assert [(name, words["default"]) for (name,), words in calls("variant")] == [
        (name, False) for name in VARIANTS
    ]


def test_the_version_is_this_one() -> None:
    assert list(calls("version")) == [([hpcdist.__version__], {})]
    assert manifest()["develop"] == {
        "py-hpcdist": {"spec": f"py-hpcdist@={hpcdist.__version__}", "path": "."}
    }


def test_the_repository_is_where_the_environment_says() -> None:
    assert manifest()["repos"] == {"hpcdist": "$env/spack_repo/hpcdist"}
    told = yaml.safe_load((REPOSITORY / "repo.yaml").read_text())
    assert told == {"repo": {"namespace": "hpcdist", "api": "v2.0"}}
    assert {name: classes(file) for name, file in RECIPES.items()} == {
        "py_hpcdist": ["PyHpcdist"],
        "py_msgspec": ["PyMsgspec"],
    }


def test_msgspec_is_there_in_a_version_that_is_asked_for() -> None:
    (asked,) = (text for text in of_python("dependencies") if text.startswith("msgspec"))
    least = numbers(asked.partition(">=")[2])
    found = [*calls("version", "py_msgspec")]
    assert all(numbers(version) >= least for (version,), _ in found)
    assert [len(words["sha256"]) for _, words in found] == [64, 64]


@pytest.mark.parametrize(
    ("stack", "specs"),
    [({}, ["py-hpcdist"]), ({"HPCDIST_STACK": "training"}, ["py-hpcdist +mpi +horovod"])],
)
def test_a_variable_chooses_the_stack(stack: dict[str, str], specs: list[str]) -> None:
    told = manifest()
    chosen = [item["stack"] for item in told["definitions"] if eval(item["when"], {"env": stack})]  # noqa: S307
    assert (told["specs"], chosen) == (["$stack"], [specs])


@pytest.mark.parametrize(("stack", "files"), [({}, []), ({"HPCDIST_STACK": "training"}, ["training.yaml"])])
def test_deprecated_packages_are_for_trainings_alone(stack: dict[str, str], files: list[str]) -> None:
    told = manifest()
    assert "config" not in told
    chosen = [item["path"] for item in told["include"] if eval(item["when"], {"env": stack})]  # noqa: S307
    assert chosen == [f"spack_repo/{name}" for name in files]
    for path in chosen:
        assert yaml.safe_load((ROOT / path).read_text()) == {"config": {"deprecated": True}}


def test_a_slurm_of_spack_is_not_found_before_the_centres() -> None:
    assert manifest()["view"] == {"default": {"root": ".spack-env/view", "exclude": ["slurm"]}}
    assert manifest()["concretizer"] == {"unify": True}


def test_the_lines_for_centres_are_right_without_their_comment_signs() -> None:
    packages = yaml.safe_load(
        MANIFEST.replace("      # ", "      ").replace("      A Slurm", "      # A Slurm")
    )
    externals = {
        name: words["externals"]
        for name, words in packages["spack"]["packages"].items()
        if "externals" in words
    }
    assert {name: [item["spec"].split("@")[0] for item in items] for name, items in externals.items()} == {
        name: [name] for name in ("slurm", "openmpi", "cray-mpich", "cuda")
    }
