from __future__ import annotations

import pytest

from hpcdist.documents import fields
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.remarks import remarks
from tests.wording import Wording


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


def test_every_key_without_effect_warns(wording: Wording) -> None:
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
    said = found(
        project="p",
        outputs=[{"name": "x"}],
        logging={"formatter": "x"},
        backend="kubeflow",
        environment=environment,
        build=build,
    )
    wording(said)
