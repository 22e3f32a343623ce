"""One round trip: a program goes to a remote, and the sections that it printed come back."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.base.command import Command, Completed, Runner
from hpcdist.base.errors import Problem, SchedulerError, SubmissionUnknown
from hpcdist.runs.remotes import connection, program
from hpcdist.runs.remotes.connection import Connection, Unreachable
from hpcdist.runs.rundir import Run
from hpcdist.schedulers.answers import line_of

# --- What a remote has answered: sections after a random word, whatever its login shell prints before

_NOT_FOUND: Final = 127
"""The exit code of a shell for a program that is not there."""

_KILLED: Final = 137
"""The exit code of a command killed there, as after its timeout."""

_MOST: Final = 1 << 20
"""Sections of one answer."""

_NUMBER: Final = "[0-9]{1,18}"
_CODE: Final = "[0-9]{1,3}|void"
_HEADS: Final = {
    "now": "[0-9]{1,10}|%s",  # a date without %s prints it
    "file": f"(?:{_NUMBER} ){{4}}[^\\0\\n]+",
    "gone": f"(?:{_NUMBER})?",
    "claimed": f"(?:{_NUMBER})?",
    "answer": f"{_NUMBER} (?:{_CODE})?",
    "errors": _NUMBER,
    "err": _CODE,
    "folder": r"[0-9]{1,9} /[^\0]*",
}
"""The words of the heads of sections, as ``templates/remote.sh`` prints them."""

_ANY: Final = r"[^\0]*"


class Section(NamedTuple):
    """One section: its kind, the words of its head, and its contents."""

    kind: str
    words: str
    data: bytes

    @property
    def text(self) -> str:
        """The contents as text."""
        return self.data.decode("utf-8", "backslashreplace")

    @property
    def run(self) -> int:
        """The number of the section's run; -1 where the head has none."""
        number = self.words.partition(" ")[0]
        return int(number) if number else -1


class Incomplete(ValueError):  # noqa: N818 - what it is
    """The answer has no beginning or no end: ``began`` is whether the program ran at all."""

    def __init__(self, printed: bytes, *, began: bool) -> None:
        super().__init__("incomplete answer")
        self.printed = printed.decode("utf-8", "backslashreplace")
        self.began = began


class Malformed(ValueError):  # noqa: N818 - what it is
    """The answer is not in the form that was asked for."""


def read(output: bytes, mark: str, order: str = _ANY) -> list[Section]:
    """Return the sections between the beginning and the end.

    ``order``: a pattern of the kinds of all sections, each with a space behind it.

    Raises:
        Incomplete: if the beginning or the end is missing.
        Malformed: if a head or the order is wrong; with the wrong text.
    """
    sections = _read(output, mark)
    kinds = "".join(f"{section.kind} " for section in sections)
    if not re.fullmatch(order, kinds):
        raise Malformed(kinds.strip())
    return sections


def _read(output: bytes, mark: str) -> list[Section]:
    begin = f"\n{mark} begin\n".encode()
    _, found, rest = (b"\n" + output).partition(begin)
    if not found:
        raise Incomplete(output, began=False)
    sections: list[Section] = []
    for section in _sections(b"\n" + rest, f"\n{mark} ".encode()):
        if section.kind == "end":
            return sections
        if len(sections) >= _MOST:
            raise Malformed(f"more than {_MOST} sections")
        sections.append(section)
    raise Incomplete(output, began=True)


def _sections(rest: bytes, mark: bytes) -> Iterator[Section]:
    """Yield each section; one of a file has the length that its head names."""
    position = rest.find(mark)
    while position >= 0:
        end = rest.find(b"\n", position + len(mark))
        if end < 0:
            return
        kind, _, words = rest[position + len(mark) : end].decode("utf-8", "surrogateescape").partition(" ")
        if not re.fullmatch(_HEADS.get(kind, _ANY), words):
            raise Malformed(f"{kind} {words}")
        start = end + 1
        position = rest.find(mark, end if kind != "file" else start + _length(words))
        if kind == "file" and position != start + _length(words):
            return
        yield Section(kind, words, rest[start : position if position >= 0 else len(rest)])


def _length(words: str) -> int:
    """Return the bytes of a file's part: its head is the run, the offset, the length, the size, the name."""
    return int(words.split(" ", 3)[2])


COMPLETED: Final = "out err "
"""The order of the sections of one command."""


