"""Parts of Polyaxon 1 and 2 that a job has too: files, directories, the log level, times from params."""

from __future__ import annotations

import os
import pathlib
import subprocess

from hpcdist.documents import source
from hpcdist.documents.tree import Map
from hpcdist.importers import polyaxon_v1
from hpcdist.loading.load import load_experiment
from hpcdist.units import Walltime
from tests.importers.remarks import remarks_of

FILES = """\
version: 1.1
kind: component
inputs: [{name: word, type: str, value: hello}]
run:
  kind: job
  init:
  - file:
      filename: "tools/say it.sh"
      chmod: +x
      content: |
        #!/bin/sh
        echo "$1 {{ word }}" 'END_OF_FILE'
  - file: {content: "a b"}
  container:
    workingDir: "{{ globals.artifacts_path }}"
    command: [bash, -c]
    args: ["'./tools/say it.sh' x && cat {{ globals.artifacts_path }}/file"]
"""


def native(text: str) -> Map:
    return polyaxon_v1.IMPORTER.read(source.parse(text, "f.yml").data).data


def run(text: str, folder: pathlib.Path) -> str:
    """Return what the command of a file prints."""
    loaded = load_experiment(source.parse(text, "f.yml"))
    assert loaded.problems == ()
    command, env = str(loaded.experiment.run.cmd), {"PATH": os.environ["PATH"], "TMPDIR": str(folder)}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, capture_output=True, check=True)
    return done.stdout.decode()


def test_files_are_written_for_each_task(tmp_path: pathlib.Path) -> None:
    assert run(FILES, tmp_path) == "x hello END_OF_FILE\na b\n"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []


def test_the_files_of_roles_must_be_the_same() -> None:
    role = "{container: {command: [x]}, init: [{file: {filename: a, content: %s}}]}"
    text = "version: 1.1\nrun:\n  kind: pytorchjob\n  master: %s\n  worker: %s\n"
    assert remarks_of(text % (role % 1, role % 1)) == []
    why = "the list of files differs from that of master; write the same files"
    assert remarks_of(text % (role % 1, role % 2)) == [f"error: f.yml:5:39: run.worker.init: {why}"]


def test_a_directory_may_come_from_a_param(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a b").mkdir()
    text = (
        "version: 1.1\nkind: component\ninputs: [{name: d, type: path, value: a b}]\n"
        "run: {kind: job, container: {workingDir: '{{ params.d }}', command: [pwd]}}\n"
    )
    assert run(text, tmp_path) == f"{tmp_path}/a b\n"


def test_times_and_retries_may_be_params() -> None:
    text = (
        "version: 1.1\nkind: component\ntermination: {timeout: '{{ params.t }}', maxRetries: '{{ r }}'}\n"
        "plugins: {logLevel: info}\n"
        "inputs: [{name: t, type: int, default: 90}, {name: r, type: int, value: 2}]\n"
        "run: {kind: job, container: {command: [x]}}\n"
    )
    experiment = load_experiment(source.parse(text, "f.yml")).experiment
    assert (experiment.batch.walltime, experiment.environment.max_restarts) == (Walltime(90), 2)
    assert (experiment.logging.level, remarks_of(text)) == ("INFO", [])


def test_an_empty_default_is_empty_text() -> None:
    text = (
        "version: 1.1\nkind: component\ninputs: [{name: a, type: str, value: ''}]\n"
        "run: {kind: job, container: {command: [bash, -c, 'x {{ a }} y']}}\n"
    )
    assert load_experiment(source.parse(text, "f.yml")).experiment.run.cmd == "x  y"
