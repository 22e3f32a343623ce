"""Amounts: the CPUs, memory and GPUs of one replica."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from hpcdist.documents.fields import Model
from hpcdist.errors import Path, Problem
from hpcdist.units import Memory

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


class MemoryAmount(Model, frozen=True):
    """An amount of memory; the limit is used, else the request.

    ``requests``: how much a replica needs. ``limits``: the same, as Kubernetes's limit; it wins over the
    request.
    """

    main = "requests"

    requests: Memory | None = None
    limits: Memory | None = None

    @property
    def value(self) -> Memory | None:
        """The amount that is requested from the batch system."""
        return self.limits if self.limits is not None else self.requests


class Resources(Model, frozen=True):
    """The resources of one replica.

    ``cpu``: its CPUs; fractions are rounded up. ``memory``: the memory of the whole replica. ``gpu``: its
    GPUs, a whole number. ``tpu``: refused, because no supported machine has TPUs.
    """

    cpu: Amount = Amount()
    memory: MemoryAmount = MemoryAmount()
    gpu: Amount = Amount()
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
    if resources.tpu.value:
        yield Problem("TPUs are not supported", (*path, "tpu"), "remove it")


def _number(value: float | Memory | None) -> float | None:
    return float(value.mib) if isinstance(value, Memory) else value