def completed(sections: Sequence[Section], commands: Sequence[Command]) -> list[Completed]:
    """Return the results of these commands, which each printed ``COMPLETED``."""
    texts = [section for section in sections if section.kind in {"out", "err"}]
    pairs = zip(texts[::2], texts[1::2], strict=True)
    return [
        completed_one(command, out.text, int(err.words), err.text)
        for command, (out, err) in zip(commands, pairs, strict=True)
    ]


def completed_one(command: Command, out: str, code: int, err: str) -> Completed:
    """Return the result of a command; one that was killed there counts as timed out."""
    return Completed(command, code, out, err, timed_out=code == _KILLED, missing=code == _NOT_FOUND)


class AnsweredRunner(NamedTuple):
    """A runner with known answers; other commands are run by ``runner``."""

    known: Sequence[Completed]
    runner: Runner

    def run(self, command: Command) -> Completed:
        """Return the answer to the command, or to one that asked for more jobs."""
        for done in self.known:
            if covers(done.command, command):
                return done._replace(command=command)
        return self.runner.run(command)


def covers(known: Command, asked: Command) -> bool:
    """Return whether one command's answer includes another's, which names fewer jobs."""
    return _fixed(known) == _fixed(asked) and _words(asked) <= _words(known)


def _fixed(command: Command) -> tuple[str, frozenset[str]]:
    """Return the program and its options: ``-M CLUSTER`` names other jobs by the same numbers."""
    return command.argv[0], frozenset(word for word in command.argv if word.startswith("-"))


def _words(command: Command) -> frozenset[str]:
    return frozenset(part for word in command.argv for part in word.split(","))


# --- One round trip

_PAUSES: Final = (0.5, 2.0, 5.0)
"""Seconds before a request with a cut-off answer is sent again."""

MOST: Final = 1 << 27
"""Bytes of an answer."""

_SSH_FAILED: Final = 255
"""The exit code of ssh for its own failures (ssh(1))."""


class Channel(NamedTuple):
    """Sends requests over a connection."""

    connection: Connection

    def call(  # noqa: PLR0913, PLR0917 - what is sent, and what may come back
        self,
        lines: Sequence[str],
        timeout: float,
        order: str,
        needs: Sequence[str] = (),
        data: Path | None = None,
        most: int = MOST,
    ) -> list[Section]:
        """Run these lines there and return what they printed; the data follow them on stdin.

        A session that ssh lost is repeated, so the lines themselves must act once at most. ``order``: as
        `read`; ``needs``: as `program.request`; ``most``: bytes of the answer.

        Raises:
            Unreachable: if no complete answer in this order came.
        """
        pauses = [*_PAUSES]
        while True:
            sent = program.request(lines, needs)
            done, output = self._session(sent, timeout, data, most)
            try:
                return read(output, sent.mark, order)
            except Malformed as error:
                raise self.malformed(str(error)) from error
            except Incomplete as error:
                if done.returncode != _SSH_FAILED or not pauses:
                    raise Unreachable(self._problem(done, error)) from error
            self.connection.sleep(pauses.pop(0))

    def malformed(self, where: str) -> Unreachable:
        """Return the error for an answer not in the form that was asked for."""
        return Unreachable(connection.malformed(self.connection.name, self.connection.host, where))

    def _session(
        self, sent: program.RemoteProgram, timeout: float, data: Path | None, most: int
    ) -> tuple[Completed, bytes]:
        with tempfile.TemporaryDirectory(prefix="hpcdist-") as folder:
            stdin, stdout = Path(folder, "in"), Path(folder, "out")
            with stdin.open("wb") as file:
                file.write(program.encoded(sent.text))
                if data:
                    with data.open("rb") as rest:
                        shutil.copyfileobj(rest, file)
            command = Command(
                (), stdin=stdin, stdout=stdout, timeout=timeout, keep_environment=("LC_ALL",), most=most
            )
            done = self.connection.session(sent.line, command)
            if stdout.exists() and stdout.stat().st_size > most:
                raise Unreachable(connection.endless(self.connection.name, most))
            return done, stdout.read_bytes() if stdout.exists() else b""

    def _problem(self, done: Completed, error: Incomplete) -> Problem:
        name, host = self.connection.name, self.connection.host
        if done.timed_out:
            return connection.slow(name, done.command.timeout)
        if error.began and done.returncode != _SSH_FAILED:
            return connection.broken(name, done.returncode, done.stderr)
        return connection.no_answer(name, host, done.returncode, done.stderr, error.printed)


