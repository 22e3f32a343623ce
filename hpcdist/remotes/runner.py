"""Running commands on a remote, in whose paths the run directories here stand for those there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from hpcdist.errors import Problem, SchedulerError, SubmissionUnknown
from hpcdist.host.command import Command, Completed
from hpcdist.remotes import channel, failures, program
from hpcdist.remotes.channel import Channel, Section
from hpcdist.remotes.failures import Unreachable
from hpcdist.runs.rundir import Run
from hpcdist.schedulers.common import line_of

_CLAIM: Final = ".submit-"
_LATER: Final = 10.0
"""Seconds that a command has less than its session, so that it ends there, and that is known here."""

_FOUND: Final = """[ -n "$(type -P "$1")" ] && exec "$@"; exec bash -lc 'exec "$@"' hpcdist "$@\""""
"""Runs its words, in a login shell where their program is found by that alone."""

VOID: Final = "void"
"""In place of an exit code: the submission was given up before the batch system was called."""

_STARTED: Final = f"{channel.COMPLETED}|claimed |unwritten "


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
                self.lines(command), command.timeout + _LATER, channel.COMPLETED, needs([command])
            )
        except Unreachable as error:
            return Completed(command, 255, stderr=str(error))
        return channel.completed(sections, [command])[0]

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
            raise SchedulerError(failures.unwritten(self.name, words["unwritten"]))
        if words.get("err") == VOID:
            raise SchedulerError(Problem(f"{run.name} was given up by another `hpcdist submit`"))
        if "claimed" in words:
            message = f"the batch system of {self.name} was called, and has not answered yet"
            raise SubmissionUnknown(Problem(message))
        return channel.completed(sections, [command])[0]

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
