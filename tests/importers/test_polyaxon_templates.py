# ruff: noqa: E501 - a file is written as one line
"""Templates of Polyaxon in commands and params: what the job knows is expanded, the rest is refused by name."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

from hpcdist.base import source
from hpcdist.base.errors import ConfigError
from hpcdist.loading.load import load_experiment
from tests.wording import Wording

COMPONENT = "version: 1.1\nkind: component\nrun:\n"
SCRIPT = COMPONENT + "  kind: job\n  container:\n    command: [bash, -c]\n    args:\n    - |\n"


def lines_of(text: str, **params: str) -> list[str]:
    """Return the errors and warnings of a file."""
    document = source.parse(text, "f.yml")
    try:
        return list(map(str, load_experiment(document, params=params).problems))
    except ConfigError as error:
        return list(map(str, error.problems))


def output_of(text: str, folder: pathlib.Path) -> str:
    """Return what the command of a file prints, with blanks in the paths that the job knows."""
    command = load_experiment(source.parse(text, "f.yml")).experiment.run.cmd
    assert isinstance(command, str)
    env = {
        "PATH": os.environ["PATH"],
        "POLYAXON_RUN_OUTPUTS_PATH": "/r 1/out",
        "HPCDIST_RUN_DIR": "/r 1/n-7",
        "ROOT": "/o p",
    }
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, capture_output=True, check=True)
    return done.stdout.decode()


@pytest.mark.parametrize(
    ("script", "printed"),
    [
        ("printf '<%s>' {{ globals.run_outputs_path }}/a", "</r 1/out/a>"),
        ("""printf '<%s>' 'dir="{{ globals.run_outputs_path }}"'""", '<dir="/r 1/out">'),
        ("""printf '<%s>' "{{ globals.run_outputs_path }}_x" '{{ globals.run_outputs_path }}x'""", "</r 1/out_x></r 1/outx>"),
        ("cat <<E\n{{ globals.run_outputs_path }}/a\nE", "/r 1/out/a\n"),
        ("printf '<%s>' x # {{ globals.run_outputs_path }}'s", "<x>"),
        ("""python -c 'print("{{globals.run_outputs_path}}")'""", "/r 1/out\n"),
        ("printf '<%s>' \"{{ globals.uuid }}-x\" {{ globals.uuid }}", "<n-7-x><n-7>"),
        ("printf '<%s>' '$(ROOT)/a' \"$(ROOT)\" '$$(ROOT)'", "</o p/a></o p><$(ROOT)>"),
        ("cd / && printf '<%s>' {{ globals.artifacts_path }}/m.py '{{ globals.run_artifacts_path }}/uploads/m.py'", "<HERE/m.py><HERE/m.py>"),
        ("printf '<%s>' '{{ globals.run_artifacts_path }}/outputs/m'", "</r 1/out/m>"),
    ],
)  # fmt: skip
def test_what_the_job_knows_is_expanded_in_any_quotes(
    script: str, printed: str, tmp_path: pathlib.Path
) -> None:
    indented = "".join(f"      {line}\n" for line in script.splitlines())
    env = "    env: [{name: ROOT, value: /o p}]\n"
    assert output_of(SCRIPT + indented + env, tmp_path).replace(str(tmp_path), "HERE") == printed


def test_code_that_polyaxon_fetches_is_where_the_job_is_submitted(tmp_path: pathlib.Path) -> None:
    text = COMPONENT + (
        "  kind: job\n  init: [{git: {url: 'https://example.org/lab/digits.git'}}]\n"
        "  container: {command: [printf, '<%s>', '{{ globals.artifacts_path }}/digits/train.py', "
        "'{{ globals.artifacts_path }}/digits2']}\n"
    )
    assert output_of(text, tmp_path) == f"<{tmp_path}/train.py><{tmp_path}/digits2>"
    assert lines_of(text) == [
        "f.yml:5:22: build.git: 'git' is not fetched: the job runs the code in the submit directory; check it out there, or write `batch: {code: git}`",
        "f.yml:6:15: run.container.command: `globals.artifacts_path` is the directory where the job is submitted; submit it in the folder of digits",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "globals.created_at",
        "globals.project_name",
        "context or globals.artifacts_path",
        "connections['foo']['key']",
        "connections[a-b].url",
        "init[a].schemaKey",
        "ops.build.outputs.image",
        "dag.inputs.top",
    ],
)
def test_what_only_a_server_knows_is_refused_by_name(name: str, wording: Wording) -> None:
    block = f"{{{{ {name} }}}}"
    native = f"run:\n  cmd: |\n    train {block}\n"
    wording([*lines_of(f"{SCRIPT}      train {block}\n"), *lines_of(native)])


def test_a_param_may_have_such_a_name() -> None:
    assert lines_of("params: {dag: {top: 3}}\nrun: {cmd: 'train {{ dag.top }}'}") == []


def test_a_value_known_in_the_job_is_refused_where_no_shell_reads_it(wording: Wording) -> None:
    text = COMPONENT + "  kind: job\n  container: {image: 'a:{{ globals.uuid }}', command: [x]}\n"
    quoted = SCRIPT + "      cat <<'E'\n      {{ globals.uuid }}\n      E\n"
    wording([*lines_of(text), *lines_of(quoted)])


@pytest.mark.parametrize(
    "value",
    ["{ref: runs.x, value: outputs.y}", "{value: '{{ ops.x.outputs.y }}'}", "'{{ dag.inputs.top }}'", "{}",
     "{value: [1, '{{ runs.0f3.outputs.y }}']}"],
)  # fmt: skip
def test_a_param_of_another_run_is_given_on_the_command_line(value: str) -> None:
    text = (
        f"version: 1.1\nkind: operation\nparams:\n  a: {value}\ncomponent:\n"
        "  inputs: [{name: a, type: str, value: b, isOptional: true}]\n"
        "  run: {kind: job, container: {command: [train, '{{ a }}']}}\n"
    )
    warning = "params.a: a comes from another run, which is not read; give it with `-p a=VALUE`"
    assert [line.split(": ", 1)[1] for line in lines_of(text, a="7")] == [warning]
    assert [line.split(": ", 1)[1] for line in lines_of(text)] == [
        "inputs[0]: the input 'a' is required but has no param; write it under `params`, or use `-p a=VALUE`",
        warning,
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("params: {lr: '{{ jobs.1.outputs.doo }}'}\nrun: {cmd: 'train {{ lr }}'}",
         ["f.yml:1:14: params.lr: 'jobs.1.outputs.doo' comes from another run; write the value itself, or make it a param"]),
        ("params: {lr: 1, b: '{{ lr }}/x'}\nrun: {cmd: 'train {{ b }}'}",
         ["f.yml:1:20: params.b: a param is filled in once, and not the templates in its value; write the value itself"]),
        ("inputs: [{name: a, is_optional: true, default: ['{{ globals.namespace }}']}]\nrun: {cmd: train}",
         ["f.yml:1:49: inputs[0].default[0]: 'globals.namespace' is known to a server of Polyaxon only; write the value itself, or make it a param"]),
        ("version: 1.1\nkind: operation\nparams: {a: {value: 'Hello {{ name }}'}}\ncomponent: {run: {kind: job, container: {command: [x]}}}",
         ["f.yml:3:21: params.a.value: a param is filled in once, and not the templates in its value; write the value itself"]),
        ("description: of {{ ops.a.outputs.b }}\ninputs: [{name: a, description: '{{ dag.x }}', default: 1, is_optional: true}]\nrun: {cmd: x}", []),
        ("params: {prompt: 'Hello {{ name }}'}\nrun: {cmd: \"train '{{ prompt }}'\"}", []),
        ("version: 1.1\nkind: operation\nparams: {a: {value: 1}, b: {value: '{{ params.a }}'}, c: '{{ globals.run_outputs_path }}'}\ncomponent: {run: {kind: job, container: {command: [x]}}}",
         ["f.yml:3:36: params.b.value: a param is filled in once, and not the templates in its value; write the value itself",
          "f.yml:3:58: params.c: 'globals.run_outputs_path' is known to a server of Polyaxon only; write $POLYAXON_RUN_OUTPUTS_PATH, or `{{ globals.run_outputs_path }}` alone, in the command"]),
    ],
)  # fmt: skip
def test_templates_in_params(text: str, lines: list[str]) -> None:
    assert lines_of(text) == lines
