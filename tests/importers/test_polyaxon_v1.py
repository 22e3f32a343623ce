# ruff: noqa: E501 - a message is compared as one line
"""Files shaped like those of Polyaxon 1 and 2; what becomes of each stands beside it, as a whole."""

from __future__ import annotations

import pathlib
import shlex

import pytest

from hpcdist import importers
from hpcdist.documents import source
from hpcdist.errors import ConfigError
from hpcdist.importers.polyaxon_v1 import IMPORTER
from hpcdist.loading.load import load_experiment
from tests.importers.remarks import remarks_of

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
    ("text", "remarks"),
    [
        ("version: 1.1\nkind: operation\npathRef: https://example.org/c.yml\nrunPatch: {container: {image: x}}",
         ["error: f.yml:3:10: pathRef: what pathRef names is not fetched; fetch it, for example by `curl -LO https://example.org/c.yml`, and write `pathRef: ./c.yml`"]),
        ("version: 1.1\nkind: component\nrunPatch: {container: {image: x}}\nrun: {kind: job, container: {command: [x]}}",
         ["error: f.yml:3:1: runPatch: there is no component here to patch; write it into `run`"]),
        ("version: 1.1\nkind: operation\nurlRef: https://example.org/a/c.yml",
         ["error: f.yml:3:9: urlRef: what urlRef names is not fetched; fetch it, for example by `curl -LO https://example.org/a/c.yml`, and write `pathRef: ./c.yml`"]),
        ("version: 1.1\nkind: operation\ndagRef: train",
         ["error: f.yml:3:9: dagRef: what dagRef names is not fetched; it names a part of a pipeline: write the component itself, as `component:`"]),
        ("version: 1.1\nkind: operation\ncomponent: {kind: operation, pathRef: a.yml}",
         ["error: f.yml:3:19: component.kind: an operation names a component; name its component"]),
        ("version: 1.1\nkind: operation\npatchStrategy: append\ncomponent: {run: {kind: job, container: {command: [x]}}}",
         ["error: f.yml:3:16: patchStrategy: there is no strategy 'append'; write one of post_merge, pre_merge, replace, isnull"]),
        ("version: 1.1\nkind: operation\nhubRef: tf:1\nparams: {lr: {value: 1}}",
         ["error: f.yml:3:9: hubRef: what hubRef names is not fetched; a hub is a server of Polyaxon: write the component itself, as `component:`"]),
        ("isPreset: true\npatchStrategy: isnull\nrunPatch: {environment: {nodeSelector: {a: b}}}",
         ["error: f.yml:1:11: isPreset: a preset only adds to other operations; give the operation itself"]),
        ("version: 1.1\nkind: component\nrun: {kind: mpijob, launcher: {container: {command: [mpirun, x]}}, worker: {container: {command: [sleep, infinity]}}}",
         ["warning: f.yml:3:89: run.worker.container.command: this has no effect: hpcdist starts the program of the launcher's command"]),
        ("version: 1.1\nkind: component\nrun: {kind: mpijob, launcher: {container: {command: [mpirun, x]}}, worker: {container: {command: [y]}}}",
         ["error: f.yml:3:89: run.worker.container.command: workers of an mpijob run no command; remove it: hpcdist starts the program of the launcher's command"]),
        ("version: 1.1\nkind: component\nrun: {kind: pytorchjob, master: {container: {command: [x], env: [{name: A, value: '{{ globals.run_outputs_path }}'}]}}, worker: {container: {command: [x]}}}",
         ["error: f.yml:3:130: run.worker.container.env: the list of variables differs from that of master; write them for all, or set them in the command by $HPCDIST_ROLE"]),
        ("version: 1.1\nkind: component\nrun: {kind: job, environment: {resources: {gpu: 1}, labels: {a: b}, colour: red}, container: {command: [x]}}",
         ["warning: f.yml:3:53: run.environment.labels: labels has no effect on a batch machine: it is for Kubernetes",
          "error: f.yml:3:32: run.environment.resources: resources of Polyaxon 0.x; since then they are in `container`; write `resources: {limits: {cpu: 4, memory: 8Gi, nvidia.com/gpu: 1}}` there",
          "error: f.yml:3:69: run.environment.colour: unknown key 'run.environment.colour'; remove it"]),
        ("version: 1.1\nkind: component\nrun: {kind: job, container: {command: [/bin/sh, -c], args: [train, --lr=1]}}",
         ["warning: f.yml:3:30: run.container.command: the shell runs the first text after -c only; what follows is $0, $1 and so on; write it as one text"]),
        ("version: 1.1\nkind: component\nhooks: [{trigger: succeeded, hubRef: tensorboard}]\nrun: {kind: job, container: {command: [x]}}",
         ["warning: f.yml:3:1: hooks: hooks has no effect on a batch machine: hooks are not run; submit the operation with `batch.dependency`, or use `batch.mail`"]),
        ("version: 1.1\nkind: component\nrun: {kind: pytorchjob, master: {container: {command: [deepspeed, t.py]}}, worker: {replicas: 3, container: {command: [deepspeed, t.py]}}}",
         ["error: f.yml:3:46: run.master.container.command: hpcdist runs a command with deepspeed once, on the first node, and not in 4 replicas; write torchrun instead, which runs in each replica"]),
        ("version: 1.1\nkind: component\nrun: {kind: tfjob, worker: {replicas: 4, container: {args: 'cd /w && horovodrun -np 8 -H localhost:2 python t.py'}}}",
         ["error: f.yml:3:60: run.worker.container.args: hpcdist runs a command with horovodrun once, on the first node, and not in 4 replicas; write `kind: mpijob`, whose launcher runs horovodrun for all workers"]),
        ("version: 1.1\nkind: component\nrun: {kind: pytorchjob, master: {container: {command: [deepspeed, t.py]}}}", []),
        ("version: 1.1\nkind: component\nrun: {kind: job, container: {command: [x], resources: {limits: {memory: 200}}}}",
         ["error: f.yml:3:73: run.container.resources.limits.memory: 200 is less than a program needs; write 200Mi for mebibytes"]),
        ("version: 1.05\nkind: component\nrun: {kind: job, container: {command: [x]}}", []),
        ("version: 1.1\nkind: component\nrun: {kind: dag, operations: []}",
         ["error: f.yml:3:13: run.kind: runs of kind 'dag' are not run; `submit`, `check`, `plan` and `render` take one, and in Python `hpcdist.load_pipeline`"]),
        ("version: 1.1\nkind: component\nrun: {kind: service, container: {command: [x]}, ports: [1]}",
         ["error: f.yml:3:13: run.kind: runs of kind 'service' are not run; a batch job serves nothing: start it on a machine of your own"]),
        ("version: 1.1\nkind: component\nrun: {kind: mpijobs}",
         ["error: f.yml:3:13: run.kind: runs of kind 'mpijobs' are not run; did you mean 'mpijob'?"]),
        ("version: 1.1\nkind: component\nrun: {container: {command: [x]}}",
         ["error: f.yml:3:1: run.kind: there is no kind; known: job, mpijob, mxjob, paddlejob, pytorchjob, tfjob"]),
        ("version: 1.1\nkind: component\n",
         ["error: f.yml:1:1: run: there is no section `run` here; write what to run"]),
        ("version: 2\nkind: component\nrun: {kind: job, container: {command: [x]}}",
         ["error: f.yml:1:10: version: files of version 2 and this kind are not read; write 1.1"]),
        ("version: 1.1\nkind: experiment\nrun: {cmd: x}",
         ["error: f.yml:2:7: kind: there is no kind 'experiment' of files in Polyaxon 1 and 2; write `version: 1`: it is of Polyaxon 0.x"]),
        ("version: 1.1\nrun: {cmd: x}", ["error: f.yml:2:1: run.kind: there is no kind; write `version: 1`: `run.cmd` is of Polyaxon 0.x"]),
        ("version: 1.1\nkind: dag\nrun: {kind: job}", ["error: f.yml:2:7: kind: there is no kind 'dag' of files in Polyaxon 1 and 2; write component or operation"]),
        ("version: 1.1\nkind: component\nisPreset: true\nrun: {kind: job, container: {command: [x]}}",
         ["error: f.yml:3:11: isPreset: a preset only adds to other operations; give the operation itself"]),
        ("version: 1.1\nkind: component\npresets: [gpu]\nschedule: {kind: cron, cron: '0 0'}\nrun: {kind: job, container: {command: [x]}}",
         ["error: f.yml:3:1: presets: the content of a preset is on a server of Polyaxon; write what it adds here, and remove it", "error: f.yml:4:1: schedule: jobs are not repeated; use cron"]),
        ("version: 1.1\nkind: component\nrun: {kind: job, container: {image: a, args: [x], env: [{name: A, value: '{{ globals.uuid }}'}]}}",
         ["error: f.yml:3:51: run.container.env: only a command can do this, and this is the image's own program; write the image's program as `command`"]),
        ("version: 1.1\nkind: component\nrun: {kind: job, container: {image: a, args: [python, x.py]}}",
         ["warning: f.yml:3:40: run.container.args: the image's own entrypoint is not started: `args` is used as the whole command; write them as `command`"]),
        ("kind: experiment\nrun: {kind: job, container: {command: [x]}}",
         ["error: f.yml:1:7: kind: there is no kind 'experiment' of files in Polyaxon 1 and 2; write component or operation"]),
        ("version: 1.1\nkind: component\nrun: {kind: job, container: {command: [x], resources: {cpu: {limits: 1}}}}",
         ["error: f.yml:3:56: run.container.resources.cpu: this is the form of Polyaxon 0.x, with memory in MiB; write `resources: {limits: {cpu: 4, memory: 8Gi, nvidia.com/gpu: 1}}`"]),
        ("version: 1.1\nkind: component\nrun: {kind: mpijob, slotsPerWorker: 4, launcher: {container: {command: [mpirun, -np, '6', x]}}, worker: {replicas: 2, container: {image: a}}}",
         ["error: f.yml:3:63: run.launcher.container.command: mpirun starts 6 processes, 2 workers of 4 slots are 8; write the same number, or other `replicas` and `slotsPerWorker`"]),
        ("version: 1.1\nkind: component\nrun: {kind: mpijob, launcher: {container: {image: a}}, worker: {container: {image: a}}}",
         ["error: f.yml:3:32: run.launcher.container: the launcher has no command; write its mpirun line as `command`"]),
        ("version: 1.1\nkind: component\nrun: {kind: job}",
         ["error: f.yml:3:1: run.container: there is no container here; write `container: {image: ..., command: [...]}`"]),
        ("version: 1.1\nkind: component\nrun: {kind: job, init: [{file: {filename: a, content: b}, path: /x}, {artifacts: {files: [a]}}, {what: 1}, 5], container: {command: [x]}}",
         ["error: f.yml:3:25: run.init[0]: init steps are not run (file, path); write it beside the code",
          "error: f.yml:3:70: run.init[1]: init steps are not run (artifacts); copy it to the site's own file system before, and write its path in the command",
          "error: f.yml:3:97: run.init[2]: init steps are not run (what); do it before the job is submitted, or in front of the command",
          "error: f.yml:3:108: run.init[3]: init steps are not run (it); do it before the job is submitted, or in front of the command"]),
        ("version: 1.1\nkind: component\nrun: {kind: job, init: [{file: {filename: ../a, content: b, chmod: 7}}], container: {command: [x]}}",
         ["error: f.yml:3:43: run.init[0].file.filename: '../a' is not in the folder of code; write its name only",
          "error: f.yml:3:68: run.init[0].file.chmod: '7' is not a mode; write +x or 755"]),
        ("version: 1.1\nkind: component\nplugins: {docker: true, auth: true, shm: false, logLevel: debug}\nrun: {kind: job, container: {command: [x]}}",
         ["warning: f.yml:3:19: plugins.docker: docker has no effect on a batch machine: a job cannot use a Docker daemon",
          "warning: f.yml:3:31: plugins.auth: auth has no effect on a batch machine: it is for a server of Polyaxon"]),
        ("run: {kind: job, container: {command: [x, '{{ globals.artifacts_path }}/code/a.py']}}",
         ["warning: f.yml:1:30: run.container.command: `globals.artifacts_path` is the directory where the job is submitted; submit it where the code is"]),
        ("version: 1.1\nkind: component\nrun: {kind: job, container: {command: [x, '{{ globals.iteration }}', '{{ connections.a.schema }}']}}",
         ["error: f.yml:3:30: run.container.command: 'globals.iteration' is known to a server of Polyaxon only; write the number, or `batch: {array: ...}`", "error: f.yml:3:30: run.container.command: 'connections.a.schema' is known to a server of Polyaxon only; write the path or the address itself"]),
        ("version: 1.1\nkind: component\nrun: {kind: job, container: {command: [x], resources: {limits: {nvidia.com/mig-1g.5gb: 1, tpu: 8, cpu: some}}}}",
         ["error: f.yml:3:88: run.container.resources.limits.nvidia.com/mig-1g.5gb: nvidia.com/mig-1g.5gb is a part of a GPU; request it with `batch.directives`", "error: f.yml:3:96: run.container.resources.limits.tpu: batch systems have no resource 'tpu'; remove it, or request nvidia.com/gpu", "error: f.yml:3:104: run.container.resources.limits.cpu: 'some' is not an amount; write a number such as 2, 500m or 4Gi"]),
        ("version: 1.1\nkind: component\nrun: {kind: job, container: {command: [x], env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {B: 1}], envFrom: [{secretRef: {name: s}}]}}",
         ["error: f.yml:3:60: run.container.env[0].valueFrom: A would be set by the pod; write its `value`", "error: f.yml:3:111: run.container.env[1]: this is not a variable; write `{name: NAME, value: VALUE}`", "warning: f.yml:3:120: run.container.envFrom: these variables come from Kubernetes; export them in the shell that submits the job; the job inherits its variables"]),
        ("version: 1.1\nkind: component\nrun: {kind: mpijob, launcher: {container: {command: [mpirun, -np, '8', x]}}, worker: {replicas: 2, container: {image: a}}}",
         ["error: f.yml:3:44: run.launcher.container.command: mpirun starts 8 processes, 2 workers of 1 slots are 2; write the same number, or other `replicas` and `slotsPerWorker`"]),
        ("version: 1.1\nkind: component\nrun: {kind: mpijob, slotsPerWorker: 2, launcher: {container: {command: 'sh run.sh --hostfile /etc/mpi/hostfile'}}, worker: {replicas: 2, container: {image: a}}}",
         ["warning: f.yml:3:72: run.launcher.container.command: the command runs once, unchanged, on the first node: it is not an mpirun line; its hostfile is $HPCDIST_HOSTFILE"]),
        ("version: 1.1\nkind: component\nrun: {kind: mpijob, launcher: {container: {command: [mpirun, x]}}}",
         ["error: f.yml:3:13: run.kind: an mpijob without `worker`; it says how many, and what each needs"]),
        ("version: 1.1\nkind: component\nrun: {kind: mpijob, worker: {container: {image: a}}}",
         ["error: f.yml:3:13: run.kind: an mpijob without `launcher`; its container holds the mpirun line"]),
        ("version: 1.1\nkind: component\nrun: {kind: mpijob}",
         ["error: f.yml:3:13: run.kind: an mpijob without `worker`; it says how many, and what each needs"]),
        ("version: 1.1\nkind: component\nrun: {kind: tfjob, worker: {replicas: 2, container: {command: [x]}}}", []),
        ("version: 1.1\nkind: component\nrun: {kind: tfjob, worker: {replicas: 2, container: {command: [x]}}, ps: {container: {command: [x]}}}",
         []),
        ("version: 1.1\nkind: component\nrun: {kind: tfjob, worker: {replicas: 0, container: {command: [x]}}}",
         ["error: f.yml:3:39: run.worker.replicas: 0 replicas cannot be started; write a whole number of 1 or more"]),
        ("version: 1.1\nkind: component\nrun: {kind: tfjob, chief: {replicas: 2, container: {command: [x]}}, worker: {container: {command: [y], image: a}}}",
         ["error: f.yml:3:90: run.worker.container.command: the command differs from that of chief; let the program check $HPCDIST_ROLE", "error: f.yml:3:111: run.worker.container.image: the image differs from that of chief; write the same image", "error: f.yml:3:38: run.chief.replicas: there is one master, not 2; write 1"]),
        ("version: 1.1\nkind: component\nrun: {kind: paddlejob, master: {container: {command: [x]}}, worker: {container: {command: [x]}}}",
         ["error: f.yml:3:13: run.kind: hpcdist does not configure trainers of PaddlePaddle; write a native file with `framework: mpi`, and set PADDLE_* in its command"]),
        ("version: 1.1\nkind: component\nrun: {kind: paddlejob, worker: {container: {command: [x]}}}",
         []),
        ("version: 1.1\nkind: component\nrun: {kind: pytorchjob}",
         ["error: f.yml:3:13: run.kind: a pytorchjob without roles; write `master`, `worker`"]),
        ("version: 1.1\nkind: component\nrun: {kind: mxjob, worker: {container: {command: [x]}}}",
         ["error: f.yml:3:13: run.kind: an mxjob without a scheduler; write `scheduler`"]),
        ("version: 1.1\nkind: component\nrun: {kind: pytorchjob, nProcPerNode: 4, elasticPolicy: {minReplicas: 1, maxReplicas: 3, rdvzBackend: c10d, maxRestarts: 2}, worker: {replicas: 3, container: {command: [torchrun, x.py], resources: {limits: {nvidia.com/gpu: 4}}}}}",
         ["warning: f.yml:3:103: run.elasticPolicy.rdvzBackend: rdvzBackend has no effect on a batch machine: hpcdist configures the rendezvous", "warning: f.yml:3:71: run.elasticPolicy.minReplicas: the job has 3 replicas from start to end"]),
        ("version: 1.1\nkind: operation\nparams: {a: {ref: runs.x, value: outputs.b}, b: {}, c: 3}\ntrigger: all_done\ncomponent: {run: {kind: job, container: {command: [x]}}}",
         ["error: f.yml:4:10: trigger: an operation that waits for others is part of a pipeline; chain jobs with `batch.dependency`", "warning: f.yml:3:10: params.a: a comes from another run, which is not read; give it with `-p a=VALUE`", "warning: f.yml:3:46: params.b: b comes from another run, which is not read; give it with `-p b=VALUE`"]),
        ("version: 1.1\nkind: component\ninputs: [{name: a-b}, {name: c, type: git, toInit: true}, {name: d, type: 'List[int]'}]\nrun: {kind: job, container: {command: [x]}}",
         ["error: f.yml:3:10: inputs[0]: this is not an input that a template can use; write `{name: NAME, type: TYPE}`", "error: f.yml:3:52: inputs[1].toInit: Polyaxon would fetch c before the program starts; get it before the job is submitted", "warning: f.yml:3:75: inputs[2].type: values of type 'List[int]' are not checked"]),
        ("version: 1.1\nkind: component\ntermination: {timeout: 1h, maxRetries: many, ttl: 5}\nrun: {kind: job, container: {command: [x]}}",
         ["warning: f.yml:3:51: termination.ttl: ttl has no effect on a batch machine: nothing is left to clean up", "error: f.yml:3:40: termination.maxRetries: 'many' is not a number; write a whole number", "error: f.yml:3:24: termination.timeout: '1h' is not a number of seconds; write a whole number"]),
        ("version: 1.1\nkind: component\nname: my run.1\nrun: {kind: job, container: {comand: [x], command: [x]}}",
         ["warning: f.yml:3:7: name: the job is named 'my-run-1': 'my run.1' is not a valid job name", "error: f.yml:4:30: run.container.comand: unknown key 'run.container.comand'; remove it"]),
    ],
)  # fmt: skip
def test_refusals_and_warnings(text: str, remarks: list[str]) -> None:
    assert remarks_of(text) == remarks


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


def test_a_variable_of_json_without_its_param() -> None:
    text = (
        "version: 1.1\ninputs: [{name: c, toEnv: C, type: dict}]\nrun: {kind: job, container: {command: [x]}}"
    )
    with pytest.raises(ConfigError) as caught:
        load_experiment(source.parse(text, "f.yml"))
    assert str(caught.value) == (
        "f.yml:2:1: inputs[0]: the input 'c' is required but has no param; write it under `params`, or use `-p c=VALUE`"
    )


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
