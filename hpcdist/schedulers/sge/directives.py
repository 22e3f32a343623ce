"""What a plan asks of qsub: the ``#$`` lines.

Source: submit(1), sge_pe(5) and complex(5) of 8.1.9; what qsub takes in silence and gets wrong was tried on
Debian's 8.1.9.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

from hpcdist.errors import PlanError, Problem
from hpcdist.plan import Directive, Group, Plan
from hpcdist.schedulers.directives import Language, Pair, added, forbidden
from hpcdist.schedulers.sge.options import array, dependency, mail_points, option_problems
from hpcdist.site import Site

Line = tuple[str, str | None, str]
"""A flag, its value (None for a bare flag) and the field of the plan that it comes from."""

_GPU, _MEMORY = "environment.resources.gpu", "environment.resources.memory"

_FIELDS: Final = {
    "-N": "name",
    "-M": "batch.mail",
    "-V": "environment.env_vars",
    "-hold_jid": "batch.dependency",
    "-l h_rt": "batch.walltime",
    "-m": "batch.mail",
    "-pe": "environment.replicas",
    "-q": "batch.partition",
    "-r": "batch.requeue",
    "-t": "batch.array",
    "-tc": "batch.array",
    "-v": "environment.env_vars",
}
"""Flags that hpcdist writes itself, or that contradict one of those; and the field to use instead."""

_TAKEN: Final = {
    "-@": "write the options of that file here",
    "-C": "the script has its directives behind #$",
    "-S": "the script is one of bash",
    "-ac": "it carries the token by which hpcdist finds the job again",
    "-b": "hpcdist writes the script",
    "-clear": "write the options that you want",
    "-cwd": "the job runs where it is submitted",
    "-dc": "it carries the token by which hpcdist finds the job again",
    "-e": "the output goes to the run directory",
    "-hold_jid_ad": "use `batch.dependency`",
    "-i": "the job reads nothing",
    "-j": "the output goes to the run directory",
    "-now": "the job waits until there is room",
    "-o": "the output goes to the run directory",
    "-sc": "it carries the token by which hpcdist finds the job again",
    "-shell": "the script is one of bash",
    "-sync": "use `hpcdist wait`",
    "-terse": "hpcdist reads the job's id itself",
    "-verify": "use `hpcdist render`",
    "-wd": "the job runs where it is submitted",
}

_BARE: Final = frozenset(("-V", "-h", "-notify", "-cwd", "-clear", "-terse", "-verify", "-ckpt"))


def directives(plan: Plan, site: Site) -> tuple[Directive, ...]:
    """Return the lines.

    Raises:
        PlanError: with everything that Grid Engine or the site refuses, each naming its field.
    """
    problems = list(option_problems(plan))
    if len(plan.placement.groups) > 1:
        message = "a job of Grid Engine has the same slots on all its hosts, and these replicas need others"
        hint = "give all replicas the same resources, or choose another site with --site"
        raise PlanError(*problems, Problem(message, ("environment", "replicas"), hint))
    group = plan.placement.groups[0]
    own = [
        Directive(flag=flag, value=value, origin=plan.origins.get(field, group.origin))
        for flag, value, field in (*_job_wide(plan, site), *_of_group(plan, site, group, problems))
    ]
    language = _language(site)
    more = list(added(language, plan, site, own, problems))
    problems += forbidden(language, [*own, *more], site)
    if problems:
        raise PlanError(*problems)
    return (*own, *more)


def _job_wide(plan: Plan, site: Site) -> Iterator[Line]:
    # A name that begins with a digit is refused.
    yield "-N", f"_{plan.name}" if plan.name[:1].isdecimal() else plan.name, "name"
    if plan.account is not None:
        yield site.sge.account, plan.account, "account"
    if plan.array is not None:
        elements, most = array(plan.array)
        yield "-t", elements, "array"
        if most:
            yield "-tc", most, "array"
    if plan.dependency:
        yield "-hold_jid", dependency(plan.dependency), "dependency"
    yield "-r", "y" if plan.requeue else "n", "requeue"
    if plan.mail_user is not None:
        yield "-M", plan.mail_user, "mail"
        yield "-m", mail_points(plan.mail_events), "mail"
    if plan.environment == "inherit":
        yield "-V", None, "environment"


def _of_group(plan: Plan, site: Site, group: Group, problems: list[Problem]) -> Iterator[Line]:
    if group.partition is not None:
        yield "-q", group.partition, "partition"
    slots = _slots(plan, site, group)
    name = _environment(site, slots, group, whole=slots != group.cpus)
    if name:
        yield "-pe", f"{name} {slots * group.nodes}", "nodes"
    elif name is None:
        problems.append(_no_environment(site, slots, group))
    if plan.walltime is not None:
        yield "-l h_rt", plan.walltime.clock, "walltime"
    if group.constraint is not None:
        yield "-l", group.constraint, "constraint"
    yield from _resources(plan, site, group, slots, problems)


def _slots(plan: Plan, site: Site, group: Group) -> int:
    """Return how many slots to ask for on each host: all of them where whole nodes are filled."""
    known = site.node_types.get(group.node_type or "")
    if site.sge.whole_nodes and plan.exclusive and known and known.cpus:
        return known.cpus
    return group.cpus


def _environment(site: Site, slots: int, group: Group, *, whole: bool) -> str | None:
    """Return the parallel environment, nothing for a single slot, None where the site has none for it."""
    names = site.sge.environments
    if str(slots) in names:
        return names[str(slots)]
    if slots * group.nodes == 1:
        return ""
    known = site.node_types.get(group.node_type or "")
    if site.sge.whole_nodes and (whole or (known and known.cpus == slots)):
        return site.sge.whole_nodes
    if group.nodes == 1 and site.sge.one_node:
        return site.sge.one_node
    return names["*"].replace("{slots}", str(slots)) if "*" in names else None


def _no_environment(site: Site, slots: int, group: Group) -> Problem:
    known = ", ".join(number for number in site.sge.environments) or "none"
    message = (
        f"site {site.name} has no parallel environment that gives {slots} slots on each of {group.nodes} "
        f"hosts (it has some for {known}), and without one Grid Engine deals slots out as it likes"
    )
    hint = "ask for other CPUs a task (`resources.cpu`), or name one in `sge.environments` of the site file"
    return Problem(message, ("environment", "replicas"), hint)


def _resources(plan: Plan, site: Site, group: Group, slots: int, problems: list[Problem]) -> Iterator[Line]:
    own = site.sge
    if group.gpus and plan.gpu_request != "none":
        if own.gpus is None:
            message = f"site {site.name} does not say which resource of Grid Engine its GPUs are"
            hint = "write `sge.gpus` in the site file"
            problems.append(Problem(message, ("environment", "resources", "gpu"), hint))
        elif value := _share(group.gpus, slots if own.gpus_per == "slot" else 1):
            yield f"-l {own.gpus}", value, "gpus"
        else:
            problems.append(_no_share(own.gpus, group.gpus, slots))
    if own.memory is not None and group.memory is not None and site.request_memory:
        memory = -(-group.memory // (slots if own.memory_per == "slot" else 1))
        yield f"-l {own.memory}", f"{memory}M", "memory"
    if plan.exclusive and own.exclusive is not None:
        yield f"-l {own.exclusive}", "true", "exclusive"
    elif plan.exclusive and plan.origins.get("exclusive") != f"site {site.name}: whole_nodes":
        message = f"site {site.name} names no resource that keeps other jobs off the hosts"
        hint = "remove it, or write `sge.exclusive` in the site file"
        problems.append(Problem(message, ("batch", "exclusive"), hint))


def _share(amount: int, slots: int) -> str:
    """Return the share of one slot, as a decimal number that gives the amount again; nothing if none does."""
    share = (Decimal(amount) / Decimal(slots)).quantize(Decimal("0.000001")).normalize()
    return f"{share:f}" if share * slots == amount else ""


def _no_share(name: str, gpus: int, slots: int) -> Problem:
    message = f"-l {name} is counted by slot, and {gpus} GPUs are no decimal number for each of {slots}"
    hint = "ask for as many CPUs as make a whole number of CPUs a GPU (`resources.cpu`)"
    return Problem(message, ("environment", "resources", "gpu"), hint)


def _language(site: Site) -> Language:
    own = site.sge
    names = ((own.gpus, _GPU), (own.memory, _MEMORY), (own.exclusive, "batch.exclusive"))
    fields = {f"-l {name}": field for name, field in names if name} | {own.account: "batch.account"}
    form = "write -FLAG VALUE, such as `-l NAME=VALUE` or `-R y`, with quotes around spaces"
    return Language("Grid Engine", form, _read, _FIELDS | fields, _TAKEN)


def _read(text: str) -> Sequence[Pair]:
    """Take a directive apart; requests of several resources become one each."""
    try:
        flag, *rest = shlex.split(text)
    except ValueError:
        return ()
    value = " ".join(rest)
    if not re.fullmatch(r"-@|-[A-Za-z][A-Za-z_]*", flag) or bool(value) == (flag in _BARE):
        return ()
    if flag != "-l":
        return ((flag, value or None),)
    pairs = (item.partition("=") for item in value.split(","))
    return tuple((f"-l {name}", amount if equals else "true") for name, equals, amount in pairs)
