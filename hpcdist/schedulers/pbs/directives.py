"""The ``#PBS`` lines of a plan, for qsub.

What qsub refuses was tried on an OpenPBS 23.06.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hpcdist.base.errors import Path, PlanError, Problem
from hpcdist.experiment.batch import ArraySpec, Dependency
from hpcdist.plan.model import JobSpec, PreparedJob
from hpcdist.plan.placement import Group, Placement
from hpcdist.plan.values import Directive, Origin
from hpcdist.schedulers import flags
from hpcdist.schedulers.directives import (
    DirectiveSyntax,
    HeaderSyntax,
    Line,
    Pair,
    added_directives,
    mail_points,
    mail_problems,
    own_directives,
    refused_keys,
)
from hpcdist.site.model import Site

# --- Values that qsub accepts for its options, and values that it accepts silently but misreads
#
# Sources, all of openpbs/openpbs: ``ecl_verify_values.c``, ``ck_job_name.c``, ``parse_at.c``,
# ``parse_equal.c``, ``set_resource.c`` and ``attr_resc_func.c`` (``decode_select``); ``cmds.h`` for the
# length of a line.

_LONGEST_LINE: Final = 4000
"""qsub reads 4094 characters as one line, and the rest as another."""

_SHOWN: Final = 60

_WORD: Final = r"[!-\"$-+\--?A-~]+"
"""Visible characters but ``#``, ``@`` and the comma."""
_USER: Final = rf"{_WORD}(?:@{_WORD})?"
_USERS: Final = rf"{_USER}(?:, *{_USER})*"
_DATE: Final = r"(?:(?:(?:\d\d)?\d\d)?\d\d)?(?:\d\d)?\d{4}(?:\.\d\d)?"


class _Form(NamedTuple):
    """A regular expression, and what it is in words."""

    pattern: str
    words: str


_FORMS: Final[Mapping[str, _Form]] = {
    "-M": _Form(_USERS, "addresses such as me@example.org, with commas between them"),
    "-N": _Form(r"[A-Za-z0-9_+.-]{1,230}", "up to 230 letters, digits and -_+."),
    "-R": _Form("[oe]+", "o, e or oe"),
    "-W group_list": _Form(rf"(?!.*=){_USER}", "one group"),
    "-W run_count": _Form(r"\d+", "a number"),
    "-W umask": _Form("[0-7]{1,4}", "an octal number such as 027"),
    "-a": _Form(_DATE, "[[[[CC]YY]MM]DD]hhmm[.SS]"),
    "-c": _Form(r"[nscw]|[cw]=\d+", "n, s, c, w, c=MINUTES or w=MINUTES"),
    "-p": _Form(r"[+-]?0*(?:\d{1,3}|10[01]\d|102[0-3])|-0*1024", "a number from -1024 to 1023"),
    "-q": _Form(rf"{_USER}|@{_WORD}", "QUEUE or QUEUE@SERVER"),
    "-u": _Form(_USERS, "users, with commas between them"),
}  # fmt: skip
"""By flag; a ``-W umask`` that is not octal fails only on the node."""

_CHUNK: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*=[A-Za-z0-9_./@-]+", re.ASCII)


def value_problems(syntax: DirectiveSyntax, lines: Sequence[Directive]) -> Iterator[Problem]:
    """Yield the values that qsub refuses or cuts, each with its field."""
    for line in lines:
        yield from _value_problems(line, line.value or "", syntax.path(line.flag))


def _value_problems(line: Directive, value: str, path: Path) -> Iterator[Problem]:
    form = _FORMS.get(line.flag)
    hint = f"it stands at {line.origin}"
    if form and not re.fullmatch(form.pattern, value, re.ASCII):
        yield Problem(f"{line.flag} of PBS takes {form.words}, not {_shown(value)}", path, hint)
    elif line.flag.startswith("-l ") and re.search(r"\s", value):
        yield Problem(f"{line.flag} of PBS takes no blanks: {_shown(value)}", path, hint)
    elif len(line.flag) + len(value) > _LONGEST_LINE:
        message = f"qsub reads lines of up to {_LONGEST_LINE} characters, {line.flag} has {len(value)}"
        yield Problem(message, path, "ask for fewer kinds of nodes" if line.flag == "-l select" else hint)


