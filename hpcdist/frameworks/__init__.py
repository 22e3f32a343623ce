"""Frameworks: what each puts around a task; one file each, found by name."""

from __future__ import annotations

from collections.abc import Iterator

from hpcdist.errors import Problem, did_you_mean
from hpcdist.experiment import Experiment, Replicas
from hpcdist.layer import Framework
from hpcdist.registry import Registry

frameworks: Registry[Framework] = Registry(
    "framework",
    {
        "horovod": "hpcdist.frameworks.horovod:HOROVOD",
        "mpi": "hpcdist.frameworks.mpi:MPI",
        "pytorch": "hpcdist.frameworks.pytorch:PYTORCH",
        "tensorflow": "hpcdist.frameworks.tensorflow:TENSORFLOW",
        "mxnet": "hpcdist.frameworks.mxnet:MXNET",
    },
)

SECTIONS = ("horovod",)
"""Top-level sections that belong to one framework each."""


def framework_of(experiment: Experiment) -> Framework | None:
    """Return the experiment's framework, None where it names none.

    Raises:
        ConfigError: for a name that no framework has.
    """
    return frameworks.get(experiment.framework) if experiment.framework else None


def problems_of(experiment: Experiment) -> Iterator[Problem]:
    """Yield what is wrong between the file and its framework: names, roles, sections, knobs."""
    name = experiment.framework
    if name is not None and name not in frameworks:
        hint = did_you_mean(name, frameworks.names())
        yield Problem(f"there is no framework {name!r}", ("framework",), hint)
        return
    section = experiment.environment.replicas or Replicas()
    if name is not None:
        yield from _role_problems(frameworks.get(name), section)
        yield from frameworks.get(name).problems(experiment)
    elif (section.n_workers or section.n_ps) and experiment.backend != "mpi":
        hint = f"write `framework:` ({', '.join(frameworks.names())})"
        yield Problem("replicas need a framework", ("environment", "replicas"), hint)
    for other in SECTIONS:
        if getattr(experiment, other) and other != name:
            yield Problem(f"this section needs `framework: {other}`", (other,), f"the framework is {name!r}")


def _role_problems(framework: Framework, section: Replicas) -> Iterator[Problem]:
    if section.n_ps and "ps" not in framework.roles:
        hint = f"it has {' and '.join(role for role in ('master', 'worker') if role in framework.roles)}"
        path = ("environment", "replicas", "n_ps")
        yield Problem(f"{framework.name} has no parameter servers", path, hint)
