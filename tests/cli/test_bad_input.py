"""What users get wrong: one sentence that says where, what, and what instead; never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcdist.units import WALLTIME_FORMS

from .conftest import Hpcdist

FILES: list[tuple[str | bytes, list[str]]] = [
    ("", ["error: bad.yml: the file is empty; `hpcdist init` writes a first experiment"]),
    (b"\xff\xfe\x00", ["error: bad.yml: this is text in UTF-16, and not an experiment; save it as UTF-8"]),
    (b"run: \x00", ["error: bad.yml:1:6: a NUL byte is not allowed in a text file; remove it"]),
    ("run:\n\tcmd: x\n", ["error: bad.yml:2:1: a tab is used for indentation; use spaces"]),
    (
        "- a\n- b\n",
        [
            (
                "error: bad.yml:1:1: expected keys and values, got a list; "
                "an experiment begins with keys, such as `run: {cmd: ...}`"
            )
        ],
    ),
    (
        "#!/bin/bash\n#SBATCH -N 2\nmodule load torch\nsrun python train.py\n",
        [
            (
                "error: bad.yml: this is a job script of Slurm, and not an experiment; submit it by "
                "`sbatch bad.yml`, or write an experiment with its command: `hpcdist init`"
            )
        ],
    ),
    (
        "run: {cmd: x}\nbatch:\n  wall: 1h\n  walltime: 90\n",
        [
            "error: bad.yml:3:3: batch.wall: unknown key 'wall'; did you mean 'walltime'?",
            f"error: bad.yml:4:13: batch.walltime: 90 is not a walltime; {WALLTIME_FORMS}",
        ],
    ),
    (
        "name: my run\nrun: {cmd: x}\n",
        [
            (
                "error: bad.yml:1:7: name: 'my run' is not a valid job name; "
                "use up to 235 letters, digits, - and _, such as 'my-run'"
            )
        ],
    ),
    (
        f"name: {'x' * 236}\nrun: {{cmd: x}}\n",
        [
            (
                f"error: bad.yml:1:7: name: '{'x' * 236}' is not a valid job name; "
                f"use up to 235 letters, digits, - and _, such as '{'x' * 235}'"
            )
        ],
    ),
    (
        "run: {cmd: x}\nbatch: {site: toi}\n",
        ["error: bad.yml:2:15: there is no site 'toi'; did you mean 'toy'?"],
    ),
    (
        "run: {cmd: '{{ lr }}'}\n",
        ["error: bad.yml:1:12: run.cmd: there is no param 'lr'; write it under `params`"],
    ),
]


@pytest.mark.parametrize(("content", "lines"), FILES)
@pytest.mark.parametrize("verb", ["check", "submit", "render", "plan", "explain"])
def test_a_broken_file(
    content: str | bytes, lines: list[str], verb: str, hpcdist: Hpcdist, folder: Path
) -> None:
    (folder / "bad.yml").write_bytes(content.encode() if isinstance(content, str) else content)
    result = hpcdist(verb, "bad.yml", "--site-path", "sites")
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines() == lines
    assert not (folder / "runs").exists()


OPTIONS = [
    (["rank.yml"], 2, "rank.yml: there is no such file; did you mean 'ranks.yml'?"),
    (["sites"], 2, "sites: this is a directory; name a file in it"),
    (["ranks.yml", "--site", "toi"], 2, "--site=toi: there is no site 'toi'; did you mean 'toy'?"),
    (
        ["ranks.yml", "--set", "batch.walltime=soon"],
        2,
        f"--set batch.walltime=soon: batch.walltime: 'soon' is not a walltime; {WALLTIME_FORMS}",
    ),
    (
        ["ranks.yml", "--set", "batch.launcer=x"],
        2,
        "--set batch.launcer=x: batch.launcer: unknown key 'launcer'; did you mean 'launcher'?",
    ),
    (
        ["ranks.yml", "-p", "lr=1"],
        2,
        "-p lr=1: params.lr: there is no param 'lr'; add it by `--set params.lr=1`",
    ),
    (
        ["ranks.yml", "--set", "batch.site=toy"],
        3,
        (
            "ranks.yml:6:32: batch.launcher: launcher processes does not start tasks under scheduler slurm "
            "(site toy); write one of srun, mpirun, horovodrun, horovodrun-mpi, pals, hydra, ibrun"
        ),
    ),
]


@pytest.mark.parametrize(("words", "code", "line"), OPTIONS)
def test_a_wrong_option(words: list[str], code: int, line: str, hpcdist: Hpcdist) -> None:
    result = hpcdist("check", *words, "--site-path", "sites")
    assert (result.code, result.out, result.err) == (code, "", f"error: {line}\n")


def test_a_missing_site_file(hpcdist: Hpcdist, folder: Path) -> None:
    result = hpcdist("check", "ranks.yml", "--site", "./sites/toi.yaml")
    message = f"there is no site file '{folder}/sites/toi.yaml'; did you mean 'toy.yaml'?"
    assert (result.code, result.out, result.err) == (2, "", f"error: --site=./sites/toi.yaml: {message}\n")


def test_a_broken_site_file_is_reported_with_its_place(hpcdist: Hpcdist, folder: Path) -> None:
    (folder / "sites" / "toy.yaml").write_text("name: toy\ndescription: x\nscheduler: slurm\nluncher: srun\n")
    result = hpcdist("check", "ranks.yml", "--site", "toy", "--site-path", "sites")
    assert result.code == 2
    assert result.err.splitlines() == [
        "error: sites/toy.yaml:1:1: 'launcher' is missing",
        "error: sites/toy.yaml:4:1: luncher: unknown key 'luncher'; did you mean 'launcher'?",
    ]


def test_an_unknown_site_in_the_environment(hpcdist: Hpcdist, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPCDIST_SITE", "locl")
    result = hpcdist("check", "-", stdin="run: {cmd: 'true'}")
    assert (result.code, result.err) == (
        2,
        "error: $HPCDIST_SITE: there is no site 'locl'; did you mean 'local'?\n",
    )


@pytest.mark.parametrize("verb", ["status", "describe", "logs", "cancel", "wait"])
def test_an_unknown_job(verb: str, hpcdist: Hpcdist, folder: Path) -> None:
    result = hpcdist(verb, "ranks-7")
    assert (result.code, result.out) == (2, "")
    assert result.err == f"error: there is no run 'ranks-7' in {folder}/runs\n"


def test_an_empty_site_is_an_error(hpcdist: Hpcdist) -> None:
    result = hpcdist("check", "ranks.yml", "--site", "")
    assert (result.code, result.out) == (2, "")
    assert result.err == "error: --site=: the value is empty; name a site, or omit the option\n"


def test_a_command_of_comments_is_empty(hpcdist: Hpcdist, folder: Path) -> None:
    (folder / "c.yml").write_text("run: {cmd: '# python train.py'}\n")
    result = hpcdist("check", "c.yml", "--site", "local")
    assert "c.yml:1:12: run.cmd: the command is empty; write the command that starts" in result.err


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("ranks.yml", "Not a directory"),
        ("ranks.yml/runs", "Not a directory"),
        ("/proc/runs", "No such file or directory"),
    ],
)
def test_a_runs_directory_that_cannot_be_written(
    place: str, reason: str, hpcdist: Hpcdist, folder: Path
) -> None:
    result = hpcdist("submit", "ranks.yml", "--runs-dir", place)
    assert (result.code, result.out) == (2, "")
    where = folder / place
    assert result.err == (
        f"error: the run cannot be written: {where}: {reason}; choose another directory with --runs-dir\n"
    )


def test_a_runs_directory_in_a_home_that_is_not_known(
    hpcdist: Hpcdist, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "error: '~nobody-here/x' is of a user that this machine does not know; write an absolute path"
    assert hpcdist("status", "--runs-dir", "~nobody-here/x").err.splitlines() == [line]
    monkeypatch.setenv("HPCDIST_RUNS_DIR", "~nobody-here/x")
    (folder / "exp.yml").write_text("run: {cmd: x}\n")
    for words in (("status",), ("plan", "exp.yml"), ("submit", "exp.yml", "--site", "local")):
        assert (done := hpcdist(*words)).err.splitlines()[-1] == line, words
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
    for verb in ("status", "list"):
        result = real(verb)
        assert result.code == 0
        assert [line.split()[0] for line in result.out.splitlines()] == ["run", "ranks-1"]
        told = {line.split(": ")[1].split("/")[-2] for line in result.err.splitlines()}
        assert told == {"text", "folder", "link", "old"}
        assert "Traceback" not in result.err
    assert real("describe", "text").code == 2
