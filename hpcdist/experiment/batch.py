"""The section ``batch``: settings of the batch job, and its texts in Slurm's syntax.

Arrays, signals and dependencies are each parsed once, into a frozen value whose ``str`` is Slurm's syntax
again; schedulers get the value. Source: sbatch(1), ``--array``, ``--signal``, ``--dependency``, and "filename
pattern".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ClassVar, Final, Literal

import msgspec

from hpcdist.base.errors import Path, Problem, did_you_mean
from hpcdist.base.fields import Model
from hpcdist.base.units import Memory, Walltime

# --- The section ``batch``

OF_BATCH: Final = "write it in `batch`"
_RESOURCES: Final = "write `environment.resources`, the resources of one replica"
_DIRECTIVES: Final = "write it in `directives`, in the scheduler's syntax"
_OF_REPLICAS: Final = "write it in `environment.replicas`"


class Mail(Model, frozen=True):
    """Mail from the scheduler.

    ``user``: an address, or the name of a user of the machine (sbatch(1), ``--mail-user``). ``events``:
    ``begin``, ``end``, ``fail``, ``requeue``, ``all`` and others of Slurm.
    """

    user: str
    events: tuple[str, ...] = ("end", "fail")


class LauncherChoice(Model, frozen=True):
    """The launcher, and further arguments for it.

    ``name``: the launcher, by default the site's. ``args``: further arguments, after hpcdist's own.
    """

    name: str | None = None
    args: tuple[str, ...] = ()


class Batch(Model, frozen=True):
    """Settings of the batch job; keys that are absent come from the site."""

    elsewhere: ClassVar[Mapping[str, str]] = {
        "queue": "write `partition`",
        "project": "write `account`",
        **dict.fromkeys(("time", "time_limit", "timeout"), "write `walltime`"),
        **dict.fromkeys(("reservation", "filesystems", "alloc_flags"), _DIRECTIVES),
        **dict.fromkeys(("tasks", "ntasks", "n_workers", "per_node"), _OF_REPLICAS),
        **dict.fromkeys(("tasks_per_node", "ntasks_per_node"), "write `environment.replicas.per_node`"),
        **dict.fromkeys(("cpu", "cpus", "memory", "mem", "gpu", "gpus"), _RESOURCES),
        **dict.fromkeys(("env", "env_vars"), "write `environment.env_vars`"),
        "image": "write it in `build`",
        **dict.fromkeys(("log", "log_file", "stdout"), "write `output`"),
        "stderr": "write `error`",
        **dict.fromkeys(("name", "job_name"), "write `name` at the top of the file"),
    }

    site: str | None = None
    """The machine."""
    account: str | None = None
    """The account that is charged."""
    partition: str | None = None
    """The partition or queue."""
    qos: str | None = None
    """The quality of service."""
    walltime: Walltime | None = None
    """The time limit of the job."""
    constraint: str | None = None
    """The constraint on its nodes, in the scheduler's syntax."""
    nodes: int | None = None
    """The number of its nodes, over which its replicas are distributed evenly; by default the fewest that
    hold them."""
    exclusive: bool | None = None
    """No other job runs on its nodes; in Slurm it gets all their memory where replicas set none."""
    launcher: LauncherChoice | str | None = None
    """The program that starts the tasks: a name, or keys."""
    dependency: str | tuple[str, ...] = ()
    """The jobs that it waits for: an id or a run, ``afterok:ID:RUN/3``, ``singleton`` and others."""
    array: str | int | None = None
    """The indices of a job array: ``0-15``, ``0-15:4``, ``1,3,5``, with ``%4`` to run at most 4 at once."""
    signal: str | None = None
    """The signal that the program gets before the time limit, and how many seconds before: ``USR1@120``."""
    requeue: bool | None = None
    """The job may be requeued after a node failure."""
    kill_on_failure: bool | None = None
    """If false, the other tasks continue when one fails, and the job fails at its end."""
    output: str | None = None
    """The file of its output, instead of one in its run (``logs/%x-%j.out``; ``%j`` is the job's id, ``%A``
    its array's, ``%a`` its element, ``%x`` its name, ``%u`` the user), whose folder is made."""
    error: str | None = None
    """The same for standard error, which then is apart."""
    mail: str | Mail | None = None
    """An address or the name of a user, or keys."""
    directives: tuple[str, ...] = ()
    """Further directives, in the scheduler's syntax."""
    exclude_nodes: tuple[str, ...] = ()
    """Names of nodes that the job must not get (not PBS)."""
    exclude_bad_nodes: bool | None = None
    """Suspect nodes are excluded, too (`doctor --nodes`); default: as in ``environment.restart``, if any."""
    gpu_visibility: Literal["task", "node"] | None = None
    """Whether a task sees its own GPUs or all GPUs of the job on its node; the default depends on the
    framework."""
    container: bool | None = None
    """If false, the image of ``build`` is not used (``--no-container``)."""
    modules: tuple[str, ...] = ()
    """The modules that the job loads, in order, after the site's; ``-NAME`` unloads one, ``purge``
    all, the site's among them, and ``reset`` all but the machine's default ones."""
    spack_env: str | None = None
    """The Spack environment that it activates after the modules: a name, or the path of its folder, beginning
    with ``/`` or ``.``."""
    code: Literal["here", "snapshot", "git"] | None = None
    """What the job runs: ``here``, the submit directory as it is when the job starts; ``snapshot``, a copy
    made by `submit`; ``git``, a commit: of ``build.git`` with ``build.commit`` or ``build.branch``, else the
    last one of the submit directory."""
    max_code_size: Memory | None = None
    """The largest snapshot, by default ``100Mi``."""
    pack: bool | None = None
    """The trials of a search share nodes, each on its own part of one, and the next begins where one ends; by
    default where jobs get whole nodes and several trials fit on one, and where the batch system has no
    arrays."""
    budget: float | None = None
    """The GPU-hours that it may take; no trial of a search starts that might exceed them, and any other job
    is refused whose cost may."""
    max_gpu_hours: float | None = None
    """The most GPU-hours that the job may take if all its elements, trials and attempts run to their time
    limit; one that may take more is refused."""

    @property
    def launcher_name(self) -> str | None:
        """The launcher that is set, if one is."""
        return self.launcher.name if isinstance(self.launcher, LauncherChoice) else self.launcher

    @property
    def launcher_args(self) -> tuple[str, ...]:
        """Further arguments of the launcher, after hpcdist's own."""
        return self.launcher.args if isinstance(self.launcher, LauncherChoice) else ()


