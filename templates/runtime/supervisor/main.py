"""The course of a job: from the first line of its event log to the last, with all attempts between them."""

import os
import re
import sys
import time
from typing import List, Optional

from . import batch, launching, nodes, progress, restarts
from .attempt import Attempt
from .attempts import Attempts
from .batch import system
from .job import Job, read
from .launching import Signals, Tick
from .restarts import End, Next
from .start import Failed, Start, say, unwritten, without_another
from .steps import Steps, was_finishing

_SHOWN = 8  # nodes of a line


def main(run: str, script: str) -> int:
    """Run a job to its end; return its exit code."""
    try:
        return Course(run, script).run()
    except Failed as error:
        say(str(error))
        return error.code


class Course:
    """One start of a job, in its run directory.

    ``is_over``: no further attempt follows, in whichever job. ``again``: this job goes into the queue again,
    for this reason. ``late``: its time limit has come, before or as it acts.
    ``has_begun``: a program has.
    """

    def __init__(self, run: str, script: str) -> None:
        self.environment = without_another(os.environ)
        self.job = _job(run, script)
        try:
            self.batch = system(self.environment, self.job)
        except LookupError as error:
            raise Failed(str(error)) from error
        self.start = Start(self.job, self.batch.name, self._element())
        self.attempts = Attempts(self.start, self.sleep)
        self.attempt: Optional[Attempt] = None
        self.lost: List[str] = []
        self.has_begun = False
        self.is_over = False
        self.again = ""
        self.late = False
        self.end = "ended"
        self.signals = Signals(self.arrived, terminal=self.job.shell)
        self.terminal = self.job.shell and os.isatty(0)

    def _element(self) -> str:
        """Return the element of an array, or the trial that it runs, by which the run knows it."""
        element = self.batch.element
        if not (element and self.searches):
            return element
        from . import trials  # as each submitted job reads these files anew, it reads only what it needs

        return trials.number_of(self.job, element)

    @property
    def searches(self) -> bool:
        """Whether the job runs one trial of a search."""
        return self.job.sweep is not None and not self.packs

    @property
    def packs(self) -> bool:
        """Whether its tasks run trials one after another."""
        return self.job.sweep is not None and self.job.sweep.workers > 0

    # --- From its start to its end

    def run(self) -> int:
        """Record the start, run the job, and record its end."""
        self.begin()
        code: object = "unknown"
        try:
            code = self.course()
        except Failed as error:
            say(str(error))
            code = error.code
        except Exception:  # noqa: BLE001 - a fault of ours must not look like an end of the program
            import traceback  # here alone: each import is time before the program

            say(traceback.format_exc())
        return self.finish(code)

    def begin(self) -> None:
        """Open the run: its folders, its logs, its first event."""
        start = self.start
        is_new = not os.path.exists(start.folder)
        start.open()
        if not self.job.shell:
            start.open_logs(follows=self.job.number > 1 and not self.packs)
        if not self.packs:
            self.announce()
        if self.searches:
            from . import trials

            self.kept = trials.kept(self.job)
        if not is_new:  # of many trials each would read all of the log
            start.restarts = sum(event.what == "started" for event in start.own_events())
        try:
            start.log("started", start.restarts)
        except OSError as error:
            raise unwritten(self.job.run, error) from error

    def watch_limit(self) -> None:
        """Have the job ended at its time limit, where no batch system does."""
        if self.job.scheduler != "local" or self.job.walltime is None:
            return
        token = self.environment.get("HPCDIST_TOKEN", "")
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "limit.py")
        walltime, events = str(self.job.walltime), self.job.file("events")
        own = [program, str(os.getpid()), token, walltime, events, self.start.id]
        environment = {name: value for name, value in self.environment.items() if name != "HPCDIST_TOKEN"}
        launching.start([sys.executable, "-ISB", *own], environment)

    def finish(self, code: object) -> int:
        """Record the end; a program that ended with 0 when it was told to end may not have finished."""
        try:
            if code == 0 and self.signals.told:
                self.start.log("terminated")
            self.start.log(self.end, code)
        except OSError as error:
            events = self.job.file("events")
            say(f"the end (exit code {code}) cannot be written to {events}: {error.strerror or error}")
        if self.terminal and not os.isatty(0):  # whoever holds the allocation may be gone with the terminal
            self.batch.cancel(self.start.id)
        return code if isinstance(code, int) else restarts.LAUNCH

    def course(self) -> int:
        """Run all that the job is made of; return its exit code."""
        self.place()
        sweep = self.job.sweep
        if sweep is not None and not self.packs:
            from . import trials

            trial = trials.choose(self.job, self.batch.element)
            trials.check(self.start, self.kept)
            self.start.extra.update(trial.environment(sweep))
            self.tell_nodes(trial.params)
        else:
            self.tell_nodes()
        if self.packs:
            from . import packed

            packed.begin(self.start, self.batch)
        self.check_told()
        self.watch_limit()
        code = self.with_steps()
        if self.is_over and self.job.policy and self.job.policy.by == restarts.FOLLOW:
            for follower in batch.followers(self.job, self.start.id):
                self.batch.cancel(follower)
        code = self.batch.exit_code(code)
        return self.requeue(code) if self.again else code

    def with_steps(self) -> int:
        """Run the steps before the program, beside it and after it; between them all attempts."""
        steps = Steps(self.start, self.setup_lines(), self.batch.on_nodes, self.check_told)
        over = self.may_begin()
        self.start.attempt = max(0, self.attempts.count() - (over is not None))
        if over is not None:
            follows = self.job.policy is not None and self.job.policy.by == restarts.FOLLOW
            if not was_finishing(self.start.events() if follows else self.start.own_events()):
                return over
            say("the steps after the program had not ended; they run again")
            return steps.after(over, self.start.environment(self.environment))
        code = steps.before(self.start.environment(self.environment))
        if not code:
            beside = steps.beside(self.start.environment(self.environment), self.signals.tell)
            try:
                code = self.all_attempts(beside.tick)
            finally:
                ended = beside.end()
            code = code if ended is None else ended
        return steps.after(code, self.start.environment(self.environment))

    def setup_lines(self) -> str:
        """Return the lines of the script that steps need in front of theirs."""
        if not self.job.steps:
            return ""
        try:
            with open(self.job.own("setup.sh"), encoding="utf-8") as file:
                return file.read()
        except OSError as error:
            raise Failed(f"{error.filename}: {error.strerror}") from error

    def check_told(self) -> None:
        """End the job if it was told to end before its program runs."""
        self.signals.deliver()
        if self.signals.told and not self.has_begun:
            raise Failed("the job was told to end before its program ran", restarts.TERMINATED)

    def sleep(self, seconds: float) -> None:
        """Sleep, unless the job is told to end."""
        time.sleep(seconds)
        self.check_told()

    # --- Its nodes

    def place(self) -> None:
        """Go to the folder of the submission, and note the job's nodes as the plan numbers them."""
        try:
            os.chdir(self.batch.folder)
            found = self.batch.nodes()
            self.start.extra.update(self.batch.prepare(self.start.folder))
        except LookupError as error:
            raise Failed(str(error)) from error
        except OSError as error:
            raise Failed(f"{error.filename}: {error.strerror} on {os.uname().nodename}") from error
        self.use(found[: self.job.nodes], found[self.job.nodes :])

    def use(self, tasks: List[str], own: List[str]) -> None:
        """Use these nodes for the tasks, and these for programs beside them."""
        self.start.nodes, self.start.own = tasks, own
        if self.job.own_nodes:
            self.start.extra["HPCDIST_TASK_NODES"] = ",".join(tasks)
            self.start.extra["HPCDIST_JOB_NODES"] = ",".join([*tasks, *own])
        if any(step.time == "beside" for step in self.job.steps):
            self.start.extra["HPCDIST_BESIDE_NODE"] = (own or tasks[-1:])[0]

    def tell_nodes(self, params: str = "") -> None:
        """Print what the job is, and where it runs."""
        job, names = self.job, self.start.nodes
        launcher = "the command" if job.launcher == "once" else job.launcher
        tasks = f"{job.tasks} task{'s' * (job.tasks != 1)} by {launcher}"
        hosts = f"{job.nodes} node{'s' * (job.nodes != 1)}"
        hosts += f", {job.gpus} GPU{'s' * (job.gpus != 1)}" if job.gpus else ""
        nodes = " ".join([*names[:_SHOWN], *(["..."] if len(names) > _SHOWN else [])])
        out = sys.stderr if self.job.shell else sys.stdout  # what a command prints is its user's
        colon = ":" if params else ""
        where = f"{hosts}: {nodes}{colon}{params} (job {self.start.id})"
        say(f"{job.name}: {tasks}, {where}", out)

    def blame(self, names: List[str]) -> None:
        """Record which nodes of an attempt that was killed are down."""
        for node in self.batch.down(names):
            self.start.log("lost", node)
        self.keep_followers_away()

    def suspects(self) -> List[str]:
        """Return the nodes that the run's own events make suspect."""
        policy = self.job.policy
        if policy is None or not policy.exclude_bad_nodes:
            return []
        return nodes.suspects(self.start.events(), time.time())

    def keep_followers_away(self) -> None:
        """Keep the jobs that follow from suspect nodes: they were submitted before these went bad."""
        if self.job.policy is None or self.job.policy.by != restarts.FOLLOW:
            return
        for follower in batch.followers(self.job, self.start.id):
            self.batch.exclude(self.suspects(), self.attempts.path(f"excluded.{follower}"), follower)

    # --- Signals

    def arrived(self, number: int, own: bool) -> None:
        """Pass on a signal of the batch system's; at its time limit the job may go into the queue at once."""
        if self.signals.take_limit() and self.job.scheduler == "flux":
            self.start.log("timeout")
        if self.attempt is not None:
            self.attempt.arrived(number, own)
        if self.signals.told and not self.late:
            self.meet_limit()

    def meet_limit(self) -> None:
        """Requeue the job if its limit came before it acted: the batch system kills it in a moment.

        Its next start judges whether an attempt begins.
        """
        if not restarts.requeues_at_limit(self.job.policy, "timeout") or self.batch.ending() != "timeout":
            return
        self.late = True
        if self.packs:
            return  # the next start of these does not count
        self.attempts.record_why("timeout")
        if self.batch.requeue(True) == "queued":
            self.end = "requeued"
            self.start.log("again", "timeout")

    # --- Attempts

    def may_begin(self) -> Optional[int]:
        """Return None if an attempt may begin, else the exit code of this start."""
        policy = self.job.policy
        if policy is None or self.packs:
            return None
        code = self.attempts.may_begin(self.batch, self.blame, stop_file=self.has_stop_file)
        self.is_over = code is not None
        return code

    @property
    def has_stop_file(self) -> bool:
        """Whether there is the file by which the user stops restarts."""
        policy = self.job.policy
        return bool(policy and policy.stop_file and os.path.exists(policy.stop_file))

    def all_attempts(self, tick: Tick) -> int:
        """Run the program, and again as long as an attempt follows here; return the last exit code."""
        start = self.start
        while True:
            if start.tries and not self.packs:
                self.announce()
            if not self.packs:
                start.attempt = self.attempts.begin(self.batch)
            start.write_nodes()
            self.has_begun = True
            self.attempt = Attempt(start, self.batch, self.environment, self.signals)
            end = self.attempt.run(tick)
            attempt, self.attempt = self.attempt, None
            code, again = self.after(end, attempt)
            if code and self.job.policy:
                attempt.end_leftovers()
            if not again:
                return code
            start.log("restarted", code)
            start.tries += 1
            most = self.job.policy.max if self.job.policy else self.job.max_restarts
            number = (start.attempt - self.attempts.first + 1) if self.job.policy else start.tries
            say(f"exit code {code}; restart {number} of {most}")

    def announce(self) -> None:
        """Tell where a further attempt begins in the logs."""
        line = self.attempts.announcement()
        for out in {sys.stdout, sys.stderr if self.job.error else sys.stdout} if line else ():
            say(line, out)

    def after(self, end: End, attempt: Attempt) -> "tuple[int, bool]":
        """Return the exit code of an attempt, and whether another one follows here."""
        policy = self.job.policy
        if attempt.rehearsal is not None:
            end, _ = restarts.judged(end, "")
            return attempt.rehearsal.end(end.code, told=end.told)
        if self.packs:
            return self.after_packed(end, attempt), False
        if policy is None:
            tries, most = self.start.tries, self.job.max_restarts
            following = restarts.without_policy(end.code, tries, most, told=end.told)
            return end.code, following.what == restarts.AGAIN
        end, said = restarts.judged(end, policy.signal)
        if said:
            say(said, sys.stdout)
        end = self._with_ending(end)
        following = self.decide(end, restarts.why(end, several=attempt.tells), attempt)
        if following.what == restarts.OVER:
            self.is_over = True
            self.attempts.over(end.code, following.reason)
        elif following.what in (restarts.REQUEUE, restarts.FOLLOW):
            if self.end != "requeued":
                self.start.log("again", following.reason)
            self.again = following.reason if following.what == restarts.REQUEUE else ""
            self.keep_followers_away()
        return end.code, following.what == restarts.AGAIN

    def after_packed(self, end: End, attempt: Attempt) -> int:
        """Return the exit code of a job of packed trials, which may go into the queue again."""
        from . import packed

        code = packed.end(self.start, end.code)
        why = restarts.why(self._with_ending(end._replace(code=code)), several=attempt.tells)
        if packed.requeues(self.start, code, why):
            self.start.log("again", why)
            self.again = why
        return code

    def _with_ending(self, end: End) -> End:
        if not end.code:
            return end
        ending = self.batch.ending()
        self.late = self.late or ending == "timeout"  # Slurm may end the step before it tells this script
        return end._replace(ending=ending)

    def decide(self, end: End, why: str, attempt: Attempt) -> Next:
        """Return what follows an attempt, and record what speaks against nodes."""
        policy = self.job.policy
        assert policy is not None  # noqa: S101
        self.attempts.record_why(why)
        ended = self.attempts.ended(end.code, why)
        found = restarts.by_end(policy, ended)
        if found:
            return found
        idle = progress.idle(self.start, self.attempts.folder, ended)
        found = restarts.by_count(policy, ended, idle, stop_file=self.has_stop_file)
        if found:
            return found
        down = self.batch.down() if why == "node_failure" else []
        for what, node in nodes.blamed(why, down, attempt.lost, attempt.host, several=self.job.nodes > 1):
            self.start.log(what, node)
        suspect, has_nodes = self.suspects(), False
        if restarts.takes_spare(policy, why):
            known = [*self.start.nodes, *self.start.own]
            chosen = nodes.choose(known, self.job.nodes, self.batch.live_nodes(60), suspect)
            has_nodes = chosen is not None
            if chosen:
                self.use(*chosen)
        return restarts.follows(
            policy, ended, is_bad=nodes.has_suspect(self.start.nodes, suspect), has_nodes=has_nodes
        )

    def requeue(self, code: int) -> int:
        """Put the job into the queue again; return the exit code that the batch system is to see."""

        def wanted() -> bool:  # else it was cancelled meanwhile
            return not self.signals.told or self.again == "preempt" or self.late

        if self.end == "requeued" or batch.put_back(self.batch, self.late, wanted):
            self.end = "requeued"
            self.batch.exclude(self.suspects(), os.path.join(self.start.folder, "excluded"))
            say(f"{self.again}: this job is in the queue again")
            return self.batch.requeued_code(code)
        say(
            f"{self.again}: the batch system does not put this job into the queue again; "
            "`hpcdist resume` goes on with its run"
        )
        return code


def _job(run: str, script: str) -> Job:
    number = re.match(r"job\.([0-9]+)\.sh$", script)
    try:
        return read(run, int(number.group(1)) if number else 1)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Failed(f"the plan of {script} in {run} cannot be read: {error!r}") from error
