# ruff: noqa: E501 - a file is written as one line
"""Files shaped like those of Polyaxon 1 and 2; what becomes of each stands beside it, as a whole."""

from __future__ import annotations

import pathlib
import shlex

import pytest

from hpcdist import importers
from hpcdist.base import source
from hpcdist.base.errors import ConfigError
from hpcdist.importers.polyaxon_v1 import IMPORTER
from hpcdist.loading.load import load_experiment
from tests.importers.remarks import cases, remarks_of
from tests.wording import Wording

FOLDER = pathlib.Path(__file__).parent / "polyaxon_v1"
NAMES = sorted(path.name.partition(".")[0] for path in FOLDER.glob("*.expected.yml"))


@pytest.mark.parametrize("name", NAMES)
def test_a_file_becomes_an_experiment(name: str) -> None:
    document = source.parse((FOLDER / f"{name}.yml").read_text(), f"{name}.yml")
    expected = source.load(FOLDER / f"{name}.expected.yml").data
    assert IMPORTER.recognises(document.data)
    read = importers.read(document.data)
    remarks = [f"{problem.severity}: {document.locate(problem)}" for problem in read.remarks]
    assert (read.data, remarks) == (expected["native"], expected["remarks"])


def test_every_file_has_its_expectation() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.yml") if "expected" not in path.name) == NAMES


