"""A real JupyterLab and a real TensorBoard, as jobs of this machine, in a real Chromium."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from hpcdist.cli import main
from hpcdist.runs import address, finding
from hpcdist.runs.address import Address
from tests.docs.pages import block
from tests.slurm.process import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.real, pytest.mark.extended]

JUPYTER: Final = Path(__file__).parents[2] / ".frameworks/jupyter/bin"
PROGRAM: Final = "print(6 * 7, __import__('os').environ['HPCDIST_RUN_DIR'])"
PATIENT: Final = 120_000
"""Milliseconds: the machine is busy with other tests."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Debian's Chromium, which as root refuses to start with its sandbox."""
    from playwright.sync_api import sync_playwright  # only `tools/setup all` installs it

    program = shutil.which("chromium")
    assert program, "tools/setup all installs it"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a folder of its own, and end what still runs there when the test has failed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HPCDIST_CONFIG", "")
    monkeypatch.setenv("HPCDIST_SITE", "local")
    for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{Path(sys.executable).parent}:{JUPYTER}")
    news = tmp_path / "JUPYTER_CONFIG_DIR/lab/user-settings/@jupyterlab/apputils-extension"
    news.mkdir(parents=True)
    (news / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    yield tmp_path
    for words in (("cancel", "exp-1"), ("wait", "exp-1", "--timeout", "60")):
        CliRunner().invoke(main, words)


def hpcdist(*words: str) -> str:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return done.output


def up(folder: Path, name: str) -> Address:
    """Submit what the page has under this name, and return its address when it is up."""
    (folder / "exp.yml").write_text(block(name))
    hpcdist("submit", "exp.yml")
    directory = finding.find(folder / "runs", "exp-1").directory
    until(lambda: address.read(directory), "the server to be up")
    found = address.read(directory)
    assert found
    assert found.tunnel in hpcdist("describe", "exp-1")
    assert f"serves {found.url} by `{found.tunnel}`" in hpcdist("status", "exp-1")
    return found


def test_a_notebook_computes(folder: Path, browser: Browser) -> None:
    found = up(folder, "notebook")
    file = Path(found.token)
    token = file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    page = browser.new_page()
    page.set_default_timeout(PATIENT)
    assert page.request.get(f"http://localhost:{found.port}/api/contents").status == 403
    page.goto(found.url)
    page.fill("input[name=password]", token)
    page.click("#login_submit")
    page.click(".jp-LauncherCard[data-category=Notebook]")
    page.click(".jp-Notebook .cm-content")
    page.keyboard.insert_text(PROGRAM)
    output = page.locator(f".jp-OutputArea-output >> text=42 {folder}/runs/exp-1")

    def computed() -> bool:
        """Execute it: JupyterLab drops what comes before its kernel is there, and a person does it again."""
        page.click(".jp-Notebook .cm-content >> nth=0")
        page.keyboard.press("Control+Enter")
        page.wait_for_timeout(2000)
        return bool(output.is_visible())

    until(computed, "the output of the cell")
    page.close()
    assert [text for text in texts(folder / "runs/exp-1") if token in text] == [token]
    argv = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert token not in argv
    cancelled()


def cancelled() -> None:
    """Cancel the run, and wait for its end: a server that takes its time is killed, with its address left."""
    hpcdist("cancel", "exp-1")
    until(lambda: "cancelled" in hpcdist("status", "exp-1"), "its end")
    assert "serves" not in hpcdist("status", "exp-1")


def texts(folder: Path) -> Iterator[str]:
    """Yield what is in all files of a run."""
    return (file.read_text(errors="replace") for file in folder.rglob("*") if file.is_file())


def test_a_tensorboard_shows_a_curve(folder: Path, browser: Browser) -> None:
    writer = EventFileWriter(str(folder / "logs"))
    for step in range(3):
        summary = Summary(value=[Summary.Value(tag="train/loss", simple_value=1 / (step + 1))])
        writer.add_event(Event(step=step, summary=summary))
    writer.close()
    found = up(folder, "tensorboard")
    page = browser.new_page()
    page.set_default_timeout(PATIENT)
    page.goto(found.url)
    page.wait_for_selector("text=train/loss")
    page.close()
    cancelled()
