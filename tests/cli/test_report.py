"""``hpcdist report`` of real runs of this machine."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.wording import Wording

from .conftest import Hpcdist, run_real

PROGRAM: Final = """
import os, sys, time
from hpcdist_tracking import log_metrics, log_model, log_params
while os.environ["RANK"] == "1":  # until the other has recorded all
    if os.path.exists(f"done-{sys.argv[1]}"):
        sys.exit(3)
    time.sleep(0.02)
log_params(batch_size=32)
for step in range(1, 4):
    log_metrics(step=step, loss=float(sys.argv[1]) / step)
open("model", "w").write(sys.argv[1])
log_model("model", accuracy=1 - float(sys.argv[1]))
open(f"done-{sys.argv[1]}", "w")
"""


@pytest.fixture
def runs(folder: Path) -> Path:
    """Run it twice, each time with a rank that fails; return the directory of the runs."""
    (folder / "train.py").write_text(PROGRAM)
    (folder / "train.yml").write_text(
        "name: train\n"
        "framework: pytorch\n"
        "tags: [first]\n"
        "params: {lr: 0.5}\n"
        "environment: {replicas: {n_workers: 1}}\n"
        f"run: {{cmd: '{sys.executable} train.py {{{{ lr }}}}'}}\n"
        "batch: {site: local, launcher: processes}\n"
    )
    for lr in ("0.5", "0.25"):
        assert run_real("submit", "train.yml", "--wait", "-p", f"lr={lr}").code == 3
    return folder / "runs"


def data(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert found
    return json.loads(found[1])


def test_a_report_of_real_runs(runs: Path, hpcdist: Hpcdist) -> None:
    assert runs.is_dir()
    shown = hpcdist("report", "train-*", "-o", "page.html")
    assert (shown.code, shown.out) == (0, "")
    assert re.fullmatch(r"note: page.html shows 2 runs \([45]\.\d MiB\); open it in a browser\n", shown.err)
    page = Path("page.html").read_text()
    [plot] = data(page)["plots"]
    assert plot["name"] == "loss"
    assert [(trace["label"], trace["x"], trace["y"]) for trace in plot["traces"]] == [
        ("train-1", [1, 2, 3], [0.5, 0.25, 0.1666667]),
        ("train-2", [1, 2, 3], [0.25, 0.125, 0.08333333]),
    ]
    for text in (
        "was the first to fail, with exit code 3",
        "<strong>failed first</strong>",
        "rank 0</b> master",
        "framework pytorch</td>",
        "train.yml:6</td>",
        "accuracy 0.75",
        "Plotly",
    ):
        assert text in page, text
    hashes = re.findall(r'class="hash">([0-9a-f]{64})<', page)
    assert len({*hashes}) == 2


@pytest.mark.extended
def test_the_file_is_the_users_own_and_is_replaced_whole(runs: Path, hpcdist: Hpcdist) -> None:
    assert runs.is_dir()
    other = Path("other")
    other.write_text("another file")
    Path("report.html").symlink_to(other)
    assert hpcdist("report", "train-1").code == 0
    assert not Path("report.html").is_symlink()
    assert Path("report.html").stat().st_mode & 0o777 == 0o600
    assert other.read_text() == "another file"
    assert [*Path().glob(".report*")] == []


def test_bad_input(hpcdist: Hpcdist) -> None:
    shown = hpcdist("report")
    assert (shown.code, shown.err) == (2, f"error: there are no runs in {Path('runs').absolute()}\n")
    shown = hpcdist("report", "nothing")
    assert (shown.code, shown.err.startswith("error: there is no run 'nothing' in ")) == (2, True)


@pytest.mark.extended
@pytest.mark.parametrize(
    "output",
    ["none/page.html", "/proc/page.html", "-", "sites"],
)
def test_a_file_that_cannot_be_written(runs: Path, output: str, hpcdist: Hpcdist, wording: Wording) -> None:
    assert runs.is_dir()
    shown = hpcdist("report", "-o", output)
    assert shown.code == 2
    wording(shown.err)


def test_without_plotly_the_extra_is_named(
    hpcdist: Hpcdist, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    shown = hpcdist("report")
    assert (shown.code, shown.out) == (2, "")
    wording(shown.err)
