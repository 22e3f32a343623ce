"""Questions to the batch system, and what its answers mean; `System` itself is for a job without one.

A question without an answer decides nothing: what is unknown is None, or empty, and never a guess. Programs
tell failures on either of their outputs, which are one text here: only lines of an answer's form are read.
"""

import contextlib
import glob
import importlib
import itertools
import os
import re
import shlex
import signal
import subprocess
import time
from subprocess import DEVNULL, PIPE, STDOUT
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .job import Job

LATE = 124
"""The exit code of a program that does not answer in time (timeout(1))."""

Words = Sequence[str]

_TERMINATED = 128 + signal.SIGTERM
_SHIELDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class Answer(NamedTuple):
    """The exit code of a program, as a shell has it, and all that it printed."""

    code: int
    text: str

    @property
    def words(self) -> Optional[List[str]]:
        """The lines of one word each; None without an answer."""
        rows = map(str.split, self.text.splitlines())
        return [row[0] for row in rows if len(row) == 1] if self.code == 0 else None


Ask = Callable[[Words, float], Answer]


def ask(words: Words, seconds: float) -> Answer:
    """Return what a program answers within so many seconds.

    All processes of a job may get TERM at this moment. The program has it blocked, and is asked again, up to
    five times, if it ended by it all the same.
    """
    for _ in range(4):
        answer = _ask_once(words, seconds)
        if answer.code != _TERMINATED:
            return answer
    return _ask_once(words, seconds)


def _ask_once(words: Words, seconds: float) -> Answer:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SHIELDED)  # the program inherits it
    try:
        process = subprocess.Popen(words, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, start_new_session=True)
    except OSError as error:
        return Answer(127 if isinstance(error, FileNotFoundError) else 126, str(error))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        text = process.communicate(timeout=seconds)[0].decode("utf-8", "replace")
        code = process.returncode
    except subprocess.TimeoutExpired:
        text, code = "", _abandon(process)
    return Answer(128 - code if code < 0 else code, text)


def _abandon(process: "subprocess.Popen[bytes]") -> int:
    """End a program whose time is over; it may have ended, and left behind what keeps its output open."""
    code = process.poll()
    if code is None:
        os.killpg(process.pid, signal.SIGKILL)
    if process.stdout:
        process.stdout.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)  # longer where a file system hangs
    return LATE if code is None else code


def expand(hosts: str) -> List[str]:
    """Return the hosts of a list such as ``n[01-03,7],m5``, in Slurm's order; none if it has another form."""
    try:
        return list(itertools.chain(*map(_named, re.findall(r"(?:[^\[\],]|\[[^\]]*\])+", hosts))))
    except ValueError:
        return []


def _named(name: str) -> List[str]:
    parts = re.split(r"\[([^\]]*)\]", name)
    texts = [_numbers(part) if at % 2 else [part] for at, part in enumerate(parts)]
    return ["".join(host) for host in itertools.product(*texts)]


def _numbers(ranges: str) -> List[str]:
    found: List[str] = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        found += (str(number).zfill(len(first)) for number in range(int(first), int(last or first) + 1))
    return found


def short(host: str) -> str:
    """Return the name of a host without its domain."""
    return host.partition(".")[0]


def line_of(words: Words) -> str:
    """Return these words as a line of shell."""
    return " ".join(map(shlex.quote, words))


