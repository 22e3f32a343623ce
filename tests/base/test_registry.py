from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from hpcdist.base.errors import ConfigError
from hpcdist.base.registry import Registry
from hpcdist.experiment.replicas import ROLES
from hpcdist.layers.frameworks import frameworks
from hpcdist.layers.launchers import launchers
from hpcdist.layers.protocols import Framework, Launcher
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.base import Scheduler

PLANETS: Registry[float] = Registry("planet", {"round": "math:pi", "growing": "math:e"})


def test_get_returns_the_object_of_a_name() -> None:
    assert PLANETS.get("round") == pytest.approx(3.14159, abs=1e-5)
    assert PLANETS.names() == ("round", "growing")


def test_module_is_imported_when_its_object_is_first_used() -> None:
    lazy: Registry[object] = Registry("animal", {"dog": "math:pi", "cat": "this_module_is_missing:CAT"})
    assert lazy.names() == ("dog", "cat")
    assert next(lazy.objects()) == pytest.approx(3.14159, abs=1e-5)
    with pytest.raises(ModuleNotFoundError):
        lazy.get("cat")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rond", "there is no planet 'rond'; did you mean 'round'?"),
        ("", "there is no planet ''; known: growing, round"),
    ],
)
def test_unknown_name_is_an_error(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        PLANETS.get(name)


def test_plug_ins_come_after_built_in_objects_and_cannot_replace_them(tmp_path: Path) -> None:
    info = tmp_path / "plugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: plugin\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[hpcdist.planets]\nnew = math:tau\nround = math:inf\n")
    sys.path.insert(0, str(tmp_path))
    try:
        assert PLANETS.names() == ("round", "growing", "new")
        assert PLANETS.get("new") == pytest.approx(6.28319, abs=1e-5)
        assert [*PLANETS.objects()] == pytest.approx([3.14159, 2.71828, 6.28319], abs=1e-5)
        assert PLANETS.get("round") == pytest.approx(3.14159, abs=1e-5)
    finally:
        sys.path.remove(str(tmp_path))


@pytest.mark.parametrize("name", launchers.names())
def test_launchers_implement_their_protocol(name: str) -> None:
    launcher = launchers.get(name)
    assert isinstance(launcher, Launcher)
    assert launcher.name == name
    assert launcher.schedulers <= set(schedulers.names())
    assert set(launcher.substitutes) <= set(launchers.names())
    assert launcher.program
    assert re.fullmatch(r"%s.*%(\.0)?s", launcher.hostfile_line)  # printf uses both, or passes one by


@pytest.mark.parametrize("name", frameworks.names())
def test_frameworks_implement_their_protocol(name: str) -> None:
    framework = frameworks.get(name)
    assert isinstance(framework, Framework)
    assert framework.name == name
    assert framework.roles <= ROLES


@pytest.mark.parametrize("name", schedulers.names())
def test_schedulers_implement_their_protocol(name: str) -> None:
    scheduler = schedulers.get(name)
    assert isinstance(scheduler, Scheduler)
    assert scheduler.name == name
