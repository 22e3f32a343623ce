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
    section = experiment.environment.replicas or Replicas()
    others = section.n_workers or section.n_ps
    if experiment.framework is None:
        if others and experiment.backend != "mpi":
            known = ", ".join(frameworks.names())
            yield Problem(
                "replicas need a framework", ("environment", "replicas"), f"write `framework:` ({known})"
            )
    elif experiment.framework not in frameworks:
        hint = did_you_mean(experiment.framework, frameworks.names())
        yield Problem(f"there is no framework {experiment.framework!r}", ("framework",), hint)
    else:
        framework = frameworks.get(experiment.framework)
        if section.n_ps and "ps" not in framework.roles:
            roles = " and ".join(role for role in ("master", "worker") if role in framework.roles)
            yield Problem(
                f"{framework.name} has no parameter servers",
                ("environment", "replicas", "n_ps"),
                f"it has {roles}",
            )
        yield from framework.problems(experiment)
    for name in SECTIONS:
        if getattr(experiment, name) and name != experiment.framework:
            yield Problem(
                f"this section needs `framework: {name}`",
                (name,),
                f"the framework is {experiment.framework!r}",
            )
