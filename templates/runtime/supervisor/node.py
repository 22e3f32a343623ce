"""Runs on each node beside the tasks: samples the use of GPUs and CPUs, and writes what shows of faults.

A program of its own: ``node.py FOLDER PLACE BEGAN EVERY VARIABLE VISIBILITY NODE``, with ``-`` for an empty
word. FOLDER is the job's, PLACE the attempt as names of files have it, BEGAN its begin in seconds since 1970,
EVERY the seconds between samples, VARIABLE and VISIBILITY those of the plan's GPUs, NODE this node's number.
"""

import glob
import math
import os
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import chain, islice
from typing import Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

Wait = Callable[..., bool]
_LOOK, _RARELY, _PARENT = 1.0, 30.0, 5.0  # seconds between looks at the file, and at the parent
_WITHIN = 4.0  # seconds for the signs of faults, whatever hangs
_TRIES = 3  # of a tool that fails
_MOST_LINES, _MOST_TEXT = 50, 300
_HANGS = -signal.SIGKILL


class Over(Exception):  # noqa: N818 - no error
    """The attempt is over."""


class Failed(Over):
    """It is over, and a task has failed on this node."""


class Attempt:
    """The attempt as this node knows it: it is over when the supervisor says so, or is out of touch.

    The supervisor writes ``over`` or ``failed NODE...`` to standard input, and to a file that is there from
    the beginning: network file systems would keep for a while that it is missing. On standard input ``begin``
    comes first. Without that, the way to this node has none (pbs_tmrsh), and an end of it says nothing.
    """

    def __init__(self, file: str, node: str) -> None:
        self._file, self._node, self._parent = file, node.encode(), os.getppid()
        self._sources, self._rest, self._hears, self._due = [0], b"", False, 0.0
        if sys.stdin is None:  # it is closed
            self._sources = []

    def wait(self, until: float, pipe: Optional[int] = None) -> bool:
        """Return whether there is something in the pipe by then; raise Over as soon as the attempt is."""
        while True:
            now = time.monotonic()
            self._look(now)
            sources = self._sources if pipe is None else [*self._sources, pipe]
            pause = min(until - now, _PARENT if self._hears else _LOOK)
            ready = select.select(sources, [], [], max(0.0, pause))[0]
            if 0 in ready:
                self._hear(os.read(0, 1 << 16))
            if pipe in ready or now >= until:
                return pipe in ready

    def _look(self, now: float) -> None:
        if os.getppid() != self._parent:
            raise Over
        if now >= self._due:
            self._due = now + (_RARELY if self._hears else _LOOK)
            with suppress(OSError), open(self._file, "rb") as file:
                self._take(file.read())

    def _hear(self, data: bytes) -> None:
        self._rest = self._take(self._rest + data)
        self._sources = [0] if data else []
        if self._hears and not data:
            raise Over

    def _take(self, text: bytes) -> bytes:
        """Read whole lines; return what is behind them."""
        *lines, rest = text.split(b"\n")
        for what, *nodes in filter(None, map(bytes.split, lines)):
            self._hears = self._hears or what == b"begin"
            if what in (b"over", b"failed"):
                raise Failed if self._node in nodes else Over
        return rest


def started(*words: str, errors: int = subprocess.DEVNULL) -> "subprocess.Popen[bytes]":
    """Start a program by `env`, which ends with 127 where there is none of this name."""
    nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
    return subprocess.Popen(("env", *words), -1, None, nothing, pipe, errors, start_new_session=True)  # noqa: S607


def answer(tool: "subprocess.Popen[bytes]", until: float, wait: Wait) -> Tuple[int, str]:
    """Return the exit code of a program and its output; it is killed then, with all that it started."""
    text, more = bytearray(), b"-"
    with tool.stdout as source, suppress(subprocess.TimeoutExpired):  # type: ignore[union-attr]
        try:
            while more and wait(until, source.fileno()):
                more = os.read(source.fileno(), 1 << 16)
                text += more
            tool.wait(0 if more else 0.5)
        finally:
            with suppress(OSError, subprocess.TimeoutExpired):  # what the driver holds cannot be killed
                os.killpg(tool.pid, signal.SIGKILL)
                tool.wait(0.1)
    code = tool.poll()
    return _HANGS if code is None else code, text.decode("utf-8", "replace")


