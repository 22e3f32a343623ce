from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hpcdist.base import source
from hpcdist.base.errors import ConfigError
from hpcdist.layers.frameworks import PLAIN, framework_of, other_programs, problems_of, unequal_gpus
from hpcdist.layers.frameworks.jax_mpi_mxnet_ray import JAX
from hpcdist.loading import load
from hpcdist.planner.make_plan import make_plan
from tests.experiments import environment, experiment, resources, where
from tests.plans import TESTBED

EVALUATOR: dict[str, Any] = {"replicas": {"evaluator": {}}}
FIRST = {"version": "1.15"}
STRATEGY = "ParameterServerStrategy of TensorFlow 2 does not run; other uses of parameter servers do"
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
        ({"framework": "DDP"}, ["framework: there is no framework 'DDP'; write `framework: pytorch`"]),
        ({"framework": "caffe"},
         [("framework: there is no framework 'caffe'; "
          "known: accelerate, chainermn, deepspeed, horovod, jax, lightning, mpi, mxnet, "
          "pytorch, ray, tensorflow")]),

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
         [f"environment.replicas.n_ps: without a worker next to the chief {STRATEGY}; write `n_workers: 1`"]),
        ({"framework": "tensorflow", "environment": environment(ps=1), "tensorflow": FIRST}, []),
        *(({"framework": name, "environment": {"processes_per_replica": 2}},
           [(f"environment.processes_per_replica: a replica is one process under {name}; "
             "write more workers instead")])
          for name in ("tensorflow", "mxnet")),
        *(({"environment": section},
           [("environment.replicas: replicas need a framework; write `framework:` "
            "(horovod, mpi, pytorch, tensorflow, mxnet, jax, deepspeed, lightning, accelerate, ray, "
             "chainermn)")])
          for section in (environment(1), environment(ps=1), EVALUATOR)),
        ({"backend": "mpi", "environment": environment(1)}, []),

        # sections
        ({"framework": "pytorch", "horovod": {"cycle_time_ms": 2}},
         ["horovod: the framework is pytorch; remove the section, or write `framework: horovod`"]),
        ({"horovod": {}},
         ["horovod: the framework is not given; remove the section, or write `framework: horovod`"]),
        ({"framework": "horovod", "horovdo": {}, "descripton": {}},
         ["horovdo: unknown key 'horovdo'; did you mean 'horovod'?",
          "descripton: unknown key 'descripton'; did you mean 'description'?"]),
        ({"framework": "horovod", "horovod": 3}, ["horovod: expected keys and values, got 3"]),
        ({"framework": "horovod", "horovod": False}, ["horovod: expected keys and values, got False"]),
        ({"framework": "horovod", "horovod": [1]}, ["horovod: expected keys and values, got [1]"]),
        ({"framework": "horovod", "horovod": None}, []),
        ({"framework": "pytorch", "horovod": None}, []),
        ({"framework": "mpi", "mpi": {}}, []),
        ({"framework": "mpi", "mpi": {"np": 2}}, ["mpi.np: unknown key 'np'"]),
    ],
)  # fmt: skip
def test_mismatch_of_file_and_framework(data: dict[str, Any], sentences: list[str]) -> None:
    assert [str(problem) for problem in problems_of(experiment(**data))] == sentences


def gpus(master: int, *workers: int, **more: Any) -> dict[str, Any]:
    """Return a section whose replicas have so many GPUs."""
    each = [{"index": index, "resources": resources(gpu=count)} for index, count in enumerate(workers)]
    replicas = {"n_workers": len(workers), "worker": each, "n_ps": 1, **more}
    return {"resources": resources(gpu=master), "replicas": replicas}


NO_SERVERS = {"n_ps": 0}
SAME = "and they do the same work; write"