# --- Running commands on a remote, with paths of run directories here mapped to paths there

_CLAIM: Final = ".submit-"
_LATER: Final = 10.0
"""Seconds by which a session outlasts its command, so that a timeout there is known here."""

_FOUND: Final = """[ -n "$(type -P "$1")" ] && exec "$@"; exec bash -lc 'exec "$@"' hpcdist "$@\""""
"""Runs its words, in a login shell if only that finds their program."""

VOID: Final = "void"
"""In place of an exit code: the submission was given up before the batch system was called."""

_STARTED: Final = f"{COMPLETED}|claimed |unwritten "


class RemoteRunner(NamedTuple):
    """Runs commands on a remote.

    ``roots``: pairs of a folder here and the one there. ``python`` and ``trusted``: as in the config.
    """

    channel: Channel
    roots: tuple[tuple[str, str], ...] = ()
    python: str = ""
    trusted: bool = False

    @property
    def name(self) -> str:
        """The remote's name."""
        return self.channel.connection.name

    def run(self, command: Command) -> Completed:
        """Run the command there; without an answer, it fails with the reason."""
        try:
            sections = self.channel.call(
                self.lines(command), command.timeout + _LATER, COMPLETED, needs([command])
            )
        except Unreachable as error:
            return Completed(command, 255, stderr=str(error))
        return completed(sections, [command])[0]

    def attach(self, command: Command, *, terminal: bool) -> int:
        """Run the command there with this process's own input, output and terminal; return its exit code.

        Raises:
            Unreachable: if it was not run.
        """
        moved = self.there(command)
        variables = [f"{name}={value}" for name, value in moved.environment]
        words = ["env", *variables, "bash", "-c", _FOUND, "hpcdist", *moved.argv]
        return self.channel.connection.attach(line_of(words), terminal=terminal)

    def start(self, run: Run, command: Command) -> Completed:
        """Run the command that submits a run, once however often this is called.

        Raises:
            SchedulerError: if it was certainly not run.
            SubmissionUnknown: if its answer did not come.
        """
        moved = self.there(command)
        if moved.cwd == command.cwd:  # a folder of this machine
            moved = moved._replace(cwd=run.record.there)
        once = program.call("hpcdist_once", claim(run), "hpcdist_command")
        try:
            lines = [program.command(moved, self.python), once]
            sections = self.channel.call(lines, command.timeout + _LATER, _STARTED, needs([command]))
        except Unreachable as error:
            raise SubmissionUnknown(*error.problems) from error
        return self._started(run, command, sections)

    def _started(self, run: Run, command: Command, sections: Sequence[Section]) -> Completed:
        words = {section.kind: section.words for section in sections}
        if "unwritten" in words:
            raise SchedulerError(connection.unwritten(self.name, words["unwritten"]))
        if words.get("err") == VOID:
            raise SchedulerError(Problem(f"{run.name} was given up by another `hpcdist submit`"))
        if "claimed" in words:
            message = f"the batch system of {self.name} was called, and has not answered yet"
            raise SubmissionUnknown(Problem(message))
        return completed(sections, [command])[0]

    def lines(self, command: Command) -> list[str]:
        """Return the lines of a program that run the command."""
        return [program.command(self.there(command)), "hpcdist_run hpcdist_command"]

    def there(self, command: Command) -> Command:
        """Return the command with the paths of run directories as they are there."""
        return command._replace(
            argv=tuple(map(self._path, command.argv)),
            cwd=self._path(command.cwd),
            environment=tuple((name, self._path(value)) for name, value in command.environment),
        )

    def _path(self, word: str) -> str:
        for here, there in self.roots:
            if word == here or word.startswith(f"{here}/"):
                return f"{there}{word[len(here) :]}"
        return word


def claim(run: Run) -> str:
    """Return the folder there that whoever submits the run's job makes first."""
    return f"{run.record.there}/{_CLAIM}{run.record.token}"


def needs(commands: Sequence[Command]) -> list[str]:
    """Return the lines that try a login shell where a program of these commands is not found."""
    return [program.call("hpcdist_need", name) for name in dict.fromkeys(one.argv[0] for one in commands)]
