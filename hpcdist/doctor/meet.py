"""A program of its own: do the tasks of a job reach each other? It needs no hpcdist, and Python 3.8 or later.

``python meet.py FILE`` adds what it finds to FILE, which look.py wrote; `records.Meeting` tells what is in
it. Rank 0 listens at the job's port, on the addresses by which other nodes reach this one and on no other.
All who connect, here and in the ring, must know the secret in the run directory's file ``secret`` (0600):
each side proves it by an HMAC of the other's nonce, so it is never sent. No wait is longer than ``PATIENCE``.

The tasks sum 8-byte integers around a ring over TCP, by the standard library alone, so that there is a result
even where no framework works. The sum must be exact.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

PATIENCE = 30.0  # seconds; tasks do not begin all at once where Python lies on a slow file system
LANES = 1 << 20
"""How many numbers are summed: 8 MiB of 8-byte integers."""
ROUNDS, PINGS = 3, 10
_NUMBERS = ("RANK", "SIZE", "NODE", "PORT")


class Task(NamedTuple):
    """This task's place in its job."""

    rank: int
    size: int
    node: int
    port: int
    nodes: list[str]
    head: str
    secret: bytes

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Task:
        """Read what hpcdist tells a task."""
        rank, size, node, port = (int(environment[f"HPCDIST_{name}"]) for name in _NUMBERS)
        nodes = Path(environment["HPCDIST_JOB_DIR"], "nodes").read_text().split()
        secret = Path(environment["HPCDIST_RUN_DIR"], "secret").read_bytes()
        return cls(rank, size, node, port, nodes, environment["HPCDIST_HEAD_ADDRESS"], secret)