def _shown(value: str) -> str:
    return repr(value) if len(value) <= _SHOWN else f"{value[:_SHOWN]!r}... ({len(value)} characters)"


def chunk_word_problem(words: Sequence[str]) -> str | None:
    """Return what is wrong with the ``name=value`` words of one chunk; None if nothing is.

    A ``+`` or ``:`` in a value begins another chunk or resource, a comma ends the whole request.
    """
    names = [word.partition("=")[0] for word in words]
    wrong = next((word for word in words if not _CHUNK.fullmatch(word)), None)
    if wrong is not None:
        return f"{wrong!r} is no resource of a chunk, and PBS has no other constraints"
    twice = next((name for name in names if names.count(name) > 1), None)
    return f"a chunk names {twice} twice, which PBS refuses" if twice else None


# --- The chunks of a plan for PBS: equal nodes, in the order of the ranks
#
# What PBS refuses, and what it accepts silently though wrong, was tried on an OpenPBS 23.06.

REPLICAS: Final = ("environment", "replicas")


class Chunk(NamedTuple):
    """Consecutive nodes of one group that hold the same; amounts are for each node."""

    group: Group
    nodes: int
    tasks: int
    threads: int
    """The CPUs of one task, of the smallest where they differ."""
    used: int
    """The CPUs of all tasks."""
    cpus: int
    """The CPUs that are requested."""
    gpus: int
    memory: int | None


def chunks(job: JobSpec, site: Site) -> Iterator[Chunk]:
    """Yield the chunks in rank order; a group whose nodes hold different tasks has several.

    Where the site requires CPUs per GPU, the CPUs of the tasks are rounded up to that number.
    """
    for group in job.placement.groups:
        last: Chunk | None = None
        for chunk in _pieces(group, job.placement, cpus_per_gpu(group, site) or 0):
            if last and last._replace(nodes=0) == chunk._replace(nodes=0):
                last = last._replace(nodes=last.nodes + chunk.nodes)
                continue
            if last:
                yield last
            last = chunk
        if last:
            yield last


def cpus_per_gpu(group: Group, site: Site) -> int | None:
    """Return how many CPUs per GPU the site requires on these nodes."""
    node = site.node_types.get(group.node_type or "")
    return node.cpus_per_gpu if node else None


