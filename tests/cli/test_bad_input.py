"""What users get wrong: one sentence that says where, what, and what instead; never a traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.wording import Wording

from .conftest import Hpcdist

FILES: Final[dict[str, str | bytes]] = {
    "empty": "",
    "UTF-16": b"\xff\xfe\x00",
    "NUL": b"run: \x00",
    "tab": "run:\n\tcmd: x\n",
    "list": "- a\n- b\n",
    "job script": "#!/bin/csh\n#SBATCH -N 2\nmodule load torch\nsrun python train.py\n",
    "key and walltime": "run: {cmd: x}\nbatch:\n  wall: 1h\n  walltime: 90\n",
    "name": "name: my run\nrun: {cmd: x}\n",
    "long name": f"name: {'x' * 236}\nrun: {{cmd: x}}\n",
    "site": "run: {cmd: x}\nbatch: {site: toi}\n",
    "param": "run: {cmd: '{{ lr }}'}\n",
}


@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_a_broken_file(content: str | bytes, hpcdist: Hpcdist, folder: Path, wording: Wording) -> None:
    (folder / "bad.yml").write_bytes(content.encode() if isinstance(content, str) else content)
    verbs = ("check", "submit", "render", "plan", "explain")
    results = [hpcdist(verb, "bad.yml", "--site-path", "sites") for verb in verbs]
    assert {(result.code, result.out) for result in results} == {(2, "")}
    [said] = {result.err for result in results}
    wording(said)
    assert not (folder / "runs").exists()


OPTIONS = [
    (["rank.yml"], 2),
    (["sites"], 2),
    (["ranks.yml", "--site", "toi"], 2),
    (["ranks.yml", "--set", "batch.walltime=soon"], 2),
    (["ranks.yml", "--set", "batch.launcer=x"], 2),
    (["ranks.yml", "-p", "lr=1"], 2),
    (["ranks.yml", "--set", "batch.site=toy"], 3),
]


@pytest.mark.parametrize(
    ("words", "code"), OPTIONS, ids=[f"{code} {' '.join(words)}" for words, code in OPTIONS]
)
def test_a_wrong_option(words: list[str], code: int, hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist("check", *words, "--site-path", "sites")
    assert (result.code, result.out) == (code, "")
    wording(result.err)


def test_a_missing_site_file(hpcdist: Hpcdist, folder: Path, wording: Wording) -> None:
    result = hpcdist("check", "ranks.yml", "--site", "./sites/toi.yaml")
    assert (result.code, result.out) == (2, "")
    wording(result.err.replace(str(folder), "FOLDER"))


def test_a_broken_site_file_is_reported_with_its_place(
    hpcdist: Hpcdist, folder: Path, wording: Wording
) -> None:
    (folder / "sites" / "toy.yaml").write_text("name: toy\ndescription: x\nscheduler: slurm\nluncher: srun\n")
    result = hpcdist("check", "ranks.yml", "--site", "toy", "--site-path", "sites")
    assert result.code == 2
    wording(result.err)


def test_an_unknown_site_in_the_environment(
    hpcdist: Hpcdist, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    monkeypatch.setenv("HPCDIST_SITE", "locl")
    result = hpcdist("check", "-", stdin="run: {cmd: 'true'}")
    assert result.code == 2
    wording(result.err)


@pytest.mark.parametrize("verb", ["status", "describe", "logs", "cancel", "wait"])
def test_an_unknown_job(verb: str, hpcdist: Hpcdist, folder: Path) -> None:
    result = hpcdist(verb, "ranks-7")
    assert (result.code, result.out) == (2, "")
    assert result.err == f"error: there is no run 'ranks-7' in {folder}/runs\n"


def test_an_empty_site_is_an_error(hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist("check", "ranks.yml", "--site", "")
    assert (result.code, result.out) == (2, "")
    wording(result.err)


def test_a_command_of_comments_is_empty(hpcdist: Hpcdist, folder: Path, wording: Wording) -> None:
    (folder / "c.yml").write_text("run: {cmd: '# python train.py'}\n")
    result = hpcdist("check", "c.yml", "--site", "local")
    wording(result.err)


@pytest.mark.parametrize(
    "place",
    ["ranks.yml", "ranks.yml/runs", "/proc/runs"],
)
def test_a_runs_directory_that_cannot_be_written(
    place: str, hpcdist: Hpcdist, folder: Path, wording: Wording
) -> None:
    result = hpcdist("submit", "ranks.yml", "--runs-dir", place)
    assert (result.code, result.out) == (2, "")
    wording(result.err.replace(str(folder), "FOLDER"))


def test_a_runs_directory_in_a_home_that_is_not_known(
    hpcdist: Hpcdist, folder: Path, monkeypatch: pytest.MonkeyPatch, wording: Wording
) -> None:
    wording(line := hpcdist("status", "--runs-dir", "~nobody-here/x").err)
    monkeypatch.setenv("HPCDIST_RUNS_DIR", "~nobody-here/x")
    (folder / "exp.yml").write_text("run: {cmd: x}\n")
    for words in (("status",), ("plan", "exp.yml"), ("submit", "exp.yml", "--site", "local")):
        assert (done := hpcdist(*words)).err.splitlines()[-1:] == line.splitlines(), words
        assert done.code == 2


def test_garbage_among_the_runs_is_reported_and_skipped(real: Hpcdist, folder: Path) -> None:
    runs = folder / "runs"
    for name in ("text", "folder", "link", "empty", "old"):
        (runs / name).mkdir(parents=True)
    (runs / "text" / "record.json").write_text("no JSON")
    (runs / "folder" / "record.json").mkdir()
    (runs / "link" / "record.json").symlink_to("nowhere")
    (runs / "old" / "record.json").write_text('{"name": "old", "color": "red"}')
    (runs / "file").write_text("x")
    assert real("submit", "ranks.yml", "--wait").code == 0
    for words in (("status",), ("status", "--offline")):
        result = real(*words)
        assert result.code == 0
        assert [line.split()[0] for line in result.out.splitlines()] == ["run", "ranks-1"]
        told = {line.split(": ")[1].split("/")[-2] for line in result.err.splitlines()}
        assert told == {"text", "folder", "link", "old"}
        assert "Traceback" not in result.err
    assert real("describe", "text").code == 2
