"""The tutorial from a laptop, whose other machine is an sshd beside it; and code that goes along by git."""

from __future__ import annotations

import platform
import shlex
import subprocess

import pytest

from tests.docs.pages import DOCS, block, blocks, typed
from tests.runs.remotes.server import Laptop

pytestmark = [pytest.mark.real, pytest.mark.extended]


def test_the_tutorial_does_what_it_says(here: Laptop) -> None:
    here.configure(far={"host": "there", "directory": str(here.there), "site": "local"})
    (here.work / "train.py").write_text(block("laptop program"))
    (here.work / "far.yml").write_text(block("laptop experiment"))
    commands = [each for one in blocks(DOCS / "tutorial" / "laptop.md") for each in typed(one.text)]
    shown = {command: here.hpcdist(*shlex.split(command)[1:]).stdout for command in commands}
    logs = block("laptop logs").replace("login", platform.node())
    assert logs in shown["hpcdist logs far-1"]
    assert shown["hpcdist outputs far-1 --get 'model*'"] == block("laptop outputs")
    assert (here.work / "runs" / "far-1" / "outputs" / "model.txt").read_text() == "trained\n"


def test_a_commit_goes_along_without_what_was_changed_behind_it(here: Laptop) -> None:
    git = ["git", "-c", "user.name=me", "-c", "user.email=me@example.org"]
    (here.work / "train.py").write_text("print('committed')\n")
    here.write("train", "python3 train.py", code="git")
    for words in (["init", "-q"], ["add", "train.py"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], cwd=here.work, check=True, timeout=60)
    (here.work / "train.py").write_text("print('changed')\n")
    followed = here.hpcdist("submit", "train.yml", "--on", "box", "--follow").stdout
    assert ("committed" in followed, "changed" in followed) == (True, False)
    assert (here.there / "train-1" / "code" / "train.py").read_text() == "print('committed')\n"
