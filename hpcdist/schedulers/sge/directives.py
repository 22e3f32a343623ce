"""The ``#$`` lines of a plan, for qsub.

Source: submit(1), sge_pe(5) and complex(5) of 8.1.9; what qsub silently accepts and gets wrong was tried on
Debian's 8.1.9.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Final

from hpcdist.base.errors import PlanError, Problem, warning
from hpcdist.experiment.batch import ArraySpec, Dependency, IndexRange
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.placement import Group
from hpcdist.plan.values import Directive, Origin
from hpcdist.schedulers import flags
from hpcdist.schedulers.directives import (
    DirectiveSyntax,
    HeaderSyntax,
    Line,
    Pair,
    added_directives,
    embedded_directives,
    is_requested_by_user,
    mail_points,
    mail_problems,
    names_nodes,
    own_directives,
    refused_keys,
)
from hpcdist.site.model import Site

# --- How many slots a job requests on each host, and which parallel environment provides them
#
# Source: sge_pe(5) of 8.1.9, ``allocation_rule``: only a number gives that many slots on each host.

_ANY: Final = "*"


def slots_of(job: JobSpec, site: Site, group: Group) -> int:
    """Return how many slots to request on each host: all of them for whole nodes."""
    known = site.node_types.get(group.node_type or "")
    if site.sge.whole_nodes and job.request.exclusive and known and known.cpus:
        return known.cpus
    return group.cpus


def environment(site: Site, slots: int, group: Group) -> str | None:
    """Return the parallel environment: empty for a single slot, None if the site has none for it."""
    name = _known_environment(site, slots, group)
    if name is None and _ANY in site.sge.environments:
        return site.sge.environments[_ANY].replace("{slots}", str(slots))
    return name


def _known_environment(site: Site, slots: int, group: Group) -> str | None:
    """Return the parallel environment that the site file gives for this number of slots a host."""
    names = site.sge.environments
    if str(slots) in names:
        return names[str(slots)]
    if slots * group.nodes == 1:
        return ""
    known = site.node_types.get(group.node_type or "")
    if site.sge.whole_nodes and (slots != group.cpus or (known and known.cpus == slots)):
        return site.sge.whole_nodes
    return site.sge.one_node if group.nodes == 1 else None


def no_environment(site: Site, slots: int, group: Group) -> Problem:
    """Return the problem that a site has no parallel environment for these slots."""
    known = ", ".join(site.sge.environments) or "none"
    message = (
        f"site {site.name} has no parallel environment that gives {slots} slots on each of {group.nodes} "
        f"hosts (it has some for {known}), and without one Grid Engine distributes slots as it likes"
    )
    hint = "ask for other CPUs a task (`resources.cpu`), or name one in `sge.environments` of the site file"
    return Problem(message, ("environment", "replicas"), hint)


def advice(job: JobSpec, site: Site) -> Iterator[Problem]:
    """Yield a warning for an environment whose allocation rule the site file does not give.

    And one for an account that only an option of qsub can set, not the script.
    """
    if option := " ".join(job.request.submit_options):
        yield Problem(
            f"the account is an option of qsub: submitted by hand, `qsub {option} SCRIPT`", severity="note"
        )
    if site.directives.size:
        return
    name = site.sge.environments.get(_ANY, "")
    group = job.placement.groups[0]
    slots = slots_of(job, site, group)
    if name and "{slots}" not in name and _known_environment(site, slots, group) is None:
        yield warning(
            f"site {site.name} does not say how parallel environment {name} allocates slots: unless its "
            f"allocation_rule is {slots} (`qconf -sp {name}`), the job may end at once with exit code 86; "
            f'write one that has it as `sge: {{environments: {{"{slots}": NAME}}}}` in the site file'
        )


# --- Arrays, dependencies and mail as Grid Engine's qsub writes them
#
# And settings that it does not have. It silently ignores a dependency on an id that no job has (tried on
# 8.1.9).


def elements(only: IndexRange) -> str:
    """Return the value of ``-t``."""
    return f"{only.first}-{only.first}" if only.last is None else str(only)


def dependency(waits: Iterable[Dependency]) -> str:
    """Return the value of ``-hold_jid``."""
    return ",".join(job.id for one in waits for wait in one.conditions for job in wait.jobs)


def _can_wait(one: Dependency) -> bool:
    return len(one.alternatives) == 1 and all(
        wait.kind == "afterany" and all(str(job).isdecimal() for job in wait.jobs) for wait in one.conditions
    )


_REFUSED: Final = {
    "elastic": (
        "a job of Grid Engine does not say which hosts it still has, so it cannot continue without one",
        "remove it, or choose another site with --site",
    ),
    "qos": ("Grid Engine has no QOS", "remove it, or use `directives: ['-p -10']`"),
    # -l s_rt sends USR1, but ended a job on two hosts at once (tried on 8.1.9).
    "signal": (
        "Grid Engine sends no signal before the time limit that a job over several hosts outlives",
        "remove it, and let the program save its state as it runs",
    ),
}


def option_problems(job: JobSpec) -> Iterator[Problem]:
    """Yield what Grid Engine cannot express, each with its field."""
    yield from refused_keys(job, _REFUSED)
    if job.request.sge.remote == "qrsh" and job.launch.remote_shell == "ssh" and job.placement.nodes > 1:
        message = f"{job.launch.launcher} goes by ssh, and site {job.identity.site} says `sge.remote: qrsh`"
        yield Problem(message, ("batch", "launcher"), "write `mpirun`, or take a single host")
    yield from _array_problems(job.request.array)
    for one in job.request.dependency:
        if not _can_wait(one):
            message = f"Grid Engine waits for the end of jobs, good or bad, and cannot wait for {str(one)!r}"
            ids = (job.id for wait in one.conditions for job in wait.jobs if job.id.isdecimal())
            numbers = ":".join(ids) or "ID"
            yield Problem(message, ("batch", "dependency"), f"write `afterany:{numbers}` if that will do")
    if job.request.exclude_nodes and any(names_nodes(group.constraint) for group in job.placement.groups):
        message = "Grid Engine takes one request of `hostname`, and `batch.constraint` has it already"
        yield Problem(message, ("batch", "exclude_nodes"), "remove one of them")
    yield from mail_problems(job, "Grid Engine")


def _array_problems(array: ArraySpec | None) -> Iterator[Problem]:
    if array and (len(array.ranges) > 1 or array.ranges[0].first == 0):
        message = f"Grid Engine has arrays of one range that begins at 1 or later, not {str(array)!r}"
        yield Problem(message, ("batch", "array"), "write 1-15, 1-15:4 or 1-15%4")


_GPU, _MEMORY = "environment.resources.gpu", "environment.resources.memory"

FIELDS: Final = flags.by_flag(flags.KEYS, "sge")
"""Flags that hpcdist writes itself, and the field to use instead."""

RESERVED: Final = flags.by_flag(flags.RESERVED, "sge") | {
    "-@": "write the options of that file here",
    "-C": "the script has its directives behind #$",
    "-clear": "write the options that you want",
    "-hold_jid_ad": "use `batch.dependency`",
    "-i": "the job reads nothing",
    "-now": "the job waits until there is room",
}

OTHERS: Final = frozenset((
    "-A", "-P", "-R", "-a", "-ar", "-binding", "-c", "-ckpt", "-dl", "-h", "-hard", "-he", "-js",
    "-jsv", "-l", "-masterq", "-notify", "-p", "-pty", "-soft", "-w",
))  # fmt: skip
"""Other options of qsub 8.1.9; names of resources (``-l``) depend on the site."""

_LONG: Final = {"h": "hostname"}
"""A resource that all sites have, by its other name."""

_BARE: Final = frozenset((
    "-V", "-clear", "-cwd", "-h", "-hard", "-notify", "-soft", "-terse", "-verify",
))  # fmt: skip


def directives(job: PreparedJob, site: Site) -> tuple[Directive, ...]:
    """Return the lines.

    Raises:
        PlanError: with everything that Grid Engine or the site refuses, each naming its field.
    """
    syntax = syntax_of(site)
    problems = [*option_problems(job), *embedded_directives(syntax, job)]
    if len(job.placement.groups) > 1:
        message = "a job of Grid Engine has the same slots on all its hosts, and these replicas need others"
        hint = "give all replicas the same resources, or choose another site with --site"
        raise PlanError(*problems, Problem(message, ("environment", "replicas"), hint))
    group = job.placement.groups[0]
    own = own_directives(job, (*_job_wide(job, site), *_of_group(job, site, group, problems)))
    return (*own, *added_directives(syntax, job, site, own, problems))


def _job_wide(job: JobSpec, site: Site) -> Iterator[Line]:
    # A name that begins with a digit is refused.
    yield "-N", f"_{job.identity.name}" if job.identity.name[:1].isdecimal() else job.identity.name, "name"
    if job.request.account is not None and not job.request.submit_options:
        yield site.sge.account, job.request.account, "account"
    if job.request.array is not None:
        yield "-t", elements(job.request.array.ranges[0]), "array"
        if (at_once := job.request.array.at_once) is not None:
            yield "-tc", str(at_once), "array"
    if job.request.dependency:
        yield "-hold_jid", dependency(job.request.dependency), "dependency"
    if nodes := job.request.exclude_nodes:
        yield "-l hostname", f"!({'|'.join(nodes)})", "exclude_nodes"
    yield "-r", "y" if job.request.requeue else "n", "requeue"
    if (mail := job.request.mail) is not None:
        yield "-M", mail.user, "mail"
        yield "-m", mail_points(mail.events), "mail"
    if job.request.submit_environment == "inherit":
        yield "-V", None, "environment"


def _of_group(job: JobSpec, site: Site, group: Group, problems: list[Problem]) -> Iterator[Line]:
    if group.partition is not None:
        yield "-q", group.partition, "partition"
    slots = slots_of(job, site, group)
    name = "" if site.directives.size else environment(site, slots, group)
    if name:
        yield "-pe", f"{name} {slots * group.nodes}", "nodes"
    elif name is None:
        problems.append(no_environment(site, slots, group))
    if job.request.walltime is not None:
        yield "-l h_rt", job.request.walltime.clock, "walltime"
    if group.constraint is not None:
        yield "-l", group.constraint, "constraint"
    yield from _resources(job, site, group, slots, problems)


def _resources(job: JobSpec, site: Site, group: Group, slots: int, problems: list[Problem]) -> Iterator[Line]:
    own = site.sge
    if group.gpus and job.request.gpu_request != "none" and not site.directives.size:
        if problem := _gpu_problem(site, group, slots):
            problems.append(problem)
        else:
            share = _share(group.gpus, slots) if own.gpus_per == "slot" else str(group.gpus)
            yield f"-l {own.gpus}", share, "gpus"
    if own.memory is not None and group.memory is not None and not site.directives.size:
        memory = -(-group.memory // (slots if own.memory_per == "slot" else 1))
        yield f"-l {own.memory}", f"{memory}M", "memory"
    if job.request.exclusive and own.exclusive is not None:
        yield f"-l {own.exclusive}", "true", "exclusive"
    elif job.request.exclusive and is_requested_by_user(job, "exclusive"):
        message = f"site {site.name} does not name a resource for exclusive hosts"
        hint = "remove it, or write `sge.exclusive` in the site file"
        problems.append(Problem(message, ("batch", "exclusive"), hint))


def _share(amount: int, slots: int) -> str:
    """Return the share of one slot, a decimal number that multiplies to the amount; empty if none does."""
    share = (Decimal(amount) / Decimal(slots)).quantize(Decimal("0.000001")).normalize()
    return f"{share:f}" if share * slots == amount else ""


def _gpu_problem(site: Site, group: Group, slots: int) -> Problem | None:
    """Return why these GPUs cannot be requested."""
    name, path = site.sge.gpus, ("environment", "resources", "gpu")
    if name is None:
        message = f"site {site.name} does not say which resource of Grid Engine its GPUs are"
        return Problem(message, path, "write `sge.gpus` in the site file")
    if site.sge.gpus_per == "job" and group.nodes > 1:
        message = f"-l {name} is counted once a job, on its first host, and this job has {group.nodes} hosts"
        return Problem(message, path, "ask for GPUs that one host has, or choose another site with --site")
    if site.sge.gpus_per != "slot":
        return None
    share = _share(group.gpus, slots)
    if not share:
        message = f"-l {name} is counted by slot, and {group.gpus} GPUs are no decimal number for {slots}"
        hint = "ask for as many CPUs as make a whole number of CPUs a GPU (`resources.cpu`)"
        return Problem(message, path, hint)
    return None if share.isdecimal() or site.sge.gpu_fractions else _fraction(name, group.gpus, share, slots)


def _fraction(name: str, gpus: int, share: str, slots: int) -> Problem:
    message = f"-l {name} is counted by slot, {gpus} GPUs are {share} for each of {slots}, and most sites "
    message += "count whole GPUs"
    hint = (
        "ask for as many CPUs as GPUs, or a part of that (`resources.cpu`), or write in the site file what "
        f"`qconf -sc` shows of {name}: `sge.gpu_fractions: true` if it is a DOUBLE, `sge.gpus_per` if it is "
        "not counted by slot"
    )
    return Problem(message, ("environment", "resources", "gpu"), hint)


def syntax_of(site: Site) -> DirectiveSyntax:
    """Return how directives are written, with the names that this site has for them."""
    own = site.sge
    names = ((own.gpus, _GPU), (own.memory, _MEMORY), (own.exclusive, "batch.exclusive"))
    fields = {f"-l {name}": field for name, field in names if name} | {own.account: "batch.account"}
    return DirectiveSyntax(
        scheduler="Grid Engine",
        form="write -FLAG VALUE, such as `-l NAME=VALUE` or `-R y`, with quotes around spaces",
        read=_read,
        fields=FIELDS | fields,
        reserved=RESERVED,
        free=frozenset({"-l hostname"}),
        others=OTHERS,
        sentinel=re.compile(r"#\$"),
    )


def _read(text: str) -> Sequence[Pair]:
    """Split a directive; requests for several resources become one each."""
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
    return tuple(
        (f"-l {_LONG.get(name, name)}", amount if equals else "true") for name, equals, amount in pairs
    )


def _quoted(text: str) -> str | None:
    """Return the text in quotes; qsub ends a line at ``#`` even there, and removes all quotes (tried)."""
    return None if any(character in text for character in "\"'#") else f'"{text}"'


def _directory(path: str) -> str:
    """Return the path after a colon: qsub reads a host's name before it."""
    if any(character in path for character in "\"',\n$#"):
        message = f"qsub takes no path with a comma, a dollar sign, # or quotes: {path}"
        raise PlanError(Problem(message, hint="submit from another directory"))
    return f":{path}"


HEADER: Final = HeaderSyntax(
    prefix="#$ ",
    plain=re.compile(r"[A-Za-z0-9_@%+=:,./*$-]+"),
    quote=_quoted,
    cannot_hold="quotes or #",
    verbatim=frozenset({"-pe"}),
    first=(
        ("-S /bin/bash", Origin("rule", "the script is bash")),
        ("-cwd", Origin("rule", "the job runs where it is submitted")),
        ("-j y", Origin("rule", "run directory")),
    ),
    output="-o",
    in_run_dir=("logs/job.out", "logs/job-$TASK_ID.out"),
    without_run_dir=("-$JOB_ID.out", "-$JOB_ID-$TASK_ID.out"),
    directory=_directory,
)
