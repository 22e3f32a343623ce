"""The program of an experiment: its command and steps, data for each node, and restarts."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from hpcdist.base.errors import Path, Problem
from hpcdist.base.fields import Model
from hpcdist.base.units import Walltime
from hpcdist.base.words import join_commands
from hpcdist.experiment.batch import FORWARDED, Batch

MOST_COUNT: Final = 1_000_000
"""More replicas, processes or restarts than this are a typing error."""


# --- The section ``run``


class Run(Model, frozen=True):
    """The program: a command, or the entrypoint of the image."""

    main = "cmd"
    may_be_empty = frozenset({"cmd", "args"})

    cmd: str | tuple[str, ...] | None = None
    """The command, one text, or several joined by ``&&``: what bash runs in each task, with ``{{ param }}``
    replaced; an ``mpirun``, ``srun`` or ``horovodrun`` line in it runs once, on the first node."""
    entrypoint: Literal["image"] | None = None
    """``image`` starts the ENTRYPOINT of the image of ``build`` instead of a command."""
    args: str | dict[str, str] | None = None
    """Arguments instead of the image's CMD, as bash reads them (``--lr 0.1 --rank $HPCDIST_RANK``), or those
    of each role: ``{master: ..., worker: ...}``."""
    workdir: str | None = None
    """The folder of the image in which the program starts, by default the submit directory."""
    prepare: Step | None = None
    """A step before the program, which does not run if this step fails."""
    finish: Step | None = None
    """A step after the program; it runs whatever happened (``$HPCDIST_EXIT_CODE``)."""
    beside: tuple[Beside, ...] = ()
    """Programs that run next to the tasks."""

    @property
    def steps(self) -> tuple[tuple[Path, Step | Beside], ...]:
        """The steps before, after and next to the program, each with its path in this section."""
        ends = ((("prepare",), self.prepare), (("finish",), self.finish))
        beside = ((("beside", index), one) for index, one in enumerate(self.beside))
        return (*((path, step) for path, step in ends if step), *beside)

    @property
    def starts_entrypoint(self) -> bool:
        """Whether the image's entrypoint is the program."""
        return self.cmd is None and self.entrypoint is not None

    @property
    def command(self) -> str:
        """The text that bash runs, as it was written; of an entrypoint, ``$@`` is what starts it."""
        if self.cmd is None:
            return _starting(self.args)
        return self.cmd if isinstance(self.cmd, str) else join_commands(self.cmd)


def by_role(commands: Mapping[str, str], other: str = "") -> str:
    """Return a command that runs the one of its task's role; ``other`` is for roles that are not listed."""
    return choosing("$HPCDIST_ROLE", commands, other)


def choosing(word: str, commands: Mapping[str, str], other: str = "") -> str:
    """Return a command that runs the first whose pattern a word of bash matches, else ``other``."""
    patterns_by_text: dict[str, list[str]] = {}
    for pattern, text in (*commands.items(), *([("*", other)] if other else [])):
        patterns_by_text.setdefault(text, []).append(pattern)
    branches = [f"{' | '.join(names)})\n{text.rstrip()}\n;;" for text, names in patterns_by_text.items()]
    return "\n".join([f"case {word} in", *branches, "esac"])


def _starting(args: str | dict[str, str] | None) -> str:
    if isinstance(args, dict):
        return by_role({role: _starting(text) for role, text in args.items()}, _starting(None))
    return " ".join(filter(None, ('"$@"', args)))


# --- Data that is copied to each node

_ARCHIVES: Final = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".zip")
_NO_NAMES: Final = frozenset(("", ".", ".."))


class Step(Model, frozen=True):
    """A step before or after the program.

    ``cmd``: its command, one text, or several joined by ``&&``, which bash runs outside of a container.
    ``per``: ``job`` runs it once, where the script runs; ``node`` once on each node.
    """

    main = "cmd"

    cmd: str | tuple[str, ...]
    per: Literal["job", "node"] = "job"

    @property
    def command(self) -> str:
        """The text that bash runs."""
        return self.cmd if isinstance(self.cmd, str) else join_commands(self.cmd)


