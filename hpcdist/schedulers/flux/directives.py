"""The ``#flux:`` lines of a plan, for flux batch, and how Flux reads them.

flux batch counts slots, not tasks. A slot is a node here: nodes are equal even if tasks differ.

Sources: flux-batch(1) of flux-core 0.88; RFC 36 and src/bindings/python/flux/job/directives.py for the lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpcdist.base.errors import PlanError, Problem
from hpcdist.experiment.batch import Dependency, WaitCondition
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.placement import Group
from hpcdist.plan.values import Directive
from hpcdist.schedulers import flags
from hpcdist.schedulers.directives import (
    DirectiveSyntax,
    HeaderSyntax,
    Line,
    added_directives,
    double_quoted,
    embedded_directives,
    options,
    own_directives,
    refused_keys,
)
from hpcdist.schedulers.flux import plain_id
from hpcdist.site.model import Site

FIELDS: Final = flags.by_flag(flags.KEYS, "flux")
"""Flags that hpcdist writes itself, and the field to use instead."""

RESERVED: Final = flags.by_flag(flags.RESERVED, "flux")

SHORT: Final = {
    "-B": "--bank",
    "-N": "--nodes",
    "-c": "--cores-per-slot",
    "-g": "--gpus-per-slot",
    "-n": "--nslots",
    "-q": "--queue",
    "-t": "--time-limit",
    "-x": "--exclusive",
}

OTHERS: Final = frozenset((
    "--add-brokers", "--add-file", "--begin-time", "--broker-opt", "--broker-opts", "--conf",
    "--debug-emulate", "--dry", "--dump", "--env", "--env-file", "--env-remove", "--flags",
    "--input", "--label-io", "--quiet", "--require", "--rlimit", "--setattr", "--setopt",
    "--unbuffered", "--urgency", "-S", "-l", "-o", "-u",
))  # fmt: skip
"""Other options of flux batch 0.88, without those that only print something."""

_SEVERAL: Final = (
    "--add-file", "--conf", "--env", "--env-file", "--env-remove", "--rlimit", "--setattr", "--setopt",
)  # fmt: skip
_REPEATS: Final = {flag: flag for flag in _SEVERAL} | {"-S": "--setattr", "-o": "--setopt"}
"""The options that may be repeated (flux-batch(1)), with their long forms."""

_KINDS: Final = ("after", "afterany", "afterok", "afternotok")


def directives(job: PreparedJob, site: Site) -> tuple[Directive, ...]:
    """Return the lines.

    Raises:
        PlanError: with everything that Flux or the site refuses, each naming its field.
    """
    problems = list(_unsupported(job, site))
    own = own_directives(job, _lines(job, site, problems))
    return (*own, *added_directives(_SYNTAX, job, site, own, problems))


def _lines(job: JobSpec, site: Site, problems: list[Problem]) -> Iterator[Line]:
    group = job.placement.groups[0]
    yield "--job-name", job.identity.name, "name"
    for one in job.request.dependency:
        yield from _dependencies(one, problems)
    if job.request.signal is not None and job.launch.launcher != "flux":  # which sends it itself
        yield "--signal", job.request.signal.of_tasks, "signal"  # all get it, with B: or without
    if job.request.submit_environment == "clean":
        yield "--env-remove", "*", "environment"
        for name in ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER"):
            yield "--env", name, "environment"
    yield from _where(job, group)
    if site.directives.size:
        return
    yield "--nodes", str(group.nodes), "nodes"
    yield "--nslots", str(group.nodes), "nodes"
    yield "--cores-per-slot", str(group.cpus), "cpus"
    if group.gpus and job.request.gpu_request != "none":
        yield "--gpus-per-slot", str(group.gpus), "gpus"
    elif group.gpus:
        yield "--setopt", "gpu-affinity=off", "gpus"  # else Flux shows the tasks no GPUs


def _where(job: JobSpec, group: Group) -> Iterator[Line]:
    asked = (
        ("--bank", job.request.account, "account"),
        ("--queue", group.partition, "partition"),
        ("--time-limit", f"{job.request.walltime.seconds}s" if job.request.walltime else None, "walltime"),
        ("--requires", _requirement(job, group), "constraint" if group.constraint else "exclude_nodes"),
    )
    for flag, value, field in asked:
        if value is not None:
            yield flag, value, field
    if job.request.exclusive:
        yield "--exclusive", None, "exclusive"


def _requirement(job: JobSpec, group: Group) -> str | None:
    """Return what the nodes must be, and must not be (RFC 35)."""
    if not job.request.exclude_nodes:
        return group.constraint
    others = f"not host:{','.join(job.request.exclude_nodes)}"
    return f"({group.constraint}) and {others}" if group.constraint else others


def _dependencies(one: Dependency, problems: list[Problem]) -> Iterator[Line]:
    """Yield a line for each job to wait for; bare ids mean success, as with sbatch."""
    if len(one.alternatives) > 1:
        problems.append(_wait_problem(one))
        return
    for wait in one.conditions:
        ids = [plain_id(str(job)) for job in wait.jobs]
        if wait.kind == "singleton":
            yield "--dependency", "singleton", "dependency"
        elif wait.awaited in _KINDS and all(ids):
            yield from (("--dependency", f"{wait.awaited}:{job_id}", "dependency") for job_id in ids)
        else:
            problems.append(_wait_problem(wait))


def _wait_problem(wait: Dependency | WaitCondition) -> Problem:
    hint = "write an id, afterok:ID, afterany:ID, afternotok:ID or singleton"
    return Problem(f"Flux cannot wait for {str(wait)!r}", ("batch", "dependency"), hint)


_REFUSED: Final = {
    "array": ("flux batch has no arrays of jobs", "submit the experiment once for each"),
    "mail": ("Flux sends no mail", "remove it"),
    "qos": ("Flux has no QOS", "remove it, or choose a queue by `batch.partition`"),
    "requeue": ("Flux does not run a job twice", "set `environment.max_restarts`"),
    "elastic": (
        "a job of Flux ends when it loses a node on which others depend",
        "remove it, or set `environment.max_restarts`",
    ),
}


def _unsupported(job: PreparedJob, site: Site) -> Iterator[Problem]:
    yield from refused_keys(job, _REFUSED)
    if job.request.signal is not None and job.placement.nodes > 1 and job.launch.launcher != "flux":
        # The brokers of the other nodes get it, too, and shut down (tried on 0.88; signal_cb in broker.c).
        message = "of a job on several nodes the signal of flux batch ends all nodes but the first"
        hint = "write `environment: {restart: {notice: ..., max: 0}}`, or `batch: {launcher: flux}`"
        yield Problem(message, ("batch", "signal"), hint)
    yield from _unsupported_shapes(job, site)
    yield from embedded_directives(_SYNTAX, job)


def _unsupported_shapes(job: JobSpec, site: Site) -> Iterator[Problem]:
    groups = job.placement.groups
    if len(groups) > 1:
        message = f"these replicas need nodes of {len(groups)} kinds, and flux batch asks for one"
        yield Problem(message, ("environment", "replicas"), "give all replicas resources that one kind has")
    if any(group.memory for group in groups) and not job.request.exclusive:
        hint = "remove it, take whole nodes by `batch: {exclusive: true}`, or say `request_memory: false` in "
        hint += "the site file, as hpcdist's own have it: then a warning says that memory is not requested"
        yield Problem("flux batch cannot request memory", ("environment", "resources", "memory"), hint)
    if (
        any(group.gpus for group in groups)
        and job.request.gpu_request == "none"
        and not job.request.exclusive
    ):
        message = f"site {site.name} asks for no GPUs, so they come with whole nodes only"
        yield Problem(message, ("batch", "exclusive"), "set it, or `gpus.request` in the site file")


_SYNTAX: Final = DirectiveSyntax(
    scheduler="Flux",
    form="write --flag=value, with quotes around spaces",
    read=options(SHORT),
    fields=FIELDS,
    reserved=RESERVED,
    free=frozenset({"--requires"}),
    others=OTHERS,
    repeats=_REPEATS,
    abbreviates=True,  # older ones: 0.88 wants all of a flag (flux/cli/argparse.py)
    sentinel=re.compile(r"\W*(?:flux|FLUX):"),  # and refuses the script (RFC 36)
)


def syntax_of(_site: Site) -> DirectiveSyntax:
    """Return how directives are written, which is the same on all machines."""
    return _SYNTAX


def _directory(path: str) -> str:
    """Return the path."""
    if "{{" in path:
        raise PlanError(f"flux batch takes the braces of {path} for a template; choose another directory")
    return path


# shlex of Python reads them: words end at spaces, ``#`` and ``();<>|&``; in double quotes only ``\`` and
# ``"`` need a ``\``; three quotes in a row begin something else. Flux fills in ``{{id}}``.
HEADER: Final = HeaderSyntax(
    prefix="#flux: ",
    plain=re.compile(r"[A-Za-z0-9_@%+=:,./{}*-]+"),
    quote=lambda text: None if "'''" in text else double_quoted(text),
    cannot_hold="three quotes in a row",
    output="--output",
    in_run_dir=("logs/job.out", "logs/job.out"),
    without_run_dir=("-{{id}}.out", "-{{id}}.out"),
    directory=_directory,
)
