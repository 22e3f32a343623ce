from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcdist.base import source
from hpcdist.base.errors import ConfigError, Place
from hpcdist.base.units import Walltime
from hpcdist.experiment.batch import Batch, Mail
from hpcdist.loading import load, preferences
from hpcdist.loading.preferences import NONE, BatchDefaults, Config
from tests.plug_in import plugged_in
from tests.sites import site
from tests.wording import Wording

CONFIG = """\
site: x
defaults: {account: mine, walltime: 1h, mail: {user: me, events: [end]}}
sites:
  x:
    account: 007
    qos: debug
    walltime:
  y: {account: y}
"""

HOUR, MAIL = Walltime(3600), Mail("me", ("end",))


def at(folder: Path, text: str = CONFIG) -> dict[str, str]:
    """Write the config of a user; return the user's environment."""
    (folder / "hpcdist").mkdir()
    (folder / "hpcdist" / "config.yml").write_text(text)
    return {"XDG_CONFIG_HOME": str(folder)}


def loaded(batch: str = "{}") -> load.Loaded:
    text = f"run: {{cmd: x}}\nbatch: {batch}\n" if batch else "run: {cmd: x}\n"
    return load.load_experiment(source.parse(text, "e.yml"))


def test_values_of_the_config_file(tmp_path: Path) -> None:
    own = preferences.read(at(tmp_path))
    assert own.config == Config(
        site="x",
        defaults=BatchDefaults(account="mine", walltime=HOUR, mail=MAIL),
        sites={"x": BatchDefaults(account="007", qos="debug"), "y": BatchDefaults(account="y")},
    )
    assert own.place("site") == Place(f"{tmp_path}/hpcdist/config.yml", 1, 7)


@pytest.mark.parametrize("name", ["config.yml", "config.yaml"])
def test_path_of_the_config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".config" / "hpcdist"
    folder.mkdir(parents=True)
    assert preferences.file({}) is None
    (folder / name).write_text("site: x\n")
    assert preferences.file({}) == folder / name
    assert preferences.file({"XDG_CONFIG_HOME": str(tmp_path)}) is None
    assert preferences.file({"HPCDIST_CONFIG": ""}) is None
    assert preferences.file({"HPCDIST_CONFIG": "other.yml"}) == Path("other.yml")
    assert preferences.read({}).place("site") == Place(f"~/.config/hpcdist/{name}", 1, 7)


@pytest.mark.parametrize("text", ["", "# account: x\n\n  # qos: y\n"])
def test_a_file_without_a_value_has_no_preferences(tmp_path: Path, text: str) -> None:
    assert preferences.read(at(tmp_path, text)) == NONE


def test_folders_of_runs_that_are_trusted(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "link").symlink_to("runs")
    own = preferences.read(at(tmp_path, f"trusted_runs: [~nobody-here/runs, {tmp_path}/link]\n"))
    trusted = {name: preferences.trusts(own, tmp_path / name) for name in ("runs", "link", "others")}
    assert trusted == {"runs": True, "link": True, "others": False}
    assert not preferences.trusts(NONE, tmp_path / "runs")


def test_trusted_folder_must_be_an_absolute_path(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        preferences.read(at(tmp_path, "trusted_runs: [runs]\n"))
    wording(str(caught.value).replace(str(tmp_path), "TMP"))


def test_no_file_is_no_preferences() -> None:
    assert preferences.read({"HPCDIST_CONFIG": "/dev/null"}) == NONE
    assert preferences.read({"HPCDIST_CONFIG": ""}) == NONE


@pytest.mark.parametrize(
    "text",
    [
        "default: {}\nsites:\n  x: {acount: a, walltime: 90}\n",
        "defaults: {signal: USR1@60}\n",
        "sites: {x: {mail: {user: me, events: [ends]}}}\n",
        "- a\n",
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, text: str, wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        preferences.read(at(tmp_path, text))
    wording(str(caught.value).replace(str(tmp_path), "TMP"))


def test_a_file_that_is_named_must_be_there(tmp_path: Path, wording: Wording) -> None:
    (tmp_path / "other.yml").touch()
    with pytest.raises(ConfigError) as caught:
        preferences.read({"HPCDIST_CONFIG": f"{tmp_path}/my.yml"})
    wording(str(caught.value).replace(str(tmp_path), "TMP"))


def test_section_of_an_unknown_site_warns(tmp_path: Path, wording: Wording) -> None:
    own = preferences.read(at(tmp_path, "sites: {lummi: {}, x: {}}\n"))
    [problem] = preferences.unknown_sites(own, {"lumi", "x"})
    assert problem.severity == "warning"
    wording(str(problem).replace(str(tmp_path), "TMP"))


@pytest.mark.parametrize(
    ("batch", "where", "filled"),
    [
        ("", {"name": "x"}, Batch(account="007", qos="debug", walltime=HOUR, mail=MAIL)),
        ("{account: a, mail: you, qos: null}", {"name": "x"},
         Batch(account="a", qos="debug", walltime=HOUR, mail="you")),
        ("{walltime: 2h}", {"name": "y"}, Batch(account="y", walltime=Walltime(7200), mail=MAIL)),
        ("{}", {"name": "z"}, Batch(account="mine", walltime=HOUR, mail=MAIL)),
        # Nobody to be charged, and nobody who sends mail.
        ("{}", {"name": "z", "scheduler": "local"}, Batch()),
        ("{}", {"name": "y", "scheduler": "local"}, Batch(account="y")),
    ],
)  # fmt: skip
def test_defaults_apply_to_absent_keys_of_batch(
    tmp_path: Path, batch: str, where: dict[str, Any], filled: Batch
) -> None:
    done = preferences.with_defaults(loaded(batch), preferences.read(at(tmp_path)), site(**where))
    assert done.experiment.batch == filled


ALONE = """\
from hpcdist.schedulers.local import Local

class Alone(Local):
    name = "alone"

ALONE = Alone()
"""


def test_scheduler_attribute_decides_whether_defaults_apply(tmp_path: Path) -> None:
    with plugged_in(tmp_path / "lib", "scheduler", "alone", ALONE):
        done = preferences.with_defaults(
            loaded(""), preferences.read(at(tmp_path)), site(name="z", scheduler="alone")
        )
    assert done.experiment.batch == Batch()


def test_each_value_keeps_its_place(tmp_path: Path) -> None:
    done = preferences.with_defaults(loaded("{walltime: 2h}"), preferences.read(at(tmp_path)), site())
    file = f"{tmp_path}/hpcdist/config.yml"
    assert [done.document.place(("batch", name)) for name in ("account", "walltime", "mail", "requeue")] == [
        Place(file, 5, 14),
        Place("e.yml", 2, 19),
        Place(file, 2, 41),
        Place("e.yml", 2, 1),
    ]


def test_what_is_missing_is_missing_in_the_experiment(tmp_path: Path) -> None:
    done = preferences.with_defaults(loaded(""), preferences.read(at(tmp_path)), site())
    assert done.document.place(("batch", "requeue")) == Place("e.yml", 1, 1)


def test_without_preferences_nothing_changes() -> None:
    before = loaded()
    assert preferences.with_defaults(before, NONE, site()) is before