class Beside(Model, frozen=True):
    """A program that runs next to the tasks and is ended with them.

    ``cmd``: its command, as of a step. ``on``: ``last_node``, or ``each_node`` for one on each, which it
    shares with the tasks; ``own_node`` for a further node that has no tasks.
    """

    main = "cmd"

    cmd: str | tuple[str, ...]
    on: Literal["last_node", "each_node", "own_node"] = "last_node"

    @property
    def command(self) -> str:
        """The text that bash runs."""
        return self.cmd if isinstance(self.cmd, str) else join_commands(self.cmd)


class Stage(Model, frozen=True, rename={"source": "from"}):
    """A file or folder that is copied to each node before the program runs."""

    source: str
    """Its path on the shared file system."""
    to: str = "node_local"
    """``node_local``, the folder ``$HPCDIST_STAGE`` on a local disk of each node, which is removed at the
    end; or the path of a folder there, which stays."""
    unpack: bool = False
    """It is an archive of tar or zip, which is unpacked there."""

    @property
    def name(self) -> str:
        """The last part of its path, its name in the folder of each node."""
        return self.source.rstrip("/").rpartition("/")[2]

    @property
    def place(self) -> tuple[str, str]:
        """The folder, and what the user finds there: of an archive, a folder of its name is expected."""
        suffix = next((suffix for suffix in _ARCHIVES if self.unpack and self.name.endswith(suffix)), "")
        return posixpath.normpath(self.to), self.name.removesuffix(suffix)


def stage_problems(stage: tuple[Stage, ...]) -> Iterator[Problem]:
    """Yield what is wrong with data for each node."""
    first: dict[tuple[str, str], str] = {}
    for index, item in enumerate(stage):
        yield from _stage_problems(item, ("stage", index))
        folder, name = item.place
        if item.place in first:
            message = f"{first[item.place]!r} and {item.source!r} would both be {name!r} in {folder}"
            yield Problem(message, ("stage", index), "rename one, or write another `to`")
        first.setdefault(item.place, item.source)


def _stage_problems(item: Stage, path: Path) -> Iterator[Problem]:
    for key, text in (("from", item.source), ("to", item.to)):
        if "$" in text or text.startswith("~") or not text.isprintable() or not text:
            yield Problem(
                f"variables and ~ are not expanded in {text!r}", (*path, key), "write the path itself"
            )
    if item.source and item.name in _NO_NAMES:
        hint = "write a path that ends with its name, such as /proj/data"
        yield Problem(f"{item.source!r} has no name for its copy", (*path, "from"), hint)
    if item.to != "node_local" and not item.to.startswith("/"):
        yield Problem(f"{item.to!r} is not an absolute path", (*path, "to"), "write `node_local`, or /PATH")
    elif ".." in item.to.split("/") or posixpath.normpath(item.to).strip("/") == "":
        hint = "write a folder for this data, such as /scratch/data"
        yield Problem(f"{item.to!r} is no folder for data", (*path, "to"), hint)
    if item.unpack and not item.source.endswith(_ARCHIVES):
        hint = f"remove it, or name an archive: {', '.join(_ARCHIVES)}"
        yield Problem(f"{item.source!r} is not an archive", (*path, "unpack"), hint)


# --- Restarts: after which ends the program is started again

End = Literal["timeout", "preempt", "node_failure", "failure"]
_RESTART: Final[Path] = ("environment", "restart")
_MOST_JOBS: Final = 1000
_USUAL_NOTICE: Final = 300
_EXIT_CODES: Final = range(1, 256)


