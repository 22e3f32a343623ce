"""What is wrong with a policy by which running trials end early."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from hpcdist.errors import Path, Problem
from hpcdist.experiment.search.model import Policy

_NUMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "truncation": ("percent",),
    "difference": ("percent", "amount"),
}
"""What each kind needs one of."""


def problems(policy: Policy, path: Path) -> Iterator[Problem]:
    """Yield what keeps a policy from ending any trial, or lets it end all of them."""
    for name, least in (("evaluation_interval", 1), ("min_interval", 0), ("min_samples", 1)):
        if getattr(policy, name) < least:
            message = f"{getattr(policy, name)} is out of range"
            yield Problem(message, (*path, name), f"write a number from {least} on")
    allowed = _NUMBERS.get(policy.kind, ())
    given = [name for name in ("percent", "amount") if getattr(policy, name) is not None]
    for name in given:
        if name not in allowed:
            yield Problem(f"a policy `{policy.kind}` has no {name!r}", (*path, name), "remove it")
    if allowed and not given:
        yield Problem(f"`{' or '.join(allowed)}` is missing", path, f"write `{allowed[0]}: 20`")
    elif len(given) > 1 and set(given) <= set(allowed):
        yield Problem("there is `percent` already", (*path, "amount"), "keep one of them")
    most = 100 if policy.kind == "truncation" else math.inf
    if policy.percent is not None and not 0 < policy.percent < most:
        yield Problem(f"{policy.percent:g} is out of range", (*path, "percent"), "write a number such as 20")
    if policy.amount is not None and not 0 <= policy.amount < math.inf:
        yield Problem(f"{policy.amount:g} is out of range", (*path, "amount"), "write a number such as 0.1")