def lines_of(path: str) -> List[str]:
    """Return the lines of a file; raise LookupError, with a sentence, if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError as error:
        raise LookupError(f"cannot read {path}: {error.strerror}") from error


def begin_of(process: str) -> str:
    """Return when a process began, in ticks since the start of this machine; empty if there is none.

    Its number may be given to another one. The source is proc(5).
    """
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(") ")[2].split()[19]
    except (OSError, IndexError):
        return ""


class System:
    """The batch system of this job, and the job as it has set it.

    ``name`` is the job's id without its element, ``number`` its number alone; ``element`` is that of an
    array, or empty. ``here`` is the name of this host, ``agent`` the program by which PBS reaches the others.
    """

    program = ""
    """What takes scripts like this one."""

    canceller: Tuple[str, ...] = ()
    """The words that cancel the job whose id follows them."""

    signals_all = False
    """Whether what it sends to the job reaches every process on this host, and the launcher with them."""

    def __init__(self, environment: Mapping[str, str], job: Job, ask: Ask = ask) -> None:
        """Raise LookupError, with a sentence, where the variables of the batch system are not there."""
        self.environment = environment
        self.job = job
        self.ask = ask
        self.here = os.uname().nodename
        self.agent = ""
        self.name, self.number, self.element = self._identity()

    def _identity(self) -> Tuple[str, str, str]:
        return str(os.getpid()), str(os.getpid()), ""

    def _given(self, name: str) -> str:
        value = self.environment.get(name)
        if not value:
            raise LookupError(f"this script is for {self.program}: there is no {name}")
        return value

    # --- The job's nodes

    @property
    def folder(self) -> str:
        """The folder of submission, in which the job is to begin."""
        return os.getcwd()

    def prepare(self, folder: str) -> Dict[str, str]:
        """Write what the launcher needs to the job's own folder, and return variables for the script.

        Raises:
            OSError: if it cannot be written.
        """
        return {}

    def nodes(self) -> List[str]:
        """Return all nodes of the job in the plan's order.

        Raises:
            LookupError: with a sentence, if they are not known, or are not as many as the plan needs.
        """
        found, needed = self._nodes(), self.job.nodes + self.job.own_nodes
        if len(found) != needed:
            raise LookupError(f"the allocation has {len(found)} nodes, the plan needs {needed}")
        return found

    def _nodes(self) -> List[str]:
        return ["localhost"]

    def live_nodes(self, seconds: float) -> List[str]:
        """Return the nodes that the job still has; none where nobody says so within so many seconds."""
        return ["localhost"] if self.job.scheduler == "local" else []

    def down(self, nodes: Words = ()) -> List[str]:
        """Return which nodes of this job, or of these, are down, as far as the batch system says."""
        return []

    def lost(self, nodes: Words) -> str:
        """Return a sentence with the nodes by which a launcher may have ended, where no task says why."""
        return ""

    def on_node(self, node: str, number: int, words: Words) -> List[str]:
        """Return the words that run these words on a node of the job, beside what runs there."""
        return list(words) if self._is_here(node) else self._elsewhere(node, number, words)

    def on_nodes(self, first: int, last: int, nodes: Words, words: Words) -> List[List[str]]:
        """Return the commands that run words on the nodes of these numbers, which are the last word there."""
        numbers = range(first, last + 1)
        return [self.on_node(nodes[number], number, [*words, str(number)]) for number in numbers]

    def _elsewhere(self, node: str, number: int, words: Words) -> List[str]:
        return self.by_ssh(node, words)

    def by_ssh(self, node: str, words: Words, seconds: int = 20) -> List[str]:
        """Return those that run them by ssh, which waits so long for a node; for launchers that go by ssh."""
        options = ("-o", "BatchMode=yes", "-o", f"ConnectTimeout={seconds}")
        return list(words) if self._is_here(node) else ["ssh", *options, node, line_of(words)]

    def _is_here(self, node: str) -> bool:
        return node == "localhost" or short(node) == short(self.here)

    # --- Its attempts

    def own_id(self) -> str:
        """Return the id by which the job of an attempt is found alive, or not."""
        return f"{self.number} {self.here} {begin_of(self.number)}"

    def lives(self, job_id: str) -> Optional[bool]:
        """Return whether a job is alive, by its `own_id`; None where nobody says so."""
        process, host, began = [*job_id.split(), "", "", ""][:3]
        if host not in ("", self.here):
            return None
        return bool(began) and begin_of(process) == began

    def requeue(self, late: bool) -> str:
        """Have the job put into the queue again, ``late``: also if it has met its time limit.

        Return ``queued``, ``refused``, or ``silent`` without an answer.
        """
        return "refused"

    def requeued_code(self, code: int) -> int:
        """Return with which exit code the job must end once it is in the queue again."""
        return code

    def exit_code(self, code: int) -> int:
        """Return with which exit code the job may end, of which the program had this one."""
        return code

    def exclude(self, nodes: Words, keep: str, follower: str = "") -> None:
        """Keep this job, which is in the queue again, or one that follows it, from these nodes.

        What its user has excluded stays so, and is kept in file ``keep``, one for each job; nodes that were
        bad in an earlier attempt alone may be in order again. PBS and Flux cannot change that of a job.
        """

    def _at_first(
        self, keep: str, nodes: Words, question: Callable[[], Optional[List[str]]]
    ) -> Optional[str]:
        """Return the first answer to a question; None without one, or where no node ever was bad."""
        if not os.path.exists(keep):
            first = question() if nodes else None
            if first is None:
                return None
            try:
                with open(keep + ".part", "w", encoding="utf-8") as file:
                    file.write(",".join(first) + "\n")
                os.rename(keep + ".part", keep)
            except OSError:
                return None  # the next answer would have what we exclude now
        return "".join(lines_of(keep))

    # --- Its end

    def end(self) -> Optional[float]:
        """Return when the job must end, in seconds since 1970, as far as the batch system says."""
        return None

    def ending(self) -> str:
        """Return why the job is being ended: preempt, timeout or terminated; empty if that is not known."""
        return ""

    def cancel(self, job_id: str) -> None:
        """Cancel a job."""
        if self.canceller:
            self.ask((*self.canceller, job_id), 60)

    def signal_tasks(self, name: str) -> bool:
        """Have the batch system send a signal to the tasks alone; return whether it does."""
        return False


def system(environment: Mapping[str, str], job: Job, ask: Ask = ask) -> System:
    """Return the batch system of a job; that of a plug-in is ``SYSTEM`` of a module with its name.

    Raises:
        LookupError: with a sentence, where this is none of its jobs.
    """
    from . import systems

    kinds = (systems.Slurm, systems.Pbs, systems.Lsf, systems.Sge, systems.Flux)
    known = {"local": System, **{kind.__name__.lower(): kind for kind in kinds}}
    if job.scheduler not in known:
        try:
            known[job.scheduler] = importlib.import_module(f"{__package__}.{job.scheduler}").SYSTEM
        except ImportError as error:
            raise LookupError(f"the run's files do not know {job.scheduler}: {error}") from error
    return known[job.scheduler](environment, job, ask)


def followers(job: Job, job_id: str) -> List[str]:
    """Return the ids of the run's other jobs, which were submitted with this one; some may have ended."""
    found: List[str] = []
    for path in sorted(glob.glob(os.path.join(glob.escape(job.run), "record.*.json"))):
        with contextlib.suppress(LookupError):
            found += re.findall('(?m)^ *"job_id": "([^";]+)', "\n".join(lines_of(path)))
    return [other for other in found if other != job_id]


def put_back(
    system: System,
    late: bool,
    wanted: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Have the job put into the queue again, and return whether it is.

    It is asked for 600 s without an answer, as the batch system may be down at this very moment, and else for
    100 s; no longer than it is ``wanted``, as the job may be cancelled meanwhile.
    """
    began, answer = clock(), ""
    while wanted():
        answer = system.requeue(late)
        if answer == "queued" or clock() - began >= (600 if answer == "silent" else 100):
            break
        sleep(5)
    return answer == "queued"