@pytest.mark.parametrize(
    "text",
    [
        "version: 1.1\nkind: component\nrun: {kind: pytorchjob, master: {container: {command: [deepspeed, t.py]}}}",
        "version: 1.05\nkind: component\nrun: {kind: job, container: {command: [x]}}",
        "version: 1.1\nkind: component\nrun: {kind: tfjob, worker: {replicas: 2, container: {command: [x]}}}",
        "version: 1.1\nkind: component\nrun: {kind: tfjob, worker: {replicas: 2, container: {command: [x]}}, ps: {container: {command: [x]}}}",
        "version: 1.1\nkind: component\nrun: {kind: paddlejob, worker: {container: {command: [x]}}}",
    ],
    ids=cases(),
)
def test_what_is_accepted(text: str) -> None:
    assert remarks_of(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "version: 1.1\nkind: operation\npathRef: https://example.org/c.yml\nrunPatch: {container: {image: x}}",
        "version: 1.1\nkind: component\nrunPatch: {container: {image: x}}\nrun: {kind: job, container: {command: [x]}}",
        "version: 1.1\nkind: operation\nurlRef: https://example.org/a/c.yml",
        "version: 1.1\nkind: operation\ndagRef: train",
        "version: 1.1\nkind: operation\ncomponent: {kind: operation, pathRef: a.yml}",
        "version: 1.1\nkind: operation\npatchStrategy: append\ncomponent: {run: {kind: job, container: {command: [x]}}}",
        "version: 1.1\nkind: operation\nhubRef: tf:1\nparams: {lr: {value: 1}}",
        "isPreset: true\npatchStrategy: isnull\nrunPatch: {environment: {nodeSelector: {a: b}}}",
        "version: 1.1\nkind: component\nrun: {kind: mpijob, launcher: {container: {command: [mpirun, x]}}, worker: {container: {command: [sleep, infinity]}}}",
        "version: 1.1\nkind: component\nrun: {kind: mpijob, launcher: {container: {command: [mpirun, x]}}, worker: {container: {command: [y]}}}",
        "version: 1.1\nkind: component\nrun: {kind: pytorchjob, master: {container: {command: [x], env: [{name: A, value: '{{ globals.run_outputs_path }}'}]}}, worker: {container: {command: [x]}}}",
        "version: 1.1\nkind: component\nrun: {kind: job, environment: {resources: {gpu: 1}, labels: {a: b}, colour: red}, container: {command: [x]}}",
        "version: 1.1\nkind: component\nrun: {kind: job, container: {command: [/bin/sh, -c], args: [train, --lr=1]}}",
        "version: 1.1\nkind: component\nhooks: [{trigger: succeeded, hubRef: tensorboard}]\nrun: {kind: job, container: {command: [x]}}",
        "version: 1.1\nkind: component\nrun: {kind: pytorchjob, master: {container: {command: [deepspeed, t.py]}}, worker: {replicas: 3, container: {command: [deepspeed, t.py]}}}",
        "version: 1.1\nkind: component\nrun: {kind: tfjob, worker: {replicas: 4, container: {args: 'cd /w && horovodrun -np 8 -H localhost:2 python t.py'}}}",
        "version: 1.1\nkind: component\nrun: {kind: job, container: {command: [x], resources: {limits: {memory: 200}}}}",
        "version: 1.1\nkind: component\nrun: {kind: dag, operations: []}",
        "version: 1.1\nkind: component\nrun: {kind: service, container: {command: [x]}, ports: [1]}",
        "version: 1.1\nkind: component\nrun: {kind: mpijobs}",
        "version: 1.1\nkind: component\nrun: {container: {command: [x]}}",
        "version: 1.1\nkind: component\n",
        "version: 2\nkind: component\nrun: {kind: job, container: {command: [x]}}",
        "version: 1.1\nkind: experiment\nrun: {cmd: x}",
        "version: 1.1\nrun: {cmd: x}",
        "version: 1.1\nkind: dag\nrun: {kind: job}",
        "version: 1.1\nkind: component\nisPreset: true\nrun: {kind: job, container: {command: [x]}}",
        "version: 1.1\nkind: component\npresets: [gpu]\nschedule: {kind: cron, cron: '0 0'}\nrun: {kind: job, container: {command: [x]}}",
        "version: 1.1\nkind: component\nrun: {kind: job, container: {image: a, args: [x], env: [{name: A, value: '{{ globals.uuid }}'}]}}",
        "version: 1.1\nkind: component\nrun: {kind: job, container: {image: a, args: [python, x.py]}}",
        "kind: experiment\nrun: {kind: job, container: {command: [x]}}",
        "version: 1.1\nkind: component\nrun: {kind: job, container: {command: [x], resources: {cpu: {limits: 1}}}}",
        "version: 1.1\nkind: component\nrun: {kind: mpijob, slotsPerWorker: 4, launcher: {container: {command: [mpirun, -np, '6', x]}}, worker: {replicas: 2, container: {image: a}}}",
        "version: 1.1\nkind: component\nrun: {kind: mpijob, launcher: {container: {image: a}}, worker: {container: {image: a}}}",
        "version: 1.1\nkind: component\nrun: {kind: job}",
        "version: 1.1\nkind: component\nrun: {kind: job, init: [{file: {filename: a, content: b}, path: /x}, {artifacts: {files: [a]}}, {what: 1}, 5], container: {command: [x]}}",
        "version: 1.1\nkind: component\nrun: {kind: job, init: [{file: {filename: ../a, content: b, chmod: 7}}], container: {command: [x]}}",
        "version: 1.1\nkind: component\nplugins: {docker: true, auth: true, shm: false, logLevel: debug}\nrun: {kind: job, container: {command: [x]}}",
        "run: {kind: job, container: {command: [x, '{{ globals.artifacts_path }}/code/a.py']}}",
        "version: 1.1\nkind: component\nrun: {kind: job, container: {command: [x, '{{ globals.iteration }}', '{{ connections.a.schema }}']}}",
        "version: 1.1\nkind: component\nrun: {kind: job, container: {command: [x], resources: {limits: {nvidia.com/mig-1g.5gb: 1, tpu: 8, cpu: some}}}}",
        "version: 1.1\nkind: component\nrun: {kind: job, container: {command: [x], env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {B: 1}], envFrom: [{secretRef: {name: s}}]}}",
        "version: 1.1\nkind: component\nrun: {kind: mpijob, launcher: {container: {command: [mpirun, -np, '8', x]}}, worker: {replicas: 2, container: {image: a}}}",
        "version: 1.1\nkind: component\nrun: {kind: mpijob, slotsPerWorker: 2, launcher: {container: {command: 'sh run.sh --hostfile /etc/mpi/hostfile'}}, worker: {replicas: 2, container: {image: a}}}",
        "version: 1.1\nkind: component\nrun: {kind: mpijob, launcher: {container: {command: [mpirun, x]}}}",
        "version: 1.1\nkind: component\nrun: {kind: mpijob, worker: {container: {image: a}}}",
        "version: 1.1\nkind: component\nrun: {kind: mpijob}",
        "version: 1.1\nkind: component\nrun: {kind: tfjob, worker: {replicas: 0, container: {command: [x]}}}",
        "version: 1.1\nkind: component\nrun: {kind: tfjob, chief: {replicas: 2, container: {command: [x]}}, worker: {container: {command: [y], image: a}}}",
        "version: 1.1\nkind: component\nrun: {kind: paddlejob, master: {container: {command: [x]}}, worker: {container: {command: [x]}}}",
        "version: 1.1\nkind: component\nrun: {kind: pytorchjob}",
        "version: 1.1\nkind: component\nrun: {kind: mxjob, worker: {container: {command: [x]}}}",
        "version: 1.1\nkind: component\nrun: {kind: pytorchjob, nProcPerNode: 4, elasticPolicy: {minReplicas: 1, maxReplicas: 3, rdvzBackend: c10d, maxRestarts: 2}, worker: {replicas: 3, container: {command: [torchrun, x.py], resources: {limits: {nvidia.com/gpu: 4}}}}}",
        "version: 1.1\nkind: operation\nparams: {a: {ref: runs.x, value: outputs.b}, b: {}, c: 3}\ntrigger: all_done\ncomponent: {run: {kind: job, container: {command: [x]}}}",
        "version: 1.1\nkind: component\ninputs: [{name: a-b}, {name: c, type: git, toInit: true}, {name: d, type: 'List[int]'}]\nrun: {kind: job, container: {command: [x]}}",
        "version: 1.1\nkind: component\ntermination: {timeout: 1h, maxRetries: many, ttl: 5}\nrun: {kind: job, container: {command: [x]}}",
        "version: 1.1\nkind: component\nname: my run.1\nrun: {kind: job, container: {comand: [x], command: [x]}}",
    ],
    ids=cases(),
)
def test_refusals_and_warnings(text: str, wording: Wording) -> None:
    wording(remarks_of(text))


