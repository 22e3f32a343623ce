"""The exit codes, the error tree, and the sentence that every error carries.

    HpcdistError
    ├── ConfigError      2   a file or an option says something that cannot be meant
    ├── PlanError        3   what is asked does not fit what the site offers
    ├── RenderError      4   a template and a plan do not match
    ├── SchedulerError   5   the batch system refused, failed or did not answer
    │   └── SubmissionUnknown   whether the job exists is not known: never submit again blindly
    └── OutputError     74   what was to be printed cannot be written; the rest was done

The number is the exit code of the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, ClassVar, Final, Literal, NamedTuple, TypeVar, cast

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

Path = tuple[str | int, ...]
"""Where a value sits in a file: ``("environment", "replicas", "worker", 0, "index")``."""


class Key(str):
    """The last step of a path that means the key itself, not its value: an unknown or an ignored key."""

    __slots__ = ()


class Place(NamedTuple):
    """A position in a file; line and column count from 1, line 0 is the whole file (or an option)."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class Problem(NamedTuple):
    """One thing that is wrong (or odd), told so that a tired user can mend it.

    ``word``: what it is about within a value of several lines or words, which is where its place is then.
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
    """Return what is odd and yet no error."""
    return Problem(message, path, hint, "warning")


class ExitCode(IntEnum):
    """Every exit code of the command line and of job scripts that is not a program's own."""

    OK = 0
    FAILED = 1
    CONFIG = 2
    PLAN = 3
    RENDER = 4
    SCHEDULER = 5
    FAULT = 70
    OUTPUT = 74
    LAUNCH = 86
    TIMEOUT = 124
    INTERRUPTED = 130
    CLOSED_PIPE = 141
    TERMINATED = 143


EXIT_CODES: Final = {
    ExitCode.OK: "all is well; a job that was waited for has completed",
    ExitCode.FAILED: "a job did not complete, and has no exit code of its own",
    ExitCode.CONFIG: "the file, the site, your config or the command line is wrong",
    ExitCode.PLAN: "the experiment does not fit the site; or `doctor` or `lint-env` found something odd",
    ExitCode.RENDER: "a template does not match the plan",
    ExitCode.SCHEDULER: "the batch system refused, failed or did not answer; or nobody knows how a job ended",
    ExitCode.FAULT: "a fault of hpcdist (`EX_SOFTWARE` of sysexits.h)",
    ExitCode.OUTPUT: "standard output cannot be written (`EX_IOERR`); everything else was done",
    ExitCode.LAUNCH: "of a job: it did not start as planned, or could not write; its log has the reason",
    ExitCode.TIMEOUT: "the jobs are not over after `wait --timeout`, as of timeout(1)",
    ExitCode.INTERRUPTED: "Ctrl-C",
    ExitCode.CLOSED_PIPE: "whoever read standard output has ended, such as `head`",
    ExitCode.TERMINATED: "of a job: its program was told to end, and returned 0 or was ended",
}
"""What each of them means."""


class HpcdistError(Exception):
    """Anything that hpcdist says to its user; never a fault of hpcdist itself."""

    exit_code: ClassVar[int] = ExitCode.FAILED

    def __init__(self, *problems: Problem | str) -> None:
        self.problems = tuple(Problem(item) if isinstance(item, str) else item for item in problems)
        super().__init__("\n".join(map(str, self.problems)))


class ConfigError(HpcdistError):
    """A file or an option says something that cannot be meant."""

    exit_code = ExitCode.CONFIG


class PlanError(HpcdistError):
    """What is asked does not fit what the site offers."""

    exit_code = ExitCode.PLAN


class RenderError(HpcdistError):
    """A template and a plan do not match."""

    exit_code = ExitCode.RENDER


class SchedulerError(HpcdistError):
    """The batch system refused, failed or did not answer."""

    exit_code = ExitCode.SCHEDULER


class SubmissionUnknown(SchedulerError):  # noqa: N818 - that it is unknown is the error
    """A submission was sent and no answer came; the job may exist."""


class OutputError(HpcdistError):
    """Standard output cannot be written; everything else was done."""

    exit_code = ExitCode.OUTPUT


@contextmanager
def located(locate: Callable[[Problem], Problem]) -> Iterator[None]:
    """Give the problems of what is raised inside their places."""
    try:
        yield
    except HpcdistError as error:
        raise type(error)(*map(locate, error.problems)) from error


@contextmanager
def preceded_by(problems: Sequence[Problem]) -> Iterator[None]:
    """Put what was found so far, warnings and notes, before the problems of what is raised inside."""
    try:
        yield
    except HpcdistError as error:
        if not problems:
            raise
        raise type(error)(*problems, *error.problems) from error


def independent(first: Callable[[], A], second: Callable[[], B], third: Callable[[], C]) -> tuple[A, B, C]:
    """Return what these steps return, none of which needs another.

    Raises:
        PlanError: with the problems of all of them.
    """
    found: list[Any] = []
    problems: list[Problem] = []
    for step in (first, second, third):
        try:
            found.append(step())
        except PlanError as error:
            problems += error.problems
    if problems:
        raise PlanError(*problems)
    return cast("tuple[A, B, C]", tuple(found))


def dotted(path: Path) -> str:
    """Write a path as users write it: ``environment.replicas.worker[0].index``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def did_you_mean(word: str, choices: Iterable[str], most: int = 100) -> str:
    """Return a hint: the nearest choice, else all of them (so many at most), else nothing."""
    import difflib  # for those who are told something only

    known = sorted(choices)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known: {listed(known, most)}" if known else ""


def unknown(what: str, name: str, choices: Iterable[str], path: Path = ()) -> Problem:
    """Return the problem that nothing of this sort has this name; the hint names the nearest."""
    return Problem(f"there is no {what} {name!r}", path, did_you_mean(name, choices))


def listed(names: Iterable[str], most: int = 4) -> str:
    """Write names with commas; of many, the first ones and how many more there are."""
    known = [*names]
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more


def errors_in(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return the problems that stop the work; the others are warnings."""
    return tuple(problem for problem in problems if problem.severity == "error")
