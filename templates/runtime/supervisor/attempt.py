"""One attempt as the job sees it: its program, its signals, its time limit, and the cause of its end."""

import os
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Dict, List, Optional, Sequence

from . import clock, faults, launching, processes
from .batch import System
from .causes import MEMORY, Cause, Watcher, name_of
from .clock import Clock
from .launching import Program, Signals, Tick
from .restarts import LAUNCH, SIGNALLED, TERMINATED, End
from .start import Start, say

if TYPE_CHECKING:
    from .rehearsal import Rehearsal

_REPORTING = frozenset(
    ["srun", "mpirun", "flux", "horovodrun", "horovodrun-mpi", "horovodrun-elastic", "processes"]
)
"""Launchers that always tell which task failed first: where none is told, a node or a task was lost."""

_GRACE = 10.0
_ASK_AGAIN = 30.0
_SAVES = 60.0
"""Seconds that the other ranks of an elastic training have to save."""
_LAST_SIGNALLED = 254
"""Exit codes from `SIGNALLED` to this one tell the signal that ended a program."""

_OWN = os.path.dirname(os.path.abspath(__file__))
_RANKS = os.path.join(_OWN, "ranks.py")


class Attempt:
    """One run of the script.

    ``host`` is that of the first task to fail; ``lost`` has the nodes that ssh does not reach.
    """

    def __init__(self, start: Start, batch: System, environment: Dict[str, str], signals: Signals) -> None:
        self.start, self.job, self.batch, self.signals = start, start.job, batch, signals
        self._environment = environment
        self._clock = self._new_clock()
        self._asked = 0.0
        self.at_limit = self.sent_term = False
        self.host = ""
        self.lost: Sequence[str] = ()
        self.rehearsal: "Optional[Rehearsal]" = None
        self._program: Optional[Program] = None
        self._watcher = Watcher({row.role: row.rank for row in reversed(start.job.rows)})
        self._failed_at: Optional[float] = None
        self._ends = [signal.SIGTERM, signal.SIGKILL]  # of a horovodrun, which may be deaf to the first

    def _find_lost(self) -> None:
        """Note which nodes ssh does not reach any more: minutes may pass until the batch system notices."""
        nodes = enumerate(self.start.nodes)
        reach = {node: launching.start(self._way_to(node, place, ["true"])) for place, node in nodes}
        self.lost = [node for node, process in reach.items() if process is None or process.wait() != 0]
        if self.lost:
            say(
                f"{os.uname().nodename} cannot reach {' '.join(self.lost)} by ssh, "
                "by which horovodrun starts ranks there; "
                "let `ssh NODE true` work without a password, if the nodes are not down"
            )

    @property
    def tells(self) -> bool:
        """Whether its launcher always tells which of the tasks, on several nodes, failed first."""
        return self.job.mode == "tasks" and self.job.launcher in _REPORTING and self.job.nodes > 1

    @property
    def _by_srun(self) -> bool:
        """Whether Slurm signals the tasks: at TERM srun would kill them at once."""
        return self.job.launcher == "srun" and self.job.mode == "tasks"

    def run(self, tick: Tick) -> End:
        """Run the script to its end; return what is known of that."""
        start, tasks = self.start, self.job.mode == "tasks" and not self.job.shell
        watched, awaited = self.job.gpus and not self.job.shell, tasks or self.job.shell
        last = len(start.nodes) - 1
        on_nodes = faults.Nodes(start, lambda words: self.batch.on_nodes(0, last, start.nodes, words))
        self._program = Program(
            [
                "bash",
                os.path.join(_OWN, "attempt.sh"),
                "tasks" if awaited else "once",
                self.job.own("job.sh"),
            ],
            {**start.environment(self._environment), **({"HPCDIST_KILL": "0"} if self._ends_others else {})},
            group=not awaited,
            reads=tasks,
            terminal=self.job.shell,
        )
        policy, ticks = self.job.policy, [tick, self._tick]
        ticks += [on_nodes.tick] if watched else []
        if policy and policy.rehearsal:
            from . import rehearsal

            self.rehearsal = rehearsal.begin(start, policy, self.batch.on_node, self.ring, self._lives)
            ticks = [*ticks, self.rehearsal.tick]
        kills = processes.memory_kills()
        code, cause, self.lost = launching.attempt(self._program, self.signals, ticks, self._watcher)
        if cause and not cause.text and processes.memory_kills() > kills:
            cause = cause._replace(text=MEMORY.format(cause.code), is_told=False)
        refused = self._watcher.refused
        if code == 0 and refused:  # not every launcher tells how its tasks ended
            code, cause = LAUNCH, refused
        told = self.signals.told
        if told and code and not SIGNALLED < code <= _LAST_SIGNALLED:
            code = TERMINATED  # launchers have codes of their own for tasks that a signal ended
        code = self._judge(code, cause, told=told)
        on_nodes.end(self._failed)
        is_lost, is_explained = bool(self.lost), bool(self.host)
        return End(code, told, self.at_limit, self.sent_term, is_lost=is_lost, is_explained=is_explained)

    # --- Its cause

    def _judge(self, code: int, cause: Optional[Cause], *, told: bool) -> int:
        self._failed: List[int] = []
        if code and (self._ended_early(code) or (self.job.elastic and self._had_ended_well())):
            return 0
        if self.job.elastic and code and not (told or self.at_limit):
            self._find_lost()
            cause = None if self.lost else self._elastic_cause() or cause
        if self.lost:
            return code
        starts_tasks = self.job.mode == "tasks" or self.job.elastic
        if code == 0 or told or self.at_limit or self.job.shell or not starts_tasks:
            return code
        if cause:
            self._record(cause)
            return cause.code
        if code != LAUNCH and self.job.launcher in _REPORTING:
            self._tell_lost(code)
        return code

    def _ended_early(self, code: int) -> bool:
        """Whether a trial has ended by a policy of its search; tell it."""
        try:
            with open(f"{self.start.failure}.pruned", encoding="utf-8") as file:
                text = file.read().strip()
        except OSError:
            return False
        if text:
            say(f"this trial has ended early, by {text}", sys.stdout)
            self.start.log("pruned", code)
        return bool(text)

    def _had_ended_well(self) -> bool:
        """Whether a rank had ended well when others were lost, which fails an elastic horovodrun."""
        well = os.path.join(self.start.folder, f"ended.{self.start.place}", "well")
        if not os.path.exists(well) or os.path.exists(self.start.failure):
            return False
        say("the training had ended well when a node was lost", sys.stdout)
        return True

    def _elastic_cause(self) -> Optional[Cause]:
        """Return what the first rank of an elastic horovodrun that failed has recorded (`elastic.py`)."""
        try:
            with open(self.start.failure, encoding="utf-8") as file:
                code, rank, node = file.read().split()
            return Cause(int(rank) if rank.isdigit() else None, node, int(code))
        except (OSError, ValueError):
            return None

    def _record(self, cause: Cause) -> None:
        """Tell who failed first, and record it."""
        place = None if cause.rank is None else self.job.place(cause.rank)
        if not cause.node and place and place[0] < len(self.start.nodes):
            name = self.start.nodes[place[0]]
            cause = cause._replace(node=os.uname().nodename if name == "localhost" else name)
        if not cause.is_told:
            say(str(cause))
        self.host = cause.node or "?"
        rank = "?" if cause.rank is None else cause.rank
        text = f" {cause.text}" if cause.text else ""
        with suppress(OSError), open(self.start.failure, "w", encoding="utf-8") as file:
            file.write(f"{cause.code} {rank} {self.host}{text}\n")
        self._failed = faults.write(self.start, faults.ends([cause], self.start, time.time()))

    def _tell_lost(self, code: int) -> None:
        """Tell that no task's failure explains the end of the launcher."""
        say(
            f"{self.job.launcher} ended with exit code {code}, and no task recorded why: "
            "a node or a task was lost, or killed; its own messages are above"
        )
        text = self.batch.lost(self.start.nodes) if self.job.nodes > 1 else ""
        if text:
            say(text)

    def end_leftovers(self) -> None:
        """Kill what a launcher has left on this node, which would write the next attempt's checkpoints."""
        for pid in processes.processes(f"HPCDIST_FAILURE={self.start.failure}\0"):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    # --- Signals

    def arrived(self, number: int, own: bool) -> None:
        """Pass on a signal of the batch system, unless it sends it to the tasks itself."""
        if self._by_srun and (number != signal.SIGTERM or not self.batch.ending()):
            self.batch.signal_tasks(name_of(number))
        elif not self._by_srun and (own or not self.batch.signals_all):
            self._send(number)

    def notify(self, name: str) -> None:
        """Send the program a signal that nobody else has sent."""
        self.sent_term = self.sent_term or name in ("TERM", "HUP")
        by_flux = self.job.launcher == "flux" and name.startswith("USR")  # which passes these on by itself
        if not ((self._by_srun or by_flux) and self.batch.signal_tasks(name)):
            self._send(getattr(signal, f"SIG{name}"))

    def _send(self, number: int) -> None:
        program = self._program
        if program is None:
            return
        if self.job.launcher.startswith("horovodrun") and self.job.launcher != "horovodrun-mpi":
            self._signal_ranks(number)  # horovodrun passes on none but TERM, on its own node
            if not self.job.elastic or number != signal.SIGTERM:
                return
        program.send(number)

    def _way_to(self, node: str, place: int, words: List[str]) -> List[str]:
        """Return the words that run these on a node as horovodrun starts ranks there."""
        is_here = self.batch.on_node(node, place, words) == words
        return words if is_here else self.batch.by_ssh(node, words, 10)

    def _signal_ranks(self, number: int) -> None:
        for place, node in enumerate(self.start.nodes):
            words = [sys.executable, "-ISB", _RANKS, "signal", self.start.failure, str(number)]
            launching.start(self._way_to(node, place, words))

    # --- Its time limit

    def _new_clock(self) -> Optional[Clock]:
        """Return the clock of a job that restarts: its program is told before the limit."""
        policy = self.job.policy
        if policy is None or policy.rehearsal or self.job.shell:
            return None
        known = self._environment.get("SLURM_JOB_END_TIME", "")
        if not known.isdigit() and self.job.walltime is None:
            return None
        at = float(known) if known.isdigit() else self.start.began + (self.job.walltime or 0)
        return Clock(clock.limit(time.time(), at, policy.notice))

    def _tick(self) -> None:
        own, now = self._clock, time.time()
        if self._ends_others and not (self.at_limit or self.signals.told):
            self._end_others(now)
        if self.job.elastic and self.at_limit:
            self._end_elastic(now)
        if own is None:
            return
        if own.near(now) and now - self._asked >= _ASK_AGAIN:  # the limit may have been put off meanwhile
            self._asked = now
            own.put_off(self.batch.end())
        what = own.due(now, bell=self.signals.take_bell())
        if what:
            self.ring(what)

    @property
    def _ends_others(self) -> bool:
        """Whether srun leaves that to this."""
        return self._by_srun and self.job.policy is not None and self.job.kill_on_failure

    def _end_others(self, now: float) -> None:
        """End the other tasks when one has failed, as srun -K does.

        After the notice that would end those that save: so srun is told not to, where there is one.
        """
        if self._watcher.cause and self._failed_at is None:
            self._failed_at = now
            self.batch.signal_tasks("TERM")
        elif self._failed_at and now - self._failed_at > _GRACE:
            self._failed_at = now
            self.batch.signal_tasks("KILL")

    def _end_elastic(self, now: float) -> None:
        """End horovodrun some time after a rank ended at the notice: it may wait for ever."""
        if self._failed_at is None:
            self._failed_at = now if os.path.exists(self.start.failure) else None
        elif self._program and self._ends and now > self._failed_at + _SAVES:
            self._failed_at += _GRACE
            self._program.send(self._ends.pop(0))
            self.sent_term = True

    def ring(self, what: str) -> None:
        """Do what is due: give notice, end the program, or kill it."""
        policy = self.job.policy
        if what == clock.NOTICE and policy is not None:
            self.at_limit = True
            self.start.log("notice", policy.signal)
            self.notify(policy.signal)
        elif what == clock.END:
            self.notify("TERM")
        elif self._program is not None:
            if self._by_srun:
                self.batch.signal_tasks("KILL")
            self._program.send(signal.SIGKILL)

    def _lives(self) -> bool:
        return self._program is not None and self._program.code is None