def _pieces(group: Group, placement: Placement, rule: int) -> Iterator[Chunk]:
    """Yield a chunk for each shape of the group's nodes."""
    for shape in placement.shapes():
        if group.node <= shape.node < group.node + group.nodes:
            yield Chunk(
                group=group,
                nodes=shape.nodes,
                tasks=shape.tasks,
                threads=min(max(1, row.cpus // row.processes) for row in shape.rows),
                used=shape.cpus,
                cpus=max(shape.cpus, rule * shape.gpus),
                gpus=shape.gpus,
                memory=group.memory if group.memory is None or group.all_memory else shape.memory,
            )


def select(job: JobSpec, site: Site) -> str:
    """Return the value of ``-l select=``: several chunk kinds are joined by ``+``."""
    return "+".join(":".join(_words(chunk, job, site)) for chunk in chunks(job, site))


def _words(chunk: Chunk, job: JobSpec, site: Site) -> Iterator[str]:
    dialect, kind = site.pbs, chunk.group.gpu_type
    yield str(chunk.nodes)
    if dialect.cpus:
        yield f"ncpus={chunk.cpus}"
    yield f"mpiprocs={chunk.tasks}"
    if dialect.cpus and job.launch.mode == "once":
        # PBS would set OMP_NUM_THREADS to all CPUs of the chunk (tried); each task's shell sets it itself.
        yield f"ompthreads={chunk.threads}"
    if chunk.gpus and job.request.gpu_request != "none":
        yield f"{dialect.gpus}={chunk.gpus}"
        if dialect.gpu_type and kind:
            yield f"{dialect.gpu_type}={kind}"
    if chunk.memory is not None:
        yield f"mem={chunk.memory}mb"
    for name, value in dialect.chunk.items():
        yield f"{name}={str(value).lower() if isinstance(value, bool) else value}"
    yield from [text for text in re.split("[&:]", chunk.group.constraint or "") if text]


def totals(job: JobSpec, site: Site) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and field of each resource of the whole job."""
    parts = list(chunks(job, site))
    if site.pbs.cpus:
        yield "ncpus", str(sum(part.nodes * part.cpus for part in parts)), "cpus"
    gpus = sum(part.nodes * part.gpus for part in parts)
    if gpus and job.request.gpu_request != "none":
        yield site.pbs.gpus, str(gpus), "gpus"
    if all(part.memory is not None for part in parts):
        yield "mem", f"{sum(part.nodes * (part.memory or 0) for part in parts)}mb", "request_memory"


def chunk_problems(job: JobSpec, site: Site) -> Iterator[Problem]:
    """Yield what PBS would silently get wrong, and what no chunk can express."""
    if site.pbs.place == "pack" and job.placement.nodes > 1:
        message = (
            f"site {site.name} packs a job onto one host, and this one needs {job.placement.nodes} nodes"
        )
        yield Problem(message, REPLICAS, "write `pbs: {place: scatter}` in the site file")
    if any(chunk.cpus < max(1, chunk.tasks) for chunk in chunks(job, site)):
        message = "a task without its own CPU, which PBS would accept without a warning"
        yield Problem(message, ("environment", "resources", "cpu"), "ask for one CPU at least")
    if site.pbs.cpus:
        yield from _rule_problems(job, site)
    words = [list(_words(chunk, job, site))[1:] for chunk in chunks(job, site)]
    for message in dict.fromkeys(filter(None, map(chunk_word_problem, words))):
        hint = "write name=value, such as model=mil_a100, there or as `pbs.chunk` of the site file"
        yield Problem(message, ("batch", "constraint"), hint)
    if site.pbs.request == "totals":
        yield from _total_problems(job, site)


def _rule_problems(job: JobSpec, site: Site) -> Iterator[Problem]:
    """Yield a problem for nodes with more CPUs requested than the site gives with their GPUs."""
    for chunk in chunks(job, site):
        rule = cpus_per_gpu(chunk.group, site)
        if rule and chunk.cpus > rule * chunk.gpus:
            gpus = f"{chunk.gpus} GPU{'s' * (chunk.gpus != 1)}"
            message = (
                f"site {site.name} gives {rule} CPUs a GPU on {chunk.group.node_type} nodes: "
                f"{rule * chunk.gpus} with {gpus} a node, {chunk.cpus} asked"
            )
            yield Problem(message, ("environment", "resources", "cpu"), "ask for fewer CPUs, or more GPUs")
            return


def rounding_reason(job: JobSpec, site: Site) -> str | None:
    """Return why the request has more CPUs than the tasks, None where it has as many."""
    found = next((chunk.group for chunk in chunks(job, site) if chunk.cpus > chunk.used), None)
    if found is None:
        return None
    rule = f"node_types.{found.node_type}.cpus_per_gpu"
    return f"{cpus_per_gpu(found, site)} CPUs a GPU: site {site.name}: {rule}"


def _total_problems(job: JobSpec, site: Site) -> Iterator[Problem]:
    """Yield why totals do not fit: PBS spreads them, so several nodes must be equal and seem full.

    PBS accepts no ``place`` with them (``PBSE_PLACENOSELECT``).
    """
    if job.request.exclusive and site.pbs.exclusive != "none":
        message = f"site {site.name} takes totals of the whole job, with which PBS gives no node for itself"
        yield Problem(message, ("batch", "exclusive"), "remove it, or ask for all CPUs of the nodes")
    parts = list(chunks(job, site))
    if len(parts) > 1:
        message = f"site {site.name} takes totals of the whole job, and these nodes hold different tasks"
        yield Problem(message, REPLICAS, "give all replicas the same resources, as many on each node")
    elif parts[0].nodes > 1:
        node = site.node_types.get(parts[0].group.node_type or "")
        if node and node.cpus and parts[0].cpus < node.cpus:
            message = (
                f"site {site.name} takes totals of the whole job, so several nodes must be full: "
                f"they have {node.cpus} CPUs each, {parts[0].cpus} asked"
            )
            yield Problem(message, REPLICAS, "ask for all CPUs of the nodes, or for a job that fits on one")
    for group in job.placement.groups:
        if group.constraint:
            message = f"site {site.name} takes totals of the whole job, which have no constraints"
            yield Problem(message, ("batch", "constraint"), "remove it")


# --- Arrays, dependencies and mail as PBS's qsub writes them, and settings that PBS does not have
#
# Which forms it refuses was tried on an OpenPBS 23.06.

_MOST_ELEMENTS: Final = 10_000

_JOB: Final = re.compile(r"[0-9]+(?:\[\])?(?:\.[A-Za-z0-9-]+)*")
"""Not an element of an array: PBS refuses to wait for one (``parse_depend.c`` of openpbs/openpbs)."""
_KINDS: Final = ("after", "afterok", "afternotok", "afterany")


def _elements(array: ArraySpec) -> range | None:
    """Return the elements of an array, None where they are not evenly spaced."""
    ranges = [part.indices for part in array.ranges]
    if len(ranges) == 1:
        return ranges[0]
    if sum(map(len, ranges)) > _MOST_ELEMENTS:
        return range(_MOST_ELEMENTS + 1)
    numbers = sorted({number for part in ranges for number in part})
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    spaced = range(numbers[0], numbers[-1] + 1, step)
    return spaced if list(spaced) == numbers else None


def array(spec: ArraySpec | None) -> str | None:
    """Return the value of ``-J``; None for an array of one element, which PBS refuses."""
    elements = _elements(spec) if spec else None
    if spec is None or elements is None or len(elements) < 2:  # noqa: PLR2004 - PBS refuses -J 0-0
        return None
    step = f":{elements.step}" if elements.step > 1 else ""
    at_once = "" if spec.at_once is None else f"%{spec.at_once}"
    return f"{elements[0]}-{elements[-1]}{step}{at_once}"


def dependency(waits: Sequence[Dependency]) -> str:
    """Return the value of ``-W depend=``; a bare id waits for that job's success."""
    conditions = (condition for one in waits for condition in one.conditions)
    return ",".join(f"{wait.awaited}:{':'.join(map(str, wait.jobs))}" for wait in conditions)


def _can_wait(one: Dependency) -> bool:
    return len(one.alternatives) == 1 and all(
        wait.awaited in _KINDS and all(_JOB.fullmatch(str(job)) for job in wait.jobs)
        for wait in one.conditions
    )


_REFUSED: Final = {
    "elastic": (
        "PBS ends a job that loses a node, so it cannot continue without the node",
        "remove it, or choose another site with --site",
    ),
    "signal": (
        "PBS sends no signal before the time limit",
        "remove it: at the time limit PBS sends TERM, and KILL some seconds later",
    ),
    "qos": (
        "PBS has no QOS",
        "remove it; a site that has such a resource takes `directives: ['-l qos=NAME']`",
    ),
}


def option_problems(job: JobSpec) -> Iterator[Problem]:
    """Yield what PBS cannot express, each with its field."""
    yield from refused_keys(job, _REFUSED)
    if job.request.array is not None and job.request.requeue is False:
        message = "PBS takes no arrays whose elements may not run again"
        yield Problem(message, ("batch", "requeue"), "remove it")
    yield from _placement_problems(job)
    yield from _array_problems(job.request.array)
    for one in job.request.dependency:
        if not _can_wait(one):
            hint = (
                "write the id of a job or a whole array, or after:ID, afterok:ID, afternotok:ID, afterany:ID"
            )
            yield Problem(f"PBS cannot wait for {str(one)!r}", ("batch", "dependency"), hint)
    yield from mail_problems(job, "PBS")


def _placement_problems(job: JobSpec) -> Iterator[Problem]:
    groups = job.placement.groups
    queues = list(dict.fromkeys(group.partition for group in groups))
    if len(queues) > 1:
        names = " and ".join(name or "the default one" for name in queues)
        message = f"a PBS job is in one queue, and these replicas need {names}"
        yield Problem(message, ("batch", "partition"), "give all replicas what one queue offers")
    if job.request.gpu_request == "gpus_per_task" and any(group.gpus for group in groups):
        message = f"site {job.identity.site} asks for GPUs by task, and PBS counts them by chunk"
        yield Problem(
            message, ("environment", "replicas"), "set `gpus: {request: gpus_per_node}` in the site file"
        )


def _array_problems(array: ArraySpec | None) -> Iterator[Problem]:
    elements = _elements(array) if array else range(1)
    if elements is None:
        message = f"PBS takes elements at even distances, not {str(array)!r}"
        yield Problem(message, ("batch", "array"), "write 0-15 or 0-15:4, or submit several arrays")
    elif len(elements) > _MOST_ELEMENTS:
        message = f"PBS takes arrays of up to {_MOST_ELEMENTS} elements, not {str(array)!r}"
        yield Problem(message, ("batch", "array"), "submit several arrays")


_FIELDS: Final = flags.by_flag(flags.KEYS, "pbs") | {"-W umask": "pbs.umask"}
"""Flags that hpcdist writes itself, and the field to use instead."""

_RESERVED: Final = flags.by_flag(flags.RESERVED, "pbs") | {
    "-C": "its own lines begin with #PBS",
    "-I": "it submits batch jobs",
    "-X": "it submits batch jobs",
    "-d": "the job runs where it is submitted (and -d is Torque's)",
    "-k": "write `pbs: {keep: ...}` in the site file",
    "-t": "use `batch.array` (and -t is Torque's)",
}


def syntax_of(site: Site) -> DirectiveSyntax:
    """Return how directives are written, with the option that takes the account here."""
    return DirectiveSyntax(
        scheduler="PBS",
        form="write -q NAME, -l name=value or -W name=value",
        read=_read,
        fields={**_FIELDS, site.pbs.account: "batch.account"},
        reserved=_RESERVED,
        free=frozenset({"-W umask"}),
        value_problems=value_problems,
    )


def directives(job: PreparedJob, site: Site) -> tuple[Directive, ...]:
    """Return the lines of the job.

    Raises:
        PlanError: with everything that PBS or the site refuses, each naming its field.
    """
    problems = [*option_problems(job), *chunk_problems(job, site)]
    group = job.placement.groups[0]
    if problems:
        raise PlanError(*problems)
    cpus = group.origin.with_note(why) if (why := rounding_reason(job, site)) else group.origin
    origins = {"cpus": cpus, "nodes": cpus if site.pbs.cpus else group.origin}
    origins |= {name: Origin("site", site.name, f"pbs.{name}") for name in ("keep", "place", "umask")}
    own = own_directives(job, _lines(job, site), defaults=origins)
    return (*own, *added_directives(syntax_of(site), job, site, own, problems))


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

# Without a run directory PBS makes NAME.oNUMBER where the script is submitted. Any other folder must exist:
# PBS makes none, and a job waits long for its output to be delivered (tried).
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
    without_run_dir=None,
    is_array=lambda plan: any(line.flag == "-J" for line in plan.directives),
)