class Link:
    """A connection between two tasks that have proved to each other that they know the secret."""

    def __init__(self, connection: socket.socket, secret: bytes, side: str) -> None:
        connection.settimeout(PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = connection.makefile("rwb")
        nonce = os.urandom(16).hex()
        self.send(nonce)
        self.send(_proof(secret, side, self.receive()))
        other = "caller" if side == "host" else "host"
        if not hmac.compare_digest(str(self.receive()), _proof(secret, other, nonce)):
            raise ConnectionError("who answers does not know the job's secret")

    def send(self, value: Any) -> None:
        """Send what JSON can say."""
        self.file.write(json.dumps(value).encode() + b"\n")
        self.file.flush()

    def receive(self) -> Any:
        """Return what the other sends."""
        line = self.file.readline(1 << 20)
        if not line.endswith(b"\n"):
            raise ConnectionError("the other side hung up")
        return json.loads(line)

    def swap(self, data: bytes, left: Link) -> bytes:
        """Send this here and return as much that comes from the left, both at once."""
        sender = threading.Thread(target=self._pour, args=(data,), daemon=True)
        sender.start()
        got = left.file.read(len(data))
        sender.join(PATIENCE)
        if len(got) < len(data):
            raise ConnectionError("the other side hung up")
        return bytes(got)

    def _pour(self, data: bytes) -> None:
        with suppress(OSError):  # the reader will find out
            self.file.write(data)
            self.file.flush()


def _proof(secret: bytes, side: str, nonce: object) -> str:
    return hmac.new(secret, f"{side} {nonce}".encode(), hashlib.sha256).hexdigest()


def resolved(names: list[str]) -> dict[str, list[str]]:
    """Return the IPv4 addresses of each name; one that has none has its error, in brackets."""
    found = {name: ["(no answer)"] for name in names}

    def ask(name: str) -> None:
        try:
            found[name] = sorted({str(item[4][0]) for item in socket.getaddrinfo(name, None, socket.AF_INET)})
        except OSError as error:
            found[name] = [f"({error.strerror or error})"]

    end = time.monotonic() + PATIENCE / 2
    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return dict(found)


def own_addresses(task: Task, names: dict[str, list[str]]) -> list[str]:
    """Return this node's addresses on the ways to the head, then to all nodes, itself among them.

    The head's name may be another than that of its node: `head_node.suffix` of the site file.
    """
    if len(task.nodes) == 1:
        return ["127.0.0.1"]
    found: dict[str, None] = {}
    for address in (address for name in (task.head, *task.nodes) for address in names[name]):
        if not address.startswith(("127.", "(")):
            with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect((address, 9))  # no packet is sent
                found[probe.getsockname()[0]] = None
    return [*found]


def called(address: str, port: int, secret: bytes) -> Link:
    """Connect, and try again for as long as nobody listens yet."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return Link(socket.create_connection((address, port), PATIENCE / 2), secret, "caller")
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def welcome(doors: list[socket.socket], secret: bytes, take: Callable[[Link], None]) -> None:
    """Let in who knows the secret, each in a thread of its own; strangers go unheard."""

    def greet(connection: socket.socket) -> None:
        with suppress(OSError, ValueError):
            take(Link(connection, secret, "host"))

    def wait(door: socket.socket) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=greet, args=(door.accept()[0],), daemon=True).start()

    for door in doors:
        door.settimeout(PATIENCE)
        threading.Thread(target=wait, args=(door,), daemon=True).start()


class Head:
    """Rank 0's side: who has come, and where each listens for its neighbour in the ring."""

    def __init__(self, task: Task, doors: list[socket.socket], own: list[Any]) -> None:
        self.seats: dict[int, list[Any]] = {0: own}
        self.size = task.size
        self.changed = threading.Condition()
        welcome(doors, task.secret, self.serve)

    def serve(self, link: Link) -> None:
        """Answer the time as often as it is asked for; then take a seat, and tell all seats once all came."""
        message = link.receive()
        while message == "time":
            link.send(time.time())
            message = link.receive()
        with self.changed:
            self.seats[message["rank"]] = message["seat"]
            self.changed.notify_all()
        link.send(self.all_seats())

    def all_seats(self) -> list[Any]:
        """Return all seats by rank."""
        with self.changed:
            self.changed.wait_for(lambda: len(self.seats) == self.size, PATIENCE)
        missing = [rank for rank in range(self.size) if rank not in self.seats]
        if missing:
            raise ConnectionError(f"{len(missing)} of {self.size} are missing, first rank {missing[0]}")
        return [self.seats[rank] for rank in range(self.size)]


def clock(link: Link) -> dict[str, float]:
    """Return how far the head's clock is ahead, in seconds, give or take half of the shortest round trip."""
    best = (PATIENCE, 0.0)
    for _ in range(PINGS):
        begin, sent = time.monotonic(), time.time()
        link.send("time")
        theirs = link.receive()
        trip = time.monotonic() - begin
        best = min(best, (trip, theirs - sent - trip / 2))
    return {"ahead": best[1], "give_or_take": best[0] / 2}


def added(one: bytes, other: bytes) -> bytes:
    """Add 8-byte integers, all at once as one large number: sums are small, so none flows into the next."""
    total = int.from_bytes(one, "little") + int.from_bytes(other, "little")
    return total.to_bytes(len(one), "little")


def ring_sum(chunks: list[bytes], rank: int, right: Link, left: Link) -> list[bytes]:
    """Sum the chunks of all tasks: each goes around the ring once to be summed, and once more as the sum."""
    size, sums = len(chunks), [*chunks]
    for step in range(size - 1):
        got = right.swap(sums[(rank - step) % size], left)
        sums[(rank - step - 1) % size] = added(sums[(rank - step - 1) % size], got)
    for step in range(size - 1):
        sums[(rank - step) % size] = right.swap(sums[(rank + 1 - step) % size], left)
    return sums


def pattern(factor: int, lanes: int) -> bytes:
    """Return small numbers that differ from place to place, times this factor."""
    seven = b"".join(((place % 7 + 1) * factor).to_bytes(8, "little") for place in range(7))
    return (seven * (lanes // 7 + 1))[: lanes * 8]


def ring(task: Task, seats: list[Any], door: socket.socket) -> tuple[Link, Link]:
    """Return the links to the right and the left neighbour."""
    lefts: queue.Queue[Link] = queue.Queue()
    welcome([door], task.secret, lefts.put)
    address, port = seats[(task.rank + 1) % task.size]
    right = called(address, port, task.secret)
    with suppress(queue.Empty):
        return right, lefts.get(timeout=PATIENCE)
    raise ConnectionError(f"rank {(task.rank - 1) % task.size} did not connect to this one")


def summed(task: Task, right: Link, left: Link) -> dict[str, Any]:
    """Return how the sum went; the first round only warms up."""
    lanes, length = LANES // task.size, LANES // task.size * 8
    own = pattern(task.rank + 1, lanes * task.size)
    wanted = pattern(task.size * (task.size + 1) // 2, lanes * task.size)
    is_right, begin = True, 0.0
    for number in range(ROUNDS + 1):
        begin = begin if number > 1 else time.monotonic()
        chunks = [own[place * length : (place + 1) * length] for place in range(task.size)]
        is_right &= b"".join(ring_sum(chunks, task.rank, right, left)) == wanted
    seconds = (time.monotonic() - begin) / ROUNDS
    return {"by": "sockets", "ranks": task.size, "bytes": len(own), "right": is_right, "seconds": seconds}


def meeting(task: Task) -> dict[str, Any]:
    """Return all of it; what went wrong is in ``error``."""
    names, here = resolved([*task.nodes, task.head]), task.nodes[task.node]
    known = {name: names[name] for name in task.nodes}
    found: dict[str, Any] = {"rank": task.rank, "node": task.node, "names": known, "error": ""}
    step = f"{here} cannot listen for the other nodes"
    try:
        addresses = own_addresses(task, names)
        if not addresses:
            raise ConnectionError("no name of the job's nodes has an address there")
        gate = socket.create_server((addresses[0], 0))
        seat = gate.getsockname()
        step = f"{task.head} port {task.port} is not reached from {here}"
        if task.rank == 0:
            doors = [socket.create_server((address, task.port), backlog=128) for address in addresses]
            found["clock"] = {"ahead": 0.0, "give_or_take": 0.0}
            step = f"not all came to {task.head} port {task.port}"
            seats = Head(task, doors, seat).all_seats()
        else:
            link = called(task.head, task.port, task.secret)
            found["clock"] = clock(link)
            link.send({"rank": task.rank, "seat": seat})
            seats = link.receive()
        step = f"the next task does not answer at {seats[(task.rank + 1) % task.size][0]}"
        if task.size > 1:
            found["sums"] = [summed(task, *ring(task, seats, gate))]
    except (OSError, ValueError) as error:
        found["error"] = f"{step}: {error}"
    return found


def main() -> None:
    """Meet, and add it to the file."""
    file = Path(sys.argv[1])
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**known, "meeting": meeting(Task.of(os.environ))}))


if __name__ == "__main__":
    main()
