from __future__ import annotations

from pathlib import Path

from tests.wording import Wording

from .conftest import Hpcdist

BOXED = "build: {image: pytorch/pytorch:2.4}\nrun: {cmd: python x.py}\n"


def test_every_verb_refuses_an_image_without_a_runtime_or_runs_without_it(
    folder: Path, hpcdist: Hpcdist, wording: Wording
) -> None:
    (folder / "boxed.yml").write_text(BOXED)
    verbs = ("check", "plan", "explain", "render")
    refusals = [hpcdist(verb, "boxed.yml", "--site", "local") for verb in verbs]
    [(code, refused)] = {(result.code, result.err) for result in refusals}
    assert code == 3
    results = [hpcdist(verb, "boxed.yml", "--site", "local", "--no-container") for verb in verbs]
    [(code, noted)] = {(result.code, result.err) for result in results}
    assert code == 0
    wording(refused + noted)
