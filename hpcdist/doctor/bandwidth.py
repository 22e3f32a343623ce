"""A standalone program: how fast do the nodes of a job exchange data? It needs Python 3.8, and no hpcdist.

``python bandwidth.py mpi|torch FOLDER``, beside pairing.py and exchanges.py: rank 0 writes
FOLDER/bandwidth.LAUNCH.KIND.json, which `measurement.Measurement` describes, anew after each round: a job
that hangs or is ended leaves what it has measured. ``torch`` is NCCL where all tasks have a GPU, else gloo.
HPCDIST_LAUNCH is the number of the launch: the first measures pairs of nodes as well, further ones only what
all tasks do together.

Tasks with the same number on their nodes exchange data at the same time; a node's bandwidth is their sum.
What arrives is compared with what was sent.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from hpcdist.doctor import exchanges, pairing
else:
    import exchanges
    import pairing

SMALLEST = 1 << 18
EXCHANGE, REPEATS, PINGS = 0.02, 10, 20
"""An exchange has so many bytes that it takes ``EXCHANGE`` seconds, up to `exchanges.LARGEST`."""
MOST_SECONDS = 45.0
"""No further round begins after this time; the caller ends the program after some more."""
REPEAT_SECONDS = 10.0
"""No repeat of the rounds begins so long after the first round did: a very slow node is found without."""
_GB = 1e9


class Task:
    """One task: its node, and its number on that; ``places`` has those of all ranks."""

    def __init__(self, library: Any, node: int, number: int, begin: float) -> None:
        self.library, self.node, self.number, self.begin = library, node, number, begin
        self.places: list[tuple[int, int]] = [tuple(one) for one in library.gather((node, number))]
        self.nodes = max(place[0] for place in self.places) + 1

    def round(self, matches: list[pairing.Match]) -> tuple[list[pairing.Pair], list[tuple[int, int]]]:
        """Measure these pairs of nodes at once; return the result of each, and which got wrong data."""
        partners = {**dict(matches), **{right: left for left, right in matches}}
        other = partners.get(self.node)
        there = (other, self.number)
        self.library.gather(None)
        if other is None or there not in self.places:
            own: tuple[float, float, bool] | None = None
        else:
            own = self.pair(self.places.index(there))
        found = self.library.gather(own)
        return [self._sum(match, found) for match in matches], self._wrong(partners, found)

    def _sum(self, match: pairing.Match, found: list[Any]) -> pairing.Pair:
        one, other = (
            [
                result
                for (node, _), result in zip(self.places, found)  # noqa: B905 - Python 3.8
                if node == end and result
            ]
            for end in match
        )
        speed = min(sum(result[0] for result in side) for side in (one, other))
        return pairing.Pair(*match, speed, min((result[1] for result in (*one, *other)), default=0.0))

    def _wrong(self, partners: Mapping[int, int], found: list[Any]) -> list[tuple[int, int]]:
        places = zip(self.places, found)  # noqa: B905 - Python 3.8
        return [(partners[node], node) for (node, _), result in places if result and not result[2]]

    def pair(self, partner: int) -> tuple[float, float, bool]:
        """Return bandwidth in GB/s, latency in µs, and whether the data was right."""
        library = self.library
        library.exchange(partner, partner, 8)  # connects
        latency = min(timed(lambda: library.exchange(partner, partner, 8)) for _ in range(PINGS))
        library.exchange(partner, partner, SMALLEST)
        seconds = timed(lambda: library.exchange(partner, partner, SMALLEST))
        power = fitting(seconds).bit_length() - 1
        size = 1 << min(power, library.swap(power, partner))
        library.forget(size)
        best = min(timed(lambda: library.exchange(partner, partner, size)) for _ in range(REPEATS))
        return size / best / _GB, latency * 1e6, library.is_from(partner, size)

    def together(self, once: Callable[[int], None]) -> tuple[int, float]:
        """Return the bytes of what all tasks do at once, and the best time of the slowest, in seconds."""
        once(SMALLEST)
        size = min(self.library.gather(fitting(timed(lambda: once(SMALLEST)))))
        seconds = [max(self.library.gather(timed(lambda: once(size)))) for _ in range(REPEATS)]
        return size, min(seconds)

    def ring(self) -> tuple[float, bool]:
        """Return the bus bandwidth of a ring of all ranks in GB/s, and whether the data was right.

        Each sends to the next one, all at once: bytes per time, as sendrecv_perf of nccl-tests (sendrecv.cu).
        """
        rank, count = self.library.rank, self.library.size
        after, before = (rank + 1) % count, (rank - 1) % count
        self.library.forget(SMALLEST)
        size, seconds = self.together(lambda size: self.library.exchange(after, before, size))
        return size / seconds / _GB, all(self.library.gather(self.library.is_from(before, size)))

    def all_reduce(self) -> float:
        """Return that of an all-reduce: bytes per time, times 2(n-1)/n (nccl-tests, PERFORMANCE.md)."""
        count = int(self.library.size)
        size, seconds = self.together(self.library.all_reduce)
        return size * 2 * (count - 1) / count / seconds / _GB


def timed(once: Callable[[], None]) -> float:
    """Return how many seconds this takes."""
    begin = time.monotonic()
    once()
    return max(time.monotonic() - begin, 1e-7)


def fitting(seconds: float) -> int:
    """Return how many bytes take ``EXCHANGE`` seconds, a power of two, where the fewest take so many."""
    size = SMALLEST
    while size < exchanges.LARGEST and seconds * size / SMALLEST < EXCHANGE:
        size *= 2
    return size


def measure(task: Task, seed: int, *, in_pairs: bool, write: Callable[[Mapping[str, Any]], None]) -> None:
    """Measure, and write the record after each round."""
    found: dict[str, Any] = {"pairs": [], "confirmed": [], "wrong": [], "rounds": 0, "error": ""}
    planned = pairing.planned(task.nodes, seed) if in_pairs else []
    found["planned"] = len(planned)
    first, began = len(pairing.rounds(task.nodes, seed)), time.monotonic()
    for number, matches in enumerate(planned):
        times = task.library.gather((time.monotonic() - task.begin, time.monotonic() - began))
        whole, rounds = map(max, zip(*times))  # noqa: B905 - Python 3.8
        if whole > MOST_SECONDS or (number >= first and rounds > REPEAT_SECONDS):
            break
        add(found, "pairs", task.round(matches))
        write(found)
    last = pairing.confirmation([pairing.Pair(*pair) for pair in found["pairs"]])
    if last:
        add(found, "confirmed", task.round(last))
        write(found)
    if task.library.size > 1:
        found["ring"], found["is_ring_right"] = task.ring()
        found["all_reduce"] = task.all_reduce()
    write({**found, "done": True})


def add(found: dict[str, Any], key: str, result: tuple[list[pairing.Pair], list[tuple[int, int]]]) -> None:
    """Add the result of a round; every rank has the same, and so the same suspects."""
    found[key] += result[0]
    found["wrong"] += result[1]
    found["rounds"] += 1


def main() -> None:
    """Measure by one library; a library that is not there is recorded by rank 0 as such."""
    kind, folder, launch = sys.argv[1], Path(sys.argv[2]), int(os.environ.get("HPCDIST_LAUNCH", "1"))
    file, begin = folder / f"bandwidth.{launch}.{kind}.json", time.monotonic()
    known: dict[str, Any] = {"kind": kind, "nodes": names()}

    def write(found: Mapping[str, Any]) -> None:
        if int(os.environ["HPCDIST_RANK"]) == 0:
            new = file.with_suffix(".new")
            new.write_text(json.dumps({**known, **found}))
            new.replace(file)

    if find_spec({"mpi": "mpi4py"}.get(kind, kind)) is None:
        return
    write({"error": "it did not start"})
    try:
        library: Any = exchanges.Mpi() if kind == "mpi" else exchanges.Torch(os.environ)
        known |= {
            "library": library.name,
            "versions": {**library.versions, **driver()},
            "tasks": library.size,
            "variables": seen(library),
        }
        if library.size != int(os.environ["HPCDIST_SIZE"]):
            write({"error": f"it sees {library.size} of {os.environ['HPCDIST_SIZE']} tasks"})
            return
        task = Task(library, int(os.environ["HPCDIST_NODE"]), int(os.environ["HPCDIST_LOCAL_RANK"]), begin)
        measure(task, int(os.environ.get("HPCDIST_SEED", "0")), in_pairs=launch == 1, write=write)
    except Exception as error:  # noqa: BLE001 - whatever a library raises is the finding
        write({"error": f"{type(error).__name__}: {error}"})


def names() -> list[str]:
    """Return the names of the job's nodes by number."""
    return Path(os.environ["HPCDIST_JOB_DIR"], "nodes").read_text().split()


def seen(library: Any) -> dict[str, list[str | None]]:
    """Return the values that the tasks have of the variables that launches of this job set; None is unset."""
    try:
        lines = Path(os.environ.get("HPCDIST_RUN_DIR", ""), "launches").read_text().splitlines()
    except OSError:
        return {}
    names = sorted({word.partition("=")[0] for line in lines for word in line.split("\t")[2:]})
    rows = library.gather([os.environ.get(name) for name in names])
    columns = zip(*rows)  # noqa: B905 - Python 3.8
    return {name: [*dict.fromkeys(values)] for name, values in zip(names, columns)}  # noqa: B905


def driver() -> dict[str, str]:
    """Return the version of NVIDIA's driver, if there is one."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text().split()
    except OSError:
        return {}
    return {"driver": next((word for word in words if word.count(".") and word[0].isdigit()), "unknown")}


if __name__ == "__main__":
    main()
