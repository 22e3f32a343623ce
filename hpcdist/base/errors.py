"""The exit codes, the error tree, and the sentence that every error carries.

    HpcdistError
    ├── ConfigError      2   a file or an option is invalid
    ├── PlanError        3   the experiment does not fit the site
    ├── RenderError      4   a template and a plan do not match
    ├── SchedulerError   5   the batch system refused, failed or did not answer
    │   └── SubmissionUnknown   the job may exist: never submit again blindly
    ├── ServiceError    69   a server that is no batch system refused, failed or did not answer
    ├── JobFailed        1   a job ended without the result that was waited for
    ├── WaitTimeout    124   the jobs have not ended within the time that was given
    └── OutputError     74   standard output cannot be written; everything else was done

The number is the exit code of the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeVar, overload

from hpcdist.base.spelling import closest

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")

Path = tuple[str | int, ...]
"""Where a value sits in a file: ``("environment", "replicas", "worker", 0, "index")``."""


class Key(str):
    """A last step of a path that refers to the key itself, not its value: an unknown or ignored key."""

    __slots__ = ()


class Place(NamedTuple):
    """A position in a file; line and column count from 1, line 0 is the whole file (or an option)."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class Problem(NamedTuple):
    """One error, warning or note: what is wrong, where, and what to write instead (``hint``).

    ``word``: the word of a longer value that it is about; the place is then that word's.
    """

    message: str
    path: Path = ()
    hint: str = ""
    severity: Literal["error", "warning", "note"] = "error"
    place: Place | None = None
    word: str = ""

    def __str__(self) -> str:
        where = [str(self.place)] if self.place else []
        where += [dotted(self.path)] if self.path else []
        text = ": ".join([*where, self.message])
        return f"{text}; {self.hint}" if self.hint else text


def warning(message: str, path: Path = (), hint: str = "") -> Problem:
    """Return a problem that is not an error."""
    return Problem(message, path, hint, "warning")


class ExitCode(IntEnum):
    """Every exit code that the command line and job scripts set themselves."""

    OK = 0
    FAILED = 1
    CONFIG = 2
    PLAN = 3
    RENDER = 4
    SCHEDULER = 5
    SERVICE = 69
    FAULT = 70
    OUTPUT = 74
    NOT_OVER = 82
    PRUNED = 83
    NOT_RESUMED = 84
    NOT_STARTED = 85
    LAUNCH = 86
    TIMEOUT = 124
    INTERRUPTED = 130
    CLOSED_PIPE = 141
    TERMINATED = 143


EXIT_CODES: Final = {
    ExitCode.OK: "success; a job that was waited for has completed",
    ExitCode.FAILED: "a job did not complete, and has no exit code of its own",
    ExitCode.CONFIG: "the file, the site, your config or the command line is wrong",
    ExitCode.PLAN: ("the experiment does not fit the site; or `doctor` or `outputs --check` found a problem"),
    ExitCode.RENDER: "a template does not match the plan",
    ExitCode.SCHEDULER: "the batch system refused, failed or did not answer; or a job's end is unknown",
    ExitCode.SERVICE: "a server such as MLflow's refused, failed or did not answer (`EX_UNAVAILABLE`)",
    ExitCode.FAULT: "an internal error of hpcdist (`EX_SOFTWARE` of sysexits.h)",
    ExitCode.OUTPUT: "standard output cannot be written (`EX_IOERR`); everything else was done",
    ExitCode.NOT_OVER: (
        "a generation of a search by hyperband or bo has completed, and `sweep advance` submits the next one"
    ),
    ExitCode.PRUNED: "of a trial's program: a policy of the search ended it early",
    ExitCode.NOT_RESUMED: "`rehearse` found that the training does not go on as it has to; it printed why",
    ExitCode.NOT_STARTED: (
        "of a trial: it was not to start, as its search was stopped or is at one of its limits"
    ),
    ExitCode.LAUNCH: "of a job: it did not start as planned, or could not write; its log has the reason",
    ExitCode.TIMEOUT: "the jobs have not ended within `wait --timeout`, as of timeout(1)",
    ExitCode.INTERRUPTED: "Ctrl-C",
    ExitCode.CLOSED_PIPE: "the reader of standard output has exited, such as `head`",
    ExitCode.TERMINATED: (
        "of a job: it ran out of time, or its program was asked to end, and returned 0 or was killed"
    ),
}
"""The meaning of each exit code."""


class HpcdistError(Exception):
    """An error for the user, with its problems; never an internal error of hpcdist."""

    exit_code: ClassVar[int] = ExitCode.FAILED

    def __init__(self, *problems: Problem | str) -> None:
        self.problems = tuple(Problem(item) if isinstance(item, str) else item for item in problems)
        super().__init__("\n".join(map(str, self.problems)))