@pytest.mark.parametrize(
    ("data", "sentences"),
    [
        ({"framework": "horovod", "environment": environment(1) | {"resources": resources(gpu=4)}},
         [(f"environment.replicas.n_workers: worker 0 has no GPU, the master has 4, {SAME} "
          "`default_worker: {resources: {gpu: {requests: 4}}}`")]),
        ({"framework": "jax", "environment": {"replicas": gpus(0, 3, **NO_SERVERS)["replicas"]}},
         [("environment: the master has no GPU, worker 0 has 3, "
          f"{SAME} `resources: {{gpu: {{requests: 3}}}}`")]),
        ({"framework": "pytorch", "environment": gpus(2, 2, 1, **NO_SERVERS)},
         [("environment.replicas.worker[1].resources: worker 1 has 1 GPU, the master has 2, "
          f"{SAME} `gpu: {{requests: 2}}`")]),

        # a task a GPU, whatever their number
        ({"framework": "deepspeed", "environment": gpus(4, 2, **NO_SERVERS)}, []),
        ({"framework": "mpi", "environment": environment(2)}, []),

        # who is a server, or only keeps order
        ({"framework": "mxnet", "environment": gpus(0, 1, 1)}, []),
        ({"framework": "tensorflow", "environment": gpus(0, 1, 1)}, []),
        ({"framework": "tensorflow", "environment": gpus(1, 1, evaluator={}, **NO_SERVERS)}, []),
        ({"framework": "tensorflow", "tensorflow": {"version": "1.15"}, "environment": gpus(0, 1)},
         [("environment.resources: the master has no GPU, worker 0 has 1, "
          f"{SAME} `gpu: {{requests: 1}}`")]),
    ],
)  # fmt: skip
def test_tasks_that_do_the_same_work_with_different_gpus(data: dict[str, Any], sentences: list[str]) -> None:
    found = [*problems_of(experiment(**data)), *unequal_gpus(experiment(**data))]
    assert ([str(problem) for problem in found], {item.severity for item in found} - {"warning"}) == (
        sentences,
        set(),
    )


@pytest.mark.parametrize(
    ("framework", "cmd", "sentences"),
    [
        ("pytorch", "vllm serve", [
            ("environment.replicas.worker[0].cmd: this command has a rank of pytorch, so the others wait for "
             "it to take part; if it takes no part in the training, write it as `run.beside`")]),
        ("pytorch", "python train.py --logs", []),
        ("ray", "vllm serve", []),
        (None, "vllm serve", []),
    ],
)  # fmt: skip
def test_another_program_with_a_rank(framework: str | None, cmd: str, sentences: list[str]) -> None:
    replicas = {"n_workers": 2, "worker": [{"index": 1, "cmd": cmd}]}
    data = {"framework": framework} if framework else {}
    found = other_programs(experiment(environment={"replicas": replicas}, **data))
    assert [str(problem) for problem in found] == sentences


@pytest.mark.parametrize("amount", ["-1", "1.5", ".inf", ".nan"])
def test_gpus_that_cannot_be_counted_are_not_compared(amount: str) -> None:
    section = f"{{resources: {{gpu: {{requests: {amount}}}}}, replicas: {{n_workers: 1}}}}"
    text = f"run: {{cmd: a}}\nframework: mpi\nenvironment: {section}\n"
    with pytest.raises(ConfigError) as refused:
        load.load_experiment(source.parse(text, "e.yml"))
    paths = {problem.path for problem in refused.value.problems}
    assert paths == {("environment", "resources", "gpu", "requests")}


class CountedSection(dict[str, Any]):
    """A section that counts how often a model is built of it."""

    builds = 0

    def __iter__(self) -> Iterator[str]:
        self.builds += 1
        return super().__iter__()


@pytest.mark.parametrize(
    ("framework", "keys"),
    [
        ("pytorch", {"launch": "torchrun"}),
        ("pytorch", {"launch": "env"}),
        ("horovod", {"autotune": True}),
        ("horovod", {"elastic": {"min_np": 1}}),
        ("tensorflow", {"chief": True}),
    ],
)
def test_a_section_is_built_once_for_its_problems_and_its_plan(framework: str, keys: dict[str, Any]) -> None:
    section = CountedSection(keys)
    exp = experiment(framework=framework, **{framework: section})
    assert list(problems_of(exp)) == []
    make_plan(exp, TESTBED, where)
    assert section.builds == 1
