"""A standalone program: do the tasks of a job reach each other? It needs no hpcdist, and Python 3.8 or later.

``python connectivity.py FILE`` adds its results to FILE, which host_info.py wrote; `finding.Connectivity`
describes them. Rank 0 listens at the job's port, only on the addresses by which other nodes reach this one.
Every connection, to rank 0 and in the ring, requires the secret of the run directory (``secret``, 0600):
each side proves it by an HMAC of the other's nonce, so it is never sent. No wait is longer than ``TIMEOUT``.

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

TIMEOUT = 30.0  # seconds; where Python is on a slow file system, tasks start at different times
COUNT = 1 << 20
"""How many integers of 8 bytes are summed: 8 MiB."""
ROUNDS, PINGS = 3, 10
_NUMBERS = ("RANK", "SIZE", "NODE", "PORT")


class TaskPlace(NamedTuple):
    """This task's place in its job."""

    rank: int
    size: int
    node: int
    port: int
    nodes: list[str]
    head: str
    secret: bytes

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> TaskPlace:
        """Read the variables that hpcdist sets for each task."""
        rank, size, node, port = (int(environment[f"HPCDIST_{name}"]) for name in _NUMBERS)
        nodes = Path(environment["HPCDIST_JOB_DIR"], "nodes").read_text().split()
        secret = Path(environment["HPCDIST_RUN_DIR"], "secret").read_bytes()
        return cls(rank, size, node, port, nodes, environment["HPCDIST_HEAD_ADDRESS"], secret)


class Link:
    """A connection between two tasks that have proved to each other that they know the secret."""

    def __init__(self, connection: socket.socket, secret: bytes, side: str) -> None:
        connection.settimeout(TIMEOUT)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = connection.makefile("rwb")
        nonce = os.urandom(16).hex()
        self.send(nonce)
        self.send(_proof(secret, side, self.receive()))
        other = "client" if side == "server" else "server"
        if not hmac.compare_digest(str(self.receive()), _proof(secret, other, nonce)):
            raise ConnectionError("the other side does not know the job's secret")

    def send(self, value: Any) -> None:
        """Send a value as one line of JSON."""
        self.file.write(json.dumps(value).encode() + b"\n")
        self.file.flush()

    def receive(self) -> Any:
        """Return the next value that the other side sends."""
        line = self.file.readline(1 << 20)
        if not line.endswith(b"\n"):
            raise ConnectionError("the other side closed the connection")
        return json.loads(line)

    def exchange(self, data: bytes, left: Link) -> bytes:
        """Send these bytes, and receive as many from the left neighbour at the same time."""
        sender = threading.Thread(target=self._write, args=(data,), daemon=True)
        sender.start()
        received = left.file.read(len(data))
        sender.join(TIMEOUT)
        if len(received) < len(data):
            raise ConnectionError("the other side closed the connection")
        return bytes(received)

    def _write(self, data: bytes) -> None:
        with suppress(OSError):  # the other side reports it
            self.file.write(data)
            self.file.flush()


def _proof(secret: bytes, side: str, nonce: object) -> str:
    return hmac.new(secret, f"{side} {nonce}".encode(), hashlib.sha256).hexdigest()