# --- Arrays, signals and dependencies, parsed once

MOST_ELEMENTS: Final = 4_000_000
"""The largest index of an array that Slurm can be configured for (slurm.conf(5), MaxArraySize)."""

_NUMBER: Final = r"\d{1,18}"
"""At most 18 digits, so that a range has a length (``sys.maxsize``)."""
_LONG: Final = re.compile(r"\d{19,}", re.ASCII)
_RANGE: Final = rf"{_NUMBER}(?:-{_NUMBER}(?::[1-9]\d{{0,17}})?)?"
_ARRAY: Final = re.compile(rf"({_RANGE}(?:,{_RANGE})*)(?:%({_NUMBER}))?", re.ASCII)

FORWARDED: Final = {"TERM": 15, "INT": 2, "HUP": 1, "USR1": 10, "USR2": 12}
"""The signals that the job script forwards to the program; any other ends the script."""
_SIGNALS: Final = frozenset(
    (*FORWARDED, "QUIT", "ABRT", "KILL", "ALRM", "URG", "CONT", "STOP", "TSTP", "TTIN", "TTOU")
)
_SIGNAL: Final = re.compile(r"(?:(?P<options>[BR]+):)?(?P<name>\w{1,18})(?:@(?P<seconds>\d{1,5}))?", re.ASCII)

