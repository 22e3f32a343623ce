"""Parts of Polyaxon 1 and 2 that a job has too: files, directories, the log level, times from params."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

from hpcdist.base import source
from hpcdist.base.tree import Map
from hpcdist.base.units import Walltime
from hpcdist.importers import polyaxon_v1
from hpcdist.importers.container import as_word
from hpcdist.loading.load import load_experiment
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
    env["POLYAXON_RUN_OUTPUTS_PATH"] = "/r 1/out"
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, capture_output=True, check=True)
    return done.stdout.decode()


def test_files_are_written_for_each_task(tmp_path: pathlib.Path) -> None:
    assert run(FILES, tmp_path) == "x hello END_OF_FILE\na b\n"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []


def test_a_param_in_a_file_is_text_of_the_file_whatever_its_value(tmp_path: pathlib.Path) -> None:
    value = "'; touch hacked #\\n$(touch hacked)"
    text = (
        f'version: 1.1\ninputs: [{{name: a, type: str, value: "{value}"}}]\nrun:\n  kind: job\n'
        "  init: [{file: {content: '{{ a }} in {{ globals.run_outputs_path }}'}}]\n"
        "  container: {command: [cat, '{{ globals.artifacts_path }}/file']}\n"
    )
    assert run(text, tmp_path) == value.replace("\\n", "\n") + " in /r 1/out\n"
    assert not (tmp_path / "hacked").exists()


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


def test_an_image_without_a_command_is_the_program() -> None:
    """As in Kubernetes, ``args`` are then those of the image's entrypoint."""
    text = (
        "version: 1.1\ninputs: [{name: lr, type: str, value: 0.1}]\nrun:\n  kind: job\n  container:\n"
        "    image: a/train:1\n    workingDir: /a b\n    args: [--lr, '{{ lr }}', a b]\n"
        "    env: [{name: A, value: b}]\n"
    )
    assert native(text) | {"inputs": []} == {
        "inputs": [],
        "run": {"entrypoint": "image", "args": "--lr " + as_word("lr") + " 'a b'", "workdir": "/a b"},
        "build": {"image": "a/train:1"},
        "environment": {"env_vars": {"A": "b"}},
    }
    assert remarks_of(text) == []


@pytest.mark.parametrize(("count", "workers"), [(8, 2), (4, 1), (2, 1)])
def test_mpirun_fills_the_first_workers(count: int, workers: int) -> None:
    text = (
        "version: 1.1\nrun:\n  kind: mpijob\n  slotsPerWorker: 4\n"
        f"  launcher: {{container: {{command: [mpirun, -np, '{count}', x]}}}}\n"
        "  worker: {replicas: 2, container: {image: a}}\n"
    )
    form = {"processes_per_replica": min(count, 4), "replicas": {"n_workers": workers - 1}}
    why = f"mpirun starts {count} processes (-np) on {workers} of 2 workers: no other is requested"
    warning = f"warning: f.yml:5:26: run.launcher.container.command: {why}; write -np 8 for all"
    assert native(text)["environment"] == form
    assert remarks_of(text) == ([warning] if workers == 1 else [])


def test_a_command_without_mpirun_runs_once_over_all_workers() -> None:
    text = (
        "version: 1.1\nrun:\n  kind: mpijob\n  launcher: {container: {command: [./start.sh]}}\n"
        "  worker: {replicas: 2, container: {image: a}}\n"
    )
    found = native(text)
    assert (found["backend"], found["environment"]) == ("mpi", {"replicas": {"n_workers": 2}})
    assert found["run"] == {"cmd": "./start.sh"}


def test_labels_of_nodes_are_the_sites() -> None:
    text = (
        "version: 1.1\nrun:\n  kind: mpijob\n"
        "  launcher: {environment: {nodeSelector: {a: b}}, container: {command: [mpirun, x]}}\n"
        "  worker: {replicas: 2, environment: {nodeSelector: {n: 1.10}}, container: {image: a}}\n"
    )
    selector = {"node_selector": {"n": "1.10"}}
    replicas = {"n_workers": 1, "default_worker": selector}
    assert native(text)["environment"] == {**selector, "replicas": replicas}
    why = "the nodes of the launcher have no effect: it runs on the first node"
    assert remarks_of(text) == [f"warning: f.yml:4:28: run.launcher.environment.nodeSelector: {why}"]


def test_tags_may_have_params() -> None:
    tags = "version: 1.1\ntags: ['lr {{ params.lr }}', '{{ globals.project_name }}']\n"
    text = tags + "run: {kind: job, container: {command: [x]}}\n"
    assert native(text)["tags"][0] == "lr {{ lr }}"
    why = "'globals.project_name' is known to a server of Polyaxon only"
    hint = "write the value itself, or make it a param"
    assert remarks_of(text) == [f"error: f.yml:2:1: tags: {why}; {hint}"]