@pytest.mark.parametrize(
    ("script", "warned"),
    [
        *((asked, False) for asked in ('"$@"', "$*", "$1", "${1:-b}", '"${@:2}"', "$#", "$0")),
        *((other, True) for other in ("$A1", "$$", "${A}", "$(id)", "a")),
    ],
)
def test_unused_words_after_a_script_are_a_warning(script: str, *, warned: bool) -> None:
    text = f"version: 1.1\nrun: {{kind: job, container: {{command: [sh, -c, 'x {script}', name, --a]}}}}"
    warning = "warning: f.yml:2:30: run.container.command: the shell runs the first text after -c only; what follows is $0, $1 and so on; write it as one text"
    assert remarks_of(text) == [warning] * warned


@pytest.mark.parametrize(
    ("text", "params", "value"),
    [
        ("inputs: [{name: c, toEnv: C, type: dict}]", {"c": "{a: [1, b, null], é: '<'}"}, '{"a": [1, "b", null], "é": "<"}'),
        ("inputs: [{name: c, toEnv: C, type: dict, isOptional: true}]", {}, "null"),
        ("inputs: [{name: c, toEnv: C, type: int, isList: true, value: [1, 2]}]", {}, "[1, 2]"),
        ("inputs: [{name: c, toEnv: C, value: {a: true}}]", {}, '{"a": true}'),
        ("params: {c: {toEnv: C, value: [1]}}", {}, "[1]"),
        ("inputs: [{name: c, toEnv: C, type: str}]", {"c": """'{"a": 1}'"""}, '{"a": 1}'),
    ],
)  # fmt: skip
def test_a_structured_variable_is_json(text: str, params: dict[str, str], value: str) -> None:
    document = source.parse(f"version: 1.1\n{text}\nrun: {{kind: job, container: {{command: [x]}}}}", "f.yml")
    assert load_experiment(document, params=params).experiment.environment.env_vars == {"C": value}


