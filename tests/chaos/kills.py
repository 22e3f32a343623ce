"""Kill `hpcdist submit` at random moments, repeat it until it succeeds, and count the jobs.

The processes are forked off this one, which has imported all, so that most of their life is the submission.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.chaos import people, slurm
from tests.chaos.people import Attempt, Person
from tests.chaos.result import Result
from tests.chaos.slurm import Slurm

SIGNALS: Final = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_TRIES: Final = 5
_LATE: Final = 0.7
"""So many of the kills come when the run directory is there: before it, there is nothing to go wrong."""


class Outcome(NamedTuple):
    """What a kill met, and what there was in the end."""

    signal: str
    phase: str
    printed: bool
    jobs: int

    def __str__(self) -> str:
        seen = "printed" if self.printed else "silent"
        return f"{self.signal} at phase {self.phase}, {seen}: jobs in the end: {self.jobs}"


class Submitter(Person):
    """A user with one experiment and a batch system."""

    def __init__(self, folder: Path, batch: Slurm) -> None:
        super().__init__(folder, batch.make(folder), {})
        self.batch = batch
        text = "name: once\nrun: {cmd: 'true'}\nbatch: {walltime: 1h, directives: [--hold]}\n"
        (folder / "once.yml").write_text(text)

    def submit(self) -> int:
        """Start `hpcdist submit` of the experiment; return its pid."""
        return self.start("submit", "once.yml", *self.batch.options)

    def records(self) -> dict[Path, dict[str, str]]:
        """Return all records."""
        return {file: json.loads(file.read_text()) for file in self.folder.glob("runs/*/record.json")}

    def wait_for_a_record(self) -> None:
        """Return when a run has its first record, after five seconds at the latest."""
        end = time.monotonic() + 5
        while not self.records() and time.monotonic() < end:
            time.sleep(0.002)

    def let_time_pass(self) -> None:
        """Make submissions an hour old that are still under way, as it seems; no sbatch may live so long."""
        end = time.monotonic() + 10
        while slurm.is_asked(self.folder):
            if time.monotonic() > end:
                raise RuntimeError("sbatch lives on without its hpcdist")
            time.sleep(0.05)
        for file, record in self.records().items():
            if record["phase"] == "submitting":
                record["submitted_at"] = "2020-01-01T00:00:00+00:00"
                file.write_text(json.dumps(record))


def kill(person: Submitter, rnd: random.Random, longest: float) -> tuple[Outcome, list[str]]:
    """Kill one submission; return what was met, and what was wrong."""
    number = rnd.choice(SIGNALS)
    pid = person.submit()
    if rnd.random() < _LATE:
        person.wait_for_a_record()
    time.sleep(rnd.uniform(0, longest))
    os.kill(pid, number)
    first = person.ended(pid)
    phase = next((record["phase"] for record in person.records().values()), "none")
    last, looked = _repeated(person, rnd)
    there = person.batch.jobs(person.folder)
    outcome = Outcome(signal.Signals(number).name, phase, _printed(first.out) is not None, len(there))
    wrong = [*_wrong(outcome, last, there)]
    if looked and looked != there:
        wrong.append(f"`status` has {looked}, the batch system {there}")
    return outcome, [f"{outcome} {text}: {first.err + last.err}" for text in wrong]


def _repeated(person: Submitter, rnd: random.Random) -> tuple[Attempt, list[str]]:
    """Submit until that succeeds, with looks in between; return the last attempt, and what status has."""
    for _ in range(_TRIES):
        if rnd.random() < 0.5:
            person.run("status")
        last = person.ended(person.submit())
        if last.code == 0:
            break
        person.let_time_pass()
    said = json.loads(person.run("status", "--json").out or "[]")
    return last, sorted(run["job_id"] for run in said if run["job_id"])


def _wrong(outcome: Outcome, last: Attempt, there: Sequence[str]) -> list[str]:
    found = []
    told = outcome.printed and outcome.phase == "submitted"
    if outcome.jobs != (2 if told else 1):
        found.append(f"there are {outcome.jobs} jobs")
    if last.code:
        found.append(f"submit goes on to fail with {last.code}")
    elif _printed(last.out) not in there:
        found.append(f"submit printed {last.out!r}, and there are {there}")
    if "Traceback" in last.err:
        found.append("traceback")
    return found


def _printed(out: str) -> str | None:
    match = re.search(r"(?m)^once-\d+: job (\d+) on site ", out)
    return match[1] if match else None


def kills(count: int, seed: int, folder: Path, batch: Slurm = slurm.TOY) -> Result:
    """Kill so many submissions to a Slurm, each in a folder of its own."""
    rnd = random.Random(seed)  # noqa: S311 - moments, no secrets
    people.import_all()
    person = Submitter(folder / "warm", batch)
    began = time.monotonic()
    warm = person.ended(person.submit())
    longest = 1.2 * (time.monotonic() - began)
    outcomes: Counter[str] = Counter()
    wrong = [] if warm.code == 0 else [warm.err]
    for number in range(count):
        outcome, found = kill(Submitter(folder / str(number), batch), rnd, longest)
        outcomes[str(outcome)] += 1
        wrong += [f"seed {seed}, kill {number}: {text}" for text in found]
    return Result("kills", outcomes, wrong)
