"""Every block of the README and of ``docs/`` is what hpcdist takes or prints today."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from hpcdist.base import fields, source
from hpcdist.base.fields import Model
from hpcdist.cli import main
from hpcdist.importers import registry as importers
from hpcdist.layers.containers import containers
from hpcdist.layers.frameworks import frameworks
from hpcdist.layers.launchers import launchers
from hpcdist.loading.preferences import Config
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site
from tests.docs.pages import CHECKOUT, PAGES, block, blocks, keeps_block, keeps_table, table
from tests.published import lines
from tests.sites import SHIPPED, shipped_site

MANY = """\
name: exp
framework: horovod
environment:
  replicas: {n_workers: 2399, default_worker: {resources: {gpu: {requests: 1}}}}
  resources: {gpu: {requests: 1}}
run: {cmd: python train.py}
batch: {site: polaris, account: Proj, partition: prod, walltime: 1h}
"""
ODD = """\
name: exp
framework: horovod
environment:
  env_vars:
    NCCL_IB_RETRY_CNT: 10
run: {cmd: python train.py}
batch: {site: leonardo, account: Proj, walltime: 1h}
"""


def done(verb: str, file: Path, text: str, *more: str) -> Result:
    file.write_text(text)
    return CliRunner().invoke(main, [verb, file.name, *more])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_block_has_a_name_that_a_test_uses() -> None:
    others = (
        "test_readme.py",
        "hydra_plugins/test_hpcdist_launcher.py",
        "services/test_browser.py",
        "runs/remotes/test_tutorial.py",
        "api/test_pipelines.py",
    )
    tests = [*Path(__file__).parent.glob("*.py"), *(CHECKOUT / "tests" / other for other in others)]
    code = "".join(test.read_text() for test in tests)
    found = [each for page in PAGES for each in blocks(page) if each.language != "console"]
    assert [
        (each.page.name, each.name, each.text)
        for each in found
        if not (each.name and f'"{each.name}"' in code) and not each.text.startswith("$ ")
    ] == []


def test_inputs(folder: Path) -> None:
    (folder / "exp.yml").write_text(block("inputs"))
    words = ["render", "exp.yml", "--site=local", "-p", "optimizer=adam"]
    for more, end in ((["-p", "amp=true"], " --amp"), ([], " ")):
        said = CliRunner().invoke(main, [*words, *more])
        assert said.exit_code == 0, said.output
        assert f"exec python train.py --lr=0.1 --optimizer=adam{end.rstrip()})\n" in said.stdout


def test_what_does_not_fit_and_what_is_odd(folder: Path) -> None:
    keeps_block("refusal", done("check", folder / "exp.yml", MANY).stderr)
    keeps_block("warning", done("check", folder / "exp.yml", ODD).stderr)


@pytest.mark.parametrize("name", ["two a node", "batch options", "modules", "steps", "restarts"])
def test_parts_of_an_experiment(name: str, folder: Path) -> None:
    whole: dict[str, Any] = yaml.safe_load(block("experiment"))
    part: dict[str, Any] = source.parse(block(name), name).data  # in YAML 1.1 the key `on` is true
    merged = whole | part
    merged["batch"] = whole["batch"] | part.get("batch", {})
    if "run" in part:
        del merged["params"]  # its command has none of them
    text = json.dumps(merged)
    checked = done("check", folder / "exp.yml", text)
    assert (checked.exit_code, checked.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "sections"),
    [
        ("container", "container"),
        ("conditions", "fabric node_types modules setup container"),
        ("accounts", "account node_types partitions"),
        ("published", "published"),
    ],
)
def test_parts_of_a_site(name: str, sections: str) -> None:
    plain: dict[str, Any] = source.parse(block("site"), "site").data
    part = source.parse(block(name), name).data
    assert [*part] == sections.split()
    assert problems(Site, plain | part) == []


@pytest.mark.parametrize("name", ["config", "remotes", "laptop config"])
def test_a_config(name: str) -> None:
    assert problems(Config, source.parse(block(name), "config").data) == []


def problems(model: type[Model], data: Any) -> list[Any]:
    built, found = fields.build(model, data)
    assert built is not None
    return [*found]


def test_an_entry_point_names_a_group_that_there_is() -> None:
    kinds = (schedulers.kind, launchers.kind, frameworks.kind, containers.kind, importers.kind)
    assert {*re.findall(r"\.(\w+s)\b(?!-)", block("entry point"))} == {f"{kind}s" for kind in kinds}


def test_a_record_of_the_plan(folder: Path) -> None:
    said = done("plan", folder / "resnet.yml", block("experiment"), "--json")
    (keys,) = {" ".join(record) for record in json.loads(said.stdout)["tasks"]}
    keeps_block("plan record", f"{keys}\n")


def sites_table() -> str:
    heads = ("site", "machine", "scheduler", "launcher", "GPUs a node", "network", "how sure", "as published")
    return table(heads, [row(name) for name in SHIPPED])


def row(name: str) -> tuple[str, ...]:
    site = shipped_site(name)
    kinds = [f"{node.gpus} {node.gpu_type or ''}".strip() for node in site.node_types.values() if node.gpus]
    compared = [line for entry in site.published for line in lines(site, entry)]
    return (
        f"`{name}`",
        site.description,
        site.scheduler,
        site.launcher,
        ", ".join(dict.fromkeys(kinds)) if name != "local" else "",
        site.fabric.network or "",
        site.status,
        f"{sum(line.same for line in compared)} of {len(compared)}" if compared else "",
    )


def test_every_site_has_its_row() -> None:
    keeps_table("sites", f"\n{sites_table()}\n")
