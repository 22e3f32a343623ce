"""The ``#BSUB`` lines of a plan, for bsub.

Sources: bsub(1) of LSF 10.1 (https://www.ibm.com/docs/en/spectrum-lsf/10.1.0?topic=bsub-options), and the
easy mode of CSM as the Summit user guide has it (https://docs.olcf.ornl.gov/systems/summit_user_guide.html).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hpcdist.base.errors import PlanError, Problem
from hpcdist.experiment.batch import ArraySpec, AwaitedJob, Dependency, SignalSpec, WaitCondition
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
    mail_problems,
    own_directives,
    refused_keys,
)
from hpcdist.site.model import Site

# --- Arrays, dependencies, signals, mail and time as bsub writes them
#
# An experiment has Slurm's forms of these; a setting without an equivalent in LSF is refused by name.
# Source: bsub(1) of LSF 10.1, ``-J``, ``-w``, ``-wa``, ``-wt``, ``-B``, ``-N``, ``-Ne``, ``-W``.

_CONDITIONS: Final = {"afterok": "done", "afterany": "ended", "afternotok": "exit", "after": "started"}
_SIGNALS: Final = ("TERM", "INT", "HUP", "USR1", "USR2")
"""The signals that the script passes on to the program; LSF signals all processes of a job."""
_MAIL: Final = {"begin": ("-B",), "end": ("-N",), "fail": ("-Ne",), "all": ("-B", "-N"), "none": ()}


def hours_and_minutes(seconds: int) -> str:
    """Return a run limit, ``h:mm``: LSF has no seconds, so they are rounded up to a minute."""
    minutes = -(-seconds // 60)
    return f"{minutes // 60}:{minutes % 60:02}"


def array_text(spec: ArraySpec) -> str:
    """Return what comes after the name: ``[1-10:2]%4``."""
    return f"[{spec.indices}]" if spec.at_once is None else f"[{spec.indices}]%{spec.at_once}"


def dependency_text(waits: Sequence[Dependency]) -> str:
    """Return a condition: ``done(12) && done(13)`` for ``afterok:12:13``, ``||`` for ``?``."""
    return _joined("&&", "||", [_any(one) for one in waits])


def _any(one: Dependency) -> str:
    return _joined("||", "&&", [" && ".join(map(_condition, all_of)) for all_of in one.alternatives])


def _joined(operator: str, other: str, texts: Sequence[str]) -> str:
    """Join conditions, those with the other operator in parentheses."""
    found = (f"({text})" if other in text and len(texts) > 1 else text for text in texts)
    return f" {operator} ".join(found)


def _condition(wait: WaitCondition) -> str:
    return " && ".join(f"{_CONDITIONS[wait.awaited]}({_awaited(job)})" for job in wait.jobs)


def _awaited(job: AwaitedJob) -> str:
    return job.id if job.element in (None, "*") else f"{job.id}[{job.element}]"


def _can_wait(wait: WaitCondition) -> bool:
    return wait.awaited in _CONDITIONS and all(job.id.isdecimal() and job.delay is None for job in wait.jobs)


def signal_and_minutes(spec: SignalSpec) -> tuple[str, int]:
    """Return a signal's name, and how many minutes before the run limit it comes (by default one)."""
    seconds = 60 if spec.seconds is None else spec.seconds
    return spec.plain_name, max(1, -(-seconds // 60))


def mail_flags(events: Iterable[str]) -> list[str]:
    """Return the flags of these events; ``-N`` and ``-Ne`` exclude each other."""
    flags = dict.fromkeys(flag for event in events for flag in _MAIL[event.lower()])
    return [flag for flag in flags if flag != "-Ne" or "-N" not in flags]


def request_problems(job: JobSpec) -> Iterator[Problem]:
    """Yield a problem for each setting that LSF does not have."""
    array = job.request.array
    if array is not None and 0 in (array.at_once, *(part.first for part in array.ranges)):
        message = f"LSF counts array elements from 1: {str(array)!r}"
        yield Problem(message, ("batch", "array"), "write 1-10, 1-10%2")
    for wait in (wait for one in job.request.dependency for wait in one.conditions):
        if not _can_wait(wait):
            hint = f"write an id, or {', '.join(f'{name}:ID' for name in _CONDITIONS)}"
            yield Problem(f"LSF has no way to wait for {str(wait)!r}", ("batch", "dependency"), hint)
    yield from _signal_problems(job)
    yield from mail_problems(job, "LSF", _MAIL)


def _signal_problems(job: JobSpec) -> Iterator[Problem]:
    spec, path = job.request.signal, ("batch", "signal")
    if spec is None:
        return
    if "R" in spec.options or spec.plain_name not in _SIGNALS:
        hint = f"write one of {', '.join(_SIGNALS)}, such as USR1@120"
        yield Problem(
            f"{str(spec)!r} is not possible with LSF, which signals all processes of a job", path, hint
        )
    if job.request.walltime is None:
        message = "LSF sends it before the time limit, and the job has no limit"
        yield Problem(message, path, "set `batch.walltime`")


FIELDS: Final = flags.by_flag(flags.KEYS, "lsf") | {"-alloc_flags": "lsf.alloc_flags of the site file"}
"""Flags that hpcdist writes itself, and the field to use instead."""

_RESERVED: Final = flags.by_flag(flags.RESERVED, "lsf") | {
    "-I": "a batch job has no terminal",
    "-Ip": "a batch job has no terminal",
    "-Is": "a batch job has no terminal",
    "-Zs": "hpcdist submits the script itself",
    "-csm": "hpcdist uses the easy mode, or slots: set `lsf.request` in the site file",
    "-pack": "hpcdist submits one job",
}

_OTHERS: Final = frozenset((
    "-C", "-D", "-E", "-Ep", "-F", "-G", "-H", "-L", "-Lp", "-M", "-P", "-Q", "-S", "-T", "-U", "-We",
    "-a", "-app", "-ar", "-b", "-c", "-clusters", "-cn_cu", "-cn_mem", "-core_isolation", "-data",
    "-datachk", "-datagrp", "-eptl", "-ext", "-f", "-freq", "-g", "-hl", "-hostfile", "-i", "-is",
    "-jobaff", "-jsm", "-k", "-ln_mem", "-ln_slots", "-m", "-mig", "-network", "-outdir", "-p",
    "-ptl", "-rcacct", "-rnc", "-s", "-sla", "-smt", "-sp", "-stage", "-step_cgroup", "-t", "-ti",
    "-ul", "-v",
))  # fmt: skip
"""Other options of bsub(1) of 10.1."""

_OF_CSM: Final = (
    "-alloc_flags", "-cn_cu", "-cn_mem", "-core_isolation", "-jsm", "-ln_mem", "-ln_slots", "-smt",
    "-step_cgroup",
)  # fmt: skip
"""Options of IBM's Cluster Systems Manager only, each by its page, such as
https://www.ibm.com/docs/en/SSWRJV_10.1.0/lsf_command_ref/bsub.smt.1.html."""


def directives(job: PreparedJob, site: Site) -> tuple[Directive, ...]:
    """Return the lines.

    Raises:
        PlanError: with everything that LSF or the site refuses, each naming its field.
    """
    problems = [*_unsupported(job, site), *request_problems(job)]
    if problems:
        raise PlanError(*problems)
    group = job.placement.groups[0]
    own = own_directives(job, (*_job(job, site), *_resources(job, site, group), *_extras(job)))
    return (*own, *added_directives(syntax_of(site), job, site, own, problems))


def _job(job: JobSpec, site: Site) -> Iterator[Line]:
    array = "" if job.request.array is None else array_text(job.request.array)
    yield "-J", f"{job.identity.name}{array}", "array" if array else "name"
    if job.request.account is not None:
        yield site.lsf.account, job.request.account, "account"
    if (queue := job.placement.groups[0].partition) is not None:
        yield "-q", queue, "partition"
    if job.request.walltime:
        yield "-W", hours_and_minutes(job.request.walltime.seconds), "walltime"
    if job.request.exclude_nodes:  # LSF joins the select sections of several -R (bsub(1))
        others = " && ".join(f"hname!='{node}'" for node in job.request.exclude_nodes)
        yield "-R", f"select[{others}]", "exclude_nodes"


def _resources(job: JobSpec, site: Site, group: Group) -> Iterator[Line]:
    if site.directives.size:
        return
    if site.lsf.request == "nodes":
        yield "-nnodes", str(group.nodes), "nodes"
        own = any(text.split()[:1] == ["-alloc_flags"] for text in job.request.extra_directives)
        if site.lsf.alloc_flags and not own:
            yield "-alloc_flags", " ".join(site.lsf.alloc_flags), Origin("site", site.name, "lsf.alloc_flags")
        return
    yield "-n", str(group.nodes * group.cpus), "nodes"
    yield "-R", " ".join(_requirement(site, group)), "nodes"
    if group.gpus and job.request.gpu_request != "none":
        # Without j_exclusive another job may get the same GPUs (bsub(1), -gpu).
        model = (
            f":gmodel={group.gpu_type}"
            if group.gpu_type and site.gpus_in(group.site_partition)[0].typed
            else ""
        )
        yield "-gpu", f"num={group.gpus}:mode=shared:j_exclusive=yes{model}", "gpus"
    if job.request.exclusive:
        yield "-x", None, "exclusive"


def _requirement(site: Site, group: Group) -> Iterator[str]:
    """Yield the sections of the one resource requirement, in the order in which LSF documents them."""
    if group.constraint is not None:
        yield f"select[{group.constraint}]"
    if group.memory is not None:
        # With a unit: a bare number is read in LSF_UNIT_FOR_LIMITS, KB on one site and GB on another.
        amount = group.memory if site.lsf.memory == "host" else -(-group.memory // group.cpus)
        yield f"rusage[mem={amount}MB]"
    yield f"span[ptile={group.cpus}]"


def _extras(job: JobSpec) -> Iterator[Line]:
    if job.request.dependency:
        yield "-w", dependency_text(job.request.dependency), "dependency"
    if job.request.signal is not None:
        name, minutes = signal_and_minutes(job.request.signal)
        yield "-wa", name, "signal"
        yield "-wt", str(minutes), "signal"
    yield "-r" if job.request.requeue else "-rn", None, "requeue"
    if (mail := job.request.mail) is not None:
        yield "-u", mail.user, "mail"
        yield from ((flag, None, "mail") for flag in mail_flags(mail.events))
    if job.request.submit_environment == "clean":
        yield "-env", "none", "environment"


_REFUSED: Final = {
    "qos": ("LSF has no QOS", "write `-sla NAME` or `-app NAME` in `batch.directives`"),
    "elastic": (
        "LSF decides whether a job survives the loss of a node, and no job can request it",
        "remove it, or choose another site with --site",
    ),
}


def _unsupported(job: PreparedJob, site: Site) -> Iterator[Problem]:
    replicas = ("environment", "replicas")
    if len(job.placement.groups) > 1:
        message = (
            "these replicas need nodes of different types, which hpcdist cannot request from LSF in one job"
        )
        yield Problem(message, replicas, "give all replicas the same resources, or `ps_on: worker_nodes`")
    yield from embedded_directives(syntax_of(site), job)
    yield from refused_keys(job, _REFUSED)
    if job.request.gpu_request == "gpus_per_task" and any(group.gpus for group in job.placement.groups):
        message = f"LSF counts GPUs by host, and site {site.name} says `gpus.request: gpus_per_task`"
        yield Problem(message, ("environment", "resources", "gpu"), "write `gpus_per_node` in the site file")
    if site.lsf.request == "slots" and site.lsf.alloc_flags:
        message = f"site {site.name} asks for slots, and `lsf.alloc_flags` are of machines with CSM"
        yield Problem(message, hint="remove them, or write `lsf.request: nodes` in the site file")
    if site.lsf.request == "nodes" and any(group.constraint for group in job.placement.groups):
        message = f"site {site.name} asks for whole nodes by -nnodes, with which LSF takes no constraint"
        yield Problem(message, ("batch", "constraint"), "remove it")


def _read(text: str) -> Sequence[Pair]:
    """Read ``-flag`` or ``-flag value``, removing quotes as bsub does."""
    try:
        first, *rest = shlex.split(text)
    except ValueError:
        return ()
    return ((first, next(iter(rest), None)),) if first.startswith("-") and len(rest) <= 1 else ()


def syntax_of(site: Site) -> DirectiveSyntax:
    """Return how directives are written, with the names that this site has for them."""
    reason = f"it is of machines with CSM, and site {site.name} asks for slots (`lsf.request`)"
    return DirectiveSyntax(
        scheduler="LSF",
        form="write `-flag value` as bsub(1) has it, with quotes around spaces",
        read=_read,
        fields=FIELDS | {site.lsf.account: "batch.account"},
        reserved=_RESERVED,
        free=frozenset({"-alloc_flags"}),
        others=_OTHERS,
        repeats={flag: flag for flag in ("-R", "-data", "-f")},  # bsub(1)
        without_effect=dict.fromkeys(_OF_CSM if site.lsf.request == "slots" else (), reason),
        sentinel=re.compile(r"#BSUB\b"),
    )


def _quoted(text: str) -> str | None:
    """Return the text in quotes in which bsub expands nothing."""
    if not re.search(r'["\\$`]', text):
        return f'"{text}"'
    return f"'{text}'" if "'" not in text else None


def _directory(path: str) -> str:
    """Return the path."""
    if re.search("%[IJ]", path):
        raise PlanError(f"LSF reads %J and %I in {path!r} as a job's numbers; use another directory")
    return path


# LSF copies the output of a job to its place when the job is over, unless the cluster has
# LSB_STDOUT_DIRECT: in a run directory the script writes its output itself, and LSF its report.
HEADER: Final = HeaderSyntax(
    prefix="#BSUB ",
    plain=re.compile(r"[A-Za-z0-9_@%+=:,./-]+"),
    quote=_quoted,
    cannot_hold="both kinds of quotes, nor ' with $, ` or \\",
    output="-o",
    in_run_dir=("logs/lsf.report", "logs/lsf.%I.report"),
    without_run_dir=("-%J.out", "-%J.%I.out"),
    directory=_directory,
)
