"""Kill what a search consists of, fill its disk, resume it until it is over, and count its trials.

It is packed; on the stand-ins of PBS and LSF it may be an array instead. All happens in namespaces of its
own: the runs are on a tmpfs that can be filled, and no process is left.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Final

from tests.chaos import processes, sandbox
from tests.chaos.machines import MACHINES, Machine
from tests.chaos.people import Attempt, Person
from tests.chaos.result import Result

TRIALS: Final = 12
_DISK: Final = 8 << 20
_FAILS_ONCE: Final = 4
_FAILS: Final = 7
_LONGEST: Final = 60.0
"""Seconds until a job must be over: a bound, which nothing should reach."""

_PROGRAM: Final = f"""\
exec 9>>"running.$1" # locked as long as this process lives
flock -n 9 || (($? != 1)) || echo "twice $1 $$" >>ran
echo "begin $1 $$" >>ran
sleep "0.$((RANDOM % 3))$((RANDOM % 10))" 9>&-
code=0
case $1 in
{_FAILS_ONCE}) mkdir failed 2>/dev/null && code=3 ;;
{_FAILS}) [[ ! $2 ]] || code=3 ;;
esac
echo "end $1 $code" >>ran
exit "$code"
"""


class Search(Person):
    """A search of short trials on a machine, of which one fails once, and another always if it is to."""

    def __init__(self, folder: Path, machine: Machine, rnd: random.Random) -> None:
        folder.mkdir()
        super().__init__(folder, machine.programs, machine.make(folder))
        self.machine, self.rnd = machine, rnd
        self.began = time.time()
        self.said: list[str] = []
        """What was done, and met."""
        self.wrong: list[str] = []
        self.fails = rnd.random() < 0.3
        own: dict[str, object] = {
            "launcher": rnd.choice(["processes", "processes", "mpirun"]),
            "site": "local",
        }
        if machine.follows:
            own = {"pack": rnd.random() < 0.5, "site": "here"}
        matrix = {"n": {"range": [1, TRIALS + 1, 1]}}
        experiment = {
            "name": "search",
            "hptuning": {"matrix": matrix, "concurrency": rnd.choice([1, 2, 3, 4])},
            "run": {"cmd": f"bash trial.sh {{{{ n }}}} {'fails' if self.fails else ''}"},
            "batch": {"walltime": "5m", **own},
        }
        (folder / "search.yml").write_text(json.dumps(experiment))
        (folder / "trial.sh").write_text(_PROGRAM)
        self.runs = folder / "runs"
        self.runs.mkdir(mode=0o700)
        options = f"size={_DISK},mode=700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", self.runs], check=True)

    def verb(self, *words: str, deadly: bool = False, into: str = "") -> Attempt:
        """Run a verb; if it is deadly, to it, kill it at a random moment."""
        pid = self.start(*words, into=into)
        if deadly:
            self._kill_soon(pid)
        return self.seen(words, self.ended(pid, into=into))

    def seen(self, words: tuple[str, ...], attempt: Attempt) -> Attempt:
        """Note how a verb ended, and what no verb may print."""
        lines = [line for line in attempt.err.splitlines() if not line.startswith("warning")]
        since = time.time() - self.began
        self.said.append(f"{since:.1f} {' '.join(words)} -> {attempt.code} {' / '.join(lines)}")
        if "Traceback" in attempt.err or attempt.code in {1, 70}:
            self.wrong.append(f"`{' '.join(words)}` ended with {attempt.code}: {attempt.err}")
        return attempt

    def _kill_soon(self, pid: int) -> None:
        time.sleep(self.rnd.uniform(0, 0.5))
        processes.kill(pid)

    def strike(self) -> None:
        """Do a harm at a random moment."""
        time.sleep(self.rnd.uniform(0, 1.0))
        harms = (self._kill, self._kill, self._kill, self._kill_all, self._fill, self._stop)
        self.rnd.choice(harms)()

    def _kill(self) -> None:
        there = processes.of(self.folder)
        if not there:
            return
        kind = self.rnd.choice(sorted({process.kind for process in there}))
        pid = self.rnd.choice([process.pid for process in there if process.kind == kind])
        self.said.append(f"KILL of a {kind}")
        processes.kill(pid)

    def _kill_all(self) -> None:
        self.said.append("KILL of all")
        while there := processes.of(self.folder):
            for process in there:
                processes.kill(process.pid)

    def _fill(self) -> None:
        self.said.append("the disk is full")
        words = ("dd", "if=/dev/zero", f"of={self.runs}/fill", "bs=4096")
        subprocess.run(words, stderr=subprocess.DEVNULL, check=False)

    def _stop(self) -> None:
        if self.name:
            verb = self.rnd.choice([("cancel",), ("sweep", "stop")])
            self.verb(*verb, self.name, deadly=self.rnd.random() < 0.3)

    @property
    def name(self) -> str:
        """The name of the last run, as a submission that was killed may leave one; empty without one."""
        return max((path.parent.name for path in self.runs.glob("*/record.json")), default="")

    def states(self) -> dict[int, str]:
        """Return the state of each trial."""
        said = json.loads(self.verb("sweep", "status", self.name, "--json").out or "{}")
        return {trial["trial"]: trial["state"] for trial in said.get("trials", ())}

    def state(self) -> str:
        """Return the state of the run."""
        [said] = json.loads(self.verb("status", self.name, "--json").out or "[{}]")
        return str(said.get("state", ""))

    def submit(self) -> None:
        """Submit it, killed at first or not, until it has its job."""
        deadly = self.rnd.random() < 0.3
        for _ in range(6):
            if self.verb("submit", "search.yml", deadly=deadly).code == 0:
                return
            deadly = False
            if any(record["phase"] == "submitted" for _, record in self._records()):
                return  # it was printed: another one would be a second search
            self.make_old()
        self.wrong.append("it cannot be submitted")

    def make_old(self) -> None:
        """Make submissions an hour old that seem to be under way."""
        while self.machine.follows and self.machine.is_asked(self.folder):
            time.sleep(0.05)
        for file, record in self._records():
            if record["phase"] == "submitting":
                record["submitted_at"] = "2020-01-01T00:00:00+00:00"
                file.write_text(json.dumps(record))

    def _records(self) -> list[tuple[Path, dict[str, str]]]:
        return [(file, json.loads(file.read_text())) for file in self.runs.glob("*/record*.json")]

    def wait(self) -> None:
        """Wait until no job of it lives, or cancel those whose script was killed, as `status` advises."""
        end = time.monotonic() + _LONGEST
        while not all(self.machine.jobs(self.folder).values()):
            there = processes.of(self.folder)
            if time.monotonic() > end:
                self.wrong.append(f"it does not end: {there}")
                self._kill_all()
                return
            kinds = {process.kind for process in there}
            if kinds and not self.machine.follows and "script" not in kinds and self.rnd.random() < 0.3:
                if self.rnd.random() < 0.5:
                    return  # `resume` must see them
                self.verb("cancel", self.name)
            time.sleep(0.1)

    def resume(self, *, deadly: bool) -> None:
        """Resume it, twice at once or killed, or not."""
        if deadly and self.rnd.random() < 0.4:
            words = ("resume", self.name)
            pids = [self.start(*words, into=f".{number}") for number in range(2)]
            if self.rnd.random() < 0.3:
                self._kill_soon(pids[0])
            for number, pid in enumerate(pids):
                self.seen(words, self.ended(pid, into=f".{number}"))
        else:
            self.verb("resume", self.name, deadly=deadly and self.rnd.random() < 0.5)

    def live(self) -> None:
        """Live through harms, then in peace until all trials are over."""
        self.submit()
        for _ in range(self.rnd.choice([1, 1, 2, 3])):
            self.strike()
        for number in range(9):
            self.wait()
            if self.is_over():
                return
            is_quiet = number >= 3 or self.rnd.random() < 0.4
            self.resume(deadly=not is_quiet)
            self.make_old()
            if not is_quiet and self.rnd.random() < 0.5:
                self.strike()
        self.wrong.append(f"it does not get over: {self.states()}")

    def is_over(self) -> bool:
        """Whether all trials have completed, or failed for good; before, the run may not be completed."""
        (self.runs / "fill").unlink(missing_ok=True)
        states, state = self.states(), self.state()
        self.said.append(f"{state}: {dict(Counter(states.values()))}")
        if state == "completed" and set(states.values()) != {"completed"}:
            self.wrong.append(f"the run is {state}, and its trials are {states}")
        others = {(n, one) for n, one in states.items() if one != "completed"}
        return len(states) == TRIALS and others == ({(_FAILS, "failed")} if self.fails else set())

    def check(self) -> int:
        """Check that each trial ended once; return how many programs came to their end twice.

        These are of trials whose worker was killed before it could write that its program had ended, or which
        it could not write on a full disk: each such end is that of a start of which nothing else is recorded,
        and where nothing was killed or full there is none.
        """
        ran = self.folder / "ran"
        rows = [line.split() for line in ran.read_text().splitlines()] if ran.exists() else []
        self.wrong += [f"trial {row[1]} ran twice at once" for row in rows if row[0] == "twice"]
        for number in range(1, TRIALS + 1):
            if number != _FAILS or not self.fails:
                self._check_events(number)
        ends = Counter(row[1] for row in rows if row[0] == "end" and row[2] == "0")
        for trial, count in ends.items():
            if count > self._starts(int(trial)):
                self.wrong.append(f"trial {trial} came to its end {count} times, more than it was started")
        doubled = sum(count > 1 for count in ends.values())
        if doubled and not any(text.startswith(("KILL", "the disk")) for text in self.said):
            self.wrong.append(f"{doubled} trials came to their end twice, and nothing was harmed")
        return doubled

    def _starts(self, number: int) -> int:
        """Return how often a worker began to run a trial, and ran it again after a failure."""
        logs = (log.read_text().splitlines() for log in self.runs.glob(f"{self.name}/events*"))
        words = [line.split()[0] for log in logs for line in log if f"_{number} " in line]
        return words.count("started") + words.count("restarted")

    def _check_events(self, number: int) -> None:
        logs = (log.read_text().splitlines() for log in self.runs.glob(f"{self.name}/events*"))
        events = [line.split() for log in logs for line in log if f"_{number} " in line]
        ends = [event for event in events if event[0] == "ended" and event[3] == "0"]
        if len(ends) != 1:
            self.wrong.append(f"trial {number} ended well {len(ends)} times: {events}")


def scene(folder: Path, seed: int) -> tuple[Counter[str], list[str]]:
    """Play one; return how often each harm came, and what was wrong."""
    machine = MACHINES[max(0, seed % 6 - 3)]
    search = Search(folder, machine, random.Random(seed))  # noqa: S311 - moments, no secrets
    search.live()
    outcomes = Counter(text for text in search.said if text.startswith(("KILL", "the disk")))
    outcomes[f"{machine.site}: searches"] = 1
    outcomes["trials in all"] = TRIALS
    outcomes["trials whose program ended twice"] = search.check()
    if search.wrong:
        shutil.copytree(search.runs, folder / "kept", symlinks=True)  # the disk goes with its namespace
        search.wrong.append("\n".join(f"    {said}" for said in search.said))
    return outcomes, [f"seed {seed}: {text}" for text in search.wrong]


def searches(count: int, seed: int, folder: Path) -> Result:
    """Play so many."""
    return sandbox.play("searches", count, seed, folder)