# --- The use of GPUs and CPUs


class Reading(NamedTuple):
    """What a tool prints of a GPU: its use in percent, its memory in MiB; None for what is not known."""

    number: int
    uuid: str
    use: Optional[int]
    used: Optional[int]
    total: Optional[int]


_TOOLS = {
    "nvidia-smi": "--query-gpu=index,uuid,utilization.gpu,memory.used,memory.total --format=csv,nounits",
    "rocm-smi": "--showuse --showmeminfo vram --csv",
    "xpu-smi": "dump -d -1 -m 0,18 -i 1 -n 2",  # its first sample of a device may be N/A
}
_TOOL_OF = {"ROCR": "rocm-smi", "HIP": "rocm-smi", "ZE": "xpu-smi"}
_COLUMNS = {
    "number": r"index$|device$|.*DeviceId$",
    "uuid": r".*uuid$",
    "use": r".*utilization\.gpu|GPU use|.*GPU Utilization",
    "used": r".*Memory Used.*MiB|.*memory\.used",
    "used_bytes": r".*Used Memory \(B\)$",
    "total": r".*memory\.total",
    "total_bytes": r".*Total Memory \(B\)$",
}
"""Options and columns are those of the tools' manuals."""


def readings(text: str) -> Iterator[Reading]:
    """Yield what a tool has printed: a line for each GPU, below the names of the columns."""
    head: List[str] = []
    for line in text.split("\n"):
        row = [cell.strip() for cell in line.split(",")]
        cells = dict(zip(head, row))
        number = _whole(cells.get("number", "").replace("card", ""))
        if number is not None:
            values = (_value(cells, name) for name in ("use", "used", "total"))
            yield Reading(number, cells.get("uuid", ""), *values)
        elif not head and re.match("(index|device|Timestamp),", line):
            head = [next((name for name in _COLUMNS if re.match(_COLUMNS[name], cell)), "") for cell in row]


def _value(cells: Dict[str, str], name: str) -> Optional[int]:
    count = _whole(cells.get(f"{name}_bytes", ""))
    return _whole(re.sub(r"\.[^.]*$", "", cells.get(name, ""))) if count is None else count >> 20


def _whole(text: str) -> Optional[int]:
    return int(text) if re.match("[0-9]+$", text) else None


def is_own(names: Sequence[str], number: object, uuid: str) -> bool:
    """Return whether a GPU is one of these; a UUID may be named by its beginning. Without names all are."""
    named = (name == str(number) or (name[0].isupper() and uuid.startswith(name)) for name in names)
    return not names or any(named)


