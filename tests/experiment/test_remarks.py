# ruff: noqa: E501 - a message is compared as one line
from __future__ import annotations

import pytest

from hpcdist.documents import fields
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.remarks import remarks

KUBERNETES = "is for Kubernetes and has no effect on a batch machine"
NODES = "choose nodes by `batch.partition` or `batch.constraint`"
NO_BUILD = (
    "has no effect: hpcdist builds no images; install what the program needs, or build the image beforehand"
)


def found(**data: object) -> list[str]:
    experiment, problems = fields.build(Experiment, {"run": {"cmd": "x"}, **data})
    assert problems == []
    assert experiment is not None
    said = list(remarks(experiment))
    assert {problem.severity for problem in said} <= {"warning"}
    return [str(problem) for problem in said]


@pytest.mark.parametrize(
    "data",
    [
        {},
        {
            "backend": "mpi",
            "framework": "horovod",
            "logging": {"level": "INFO"},
            "tags": ["a"],
            "description": "b",
        },
        {"environment": {"max_restarts": 3, "tolerations": [], "affinity": {}, "node_selector": {"a": "b"}}},
        {"build": {"env_vars": [["A", 1]], "nocache": False}},
    ],
)
def test_keys_with_effect_do_not_warn(data: dict[str, object]) -> None:
    assert found(**data) == []


def test_every_key_without_effect_warns() -> None:
    environment = {
        "labels": {"a": "b"},
        "service_account": "x",
        "cluster_uuid": "x",
        "secret_refs": ["x"],
        "persistence": {"data": ["x"]},
        "outputs": {"jobs": [1]},
        "replicas": {"default_worker": {"affinity": {"a": 1}}, "ps": [{"tolerations": [{}]}]},
    }
    build = {"image": "x", "build_steps": ["y"], "commit": "z", "nocache": True}
    assert found(
        project="p",
        outputs=[{"name": "x"}],
        logging={"formatter": "x"},
        backend="kubeflow",
        environment=environment,
        build=build,
    ) == [
        "project: 'project' has no effect: runs are kept by name and date; put it in `tags`",
        "outputs: 'outputs' has no effect; the program writes to $POLYAXON_RUN_OUTPUTS_PATH, which is kept",
        "logging.formatter: 'formatter' has no effect: the program writes its own log",
        f"environment.labels: 'labels' {KUBERNETES}; `tags` are kept with the run",
        "environment.service_account: 'service_account' has no effect: the job runs as you, with your own rights",
        "environment.cluster_uuid: 'cluster_uuid' has no effect: the site defines the machine; choose it by `batch.site`",
        "environment.secret_refs: 'secret_refs' has no effect: no variables are read from it; export them in the site's `setup`",
        "environment.persistence: 'persistence' mounts nothing: names are looked up in the site's `volumes`; or write the path itself in the command",
        "environment.outputs: 'outputs' has no effect: hpcdist reads no runs of Polyaxon; write the path of the outputs in the command",
        f"build.build_steps: 'build_steps' {NO_BUILD}",
        f"build.nocache: 'nocache' {NO_BUILD}",
        "build.commit: 'commit' is not fetched: the job runs the code in the submit directory; check it out there, or write `batch: {code: git}`",
        f"environment.replicas.default_worker.affinity: 'affinity' {KUBERNETES}; {NODES}",
        f"environment.replicas.ps[0].tolerations: 'tolerations' {KUBERNETES}; {NODES}",
        "backend: the backend 'kubeflow' has no effect: the scheduler starts the job; remove it",
    ]
