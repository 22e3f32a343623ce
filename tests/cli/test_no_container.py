# ruff: noqa: E501 - a message is compared as one line
from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Hpcdist

BOXED = "build: {image: pytorch/pytorch:2.4}\nrun: {cmd: python x.py}\n"
NOTE = (
    "warning: the image pytorch/pytorch:2.4 is not used (--no-container): the program runs with what the site's "
    "`modules` and `setup` give\n"
)


@pytest.mark.parametrize("verb", ["check", "plan", "explain", "render"])
def test_every_verb_accepts_runs_dir_and_json(folder: Path, hpcdist: Hpcdist, verb: str) -> None:
    (folder / "boxed.yml").write_text(BOXED)
    refused = hpcdist(verb, "boxed.yml", "--site", "local")
    assert refused.code == 3
    assert refused.err == (
        "error: boxed.yml:1:16: build.image: site local has no container runtime to run pytorch/pytorch:2.4 in; "
        "give --no-container to run with the site's own modules, or name its runtime in a site file (`container: "
        "{runtime: apptainer}`)\n"
    )
    done = hpcdist(verb, "boxed.yml", "--site", "local", "--no-container")
    assert (done.code, done.err) == (0, NOTE)