def resolve(names: list[str]) -> dict[str, list[str]]:
    """Return the IPv4 addresses of each name; a name without any has its error, in brackets."""
    found = {name: ["(no answer)"] for name in names}

    def look_up(name: str) -> None:
        try:
            found[name] = sorted({str(item[4][0]) for item in socket.getaddrinfo(name, None, socket.AF_INET)})
        except OSError as error:
            found[name] = [f"({error.strerror or error})"]

    end = time.monotonic() + TIMEOUT / 2
    threads = [threading.Thread(target=look_up, args=(name,), daemon=True) for name in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return dict(found)


def own_addresses(task: TaskPlace, names: dict[str, list[str]]) -> list[str]:
    """Return this node's addresses on the routes to the head node, then to all nodes, this one included.

    The head's address may have another name than its node: `head_node.suffix` of the site file.
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


def connect(address: str, port: int, secret: bytes) -> Link:
    """Connect; try again while the connection is refused because nothing listens yet."""
    end = time.monotonic() + TIMEOUT
    while True:
        try:
            return Link(socket.create_connection((address, port), TIMEOUT / 2), secret, "client")
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def accept(listeners: list[socket.socket], secret: bytes, handle: Callable[[Link], None]) -> None:
    """Accept connections that prove the secret, each in its own thread; others are dropped."""

    def authenticate(connection: socket.socket) -> None:
        with suppress(OSError, ValueError):
            handle(Link(connection, secret, "server"))

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=authenticate, args=(listener.accept()[0],), daemon=True).start()

    for listener in listeners:
        listener.settimeout(TIMEOUT)
        threading.Thread(target=serve, args=(listener,), daemon=True).start()


class Head:
    """Rank 0's side: the ranks that have connected, and where each listens for its neighbour in the ring."""

    def __init__(self, task: TaskPlace, listeners: list[socket.socket], own: list[Any]) -> None:
        self.addresses: dict[int, list[Any]] = {0: own}
        self.size = task.size
        self.changed = threading.Condition()
        accept(listeners, task.secret, self.serve)

    def serve(self, link: Link) -> None:
        """Answer requests for the time; then register the rank, and send all addresses once all are known."""
        message = link.receive()
        while message == "time":
            link.send(time.time())
            message = link.receive()
        with self.changed:
            self.addresses[message["rank"]] = message["address"]
            self.changed.notify_all()
        link.send(self.all_addresses())

    def all_addresses(self) -> list[Any]:
        """Wait for all ranks, and return their addresses by rank."""
        with self.changed:
            self.changed.wait_for(lambda: len(self.addresses) == self.size, TIMEOUT)
        missing = [rank for rank in range(self.size) if rank not in self.addresses]
        if missing:
            raise ConnectionError(f"{len(missing)} of {self.size} are missing, first rank {missing[0]}")
        return [self.addresses[rank] for rank in range(self.size)]


def clock(link: Link) -> dict[str, float]:
    """Return how far the head's clock is ahead, in seconds, to within half of the shortest round trip."""
    best = (TIMEOUT, 0.0)
    for _ in range(PINGS):
        begin, sent = time.monotonic(), time.time()
        link.send("time")
        theirs = link.receive()
        trip = time.monotonic() - begin
        best = min(best, (trip, theirs - sent - trip / 2))
    return {"offset": best[1], "uncertainty": best[0] / 2}


def add(one: bytes, other: bytes) -> bytes:
    """Add arrays of 8-byte integers, each array as one large number: sums are small, so none carries over."""
    total = int.from_bytes(one, "little") + int.from_bytes(other, "little")
    return total.to_bytes(len(one), "little")


def ring_sum(chunks: list[bytes], rank: int, right: Link, left: Link) -> list[bytes]:
    """Sum the chunks of all tasks: each goes around the ring once to be summed, and once more as the sum."""
    size, sums = len(chunks), [*chunks]
    for step in range(size - 1):
        received = right.exchange(sums[(rank - step) % size], left)
        sums[(rank - step - 1) % size] = add(sums[(rank - step - 1) % size], received)
    for step in range(size - 1):
        sums[(rank - step) % size] = right.exchange(sums[(rank + 1 - step) % size], left)
    return sums


def pattern(factor: int, count: int) -> bytes:
    """Return small integers in a repeating pattern, times this factor."""
    seven = b"".join(((place % 7 + 1) * factor).to_bytes(8, "little") for place in range(7))
    return (seven * (count // 7 + 1))[: count * 8]


def ring(task: TaskPlace, addresses: list[Any], listener: socket.socket) -> tuple[Link, Link]:
    """Return the links to the right and the left neighbour."""
    lefts: queue.Queue[Link] = queue.Queue()
    accept([listener], task.secret, lefts.put)
    address, port = addresses[(task.rank + 1) % task.size]
    right = connect(address, port, task.secret)
    with suppress(queue.Empty):
        return right, lefts.get(timeout=TIMEOUT)
    raise ConnectionError(f"rank {(task.rank - 1) % task.size} did not connect to this one")


def measured_sum(task: TaskPlace, right: Link, left: Link) -> dict[str, Any]:
    """Sum around the ring, and return the result; the first round only warms up."""
    count, length = COUNT // task.size, COUNT // task.size * 8
    own = pattern(task.rank + 1, count * task.size)
    expected = pattern(task.size * (task.size + 1) // 2, count * task.size)
    is_correct, begin = True, 0.0
    for number in range(ROUNDS + 1):
        begin = begin if number > 1 else time.monotonic()
        chunks = [own[place * length : (place + 1) * length] for place in range(task.size)]
        is_correct &= b"".join(ring_sum(chunks, task.rank, right, left)) == expected
    seconds = (time.monotonic() - begin) / ROUNDS
    sizes = {"ranks": task.size, "bytes": len(own)}
    return {"library": "sockets", **sizes, "correct": is_correct, "seconds": seconds}


def check(task: TaskPlace) -> dict[str, Any]:
    """Run all checks and return their record; ``error`` is the first that failed."""
    names, node = resolve([*task.nodes, task.head]), task.nodes[task.node]
    known = {name: names[name] for name in task.nodes}
    found: dict[str, Any] = {"rank": task.rank, "node": task.node, "names": known, "error": ""}
    step = f"{node} cannot listen for the other nodes"
    try:
        addresses = own_addresses(task, names)
        if not addresses:
            raise ConnectionError("none of the names of the job's nodes has a usable address")
        listener = socket.create_server((addresses[0], 0))
        own = listener.getsockname()
        step = f"{task.head} port {task.port} cannot be reached from {node}"
        if task.rank == 0:
            listeners = [socket.create_server((address, task.port), backlog=128) for address in addresses]
            found["clock"] = {"offset": 0.0, "uncertainty": 0.0}
            step = f"not all tasks connected to {task.head} port {task.port}"
            all_addresses = Head(task, listeners, own).all_addresses()
        else:
            link = connect(task.head, task.port, task.secret)
            found["clock"] = clock(link)
            link.send({"rank": task.rank, "address": own})
            all_addresses = link.receive()
        step = f"the next task does not answer at {all_addresses[(task.rank + 1) % task.size][0]}"
        if task.size > 1:
            found["allreduces"] = [measured_sum(task, *ring(task, all_addresses, listener))]
    except (OSError, ValueError) as error:
        found["error"] = f"{step}: {error}"
    return found


def main() -> None:
    """Check, and add the record to the file."""
    file = Path(sys.argv[1])
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**known, "connectivity": check(TaskPlace.from_environment(os.environ))}))


if __name__ == "__main__":
    main()
