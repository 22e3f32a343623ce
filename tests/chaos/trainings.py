"""Disturb trainings that may be restarted, resume those that nothing starts again, and look at what they did.

All happens in namespaces of its own, as for searches: no process is left.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.chaos import processes, sandbox, trained, training
from tests.chaos.machines import MACHINES, Machine
from tests.chaos.people import Attempt, Person
from tests.chaos.processes import Process
from tests.chaos.result import Result

STEPS: Final = 30
_RANKS: Final = 2
_MOST: Final = 4
"""Restarts: more than a training is disturbed."""

_LONGEST: Final = 150.0
"""Seconds until a training must be over: a bound, which nothing should reach."""

LOSSES: Final = training.losses(_RANKS, STEPS)


class Training(Person):
    """A user with a training of two ranks on a machine."""

    def __init__(self, folder: Path, machine: Machine, rnd: random.Random) -> None:
        folder.mkdir()
        super().__init__(folder, machine.programs, machine.make(folder))
        self.machine, self.rnd = machine, rnd
        self.began = time.time()
        self.said: list[str] = []
        """What was done, and met."""
        self.wrong: list[str] = []
        self.harms: Counter[str] = Counter()
        self.is_chained = machine.follows
        """Whether it must come to its end without being resumed."""
        experiment = {
            "name": "train",
            "framework": "pytorch",
            "pytorch": {"launch": "env"},
            "environment": {
                "replicas": {"n_workers": _RANKS - 1},
                "restart": {"max": _MOST, "no_progress": 0, "notice": "1m"},
            },
            "run": {"cmd": f"{sys.executable} training.py {_RANKS} {STEPS} 0.05"},
            "batch": {"walltime": "10m", "site": "here"},
        }
        if not machine.follows:
            experiment["batch"] = {"site": "local", "launcher": rnd.choice(["processes", "mpirun"])}
        (folder / "train.yml").write_text(json.dumps(experiment))
        shutil.copy(training.__file__, folder)

    def say(self, text: str) -> None:
        """Note what was done."""
        self.said.append(f"{time.time() - self.began:.1f} {text}")

    def seen(self, words: tuple[str, ...], attempt: Attempt) -> Attempt:
        """Note how a verb ended, and what no verb may print."""
        self.say(f"{' '.join(words)} -> {attempt.code} {' / '.join(attempt.err.splitlines())}")
        if "Traceback" in attempt.err or attempt.code in {1, 70}:
            self.wrong.append(f"`{' '.join(words)}` ended with {attempt.code}: {attempt.err}")
        return attempt

    def verb(self, *words: str) -> Attempt:
        """Run a verb."""
        return self.seen(words, self.run(*words))

    def records(self) -> list[dict[str, str]]:
        """Return the records of all jobs."""
        return [json.loads(file.read_text()) for file in (self.folder / "runs").glob("*/record*.json")]

    @property
    def name(self) -> str:
        """The name of the last run, as a submission that was killed may leave one; empty without one."""
        return max((path.parent.name for path in self.folder.glob("runs/*/record.json")), default="")

    def live_jobs(self) -> list[str]:
        """Return the ids of the jobs that have not ended, in the order of their submission."""
        return sorted(job for job, ended in self.machine.jobs(self.folder).items() if not ended)

    # --- Submissions

    def submit(self) -> None:
        """Submit it, killed at first or not, until it has all its jobs."""
        if self.rnd.random() < 0.25:
            pid = self.start("submit", "train.yml")
            time.sleep(self.rnd.uniform(0, 1.2))
            processes.kill(pid)
            self.seen(("submit",), self.ended(pid))
            self.harms["KILL of a submission"] += 1
            self.let_time_pass()
            if self.rnd.random() < 0.5:
                (self.folder / "go").touch()
                self.strike()  # of a training that has no followers yet
        if self.is_printed():
            return
        for _ in range(5):
            if self.verb("submit", "train.yml").code == 0:
                return
            self.let_time_pass()
        self.wrong.append("it cannot be submitted")

    def is_printed(self) -> bool:
        """Whether a submission has come to its end: another one would be a second training."""
        found = self.records()
        return bool(found) and all(record["phase"] == "submitted" for record in found)

    def let_time_pass(self) -> None:
        """Make submissions an hour old that are still under way, as it seems."""
        while self.machine.is_asked(self.folder):
            time.sleep(0.05)
        for file in (self.folder / "runs").glob("*/record*.json"):
            record = json.loads(file.read_text())
            if record["phase"] == "submitting":
                record["submitted_at"] = "2020-01-01T00:00:00+00:00"
                file.write_text(json.dumps(record))

    def resume(self, people_at_once: int = 1) -> list[int]:
        """Resume it, by one or several people at once; return their exit codes."""
        words = ("resume", self.name)
        pids = [self.start(*words, into=f".{number}") for number in range(people_at_once)]
        codes = [self.seen(words, self.ended(pid, into=f".{number}")).code for number, pid in enumerate(pids)]
        self.let_time_pass()
        return codes

    # --- Harms

    def strike(self) -> None:
        """Do a harm at a random moment."""
        harms: list[tuple[str, Callable[[], bool]]] = [
            ("KILL of a process", self._kill_any),
            ("KILL of a rank", self._kill_rank),
            ("KILL of rank 0 while it writes a checkpoint", self._kill_writer),
            ("a lost node", self._lose_node),
            ("notice of the time limit", self._notice),
            ("two people resume it", self._resume_twice),
        ]
        if self.machine.follows:
            harms += [("preemption", self._preempt), ("the end of a follower", self._end_follower)]
        name, harm = self.rnd.choice(harms)
        time.sleep(self.rnd.uniform(0, 1.2))
        is_met = harm()
        self.say(name if is_met else f"{name}: nothing was there")
        self.harms[name if is_met else "nothing was there"] += 1

    def _running(self) -> list[Process]:
        """Return the processes of the job that runs, of those of several one."""
        there = processes.of(self.folder)
        jobs = sorted({process.job for process in there})
        return [process for process in there if process.job == jobs[0]]

    def _kill(self, found: list[Process]) -> bool:
        if found:
            processes.kill(self.rnd.choice(found).pid)
        return bool(found)

    def _kill_any(self) -> bool:
        there = self._running()
        kinds = sorted({process.kind for process in there})
        kind = self.rnd.choice(kinds) if kinds else ""
        self.say(f"of kind {kind}")
        return self._kill([process for process in there if process.kind == kind])

    def _kill_rank(self) -> bool:
        return self._kill([process for process in self._running() if process.kind == "program"])

    def _kill_writer(self) -> bool:
        """Kill all ranks when there is a checkpoint that is not whole."""
        while there := [process for process in self._running() if process.kind == "program"]:
            if any(self.folder.glob("runs/*/checkpoints/*.new")):
                for process in there:
                    processes.kill(process.pid)
                return True
            time.sleep(0.005)
        return False

    def _lose_node(self) -> bool:
        """Kill all processes of a job at once, also those that begin meanwhile."""
        first = self._running()
        while there := [process for process in self._running() if first and process.job == first[0].job]:
            for process in there:
                processes.kill(process.pid)
        return bool(first)

    def _notice(self) -> bool:
        """Do as the clock of the job's script does before the time limit, and again when it is near."""
        scripts = [process for process in self._running() if process.kind == "script" and process.leads]
        for _ in range(self.rnd.choice([1, 1, 2])):
            for process in scripts:
                processes.kill(process.pid, signal.SIGURG)
            time.sleep(self.rnd.uniform(0, 0.3))
        return bool(scripts)

    def _resume_twice(self) -> bool:
        return bool(self.name) and bool(self.resume(2))

    def _preempt(self) -> bool:
        """End the job that runs by the batch system's own command, as one that makes room is ended."""
        return self._end_job(0)

    def _end_follower(self) -> bool:
        """End a job that waits, so that the one behind it waits for nothing."""
        return self._end_job(1)

    def _end_job(self, place: int) -> bool:
        if len(live := self.live_jobs()) <= place:
            return False
        words = (self.machine.programs / self.machine.end, live[place])
        subprocess.run(words, env=self.environment, cwd=self.folder, capture_output=True, check=False)
        return True

    # --- To its end

    def wait(self) -> None:
        """Wait until no job of it lives; of one whose script was killed end the rest, as `status` advises."""
        end = time.monotonic() + _LONGEST
        while self.live_jobs():
            if time.monotonic() > end:
                self.wrong.append(f"it does not end: {self.live_jobs()} {processes.of(self.folder)}")
                self._lose_node()
                return
            kinds = {process.kind for process in processes.of(self.folder)}
            if kinds and not self.machine.follows and "script" not in kinds:
                self.verb("cancel", self.name)
            time.sleep(0.1)

    def is_over(self) -> bool:
        """Whether it has completed; before its last step it may not have."""
        found = json.loads(self.verb("status", "--json").out or "[]")
        states = [run["state"] for run in found if run["job_id"]]
        self.say(f"{states}, {trained.rows(self.folder)[-1:]}")
        if "completed" in states and not trained.is_done(self.folder, STEPS):
            self.wrong.append("it is completed, and its last step was not done")
        if len(states) > 1:
            self.wrong.append(f"it has several ends: {found}")
        return states == ["completed"]

    def live(self) -> None:
        """Live through harms, then in peace until it is over."""
        self.submit()
        (self.folder / "go").touch()
        for _ in range(self.rnd.choice([0, 1, 1, 2, 2, 3])):
            self.strike()
        for number in range(9):
            self.wait()
            if self.is_over():
                break
            if self.is_chained and self.is_printed():
                self.wrong.append("no job of it goes on, though it may be restarted more often")
            is_quiet = number >= 2 or self.rnd.random() < 0.5
            self.resume(1 if is_quiet else 2)
            if not is_quiet:
                self.strike()
        else:
            self.wrong.append("it does not get over")

    def check(self) -> None:
        """Check what it did."""
        self.wrong += trained.faults(self.folder, LOSSES)
        self.wrong += trained.wrong_metrics(self.verb("metrics", self.name, "--csv").out, LOSSES)
        if self.resume() != [2]:
            self.wrong.append("a training that has completed is resumed")
        there, known = self.machine.jobs(self.folder), {record["job_id"] for record in self.records()}
        if unknown := set(there) - known:
            self.wrong.append(f"jobs that no record names: {unknown}")
        ends = [one["state"] for one in self.attempts()].count("completed")
        if ends != 1:
            self.wrong.append(f"{ends} attempts have completed")

    def attempts(self) -> list[dict[str, str]]:
        """Return the attempts as `describe` has them."""
        found: list[dict[str, str]] = json.loads(self.verb("describe", self.name, "--json").out)["attempts"]
        return found


def scene(folder: Path, seed: int) -> tuple[Counter[str], list[str]]:
    """Play one; return how often each harm came, and what was wrong."""
    rnd = random.Random(seed)  # noqa: S311 - moments, no secrets
    one = Training(folder, MACHINES[seed % len(MACHINES)], rnd)
    one.live()
    if one.name:
        one.check()
    lines = trained.rows(folder)
    outcomes = Counter({f"{one.machine.site}: {name}": number for name, number in one.harms.items()})
    outcomes[f"{one.machine.site}: trainings"] = 1
    outcomes["attempts"] = sum(line[0] == "begin" for line in lines)
    outcomes["steps that were done again"] = sum(trained.lost_work(lines))
    if one.wrong:
        one.wrong.append("\n".join(f"    {said}" for said in one.said))
    return outcomes, [f"seed {seed}: {text}" for text in one.wrong]


def trainings(count: int, seed: int, folder: Path) -> Result:
    """Play so many."""
    return sandbox.play("trainings", count, seed, folder)
