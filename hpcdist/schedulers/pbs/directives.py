"""The ``#PBS`` lines of a plan, for qsub.

What qsub refuses was tried on an OpenPBS 23.06.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from hpcdist.errors import PlanError
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.origin import Origin
from hpcdist.plan.values import Directive
from hpcdist.schedulers.directives import DirectiveSyntax, Pair, forbidden_directives, further_directives
from hpcdist.schedulers.header import HeaderSyntax
from hpcdist.schedulers.pbs.chunks import chunk_problems, rounded, select, totals
from hpcdist.schedulers.pbs.options import array, dependency, mail_points, option_problems
from hpcdist.schedulers.pbs.values import value_problems
from hpcdist.site.model import Site

Line = tuple[str, str | None, str]
"""A flag, its value (None for a bare flag) and the field of the plan that it comes from."""

_CPU, _GPU, _MEMORY = (f"environment.resources.{name}" for name in ("cpu", "gpu", "memory"))

_FIELDS: Final = {
    "-J": "batch.array",
    "-M": "batch.mail",
    "-N": "name",
    "-V": "environment.env_vars",
    "-W depend": "batch.dependency",
    "-W umask": "pbs.umask",
    "-l mem": _MEMORY,
    "-l mpiprocs": "environment.replicas",
    "-l ncpus": _CPU,
    "-l ngpus": _GPU,
    "-l nodes": "batch.nodes",
    "-l ompthreads": _CPU,
    "-l place": "batch.exclusive",
    "-l select": "environment.replicas",
    "-l walltime": "batch.walltime",
    "-m": "batch.mail",
    "-q": "batch.partition",
    "-r": "batch.requeue",
    "-v": "environment.env_vars",
}

_RESERVED: Final = {
    "-C": "its own lines begin with #PBS",
    "-I": "it submits batch jobs",
    "-S": "the script is bash",
    "-W block": "use `hpcdist wait`",
    "-W sandbox": "the job runs where it is submitted",
    "-X": "it submits batch jobs",
    "-d": "the job runs where it is submitted (and -d is Torque's)",
    "-e": "use `batch.error`",
    "-j": "use `batch.output` and `batch.error`",
    "-k": "write `pbs: {keep: ...}` in the site file",
    "-o": "use `batch.output`",
    "-t": "use `batch.array` (and -t is Torque's)",
    "-z": "hpcdist reads the job's id itself",
}


def syntax_of(site: Site) -> DirectiveSyntax:
    """Return how directives are written, with the option that takes the account here."""
    fields = {**_FIELDS, site.pbs.account: "batch.account"}
    return DirectiveSyntax(
        "PBS", "write -q NAME, -l name=value or -W name=value", _read, fields, _RESERVED, _FREE
    )


_FREE: Final = frozenset({"-W umask"})


def directives(job: PreparedJob, site: Site) -> tuple[Directive, ...]:
    """Return the lines of the job.

    Raises:
        PlanError: with everything that PBS or the site refuses, each naming its field.
    """
    problems = [*option_problems(job), *chunk_problems(job, site)]
    group = job.placement.groups[0]
    if problems:
        raise PlanError(*problems)
    cpus = group.origin.with_note(why) if (why := rounded(job, site)) else group.origin
    origins = {"cpus": cpus, "nodes": cpus if site.pbs.cpus else group.origin}
    own = [
        Directive(
            flag=flag,
            value=value,
            origin=_origin(job, site, field) or origins.get(field, group.origin),
        )
        for flag, value, field in _lines(job, site)
    ]
    extra = list(further_directives(syntax_of(site), job, site, own, problems))
    problems += forbidden_directives(syntax_of(site), [*own, *extra], site)
    problems += value_problems(syntax_of(site), [*own, *extra])
    if problems:
        raise PlanError(*problems)
    return (*own, *extra)


def _origin(job: JobSpec, site: Site, field: str) -> Origin | None:
    return (
        Origin("site", site.name, f"pbs.{field}")
        if field in ("keep", "place", "umask")
        else job.origins.get(field)
    )


def _lines(job: JobSpec, site: Site) -> Iterator[Line]:
    # Some versions want a letter first (ck_job_name.c of openpbs/openpbs).
    yield "-N", job.identity.name if job.identity.name[0].isalpha() else f"j{job.identity.name}", "name"
    yield from _where(job, site)
    yield from _resources(job, site)
    if job.request.walltime:
        yield "-l walltime", job.request.walltime.clock, "walltime"
    if elements := array(job.request.array):
        yield "-J", elements, "array"
    if job.request.dependency:
        yield "-W depend", dependency(job.request.dependency), "dependency"
    # qsub refuses arrays that may not run again.
    yield "-r", "y" if job.request.requeue or elements else "n", "requeue"
    if (mail := job.request.mail) is not None:
        yield "-M", mail.user, "mail"
        yield "-m", mail_points(mail.events), "mail"
    if site.pbs.keep != "none":
        yield "-k", site.pbs.keep, "keep"
    if site.pbs.umask:
        yield "-W umask", site.pbs.umask, "umask"
    if job.request.submit_environment == "inherit":
        yield "-V", None, "environment"


def _where(job: JobSpec, site: Site) -> Iterator[Line]:
    if job.request.account is not None:
        yield site.pbs.account, job.request.account, "account"
    queue = job.placement.groups[0].partition
    if queue is not None:
        yield "-q", queue, "partition"


def _resources(job: JobSpec, site: Site) -> Iterator[Line]:
    if site.directives.size:
        return
    if site.pbs.request == "totals":
        for name, value, field in totals(job, site):
            yield f"-l {name}", value, field
        return
    yield "-l select", select(job, site), "nodes"
    words = [
        word
        for word in (site.pbs.place, site.pbs.exclusive if job.request.exclusive else "none")
        if word != "none"
    ]
    if words:
        yield "-l place", ":".join(words), "exclusive" if job.request.exclusive else "place"


def _read(text: str) -> Sequence[Pair]:
    """Read ``-q x``, ``-qx``, ``-V``, ``-l a=1,b=2`` and ``-W a=b``; each resource and attribute apart."""
    try:
        words = shlex.split(text)
    except ValueError:
        return ()
    if len(words) == 1 and re.fullmatch(r"-[A-Za-z].+", words[0]):
        words = [words[0][:2], words[0][2:]]
    match words:
        case ["-l", value]:
            return _named("-l", value.split(","))
        case ["-W", value]:
            return _named("-W", re.split(r",(?=\w+=)", value))
        case [flag, *value] if re.fullmatch(r"-[A-VX-Za-km-z]", flag) and len(value) <= 1:
            return ((flag, next(iter(value), None)),)
    return ()


def _named(option: str, parts: Sequence[str]) -> Sequence[Pair]:
    pairs = [part.partition("=") for part in parts]
    if not all(re.fullmatch(r"[A-Za-z][\w-]*", name) for name, _, _ in pairs):
        return ()
    return tuple((f"{option} {name}", value if equals else None) for name, equals, value in pairs)


_QUOTABLE: Final = re.compile(r"[ !#$&'()*;<>?`{|}~A-Za-z0-9_@%+=:,./^\[\]-]*")

# Without a run directory PBS makes NAME.oNUMBER beside where the script is submitted. The folder of another
# must exist: PBS makes none, and a job waits long for its output to be delivered (tried).
HEADER: Final = HeaderSyntax(
    prefix="#PBS ",
    plain=re.compile(r"[A-Za-z0-9_@%+=:,./^\[\]-]+"),
    quote=lambda text: f'"{text}"' if _QUOTABLE.fullmatch(text) else None,
    cannot_hold="quotes, a backslash or anything but plain ASCII",
    first=(
        ("-S /bin/bash", Origin("rule", "the script is bash")),
        ("-j oe", Origin("rule", "run directory")),
    ),
    output="-o",
    in_run_dir=("logs/job.out", "logs/job-^array_index^.out"),
    beside=None,
    is_array=lambda plan: any(line.flag == "-J" for line in plan.directives),
)
