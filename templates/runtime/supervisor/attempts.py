"""The files of a run's attempts, below ``attempts/``; of an element of an array below ``attempts/ELEMENT/``.

N           when attempt N begins: the job, its start and try, and its id as the batch system knows it
N.why       at its end: why it ended
N.steps     the highest step of each tracked metric so far, and its name
N.idle      how many in a row, N the last, left nothing new
N.saved     when the next one begins: when the checkpoints changed last, in seconds since 1970
end         the place of the next file on the disk, which may be full by then
over        the exit code of the last attempt, and why there is no other
first       the first attempt since `hpcdist resume`, which writes it
"""

import os
import re
import time
from typing import IO, Callable, List, Optional

from . import progress, restarts
from .batch import System
from .events import plain_id
from .restarts import Ended, Next
from .start import Failed, Start, append, say, unwritten

Clock = Callable[[], float]

_BYTES = 512
_WRITTEN = 5.0
"""Seconds after which the owner's line of an attempt that has begun is there."""

_ENDING = 120.0
"""Seconds in which an earlier job may end."""

_PAUSE = 5.0


class Attempts:
    """The attempts of the program of a start's job, of which this start may begin some."""

    def __init__(
        self, start: Start, sleep: Callable[[float], None] = time.sleep, clock: Clock = time.monotonic
    ) -> None:
        self.start = start
        self.folder = start.job.file("attempts", *filter(None, [start.trial]))
        self._sleep = sleep
        self._clock = clock

    def path(self, name: object) -> str:
        """Return the path of a file of theirs."""
        return os.path.join(self.folder, str(name))

    def count(self) -> int:
        """Return how many have begun, which is the number of the next one."""
        number = 0
        while os.path.exists(self.path(number)):
            number += 1
        return number

    @property
    def first(self) -> int:
        """The first one since the run was resumed."""
        return progress.number(self.path("first")) or 0

    def ended(self, code: int, why: str) -> Ended:
        """Return the end of this start's attempt."""
        return Ended(self.start.attempt, self.first, code, why)

    # --- It begins

    def announcement(self) -> str:
        """Return the line that tells `hpcdist logs --attempt` where the next one begins; empty for none."""
        number = self.count()
        if number == 0 or os.path.exists(self.path("over")):
            return ""
        return f"attempt {number} begins (job {self.start.id})"

    def begin(self, system: System) -> int:
        """Record that the next one begins, and return its number.

        Raises:
            Failed: if that cannot be recorded, or another job of the run is alive.
        """
        has_policy = self.start.job.policy is not None
        try:
            self._make_folder()
            if has_policy:
                self._reserve()
            number, words = self.count(), (self.start.id, self.start.place, system.own_id())
            while not _create(self.path(number), f"{' '.join(words)}\n"):  # another job has at this moment
                if has_policy:
                    self.check_owner(number, system)
                number += 1
        except OSError as error:
            raise unwritten(self.start.job.run, error) from error
        if number:
            self._record_saved(number - 1)
        return number

    def _make_folder(self) -> None:
        mask = os.umask(0o077)
        try:
            os.makedirs(self.folder, exist_ok=True)
        finally:
            os.umask(mask)

    def _reserve(self) -> None:
        path = self.path("end")
        if not os.path.exists(path) or os.path.getsize(path) == 0:
            with open(path, "wb") as stream:
                stream.write(b" " * _BYTES)

    def _record_saved(self, number: int) -> None:
        """Write when the checkpoints changed last before the next one: how much an attempt lost."""
        changed = [status.st_mtime_ns for _, status in progress.files(self.start.checkpoints)]
        text = b"%d.%09d0\n" % divmod(max(changed), 10**9) if changed else b""
        progress.record(self.path(f"{number}.saved"), text)

    # --- It has ended

    def record_why(self, why: str) -> None:
        """Write why this start's attempt ended."""
        progress.record(self.path(f"{self.start.attempt}.why"), f"{why}\n".encode())

    def over(self, code: int, reason: str) -> None:
        """Record that there is no further attempt, and why; as far as a full disk permits."""
        word = restarts.word(reason)
        if word == "timeout":
            self._log("timeout")
        text = "".join(char if char.isprintable() else "?" for char in f"{code} {reason}")
        try:
            self._reserve()
            with open(self.path("end"), "r+b") as stream:
                _write(stream, text.encode()[: _BYTES - 1].ljust(_BYTES - 1) + b"\n")
            os.replace(self.path("end"), self.path("over"))
        except OSError:
            say(f"cannot write {self.path('over')}; is the disk full?")
        self._log("over", word)
        if code:
            say(f"there is no further attempt: {reason}")

    def _log(self, what: str, value: object = 0, job: str = "") -> None:
        events = self.start.job.file("events")
        try:
            append(events, f"{what} {job or self.start.id} {int(time.time())} {value}\n")
        except OSError as error:
            say(f"cannot write to {events}: {error.strerror or error}")

    # --- Whether this start may begin one

    def may_begin(
        self, system: System, blame: Callable[[List[str]], None], *, stop_file: bool
    ) -> Optional[int]:
        """Return None if another attempt may begin, else the exit code of this start.

        An earlier one may have been the last, or have been killed before it could say so. ``blame``: records
        which of these nodes of such a one are down.

        Raises:
            Failed: if another job of the run is alive.
        """
        found = re.match("([0-9]{1,3}) (.*)", progress.line(self.path("over")))
        if found:
            return self._after_last(int(found.group(1)), found.group(2))
        if os.path.exists(self.start.job.file("cancelled")):  # `hpcdist cancel` did not know of this job yet
            say("the run was cancelled, so that no attempt begins")
            self._log("cancelled")
            return restarts.TERMINATED
        number = self.count() - 1
        if number < 0:
            return None
        nodes = self._nodes_of_killed(number)
        if nodes:
            blame(nodes)
        self.check_owner(number, system)
        last = self._was_last(number, stop_file)
        if last is None:
            return None
        self.over(restarts.LAUNCH, last.reason)
        return restarts.LAUNCH

    def _after_last(self, code: int, reason: str) -> int:
        """Log that nothing is left to do, and the last end if its script was killed before it could."""
        say(f"nothing is left to do: the last attempt was over ({reason})")
        job, _, _ = self._claim(self.count() - 1)
        over = {event.job_id for event in self.start.events() if event.what == "over"}
        if job and plain_id(job) not in over:
            self._log("over", restarts.word(reason), job)
        self._log("skipped")
        return code

    def _was_last(self, number: int, stop_file: bool) -> Optional[Next]:
        """Return that an attempt was the last, by what is known of its end; None if it was not."""
        policy, first = self.start.job.policy, self.first
        if policy is None or number < first:
            return None
        said = progress.line(self.path(f"{number}.why"))
        ended = Ended(number, first, restarts.LAUNCH, "timeout" if said == "timeout" else "lost")
        return restarts.of_killed(policy, said) or restarts.by_count(
            policy, ended, progress.idle(self.start, self.folder, ended), stop_file=stop_file
        )

    def _nodes_of_killed(self, number: int) -> List[str]:
        """Return the nodes of an attempt whose script was killed before it could say how it ended."""
        job, place, _ = self._claim(number)
        if not place or os.path.exists(self.path(f"{number}.why")):
            return []
        path = self.start.job.file("jobs", job, f"nodes.{place.partition('.')[0]}")
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as stream:
                return stream.read().split()
        except OSError:
            return []

    def check_owner(self, number: int, system: System) -> None:
        """Wait until the job of an attempt is gone, by the batch system's word; it may be ending.

        Two attempts at once would write the same checkpoints. That word is needed neither in a chain, of
        which each job begins when the one before has ended, nor after `hpcdist resume`.

        Raises:
            Failed: if the job is alive, or nobody says whether it is.
        """
        began, policy = self._clock(), self.start.job.policy
        job, _, own = self._claim(number)
        while not job and self._clock() - began <= _WRITTEN:
            self._sleep(1.0)  # it is being written
            job, _, own = self._claim(number)
        needs_word = number >= self.first and not (policy and policy.by == restarts.FOLLOW)
        while job not in ("", self.start.id):
            lives = system.lives(own or job)
            if not lives and (lives is False or not needs_word):
                return
            if self._clock() - began >= _ENDING:
                raise Failed(_of_owner(job, is_known=lives is not None))
            self._sleep(_PAUSE)

    def _claim(self, number: int) -> List[str]:
        """Return an attempt's job, its start and try, and its id for the batch system; else empty words."""
        return [*progress.line(self.path(number)).split(None, 2), "", "", ""][:3]


def _of_owner(job: str, *, is_known: bool) -> str:
    """Return why no attempt begins beside that of another job."""
    harm, go_on = "would write the same checkpoints", "go on by `hpcdist resume`"
    if is_known:
        return f"job {job} of this run is alive, and {harm}; cancel it, then {go_on}"
    return f"nobody says whether job {job} of this run is alive, which {harm}; when it has ended, {go_on}"


def _create(path: str, text: str) -> bool:
    """Write a file, and return True, unless it is there already; what cannot be written is removed."""
    try:
        with open(path, "xb") as stream:
            try:
                _write(stream, text.encode("utf-8", "surrogateescape"))
            except OSError:
                os.unlink(path)
                raise
    except FileExistsError:
        return False
    return True


def _write(stream: IO[bytes], data: bytes) -> None:
    stream.write(data)
    stream.flush()
    os.fsync(stream.fileno())