_FLUX_JOB: Final = "[f\u0192][1-9A-HJ-NP-Za-km-z]{4,11}"
_PBS_JOB: Final = r"\d+(?:\[\d*\])?(?:\.[A-Za-z0-9-]+)*"
_RUN: Final = r"[A-Za-z0-9_][A-Za-z0-9_-]*-\d{1,9}(?:/[A-Za-z0-9_-]+){0,2}"
"""The name of a run, of an element or trial of it (``tune-1/3``), or of a pipeline's operation."""
_IS_RUN: Final = re.compile(_RUN, re.ASCII)
_ID: Final = rf"(?P<number>\d+)(?:_(?P<element>\d+|\*))?|(?P<run>{_RUN})"
_JOB: Final = re.compile(rf"(?:{_ID})(?:\+(?P<delay>{_NUMBER}))?|{_FLUX_JOB}|{_PBS_JOB}", re.ASCII)
_KINDS: Final = ("after", "afterany", "afterok", "afternotok", "aftercorr", "afterburstbuffer")


class IndexRange(msgspec.Struct, frozen=True):
    """Indices with a fixed step: ``0-15:4``, ``0-15``, or a single one, which has no ``last``."""

    first: int
    last: int | None = None
    step: int | None = None

    def __str__(self) -> str:
        last = "" if self.last is None else f"-{self.last}"
        return f"{self.first}{last}" if self.step is None else f"{self.first}{last}:{self.step}"

    @property
    def indices(self) -> range:
        """The indices themselves."""
        return range(self.first, (self.first if self.last is None else self.last) + 1, self.step or 1)


class ArraySpec(msgspec.Struct, frozen=True):
    """The elements of a job array, and how many of them may run at once (None: all)."""

    ranges: tuple[IndexRange, ...]
    at_once: int | None = None

    @classmethod
    def parse(cls, text: str) -> ArraySpec:
        """Read ``7``, ``0-15``, ``0-15:4``, ``1,3,5-7``, each with ``%4`` to run at most 4 at once.

        Raises:
            ValueError: when it is not a job array.
        """
        match = _ARRAY.fullmatch(text)
        parts = match[1].split(",") if match else []
        ranges = tuple(IndexRange(*map(int, re.split("[-:]", part))) for part in parts)
        if not match or not all(part.indices for part in ranges):
            raise ValueError(f"{text!r} is not a job array")
        return cls(ranges, int(match[2]) if match[2] else None)

    def __str__(self) -> str:
        return self.indices if self.at_once is None else f"{self.indices}%{self.at_once}"

    @property
    def indices(self) -> str:
        """Its elements as Slurm's text, without how many run at once."""
        return ",".join(map(str, self.ranges))

    @property
    def size(self) -> int:
        """How many elements it has."""
        return sum(len(part.indices) for part in self.ranges)

    @property
    def largest(self) -> int:
        """The largest index."""
        return max(part.indices[-1] for part in self.ranges)

    @property
    def only_index(self) -> int | None:
        """The index of its only element, as often as that is written; None where there are several."""
        smallest = min(part.first for part in self.ranges)
        return smallest if smallest == self.largest else None


