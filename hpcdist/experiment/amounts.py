"""Amounts: the CPUs, memory and GPUs of one replica."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final, Literal

from hpcdist.documents.fields import Model
from hpcdist.errors import Path, Problem
from hpcdist.units import Memory

_OF_TRIALS: Final = ("environment", "resources")
MOST: Final = 1_000_000
"""More replicas, processes or restarts than this are a typing error."""


class Amount(Model, frozen=True):
    """An amount of CPUs or GPUs; the limit is used, else the request.

    ``requests``: how much a replica needs. ``limits``: the same, as Kubernetes's limit; it wins over the
    request.
    """

    main = "requests"

    requests: float | None = None
    limits: float | None = None

    @property
    def value(self) -> float | None:
        """The amount that is requested from the batch system."""
        return self.limits if self.limits is not None else self.requests


class GpuAmount(Amount, frozen=True):
    """An amount of GPUs; the limit is used, else the request.

    ``requests``: how many a replica needs. ``limits``: the same, as Kubernetes's limit; it wins over the
    request. ``trials_per_gpu``: how many trials of a packed search share each GPU.
    """

    trials_per_gpu: int | None = None


class MemoryAmount(Model, frozen=True):
    """An amount of memory; the limit is used, else the request.

    ``requests``: how much a replica needs; ``all`` for all memory of its nodes (sbatch's ``--mem=0``), of
    which the replicas there each get their share. ``limits``: the same, as Kubernetes's limit; it wins over
    the request.
    """

    main = "requests"

    requests: Memory | Literal["all"] | None = None
    limits: Memory | Literal["all"] | None = None

    @property
    def value(self) -> Memory | Literal["all"] | None:
        """The amount that is requested from the batch system."""
        return self.limits if self.limits is not None else self.requests


class Resources(Model, frozen=True):
    """The resources of one replica.

    ``cpu``: its CPUs; fractions are rounded up. ``memory``: the memory of the whole replica. ``gpu``: its
    GPUs, a whole number. ``tpu``: refused, because no supported machine has TPUs.
    """

    cpu: Amount = Amount()
    memory: MemoryAmount = MemoryAmount()
    gpu: GpuAmount = GpuAmount()
    tpu: Amount = Amount()


def resource_problems(resources: Resources, path: Path) -> Iterator[Problem]:
    """Yield the problems of invalid amounts; ``path`` is that of these resources."""
    for name in ("cpu", "memory", "gpu"):
        amount = getattr(resources, name)
        requests, limits = (_number(amount.requests), _number(amount.limits))
        for key, number in (("requests", requests), ("limits", limits)):
            if number is not None and (number < 0 or not math.isfinite(number)):
                yield Problem(f"{number:g} is not a valid amount of {name}", (*path, name, key))
            elif name == "gpu" and number is not None and number != int(number):
                yield Problem(
                    f"{number:g} GPUs cannot be requested: a batch system assigns whole GPUs",
                    (*path, name, key),
                    "write a whole number, or request a MIG profile by `batch.directives`",
                )
        if requests is not None and limits is not None and requests > limits:
            yield Problem(f"requests ({requests:g}) are more than limits ({limits:g})", (*path, name))
    if resources.gpu.trials_per_gpu is not None and path != _OF_TRIALS:
        message = "all of a trial that shares its GPU is the master"
        yield Problem(message, (*path, "gpu", "trials_per_gpu"), "write it in `environment.resources`")
    if resources.tpu.value:
        yield Problem("TPUs are not supported", (*path, "tpu"), "remove it")


def _number(value: float | Memory | Literal["all"] | None) -> float | None:
    if isinstance(value, Memory):
        return float(value.mib)
    return None if isinstance(value, str) else value
