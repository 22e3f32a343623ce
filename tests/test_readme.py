"""The README's examples are what hpcdist says today, and its table of sites is that of the site files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hpcdist.cli import main
from hpcdist.documents import fields, source
from hpcdist.documents.fields import Model
from hpcdist.experiment.model import Batch
from hpcdist.loading.preferences import Config
from hpcdist.site.dialects.container import Runtime as Container
from tests.readme import README, block, keeps_block, keeps_table, table
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


def done(verb: str, file: Path, text: str) -> Result:
    file.write_text(text)
    return CliRunner().invoke(main, [verb, file.name])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("name", "verb"), [("plan", "plan"), ("script", "render")])
def test_example(name: str, verb: str, folder: Path) -> None:
    said = done(verb, folder / "resnet.yml", block("experiment"))
    assert said.exit_code == 0, said.output
    keeps_block(name, said.stdout)


INIT = "hpcdist init --site perlmutter --framework pytorch --nodes 4 --account m1234_g -o train.yml"


def test_a_first_experiment() -> None:
    said = CliRunner().invoke(main, INIT.split()[1:])
    assert said.exit_code == 0, said.output
    keeps_block("init", f"$ {INIT}\n{said.stdout}")


def test_inputs(folder: Path) -> None:
    (folder / "exp.yml").write_text(block("inputs"))
    words = ["render", "exp.yml", "--site=local", "-p", "optimizer=adam"]
    for more, end in ((["-p", "amp=true"], " --amp"), ([], " ")):
        said = CliRunner().invoke(main, [*words, *more])
        assert said.exit_code == 0, said.output
        assert f"\npython train.py --lr=0.1 --optimizer=adam{end}\n" in said.stdout


def test_links_within_the_page_lead_to_headings() -> None:
    text = README.read_text()
    headings = re.findall(r"^##+ (.*)$", text, re.MULTILINE)
    places = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert [link for link in re.findall(r"\]\(#([^)]*)\)", text) if link not in places] == []


def test_what_does_not_fit_and_what_is_odd_is_told_so(folder: Path) -> None:
    keeps_block("refusal", done("check", folder / "exp.yml", MANY).stderr)
    keeps_block("warning", done("check", folder / "exp.yml", ODD).stderr)


@pytest.mark.parametrize(
    ("name", "model"), [("config", Config), ("container", Container), ("modules", Batch)]
)
def test_files_are_as_the_models_want_them(name: str, model: type[Model]) -> None:
    data = source.parse(block(name), name).data
    section = {"container": "container", "modules": "batch"}.get(name)
    built, problems = fields.build(model, data[section] if section else data)
    assert problems == []
    assert built is not None


def sites_table() -> str:
    heads = ("site", "machine", "scheduler", "launcher", "GPUs a node", "network", "how sure")
    return table(heads, [row(name) for name in SHIPPED])


def row(name: str) -> tuple[str, ...]:
    site = shipped_site(name)
    kinds = [f"{node.gpus} {node.gpu_type or ''}".strip() for node in site.node_types.values() if node.gpus]
    return (
        f"`{name}`",
        site.description,
        site.scheduler,
        site.launcher,
        ", ".join(dict.fromkeys(kinds)) if name != "local" else "",
        site.fabric.network or "",
        site.status,
    )


def test_every_site_has_its_row() -> None:
    keeps_table("sites", f"\n{sites_table()}\n")
