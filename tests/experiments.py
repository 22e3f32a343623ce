"""Experiments for tests, made of the keys of a file."""

from __future__ import annotations

from typing import Any

from hpcdist.base import fields
from hpcdist.base.errors import Path, dotted, errors_in
from hpcdist.experiment.model import Experiment
from hpcdist.experiment.problems import problems_of
from hpcdist.plan.values import Origin


def experiment(**data: Any) -> Experiment:
    """Return an experiment whose file has these keys."""
    built, problems = fields.build(Experiment, {"run": {"cmd": "python train.py"}} | data)
    assert problems == []
    assert built is not None
    assert errors_in([*problems_of(built)]) == ()
    return built


def resources(
    cpu: float | None = None, gpu: int | None = None, memory: int | str | None = None
) -> dict[str, Any]:
    """Return a ``resources`` section."""
    amounts = {"cpu": cpu, "gpu": gpu, "memory": memory}
    return {name: {"requests": amount} for name, amount in amounts.items() if amount is not None}


def environment(
    workers: int = 0, ps: int = 0, each: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """Return an ``environment`` section in which every replica has the same resources."""
    entry = {"resources": each} if each is not None else {}
    replicas: dict[str, Any] = {"n_workers": workers, "n_ps": ps}
    if entry:
        replicas |= {"default_worker": entry, "default_ps": entry}
    return {**entry, "replicas": replicas, **more}


def where(path: Path) -> Origin:
    """Return an origin that shows which key was asked for."""
    return Origin("place", f"exp.yml {dotted(path)}")