class SignalSpec(msgspec.Struct, frozen=True):
    """The signal that a job gets before its end: ``B:USR1@120``."""

    name: str
    """As it was written, which may be a number."""
    seconds: int | None = None
    """How long before, None for Slurm's 60."""
    options: str = ""
    """``B`` for the job script alone, ``R`` for jobs of a reservation, or both."""

    @classmethod
    def parse(cls, text: str) -> SignalSpec:
        """Read ``USR1``, ``B:USR1@120``, ``10@60``; whether the signal exists is not checked.

        Raises:
            ValueError: when it is not a signal.
        """
        match = _SIGNAL.fullmatch(text)
        if not match:
            raise ValueError(f"{text!r} is not a signal")
        return cls(match["name"], int(match["seconds"]) if match["seconds"] else None, match["options"] or "")

    def __str__(self) -> str:
        return f"{self.options}:{self.of_tasks}" if self.options else self.of_tasks

    @property
    def of_tasks(self) -> str:
        """It without options: ``USR1@120``."""
        return self.name if self.seconds is None else f"{self.name}@{self.seconds}"

    @property
    def plain_name(self) -> str:
        """Its name in capitals and without ``SIG``, or its number."""
        return self.name.upper().removeprefix("SIG")


class AwaitedJob(msgspec.Struct, frozen=True):
    """A job in a dependency: ``12``, ``12_3``, ``12_*``, ``12+5``, an id of Flux or PBS, or a run's name."""

    id: str
    element: str | None = None
    """Which one of an array, ``*`` for each."""
    delay: int | None = None
    """Minutes after its start."""

    def __str__(self) -> str:
        element = "" if self.element is None else f"_{self.element}"
        return f"{self.id}{element}" if self.delay is None else f"{self.id}{element}+{self.delay}"

    @property
    def is_run(self) -> bool:
        """Whether it is named by its run, whose jobs are looked up when the plan is made."""
        return _IS_RUN.fullmatch(self.id) is not None


class WaitCondition(msgspec.Struct, frozen=True):
    """``afterok:12:13``, ``12`` (which has no kind), or ``singleton`` (which has no jobs)."""

    kind: str | None = None
    jobs: tuple[AwaitedJob, ...] = ()

    def __str__(self) -> str:
        return ":".join([*([self.kind] if self.kind else []), *map(str, self.jobs)])

    @property
    def awaited(self) -> str:
        """Its kind; ids without a kind mean ``afterok``."""
        return self.kind or "afterok"


class Dependency(msgspec.Struct, frozen=True):
    """What a job waits for: all conditions of one of the alternatives."""

    alternatives: tuple[tuple[WaitCondition, ...], ...]

    @classmethod
    def parse(cls, text: str) -> Dependency:
        """Read ``4711``, ``afterok:4711:train-1``, ``after:4711+5``, ``singleton``; ``,``: and, ``?``: or.

        Raises:
            ValueError: when it is not a dependency.
        """
        alternatives = [[_condition(part) for part in one.split(",")] for one in text.split("?")]
        found = tuple(tuple(part for part in one if part) for one in alternatives)
        if [*map(len, found)] != [*map(len, alternatives)]:
            raise ValueError(f"{text!r} is not a dependency")
        return cls(found)

    def __str__(self) -> str:
        return self.written(str)

    @property
    def conditions(self) -> tuple[WaitCondition, ...]:
        """The conditions of all alternatives."""
        return tuple(condition for conditions in self.alternatives for condition in conditions)

    def written(self, condition: Callable[[WaitCondition], str]) -> str:
        """Return it in Slurm's syntax, with each condition formatted by this function."""
        return "?".join(",".join(map(condition, conditions)) for conditions in self.alternatives)


def _condition(text: str) -> WaitCondition | None:
    if text == "singleton":
        return WaitCondition(text)
    kind, colon, ids = text.partition(":")
    known = bool(colon) and kind in _KINDS
    matches = [_JOB.fullmatch(one) for one in (ids if known else text).split(":")]
    jobs = tuple(_job(match) for match in matches if match)
    return WaitCondition(kind if known else None, jobs) if len(jobs) == len(matches) else None


def _job(match: re.Match[str]) -> AwaitedJob:
    delay = int(match["delay"]) if match["delay"] else None
    return AwaitedJob(match["number"] or match["run"] or match[0], match["element"], delay)


