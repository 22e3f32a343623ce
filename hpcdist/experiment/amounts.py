"""Amounts: what one replica needs of CPUs, memory and GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hpcdist.documents.fields import Model
from hpcdist.errors import Path, Problem
from hpcdist.units import Memory


class Amount(Model, frozen=True):
    """How much of something; the limit counts, else the request.

    ``requests``: how much a replica needs. ``limits``: the same under Kubernetes's other name, which wins.
    """

    main = "requests"

    requests: float | None = None
    limits: float | None = None

    @property
    def value(self) -> float | None:
        """The amount that is asked of the batch system."""
        return self.limits if self.limits is not None else self.requests


class MemoryAmount(Model, frozen=True):
    """How much memory; the limit counts, else the request.

    ``requests``: how much a replica needs. ``limits``: the same under Kubernetes's other name, which wins.
    """

    main = "requests"

    requests: Memory | None = None
    limits: Memory | None = None

    @property
    def value(self) -> Memory | None:
        """The amount that is asked of the batch system."""
        return self.limits if self.limits is not None else self.requests


class Resources(Model, frozen=True):
    """What one replica needs.

    ``cpu``: its CPUs; fractions are rounded up. ``memory``: that of the whole replica. ``gpu``: its GPUs,
    whole ones. ``tpu``: refused, since no batch machine has any.
    """

    cpu: Amount = Amount()
    memory: MemoryAmount = MemoryAmount()
    gpu: Amount = Amount()
    tpu: Amount = Amount()


def resource_problems(resources: Resources, path: Path) -> Iterator[Problem]:
    """Yield amounts that no batch system gives; ``path`` is where these resources stand."""
    for name in ("cpu", "memory", "gpu"):
        amount = getattr(resources, name)
        requests, limits = (_number(amount.requests), _number(amount.limits))
        for key, number in (("requests", requests), ("limits", limits)):
            if number is not None and (number < 0 or not math.isfinite(number)):
                yield Problem(f"{number:g} of {name} cannot be asked for", (*path, name, key))
            elif name == "gpu" and number is not None and number != int(number):
                yield Problem(
                    f"{number:g} GPUs cannot be asked for: a batch system gives whole ones",
                    (*path, name, key),
                    "write a whole number, or ask for a MIG profile by `batch.directives`",
                )
        if requests is not None and limits is not None and requests > limits:
            yield Problem(f"requests ({requests:g}) are more than limits ({limits:g})", (*path, name))
    if resources.tpu.value:
        yield Problem("there are no TPUs on a batch machine", (*path, "tpu"), "remove it")


def _number(value: float | Memory | None) -> float | None:
    return float(value.mib) if isinstance(value, Memory) else value
