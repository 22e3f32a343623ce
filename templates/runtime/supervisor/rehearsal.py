"""A rehearsal (hpcdist rehearse): attempts are ended on purpose, and what they leave is recorded.

RUN/rehearsal/N has what was seen of attempt N, each line with the milliseconds since 1970, by this host:
  begin MS TRACKING KIND  the attempt, its folder in tracking/, and how it is to be ended; `last` by nobody
  files MS                the checkpoints as they were then: lines behind it, + INODE BYTES CHANGED BORN PATH
  end_by MS KIND NODE RANK   what ended it, from here on; RANK is - for all of a node, and for the signal
  untried MS KIND NODE    there was nothing to end, or no way to it
  enough MS               the last attempt has shown what it can
  end MS CODE             the program ended
  read MS INODE CHANGED PATH   a checkpoint that it read, where `seen MS yes` says that this shows
"""

import os
import random
import sys
import time
from contextlib import suppress
from subprocess import DEVNULL, PIPE, Popen, run
from typing import Callable, Generator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .clock import END, KILL, NOTICE
from .job import Policy
from .start import Start, say, unwritten

OnNode = Callable[[str, int, Sequence[str]], List[str]]
"""`System.on_node`."""

Answer = Callable[[bool], Optional[Sequence[str]]]
"""Returns the node and the ranks that were ended; None while that goes on. True: it is not awaited."""

Course = Generator[None, None, bool]
"""A part of an attempt, which goes on with the next tick where it yields."""

_QUIET = 1000
"""Milliseconds without a change after which another checkpoint begins."""

# Most file systems write down the first reading after a day (relatime). Python does not tell when a file was
# born.
_READ = ("-newerat", "1 day ago", "-exec", "stat", "-c", "%i %.Y %n", "{}", "+")
_FORGET = ("-exec", "touch", "-ca", "-d", "2 days ago", "{}", "+")
_FIND = (
    "-type",
    "f",
    "(",
    *_READ,
    *_FORGET,
    ",",
    "-exec",
    "stat",
    "-c",
    "+ %i %s %.Y %.W %n",
    "{}",
    "+",
    ")",
)
_TRY = 'echo >"$1" && touch -ad "2 days ago" "$1" && cat "$1" >&2; find "$1" -newerat "1 day ago"; rm -f "$1"'


class Look(NamedTuple):
    """The files of the checkpoints, and those that were read since the look before, as lines have them."""

    files: Tuple[str, ...]
    read: Tuple[str, ...]


class Hands(NamedTuple):
    """What a rehearsal sees and does.

    ``kill`` ends ranks, by the kind of end, a node's number and a seed. ``ring`` does what is due, as
    `Clock.due` returns it at a real limit. ``clock`` has seconds.
    """

    look: Callable[[], Look]
    kill: Callable[[str, int, int], Answer]
    ring: Callable[[str], None]
    alive: Callable[[], bool]
    clock: Callable[[], float]


class Known(NamedTuple):
    """When the first attempt began, and how long it took to a checkpoint or 0, in milliseconds."""

    began: int
    first: int


