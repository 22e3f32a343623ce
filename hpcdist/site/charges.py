"""Charges: what an hour of a job costs its account on a machine, and which command shows what it has left."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from hpcdist.base.errors import Path, Problem
from hpcdist.base.fields import Model
from hpcdist.base.units import Walltime
from hpcdist.site.fabric import Condition, JobFacts

# --- Accounts: whether jobs of a site require one, and what its name must look like, of which jobs


class AccountRule(Condition, frozen=True, kw_only=True):
    """The form of the accounts of some jobs; without conditions that of all.

    ``pattern``: the form (a regular expression). ``hint``: what to write instead of another. ``refuse``:
    false to warn only, where the site may take others.
    """

    pattern: str
    hint: str
    refuse: bool = True


class Account(Model, frozen=True):
    """Whether jobs require an account, and its form.

    ``required``: a job without one is refused. ``pattern``: its form (a regular expression). ``hint``: the
    hint for a missing or invalid account. ``rules``: further forms, each of the accounts of some jobs.
    """

    required: bool = False
    pattern: str | None = None
    hint: str | None = None
    rules: tuple[AccountRule, ...] = ()

    def broken_rules(self, account: str, job: JobFacts) -> Iterator[AccountRule]:
        """Yield the rules for such a job of which the account has not the form."""
        for rule in self.rules:
            if job.satisfies(rule) and not re.fullmatch(rule.pattern, account):
                yield rule


# --- Charges

PER_HOUR = ("per_node_hour", "per_gpu_hour", "per_cpu_hour", "per_gib_hour")


class Charge(Model, frozen=True, kw_only=True):
    """What a job is charged; of several rates the one that comes to most applies, as Slurm's ``MAX_TRES``.

    ``unit``: what accounts have, such as ``SU`` or ``GPU-hours``. ``per_node_hour``, ``per_gpu_hour``,
    ``per_cpu_hour`` and ``per_gib_hour``: how many units an hour of a node, a GPU, a CPU or a GiB of memory
    is; GPUs and CPUs are counted as the scheduler does. ``qos``: by QOS, the factor for its jobs.
    ``min_walltime``: a shorter job is charged as one of this time.
    """

    unit: str
    per_node_hour: float | None = None
    per_gpu_hour: float | None = None
    per_cpu_hour: float | None = None
    per_gib_hour: float | None = None
    qos: dict[str, float] = {}
    min_walltime: Walltime | None = None


class Balance(Model, frozen=True, kw_only=True):
    """The command that prints what accounts have left, and how it is read.

    ``command``: its words, in which ``{account}`` and ``{user}`` are replaced. ``unit``: what it counts in,
    such as the ``unit`` of ``charge``, ``GPU-hours``, ``node-hours`` or ``CPU-hours``. ``pattern``: a regular
    expression with a group ``left``, or ``total`` and ``used``; with a group ``account`` only the job's own
    counts, and a group ``unit`` is in place of the key, where an account is kept in several. ``columns``:
    instead of it the heads of the columns of a table, by the same names.
    """

    command: tuple[str, ...]
    unit: str | None = None
    pattern: str | None = None
    columns: dict[Literal["account", "left", "total", "used", "unit"], str] = {}


def problems_of(charge: Charge, path: Path) -> Iterator[Problem]:
    """Yield the problems of a charge that its types do not exclude."""
    rates = {name: getattr(charge, name) for name in PER_HOUR}
    if all(rate is None for rate in rates.values()):
        yield Problem("a charge needs a rate", path, f"write one of {', '.join(PER_HOUR)}")
    for name, rate in (*rates.items(), *((f"qos.{name}", factor) for name, factor in charge.qos.items())):
        if rate is not None:
            yield from rate_problems(rate, (*path, *name.split(".", 1)))


def rate_problems(rate: float, path: Path) -> Iterator[Problem]:
    """Yield the problem of a rate or factor that no centre can have."""
    if not 0 <= rate < _MOST:
        yield Problem(f"{rate:g} is out of range", path, "write a number from 0")


def balance_problems(balance: Balance, path: Path) -> Iterator[Problem]:
    """Yield the problems of a balance that its types do not exclude."""
    if not balance.command:
        yield Problem("a balance needs a command", (*path, "command"), "write its words, such as [mybalance]")
    if bool(balance.pattern) == bool(balance.columns):
        yield Problem("the output is read by `pattern` or by `columns`", path, "write one of them")
        return
    where: Path = (*path, "pattern" if balance.pattern else "columns")
    try:
        names = {*re.compile(balance.pattern).groupindex} if balance.pattern else {*balance.columns}
    except re.error as error:
        yield Problem(f"{balance.pattern!r} is not a regular expression: {error}", where)
        return
    if not balance.unit and "unit" not in names:
        yield Problem("a balance needs a unit", path, "write `unit: SU`, or what the output has of it")
    if "left" not in names and not names >= {"total", "used"}:
        groups = "groups such as (?P<left>[0-9.]+)" if balance.pattern else "heads of columns by name"
        yield Problem("it has no `left`, and not both `total` and `used`", where, f"write {groups}")


_MOST = 1e9
"""More than any centre charges for an hour of a node."""
