# ruff: noqa: E501 - a message is compared as one line
"""Kubeflow's containers without a command: the image's own entrypoint is the program."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.documents import source
from hpcdist.errors import ConfigError
from hpcdist.loading.load import Loaded, load_experiment

HEAD = "apiVersion: kubeflow.org/v1\nkind: {kind}\nmetadata: {{name: x}}\nspec:\n"
TORCH = HEAD.format(kind="PyTorchJob") + (
    "  pytorchReplicaSpecs:\n"
    "    Master: {template: {spec: {containers: [{image: 'm:1'MASTER}]}}}\n"
    "    Worker: {replicas: 2, template: {spec: {containers: [{image: 'm:1'WORKER}]}}}\n"
)
WORKER = "f.yml:7:58: spec.pytorchReplicaSpecs.Worker.template.spec.containers[0]"


def loaded(text: str, **settings: str) -> Loaded:
    return load_experiment(
        source.parse(text, "f.yml"),
        settings=[(key.replace("__", "."), value) for key, value in settings.items()],
    )


def torch(master: str = "", worker: str | None = None) -> str:
    return TORCH.replace("MASTER", master).replace("WORKER", master if worker is None else worker)


def run_of(text: str) -> dict[str, Any]:
    done = loaded(text)
    assert [str(problem) for problem in done.problems] == []
    assert done.document.data["build"] == {"image": "m:1"}
    return dict(done.document.data["run"])


@pytest.mark.parametrize(
    ("container", "run"),
    [
        ("", {}),
        (", command: [], args: ['']", {"args": "''"}),
        (", args: [--name, \"it's $x\", '$(MASTER_ADDR):$$']", {"args": "--name 'it'\"'\"'s $x' \"$MASTER_ADDR\"':$'"}),
        (", env: [{name: A, value: '5'}], args: ['-e$(A)', '$(B)']", {"args": "-e5 '$(B)'"}),
        (", args: '{{ x }}', workingDir: /opt/w", {"args": "'{{ x }}'", "workdir": "/opt/w"}),
    ],
)  # fmt: skip
def test_the_images_program(container: str, run: dict[str, str]) -> None:
    assert run_of(torch(container)) == {"entrypoint": "image", **run}


def test_servers_and_workers_of_tensorflow() -> None:
    roles = "".join(
        f"    {role}: {{replicas: 1, template: {{spec: {{containers: [{{name: tensorflow, image: 'm:1'}}]}}}}}}\n"
        for role in ("Chief", "PS", "Worker")
    )
    text = f"{HEAD.format(kind='TFJob')}  tfReplicaSpecs:\n{roles}"
    assert run_of(text) == {"entrypoint": "image"}


def test_a_command_of_the_command_line_comes_first() -> None:
    done = loaded(torch(", args: [--a]"), run__cmd="python t.py")
    assert done.experiment.run.command == "python t.py"
    assert [str(problem) for problem in done.problems] == [
        "f.yml:6:53: run.entrypoint: 'entrypoint' has no effect: `cmd` is the program; remove one of the two",
        "f.yml:6:60: run.args: 'args' has no effect: `cmd` is the program; remove one of the two",
    ]


DIFFERS = (
    "all replicas start the image's entrypoint with the same variables in the same directory; write the program of "
    "each as its `command`"
)


def test_arguments_of_each_role() -> None:
    run = run_of(torch(", args: [a b]", ", args: ['$(RANK)']"))
    assert run == {"entrypoint": "image", "args": {"master": "'a b'", "worker": '"$RANK"'}}
    done = loaded(torch(", args: [a b]", ""))
    assert done.experiment.run.command == (
        'case $HPCDIST_ROLE in\nmaster)\n"$@" \'a b\'\n;;\nworker | *)\n"$@"\n;;\nesac'
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (torch("", ", workingDir: /w"), f"{WORKER}: {DIFFERS}"),
        (torch("", ", env: [{name: A, value: b}]"), f"{WORKER}: {DIFFERS}"),
        (torch(", command: [python, t.py]", ""),
         "f.yml:7:59: spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].image: the program is in the image, and this file does not name it; write it as `command: [python, ...]`"),
        (torch(", env: [{name: PATH, value: /opt/bin}]"),
         "f.yml:6:46: spec.pytorchReplicaSpecs.Master.template.spec.containers[0].image: only a command can do this: export PATH=/opt/bin; write the image's program as `command`"),
        (torch(", args: [x-worker-0]"),
         "f.yml:6:60: spec.pytorchReplicaSpecs.Master.template.spec.containers[0].args: x-worker-0 is the name of a pod, and a batch job has none; the first node is `$HPCDIST_HEAD_ADDRESS` in the command, and all are in `$HPCDIST_HOSTFILE`"),
    ],
)  # fmt: skip
def test_errors(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(text)
    assert message in [str(problem) for problem in caught.value.problems]


LABELS = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: x, namespace: me}
spec:
  pytorchReplicaSpecs:
    Master:
      template:
        spec:
          NODES
          containers:
            - {image: 'm:1', command: [python, t.py, 'ARG'], env: ENV}
"""


def with_pod(nodes: str = "restartPolicy: Never", env: str = "[]", arg: str = "") -> Loaded:
    return loaded(LABELS.replace("NODES", nodes).replace("ENV", env).replace("ARG", arg))


AFFINITY = (
    "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
    "[{matchExpressions: [{key: nvidia.com/gpu.product, operator: In, values: [Tesla-T4]}]}]}}}"
)


@pytest.mark.parametrize(
    ("nodes", "selector"),
    [
        ("nodeSelector: {disk: ssd, nvidia.com/gpu.product: A100}", {"disk": "ssd", "gpu_type": "a100"}),
        ("nodeSelector: {disk: ssd}", {"disk": "ssd"}),
        (AFFINITY, {"gpu_type": "t4"}),
    ],
)
def test_labels_of_gpus(nodes: str, selector: dict[str, str]) -> None:
    done = with_pod(nodes)
    assert done.document.data["environment"] == {"node_selector": selector}
    said = [str(problem) for problem in done.problems if "is read as the type" in str(problem)]
    assert len(said) == ("gpu_type" in selector)


def test_fields_of_a_pod_are_those_of_its_task() -> None:
    env = (
        "[{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {name: URL, value: 'x://$(IP)0\"'}, "
        "{name: SPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}]"
    )
    done = with_pod(env=env, arg="--url=$(URL) $(SPACE)")
    assert done.experiment.environment.env_vars == {"SPACE": "me"}
    assert done.experiment.run.command == (
        'export IP="${HPCDIST_ADDRESS}"\nexport URL="x://${HPCDIST_ADDRESS}0\\""\n'
        "python t.py --url=\"$URL\"' me'"
    )
    assert "IP is $HPCDIST_ADDRESS: a batch job has no pods" in [problem.message for problem in done.problems]
