"""One round trip: a program goes to a remote, and the sections that it printed come back."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from hpcdist.errors import Problem
from hpcdist.host.command import Command, Completed
from hpcdist.remotes import answers, failures, program
from hpcdist.remotes.answers import Incomplete, Malformed, Section
from hpcdist.remotes.connection import Connection
from hpcdist.remotes.failures import Unreachable

_PAUSES: Final = (0.5, 2.0, 5.0)
"""Seconds before a request is sent again whose answer was cut off."""

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

        A session that ssh lost is begun again, so what the lines do must be done once at most by itself.
        ``order``: as `answers.read`; ``needs``: as `program.request`; ``most``: bytes of the answer.

        Raises:
            Unreachable: if no complete answer in this order came.
        """
        pauses = [*_PAUSES]
        while True:
            sent = program.request(lines, needs)
            done, output = self._session(sent, timeout, data, most)
            try:
                return answers.read(output, sent.mark, order)
            except Malformed as error:
                raise self.malformed(str(error)) from error
            except Incomplete as error:
                if done.returncode != _SSH_FAILED or not pauses:
                    raise Unreachable(self._problem(done, error)) from error
            self.connection.sleep(pauses.pop(0))

    def malformed(self, where: str) -> Unreachable:
        """Return the error of an answer in another form than what was asked for."""
        return Unreachable(failures.malformed(self.connection.name, self.connection.host, where))

    def _session(
        self, sent: program.Request, timeout: float, data: Path | None, most: int
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
                raise Unreachable(failures.endless(self.connection.name, most))
            return done, stdout.read_bytes() if stdout.exists() else b""

    def _problem(self, done: Completed, error: Incomplete) -> Problem:
        name, host = self.connection.name, self.connection.host
        if done.timed_out:
            return failures.slow(name, done.command.timeout)
        if error.began and done.returncode != _SSH_FAILED:
            return failures.broken(name, done.returncode, done.stderr)
        return failures.no_answer(name, host, done.returncode, done.stderr, error.printed)
