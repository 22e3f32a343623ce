# ruff: noqa: E501 - a file is written as one line
"""Kubeflow's containers without a command: the image's own entrypoint is the program."""

from __future__ import annotations

from typing import Any

import pytest

from hpcdist.base import source
from hpcdist.base.errors import ConfigError
from hpcdist.loading.load import Loaded, load_experiment
from tests.importers.remarks import cases
from tests.wording import Wording

HEAD = "apiVersion: kubeflow.org/v1\nkind: {kind}\nmetadata: {{name: x}}\nspec:\n"
TORCH = HEAD.format(kind="PyTorchJob") + (
    "  pytorchReplicaSpecs:\n"
    "    Master: {template: {spec: {containers: [{image: 'm:1'MASTER}]}}}\n"
    "    Worker: {replicas: 2, template: {spec: {containers: [{image: 'm:1'WORKER}]}}}\n"
)


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


def test_a_command_of_the_command_line_comes_first(wording: Wording) -> None:
    done = loaded(torch(", args: [--a]"), run__cmd="python t.py")
    assert done.experiment.run.command == "python t.py"
    wording(map(str, done.problems))


def test_arguments_of_each_role() -> None:
    run = run_of(torch(", args: [a b]", ", args: ['$(RANK)']"))
    assert run == {"entrypoint": "image", "args": {"master": "'a b'", "worker": '"$RANK"'}}
    done = loaded(torch(", args: [a b]", ""))
    assert done.experiment.run.command == (
        'case $HPCDIST_ROLE in\nmaster)\n"$@" \'a b\'\n;;\nworker | *)\n"$@"\n;;\nesac'
    )


@pytest.mark.parametrize(
    "text",
    [
        torch("", ", workingDir: /w"),
        torch("", ", env: [{name: A, value: b}]"),
        torch(", command: [python, t.py]", ""),
        torch(", env: [{name: PATH, value: /opt/bin}]"),
        torch(", args: [x-worker-0]"),
    ],
    ids=cases(),
)
def test_errors(text: str, wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(text)
    wording(map(str, caught.value.problems))


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