def plan(policy: Policy, seconds: int, number: int, now: int, known: Known) -> Tuple[str, int]:
    """Return how an attempt of a job is to be ended, and until when its first checkpoint is awaited.

    Of the time that is left each end gets the same part, the first one half of it; there are as many ends as
    there is time for.
    """
    kinds = policy.rehearsal.split()[1:]
    left = known.began + (seconds - 60) * 1000 - now
    kind = kinds[number] if number < len(kinds) and left > 2 * known.first else "last"
    left -= policy.notice * 1000 if kind == "notice" else 0
    return kind, now + max(known.first, left // (max(1, len(kinds) - number + 1) if number else 2))


class Rehearsal:
    """One attempt, whose script has just begun."""

    def __init__(self, start: Start, policy: Policy, hands: Hands) -> None:
        self._start, self._hands, self._notice = start, hands, policy.notice
        self._files = hands.look().files
        self._now = self._began = self._time()
        self._random = random.Random(int(policy.rehearsal.split()[0]) + start.attempt)  # noqa: S311 - of moments
        known = Known(self._number("0", 1, self._now), self._number("first", 0, 0))
        self._kind, self._until = plan(policy, start.job.walltime or 0, start.attempt, self._now, known)
        self._first: Optional[int] = None
        self._changed = self._started = -_QUIET  # the last change, and the begin of the last writing
        self._took = self._interval = 0  # of the writing before, and from one to the next, as far as is known
        self._killing = self._has_ended = False
        self._course = self._all()
        self._record("begin", f"{start.id}/{start.place}", self._kind)
        self._record_files()

    def tick(self) -> None:
        """Look at the checkpoints, and do what is due."""
        if self._killing or self._hands.alive():
            self._look()
            next(self._course, None)

    def end(self, status: int, *, told: bool) -> Tuple[int, bool]:
        """Record the end of the program; return the job's exit code, and whether an attempt follows."""
        while self._killing:
            self.tick()
            time.sleep(0.1)
        self._look()
        self._record("end", status)
        file = os.path.join(self._start.checkpoints, f".hpcdist-{os.getpid()}")
        words = ("bash", "-c", _TRY, "-", file)
        done = run(words, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, check=False)
        self._record("seen", "yes" if done.stdout else "no")
        if self._kind == "last" and self._has_ended and not told:
            say("the rehearsal is over")
            return 0, False
        return status, self._has_ended and status != 0 and not told

    def _all(self) -> Course:
        yield from self._await_moment()
        last, node = len(self._start.nodes) - 1, 0
        if self._kind == "last":
            self._record("enough")
        elif self._kind == "write":
            yield from self._await_writing()
        elif self._kind == "node":
            node = int(self._random.random() * (last + 1))
        elif self._kind == "rank" and last:
            node = 1 + int(self._random.random() * last)  # `write` was on the first one
        if self._kind not in ("last", "notice") and (yield from self._kill(node)):
            yield from self._wait(60)
        return (yield from self._end_as_at_limit())

    def _await_moment(self) -> Course:
        """Wait for the first checkpoint, and then for a part of the time to the next one.

        That is as long, as far as anybody knows, as from the start to the first, until the second is there.
        """
        while self._first is None or not (self._rests or self._now - self._first >= 3 * _QUIET):
            if self._now >= self._until:
                return False
            yield
        if self._start.attempt == 0:
            self._write("first", f"{self._first - self._began + _QUIET}\n")
        self._interval = max(0, min(self._first - self._began, self._until - self._now))
        part, second = self._random.random(), self._first
        moment = self._now + (0 if self._kind == "last" else int(part * self._interval))
        while self._now < moment:
            yield
            if second == self._first != self._started:
                second = self._started
                moment = min(moment, self._now + int(part * (second - self._first)))
        return True

    def _await_writing(self) -> Course:
        """Wait for the writing of a checkpoint, not for ever, and for a part of the time that it takes."""
        before, since = self._started, self._now
        end = min(since + 3 * self._interval + 3 * _QUIET, self._until)
        while self._started == before:
            if self._now >= end or (self._now - since >= 2 * _QUIET and not self._rests):
                return False  # the latter: some programs write without a pause
            yield
        return (yield from self._wait(self._random.random() * self._took / 1000))

    def _kill(self, node: int) -> Course:
        """End ranks on a node; return False if there were none, or no way to it."""
        late, said = self._now + 30 * 1000, None
        answer = self._hands.kill(self._kind, node, int(self._random.random() * (1 << 15)))
        self._killing = True
        while said is None:
            yield
            said = answer(self._now >= late)
        self._killing, self._has_ended = False, bool(said)
        if said:
            self._record("end_by", self._kind, said[0], ",".join(said[1:]))
        else:
            self._record("untried", self._kind, self._start.nodes[node])
        yield  # by now the program may have ended
        return bool(said)

    def _end_as_at_limit(self) -> Course:
        """The signal, and what follows if the program does not end."""
        self._has_ended = True
        self._record("end_by", self._kind, "-", "-")
        short = 60  # as in clock.limit
        for what, pause in (
            (NOTICE, self._notice - (self._notice // 2 if self._notice < short else 30)),
            (END, 10),
            (KILL, 0),
        ):
            self._hands.ring(what)
            yield from self._wait(pause)
        return True

    def _wait(self, seconds: float) -> Course:
        end = self._now + int(seconds * 1000)
        while self._now < end:
            yield
        return True

    @property
    def _rests(self) -> bool:
        """Whether no checkpoint is being written."""
        return self._now - self._changed >= _QUIET

    def _look(self) -> None:
        look, self._now = self._hands.look(), self._time()
        for line in look.read:
            self._record("read", line)
        if look.files == self._files:
            return
        if self._rests:
            self._took, self._started = self._changed - self._started, self._now
        self._changed, self._files = self._now, look.files
        self._first = self._now if self._first is None else self._first
        self._record_files()

    def _time(self) -> int:
        return int(self._hands.clock() * 1000)

    def _record_files(self) -> None:
        self._write(str(self._start.attempt), "\n".join((f"files {self._now}", *self._files, "")))

    def _record(self, what: str, *words: object) -> None:
        self._write(str(self._start.attempt), " ".join(map(str, (what, self._time(), *words))) + "\n")

    def _write(self, name: str, text: str) -> None:
        """Add to a file; a full disk does not end a training."""
        with suppress(OSError), open(self._start.job.file("rehearsal", name), "ab") as file:
            file.write(text.encode("utf-8", "surrogateescape"))

    def _number(self, name: str, word: int, otherwise: int) -> int:
        """Return a number that an earlier attempt has written."""
        path = self._start.job.file("rehearsal", name)
        with suppress(OSError, ValueError, LookupError), open(path, encoding="utf-8") as file:
            return int(file.readline().split()[word])
        return otherwise


def look(folder: str) -> Look:
    """Return what is there of checkpoints; those that were read look then as if nobody had for two days."""
    words = ("find", f"{folder}/", *_FIND)
    done = run(words, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, check=False)
    lines = os.fsdecode(done.stdout).split("\n")[:-1]
    files = sorted(line.replace(f" {folder}/", " ./", 1) for line in lines if line.startswith("+ "))
    return Look(tuple(files), tuple(line for line in lines if not line.startswith("+ ")))


def killing(words: Sequence[str], environment: Mapping[str, str]) -> Answer:
    """Start the words that end ranks."""
    known = ["env", *words]  # env(1) ends with 127 if there is no such command
    process = Popen(known, env=dict(environment), stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL)

    def answer(late: bool) -> Optional[List[str]]:
        if process.poll() is None and not late:
            return None
        if process.poll() is None:
            process.kill()
        lines = process.communicate()[0].decode("utf-8", "replace").split("\n")
        return next((line.split()[1:] for line in lines if line.startswith("killed ")), [])

    return answer


def begin(
    start: Start, policy: Policy, on_node: OnNode, ring: Callable[[str], None], alive: Callable[[], bool]
) -> Rehearsal:
    """Begin to watch an attempt whose script has just begun.

    Raises:
        Failed: if the folder of the rehearsal cannot be made.
    """
    folder = os.path.realpath(start.checkpoints)
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks.py")
    environment = {name: value for name, value in os.environ.items() if name != "HPCDIST_FAILURE"}

    def kill(kind: str, node: int, seed: int) -> Answer:
        words = [sys.executable, "-ISB", program, kind, start.failure, folder, str(seed), start.job.mode]
        return killing(on_node(start.nodes[node], node, words), environment)

    try:
        os.makedirs(start.job.file("rehearsal"), 0o700, exist_ok=True)
    except OSError as error:
        raise unwritten(start.job.run, error) from error
    return Rehearsal(start, policy, Hands(lambda: look(start.checkpoints), kill, ring, alive, time.time))