@pytest.mark.parametrize(
    ("roles", "section"),
    [
        (["chief", "worker"], {"chief": True}),
        (["worker"], None),
        (["worker", "evaluator"], {"chief": False}),
        (["chief", "worker", "evaluator"], None),
        (["chief", "worker", "ps"], None),
    ],
)
def test_tf_config_keeps_its_chief_or_has_none(roles: list[str], section: dict[str, object] | None) -> None:
    each = ", ".join(
        f"{role}: {{replicas: {1 + (role == 'worker')}, container: {{command: [x]}}}}" for role in roles
    )
    text = f"version: 1.1\nkind: component\nrun: {{kind: tfjob, {each}}}"
    read = importers.read(source.parse(text, "f.yml").data)
    assert (read.data.get("tensorflow"), read.remarks) == (section, ())


def test_a_variable_of_json_without_its_param(wording: Wording) -> None:
    text = (
        "version: 1.1\ninputs: [{name: c, toEnv: C, type: dict}]\nrun: {kind: job, container: {command: [x]}}"
    )
    with pytest.raises(ConfigError) as caught:
        load_experiment(source.parse(text, "f.yml"))
    wording(str(caught.value))


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("version: 1.1\nrun: {}", True),
        ("version: '1.1'\nkind: operation", True),
        ("kind: component", True),
        ("version: 1\nkind: experiment\nrun: {cmd: x}", False),
        ("version: 1.1\n$schema: https://x/commandComponent.schema.json", False),
        ("version: 1.1\ntype: command", False),
        ("apiVersion: v1\nkind: component", False),
    ],
)
def test_the_form_is_recognised_by_its_version_and_kind(text: str, *, own: bool) -> None:
    assert IMPORTER.recognises(source.parse(text, "f.yml").data) is own


@pytest.mark.parametrize("value", ["a b", "it's; rm -rf /", '$(id) "x"', "{{ 1 }}"])
def test_a_text_param_is_one_word_of_the_command(value: str) -> None:
    text = (
        "version: 1.1\nkind: component\ninputs: [{name: x, type: str}]\n"
        "run: {kind: job, container: {command: [echo, 'a {{ x }}', '{{ params.x.as_arg }}', \"it's\"]}}"
    )
    loaded = load_experiment(
        source.parse(text, "f.yml"), params={"x": f"'{value}'" if "'" not in value else value}
    )
    assert shlex.split(loaded.experiment.run.command) == ["echo", f"a {value}", f"--x={value}", "it's"]


def test_a_list_of_numbers_is_one_word_of_the_command() -> None:
    text = (
        "version: 1.1\nkind: component\ninputs: [{name: x, type: int, isList: true}]\n"
        "run: {kind: job, container: {command: [echo, '--x={{ x }}', '{{ params.x.as_arg }}']}}"
    )
    loaded = load_experiment(source.parse(text, "f.yml"), params={"x": "[1, 2]"})
    assert shlex.split(loaded.experiment.run.command) == ["echo", "--x=[1, 2]", "--x=[1, 2]"]


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("[python, '$(A)/x', '$(B)', '$$(A)']", """python "${A}"/x '$(B)' '$$(A)'"""),
        ("[bash, -c, 'echo $(A) $(date) $$(A)']", "echo ${A} $(date) $(A)"),
        ("[bash, -exc, 'a; b']", "set -ex\na; b"),
        ("[bash, -c, 'echo $0', zero]", "bash -c 'echo $0' zero"),
        ("[sh, -c, 'exec x \"$@\"', name, '--n={{ n }}']", """sh -c 'exec x "$@"' name --n={{ n }}"""),
        ("'python x.py --a'", "python x.py --a"),
        ("[x, '{{ params.n.as_arg }}', '{{ params.as_args }}']",
         "x {% if n is not none %}--n={{ n }}{% endif %} {% if n is not none %}--n={{ n }}{% endif %} {% if f %}--f{% endif %}"),
        ("[x, '{{ params.n.as_str }}{{ n * 2 }}']", "x {{ n }}'{{ (n * 2)|replace(\"'\", \"'\\\\''\") }}'"),
    ],
)  # fmt: skip
def test_words_become_a_command(words: str, command: str) -> None:
    text = (
        "version: 1.1\nkind: component\ninputs: [{name: n, type: int}, {name: f, type: bool}]\n"
        f"run: {{kind: job, container: {{command: {words}, env: [{{name: A, value: a}}]}}}}"
    )
    assert importers.read(source.parse(text, "f.yml").data).data["run"]["cmd"] == command