def span(seconds: float, cpu: Tuple[int, int], samples: Sequence[Sequence[Reading]]) -> str:
    """Return a line: seconds, samples, use of the CPUs in percent by their times; then each GPU."""
    gpus: Dict[int, List[Reading]] = {}
    for reading in chain(*samples):
        gpus.setdefault(reading.number, []).append(reading)
    words = [str(100 * cpu[0] // cpu[1]) if cpu[1] > 0 else "-"]
    words += [f"{number}:{_shown(gpus[number])}" for number in sorted(gpus)]
    return f"{int(seconds)} {len(samples)} {' '.join(words)}\n"


def _shown(seen: Sequence[Reading]) -> str:
    """Return the use of a GPU, and its memory in use at most and in all; what is not known is -."""
    uses, used, total = ([value for value in column if value is not None] for column in list(zip(*seen))[2:])
    values = sum(uses) // len(uses) if uses else "-", max(used) if used else "-", total[-1] if total else "-"
    return ":".join(map(str, values))


def cpu_time(text: str, own: Iterable[int]) -> Tuple[int, int]:
    """Return the time of these CPUs by /proc/stat (proc(5)): how long they were busy, and all of it."""
    names = {f"cpu{number}" for number in own}
    rows = [line.split() for line in text.split("\n")]
    times = [[int(cell) for cell in row[1:9]] for row in rows if row and row[0] in names]
    every = sum(map(sum, times))
    return every - sum(sum(row[3:5]) for row in times), every


def _read(file: str) -> str:
    with open(file, encoding="ascii") as source:
        return source.read()


def sample(file: str, every: float, tool: str, names: Sequence[str], wait: Wait) -> None:
    """Write a line for each span of time, until the tool has failed three times in a row.

    The first spans have a sample each, later ones more: they grow with the attempt, to a hundredth of its
    time, so that 30 days have a thousand lines. What its end loses is less than the last hundredth.
    """
    began = at = time.monotonic()
    samples: List[List[Reading]] = []
    failed, due = 0, began + every
    spent = sum(os.times()[:4])
    before = cpu_time(_read("/proc/stat"), os.sched_getaffinity(0))
    while failed < _TRIES:
        wait(due)
        _, text = answer(started(tool, *_TOOLS[tool].split()), time.monotonic() + 10, wait)
        found = [each for each in readings(text) if is_own(names, each.number, each.uuid)]
        samples += [found] if found else []
        failed = 0 if found else failed + 1
        now = time.monotonic()
        if samples and now - at >= max(every, (now - began) / 100):
            cpu = cpu_time(_read("/proc/stat"), os.sched_getaffinity(0))
            _append(file, tool, span(now - at, (cpu[0] - before[0], cpu[1] - before[1]), samples))
            at, before, samples = now, cpu, []
        # Its own CPU time is to be a thousandth of the attempt's at most, with the next sample, which is
        # taken to cost as much as this one. The first is before that: nobody knows yet what it costs.
        last, spent = spent, sum(os.times()[:4])
        due = max(now + every, began + (2 * spent - last) * 1000)


def _append(file: str, tool: str, line: str) -> None:
    with suppress(OSError):
        os.makedirs(os.path.dirname(file), 0o700, exist_ok=True)
        with open(file, "ab", 0) as output:
            head = "" if output.tell() else f"# {os.uname().nodename} {tool}\n"
            output.write(f"{head}{int(time.time())} {line}".encode())


# --- Signs of faults

_LINKS = ("class/infiniband", "*/ports/*/counters", ("link_downed", "symbol_error", "link_error_recovery"))
_MEMORY = ("devices/system/edac/mc", "mc*", ("ue_count", "ce_count"))
"""Sources: Documentation/ABI/stable/sysfs-class-infiniband and Documentation/admin-guide/RAS of Linux."""

_KERNEL = re.compile(
    r"NVRM: Xid|amdgpu.*(GPU reset|ring .* timeout|RAS|uncorrect)|EDAC .*(UE|CE|rror)|\[Hardware Error\]"
    r"|mce: .*rror|[Ll]ink (is )?([Dd]own|DOWN)|link_down|health (compromised|poll failed)|[Oo]ut of memory"
    r"|I/O error|nfs: server .* not responding|LustreError|evicted"
)
_STAMP = re.compile(r"\[ *([0-9]+)\.")
_GPU = re.compile("([0-9]+),(GPU-[^,]*),([^,]*),([^,]*)")
_LOST = re.compile("is lost|Unable to determine|No devices")
_QUERY = (
    "--query-gpu=index,uuid,ecc.errors.uncorrected.volatile.total,retired_pages.pending"
    " --format=csv,noheader,nounits"
)
_JOURNAL = "journalctl -k -q -n 5000 --no-pager -o short-monotonic --since"


def counters(system: str = "/sys") -> Dict[str, int]:
    """Return the counts of links that went down or had wrong symbols, and of memory errors by controller."""
    found = {}
    for folder, place, names in (_LINKS, _MEMORY):
        for file in chain(*(sorted(glob.glob(f"{system}/{folder}/{place}/{name}")) for name in names)):
            with suppress(OSError, ValueError):
                name = re.sub("ports/|counters/", "", os.path.relpath(file, f"{system}/{folder}"))
                found[name] = int(_read(file))
    return found


def grown(before: Dict[str, int], now: Dict[str, int]) -> List[str]:
    """Return a line for each counter that has changed."""
    changed = (name for name in now if before.get(name, now[name]) != now[name])
    return [f"counter {name} {before[name]} {now[name]}" for name in changed]


def of_kernel(text: str, since: float) -> List[str]:
    """Return its messages on hardware, links and memory, from so many seconds after its start on."""
    stamped = ((_STAMP.match(line), line) for line in text.split("\n"))
    found = (line for at, line in stamped if at and int(at.group(1)) >= int(since) and _KERNEL.search(line))
    return [f"kernel {line[:_MOST_TEXT]}" for line in islice(found, _MOST_LINES)]


def of_gpus(text: str, names: Sequence[str]) -> Iterator[str]:
    """Yield memory errors, and pages that wait to be retired; a GPU that is lost has a sentence."""
    for line in text.split("\n"):
        row = _GPU.match("".join(line.split()))
        if row is None and _LOST.search(line):
            yield f"tool {line[:_MOST_TEXT]}"
        elif row and is_own(names, *row.group(1, 2)):
            number, _, errors, waits = row.groups()
            if re.match("[1-9]", errors):
                yield f"gpu {number} {errors} uncorrected memory errors since its driver was loaded"
            if waits == "Yes":
                yield f"gpu {number} has memory pages that wait to be retired"


def signs(before: Dict[str, int], since: float, names: Optional[Sequence[str]]) -> Iterator[str]:
    """Yield what this node shows; ``names``: the job's GPUs, None where nvidia-smi is not asked for them."""
    began = time.monotonic()
    gpus = None if names is None else started("nvidia-smi", *_QUERY.split(), errors=subprocess.STDOUT)
    yield from grown(before, counters())
    code, text = answer(started("dmesg"), began + 2, _wait)  # not permitted by kernel.dmesg_restrict
    if code != 0:
        ago = int(_uptime() - since) + 60
        _, text = answer(started(*_JOURNAL.split(), f"-{ago}s"), began + _WITHIN - 0.5, _wait)
    yield from of_kernel(text, since)
    if gpus:
        code, text = answer(gpus, max(began + 3, time.monotonic()), _wait)
        hangs = "tool nvidia-smi did not answer within 3 s"
        yield from [hangs] if code == _HANGS else of_gpus(text, names or ())


def _wait(until: float, pipe: int) -> bool:
    return bool(select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0])


def _uptime() -> float:
    """Return the seconds since this node was started: by these the kernel stamps its messages."""
    return float(_read("/proc/uptime").split()[0])


def _terminate(*_: object) -> None:
    raise Over


def main(words: Sequence[str]) -> None:
    """Run until the attempt is over."""
    for name in ("INT", "HUP", "QUIT", "ALRM", "USR1", "USR2", "XCPU", "XFSZ"):
        signal.signal(getattr(signal, f"SIG{name}"), signal.SIG_IGN)
    os.umask(0o077)
    os.environ.pop("HPCDIST_TOKEN", None)
    folder, place, began, every, variable, visibility, node = ("" if word == "-" else word for word in words)
    tool = _TOOL_OF.get(variable.partition("_")[0], "nvidia-smi")
    # Those that the batch system has set here. Where the launcher sets it for each task, all that are seen.
    names = [] if visibility == "launcher" else os.environ.get(variable, "").replace(",", " ").split()
    since = _uptime() - min(60.0, max(0.0, time.time() - float(began)))  # clocks may differ
    before, attempt = counters(), Attempt(f"{folder}/over.{place}", node)
    try:
        signal.signal(signal.SIGTERM, _terminate)
        if every:
            with suppress(OSError):  # such as too many processes
                sample(f"{folder}/gpu_usage/{place}.{node}", float(every), tool, names, attempt.wait)
        attempt.wait(math.inf)
    except Failed:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, _WITHIN)
        asks = tool == "nvidia-smi" and visibility in ("task", "node", "launcher")
        with suppress(OSError), open(f"{folder}/faults/{place}.{node}", "ab", 0) as file:
            file.writelines(f"{line}\n".encode() for line in signs(before, since, names if asks else None))
    except Over:
        pass


if __name__ == "__main__":
    main(sys.argv[1:])