class Restart(Model, frozen=True):
    """When the program is started again, until it ends with exit code 0.

    Each run of it is an attempt, which finds the checkpoints of the earlier ones in ``HPCDIST_CHECKPOINTS``.
    """

    main = "max"

    on: tuple[End, ...] = ("timeout", "preempt", "node_failure", "failure")
    """The ends after which another attempt starts: the time limit, the loss of the nodes to a more important
    job, the loss of a node, and a failure of the program."""
    max: int = 10
    """How many attempts there may be after the first."""
    notice: Walltime | None = None
    """How long before the time limit the program gets a signal to save its state; by default five minutes,
    and no more than a quarter of the time."""
    signal: str | None = None
    """The signal of the notice; by default TERM where torchrun starts the program and for packed trials,
    else USR1."""
    no_progress: int = 3
    """After so many attempts in a row without progress there is no further one; 0 for any number. Progress is
    a tracked step that no earlier attempt had reached; of a program that tracks none, a new file in the
    checkpoints, or in the outputs without any."""
    stop_on_exit: tuple[int, ...] = ()
    """Exit codes of the program after which there is no further attempt."""
    stop_file: str | None = None
    """A file in the job's folder; if it exists, there is no further attempt."""
    spare_nodes: int = 0
    """Further nodes of the job, which take the place of lost ones."""
    exclude_bad_nodes: bool = True
    """A node that was lost, or on which the first task to fail was twice, is left out of later attempts for
    days, as far as the batch system can; so are suspect ones (`doctor --nodes`) from the first attempt on."""
    by: Literal["requeue", "follow"] | None = None
    """``requeue`` puts the same job into the queue again, ``follow`` submits all its followers at once,
    which wait for each other; by default as the batch system and the site permit."""

    def notice_in(self, walltime: Walltime | None) -> int:
        """Return the seconds of the notice in a job with this time limit."""
        if self.notice is not None:
            return self.notice.seconds
        return min(_USUAL_NOTICE, walltime.seconds // 4) if walltime else _USUAL_NOTICE


def restart_problems(
    restart: Restart, batch: Batch, *, is_search: bool, has_number: bool
) -> Iterator[Problem]:
    """Yield the problems of the restarts, each with its path.

    ``has_number``: the experiment has ``max_restarts``, too.
    """
    for name, least, most in (
        ("max", 0, _MOST_JOBS),
        ("no_progress", 0, MOST_COUNT),
        ("spare_nodes", 0, MOST_COUNT),
    ):
        if not least <= (number := getattr(restart, name)) <= most:
            hint = f"write a number from {least} to {most}"
            yield Problem(f"{number} is out of range", (*_RESTART, name), hint)
    for place, code in enumerate(restart.stop_on_exit):
        if code not in _EXIT_CODES:
            hint = "write codes from 1 to 255; after 0 there is never another attempt"
            yield Problem(f"{code} is no exit code of a failure", (*_RESTART, "stop_on_exit", place), hint)
    if restart.signal is not None and restart.signal not in FORWARDED:
        hint = f"write one of {', '.join(FORWARDED)}"
        yield Problem(f"{restart.signal!r} does not reach the program", (*_RESTART, "signal"), hint)
    if not (restart.stop_file or "").isprintable():
        hint = "write a name of printable characters on one line"
        yield Problem(f"{restart.stop_file!r} is no name of a file", (*_RESTART, "stop_file"), hint)
    if not restart.on:
        hint = "name ends, or remove `restart`"
        yield Problem(
            "there is no further attempt after any end", (*_RESTART, "on"), hint, severity="warning"
        )
    if has_number:
        hint = "remove it: `restart: {max: ...}` counts all attempts"
        yield Problem("`restart` has a number of its own", ("environment", "max_restarts"), hint)
    yield from _with_jobs(restart, batch, is_search=is_search)


def _with_jobs(restart: Restart, batch: Batch, *, is_search: bool) -> Iterator[Problem]:
    if batch.requeue is False and restart.by == "requeue":
        yield Problem("the job may not be requeued", ("batch", "requeue"), "remove it, or write `by: follow`")
    if batch.pack:
        yield from packed_restart_problems(restart)
    if restart.by == "follow" and (batch.array is not None or is_search):
        yield Problem("elements of an array have no followers", (*_RESTART, "by"), "write `by: requeue`")


def packed_restart_problems(restart: Restart) -> Iterator[Problem]:
    """Yield what restarts of trials that share the nodes of a job cannot do."""
    each = "write `batch: {pack: false}` where the batch system has arrays"
    if restart.stop_file is not None:
        hint = "remove it; `hpcdist sweep stop` ends a search"
        yield Problem("packed trials have no file that ends them", (*_RESTART, "stop_file"), hint)
    if restart.spare_nodes:
        hint = f"remove it, or {each}: other jobs take the trials of a lost node"
        yield Problem("packed trials have no spare nodes", (*_RESTART, "spare_nodes"), hint)
    if restart.signal not in {None, "TERM"}:
        hint = f"write `signal: TERM`, or {each}"
        yield Problem("the time limit of packed trials is announced by TERM", (*_RESTART, "signal"), hint)
