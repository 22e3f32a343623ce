"""What the user's own ``config.yml`` does to the verbs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import RANKS, Hpcdist
from tests.wording import Wording

FILE = "../config/hpcdist/config.yml"
CONFIG = """\
site: toy
sites:
  toy:
    account: mine
    qos: debug
"""


@pytest.fixture(autouse=True)
def config(folder: Path) -> Path:
    """Write the user's config, and an experiment that names no site."""
    file = folder / FILE
    file.parent.mkdir(parents=True)
    file.write_text(CONFIG)
    (folder / "any.yml").write_text(RANKS.replace("batch: {site: local, launcher: processes}", "batch: {}"))
    return file.resolve()


def origins(hpcdist: Hpcdist, *words: str) -> dict[str, str]:
    result = hpcdist("explain", "any.yml", "--site-path", "sites", "--json", *words)
    assert result.code == 0, result.err
    lines = json.loads(result.out)
    return {line["what"]: line["origin"] for line in lines if line["section"] == "decided"}


def test_explain_shows_values_of_the_config(hpcdist: Hpcdist, config: Path) -> None:
    found = origins(hpcdist)
    assert found["site: toy"] == f"{config}:1"
    assert found["account: mine"] == f"{config}:4"
    assert found["qos: debug"] == f"{config}:5"


def test_the_command_line_wins(hpcdist: Hpcdist, config: Path) -> None:
    found = origins(hpcdist, "--set", "batch.account=other", "--site", "toy")
    assert found["site: toy"] == "--site"
    assert found["account: other"] == "--set batch.account"
    assert found["qos: debug"] == f"{config}:5"


def test_the_variable_and_the_file_name_the_site_before_the_config(
    hpcdist: Hpcdist, monkeypatch: pytest.MonkeyPatch, config: Path
) -> None:
    config.write_text("site: local\n")
    assert origins(hpcdist, "--set", "batch.site=toy")["site: toy"] == "--set batch.site"
    monkeypatch.setenv("HPCDIST_SITE", "toy")
    assert origins(hpcdist)["site: toy"] == "$HPCDIST_SITE"


def test_the_config_names_the_site_before_it_is_detected(
    hpcdist: Hpcdist, monkeypatch: pytest.MonkeyPatch, config: Path
) -> None:
    monkeypatch.setenv("TOY_MACHINE", "yes")
    config.write_text("site: slurm\n")
    assert origins(hpcdist)["site: slurm"] == f"{config}:1"


def test_the_script_has_it(hpcdist: Hpcdist) -> None:
    result = hpcdist("render", "any.yml", "--site-path", "sites")
    assert {"#SBATCH --account=mine", "#SBATCH --qos=debug"} < {*result.out.splitlines()}


def test_another_file_and_none(hpcdist: Hpcdist, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "my.yml").write_text("defaults: {account: a}\n")
    monkeypatch.setenv("HPCDIST_CONFIG", "my.yml")
    assert origins(hpcdist, "--site", "toy")["account: a"] == "my.yml:1"
    monkeypatch.setenv("HPCDIST_CONFIG", "/dev/null")
    assert not [what for what in origins(hpcdist, "--site", "toy") if what.startswith("account")]


@pytest.mark.parametrize(
    "text",
    ["sites: {toy: {acount: x}}\n", "site: tyo\n", "a: [\n"],
)  # fmt: skip
def test_a_broken_config_is_reported_with_its_place(
    hpcdist: Hpcdist, config: Path, text: str, wording: Wording
) -> None:
    config.write_text(text)
    result = hpcdist("check", "any.yml", "--site-path", "sites")
    assert (result.code, result.out) == (2, "")
    wording(result.err.replace(str(config), "CONFIG"))


@pytest.mark.parametrize("name", ["./sites/toy.yaml", "sites/toy", "toy.yaml"])
def test_a_site_s_file_is_named_by_its_whole_path(
    hpcdist: Hpcdist, config: Path, name: str, wording: Wording
) -> None:
    config.write_text(f"site: {name}\n")
    result = hpcdist("check", "any.yml")
    assert (result.code, result.out) == (2, "")
    wording(result.err.replace(str(config), "CONFIG"))


def test_another_site_wins_over_a_config_that_names_none(hpcdist: Hpcdist, config: Path) -> None:
    config.write_text("site: ./sites/toy.yaml\n")
    assert hpcdist("check", "any.yml", "--site", "local").code == 0


def test_a_site_s_file_in_the_home(
    hpcdist: Hpcdist, config: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    config.write_text("site: ~/sites/toy.yaml\n")
    assert origins(hpcdist)["site: toy"] == f"{config}:1"


def test_doubtful_values_of_the_config_are_located(hpcdist: Hpcdist, config: Path, wording: Wording) -> None:
    config.write_text("defaults:\n  partition: cpu\n")
    result = hpcdist("check", "any.yml", "--site-path", "sites", "--site", "toy")
    assert result.code == 0
    wording(result.err.replace(str(config), "CONFIG"))


def test_a_section_of_no_site_is_a_warning(hpcdist: Hpcdist, config: Path, wording: Wording) -> None:
    config.write_text("sites: {tyo: {account: x}}\n")
    result = hpcdist("check", "ranks.yml", "--site-path", "sites")
    assert result.code == 0
    wording(result.err.replace(str(config), "CONFIG"))
