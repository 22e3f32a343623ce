from __future__ import annotations

from typing import Any

import pytest

from hpcdist.errors import ConfigError
from hpcdist.frameworks import framework_of, problems_of
from hpcdist.frameworks.jax import JAX
from hpcdist.frameworks.plain import PLAIN
from tests.experiments import environment, experiment

EVALUATOR: dict[str, Any] = {"replicas": {"evaluator": {}}}
ALL_ROLES = {"replicas": {"n_workers": 1, "n_ps": 1, "evaluator": {}}}


def test_the_framework_of_an_experiment() -> None:
    assert framework_of(experiment(framework="jax")) is JAX
    assert framework_of(experiment()) is PLAIN
    with pytest.raises(ConfigError, match="there is no framework 'jaxx'; did you mean 'jax'"):
        framework_of(experiment(framework="jaxx"))


@pytest.mark.parametrize(
    ("data", "sentences"),
    [
        ({}, []),
        ({"framework": "pytorhc"},
         ["framework: there is no framework 'pytorhc'; did you mean 'pytorch'?"]),
        ({"framework": "caffe"},
         [("framework: there is no framework 'caffe'; "
          "known: chainermn, deepspeed, horovod, jax, mpi, mxnet, pytorch, tensorflow")]),

        # roles
        ({"framework": "horovod", "environment": environment(1, ps=1)},
         ["environment.replicas.n_ps: horovod has no parameter servers; it has master and worker"]),
        ({"framework": "pytorch", "environment": EVALUATOR},
         ["environment.replicas.evaluator: pytorch has no evaluator; it has master and worker"]),
        ({"framework": "mxnet", "environment": ALL_ROLES},
         ["environment.replicas.evaluator: mxnet has no evaluator; it has master, worker and ps"]),
        ({"framework": "mxnet", "environment": environment(1)},
         [("environment.replicas: MXNet's store needs workers and servers, and there is no 'n_ps'; "
          "write `n_ps: 1` or more")]),
        ({"framework": "tensorflow", "environment": ALL_ROLES}, []),
        ({"framework": "tensorflow", "environment": environment(ps=1)},
         ["environment.replicas.n_ps: parameter servers need workers that use them; write `n_workers`"]),
        *(({"framework": name, "environment": {"processes_per_replica": 2}},
           [(f"environment.processes_per_replica: a replica is one process under {name}; "
             "write more workers instead")])
          for name in ("tensorflow", "mxnet")),
        *(({"environment": section},
           [("environment.replicas: replicas need a framework; write `framework:` "
            "(horovod, mpi, pytorch, tensorflow, mxnet, jax, deepspeed, chainermn)")])
          for section in (environment(1), environment(ps=1), EVALUATOR)),
        ({"backend": "mpi", "environment": environment(1)}, []),

        # sections
        ({"framework": "pytorch", "horovod": {"cycle_time_ms": 2}},
         ["horovod: the framework is pytorch; remove the section, or write `framework: horovod`"]),
        ({"horovod": {}},
         ["horovod: the framework is not given; remove the section, or write `framework: horovod`"]),
        ({"framework": "horovod", "horovdo": {}, "sections": {}},
         ["horovdo: unknown key 'horovdo'; did you mean 'horovod'?",
          "sections: unknown key 'sections'; did you mean 'description'?"]),
        ({"framework": "horovod", "horovod": 3}, ["horovod: expected keys and values, got 3"]),
        ({"framework": "horovod", "horovod": False}, ["horovod: expected keys and values, got False"]),
        ({"framework": "horovod", "horovod": [1]}, ["horovod: expected keys and values, got [1]"]),
        ({"framework": "horovod", "horovod": None}, []),
        ({"framework": "pytorch", "horovod": None}, []),
        ({"framework": "mpi", "mpi": {}}, []),
        ({"framework": "mpi", "mpi": {"np": 2}}, ["mpi.np: unknown key 'np'"]),
    ],
)  # fmt: skip
def test_what_is_wrong_between_the_file_and_its_framework(data: dict[str, Any], sentences: list[str]) -> None:
    assert [str(problem) for problem in problems_of(experiment(**data))] == sentences