def array_problems(text: str, path: Path) -> Iterator[Problem]:
    """Yield the problems of an array."""
    try:
        array = ArraySpec.parse(_LONG.sub("9" * 18, text))
    except ValueError:
        yield Problem(f"{text!r} is not a job array", path, "write 0-15, 0-15:4, 1,3,5 or 0-15%4")
        return
    if max(array.size, array.largest, array.at_once or 0) > MOST_ELEMENTS:
        hint = "submit several arrays, or do more work in each element"
        yield Problem(f"no batch system accepts so many elements, or such indices: {text!r}", path, hint)


def array_ranges(text: str) -> list[range]:
    """Return the indices of an array; empty for a text that is not an array."""
    try:
        return [part.indices for part in ArraySpec.parse(text).ranges]
    except ValueError:
        return []


def signal_problems(text: str, path: Path) -> Iterator[Problem]:
    """Yield the problems of a signal."""
    try:
        signal = SignalSpec.parse(text)
    except ValueError as error:
        yield Problem(str(error), path, "write NAME@SECONDS, such as USR1@120 or B:TERM@60")
        return
    name = signal.plain_name
    if not (0 < int(name) <= 64 if name.isdecimal() else name in _SIGNALS):  # noqa: PLR2004 - SIGRTMAX
        yield Problem(f"there is no signal {signal.name!r}", path, did_you_mean(name, _SIGNALS))
    elif "B" in signal.options and name not in {*FORWARDED, *map(str, FORWARDED.values())}:
        hint = f"with `B:`, use a signal that it forwards: {', '.join(FORWARDED)}"
        yield Problem(f"{signal.name} would end the job script", path, hint)


def dependency_problems(texts: Iterable[str], path: Path) -> Iterator[Problem]:
    """Yield the problems of dependencies."""
    for text in texts:
        try:
            Dependency.parse(text)
        except ValueError as error:
            yield Problem(str(error), path, "write an id or a run, afterok:ID:ID or singleton")


# --- The job's own log files

_PLACEHOLDER: Final = re.compile(r"%\d*(.?)")
_KNOWN_PLACEHOLDERS: Final = frozenset("jAaxu")
"""The job's id (of an element ``12_3``), the array's, the element, the name of the job, the user."""


def with_job_name(pattern: str, name: str) -> str:
    """Return a pattern with the name of the job in it; the script fills in the others when it runs."""
    return pattern.replace("%x", name)


def log_file_problems(batch: Batch, *, is_array: bool) -> Iterator[Problem]:
    """Yield what is wrong with the log files of a job; ``is_array``: it has elements, or trials."""
    for key, pattern in (("output", batch.output), ("error", batch.error)):
        if pattern is not None:
            yield from _log_file_problems(pattern, ("batch", key), is_array=is_array)
    if batch.output is not None and batch.output == batch.error:
        yield Problem("it is the file of `output`", ("batch", "error"), "remove it: both then go there")


def _log_file_problems(pattern: str, path: Path, *, is_array: bool) -> Iterator[Problem]:
    found = [match.group() for match in _PLACEHOLDER.finditer(pattern)]
    unknown = [text for text in found if text[1:] not in _KNOWN_PLACEHOLDERS]
    if not pattern.strip() or not pattern.isprintable() or pattern.endswith("/"):
        yield Problem(f"{pattern!r} is not the path of a file", path, "write a path such as `logs/%x-%j.out`")
    elif pattern.startswith("~") or "$" in pattern:
        yield Problem(f"variables and ~ are not expanded in {pattern!r}", path, "write the path itself")
    elif unknown:
        hint = "write %j (the job), %A (its array), %a (its element), %x (its name) or %u (the user)"
        yield Problem(f"{unknown[0]!r} in a log file's name is not supported", path, hint)
    elif is_array and not {"%j", "%a"} & {*found}:
        yield Problem("the elements of an array would write to one file", path, "write %a or %j in its name")
    elif not is_array and "%a" in found:
        yield Problem("'%a' is the element of an array, and the job has none", path, "remove it")