class ConfigError(HpcdistError):
    """A file or an option is invalid."""

    exit_code = ExitCode.CONFIG


class PlanError(HpcdistError):
    """The experiment does not fit the site."""

    exit_code = ExitCode.PLAN


class RenderError(HpcdistError):
    """A template and a plan do not match."""

    exit_code = ExitCode.RENDER


class SchedulerError(HpcdistError):
    """The batch system refused, failed or did not answer."""

    exit_code = ExitCode.SCHEDULER


class SubmissionUnknown(SchedulerError):  # noqa: N818 - the error is that it is unknown
    """A submission was sent, but no answer came back; the job may exist."""


class ServiceError(HpcdistError):
    """A server that is no batch system refused, failed or did not answer."""

    exit_code = ExitCode.SERVICE


class JobFailed(HpcdistError):  # noqa: N818 - as in concurrent.futures: what happened, not a mistake
    """A job ended without the result that was waited for."""

    exit_code = ExitCode.FAILED


class WaitTimeout(HpcdistError):  # noqa: N818 - as `TimeoutExpired` of subprocess
    """The jobs have not ended within the time that was given; they go on."""

    exit_code = ExitCode.TIMEOUT


class OutputError(HpcdistError):
    """Standard output cannot be written; everything else was done."""

    exit_code = ExitCode.OUTPUT


@contextmanager
def located(locate: Callable[[Problem], Problem]) -> Iterator[None]:
    """Add their places to the problems of errors that are raised inside."""
    try:
        yield
    except HpcdistError as error:
        raise type(error)(*map(locate, error.problems)) from error


@contextmanager
def preceded_by(problems: Sequence[Problem]) -> Iterator[None]:
    """Put these warnings and notes before the problems of errors that are raised inside."""
    try:
        yield
    except HpcdistError as error:
        if not problems:
            raise
        raise type(error)(*problems, *error.problems) from error


@overload
def independent(
    first: Callable[[], A], second: Callable[[], B], third: Callable[[], C], /
) -> tuple[A, B, C]: ...
@overload
def independent(
    first: Callable[[], A], second: Callable[[], B], third: Callable[[], C], fourth: Callable[[], D], /
) -> tuple[A, B, C, D]: ...
def independent(*steps: Callable[[], Any]) -> tuple[Any, ...]:
    """Run steps that do not depend on each other, and return their results.

    Raises:
        PlanError: with the problems of all steps that failed.
    """
    found: list[Any] = []
    problems: list[Problem] = []
    for step in steps:
        try:
            found.append(step())
        except PlanError as error:
            problems += error.problems
    if problems:
        raise PlanError(*problems)
    return tuple(found)


def dotted(path: Path) -> str:
    """Write a path as users write it: ``environment.replicas.worker[0].index``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


ALL_KNOWN: Final = "known: "
"""The beginning of a hint that names all choices, where no choice is close."""


def did_you_mean(word: str, choices: Iterable[str], most: int = 100, otherwise: str | None = None) -> str:
    """Return a hint: the closest choice, else ``otherwise``, by default all choices (``most`` at most)."""
    known = sorted(choices)
    near = closest(word, known)
    if near or otherwise is not None:
        return f"did you mean {near!r}?" if near else otherwise or ""
    return f"{ALL_KNOWN}{comma_list(known, most)}" if known else ""


def unknown(what: str, name: str, choices: Iterable[str], path: Path = ()) -> Problem:
    """Return the problem that nothing of this kind has this name; the hint names the closest."""
    return Problem(f"there is no {what} {name!r}", path, did_you_mean(name, choices))


def comma_list(names: Iterable[str], most: int = 4, size: int | None = None) -> str:
    """Join names with commas; of many, the first ones and the number of the others.

    ``size``: how many there are, where the names are only the first of them.
    """
    known = [*names]
    total = len(known) if size is None else size
    more = f" and {total - most} more" if total > most else ""
    return ", ".join(known[:most]) + more


def bytes_text(count: int, one: str = "bytes") -> str:
    """Return a number of bytes as a text: ``12.3 MiB``; below 1 KiB with the unit ``one``."""
    amount, unit = float(count), one
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1 << 10:
            break
        amount, unit = amount / (1 << 10), larger
    return f"{amount:.{0 if unit == one else 1}f} {unit}"


_UNITS: Final = (("w", 604800), ("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def span_text(seconds: float) -> str:
    """Return a duration in its largest unit: ``3d``; of a time in the future ``0s``."""
    whole = max(0, int(seconds))
    return next((f"{whole // unit}{name}" for name, unit in _UNITS if whole >= unit), "0s")


def errors_in(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return the problems that are errors."""
    return tuple(problem for problem in problems if problem.severity == "error")
