"""A relay that is slow as a far machine: each direction takes 100 ms, and what is lost is sent again."""

from __future__ import annotations

import os
import queue
import random
import subprocess
import sys
import threading
import time
from typing import Final

DELAY: Final = 0.1
LOST: Final = 0.05
AGAIN: Final = 0.3
"""Seconds until a lost packet is sent once more."""

Packets = queue.SimpleQueue[tuple[float, bytes]]


def read(source: int, packets: Packets) -> None:
    """Take packets as they come, each with the time at which it arrives."""
    chance, last = random.Random(), 0.0  # noqa: S311 - weather
    while True:
        data = os.read(source, 1460)
        late = AGAIN if chance.random() < LOST else 0.0
        last = max(last, time.monotonic() + DELAY + late)
        packets.put((last, data))
        if not data:
            return


def write(target: int, packets: Packets) -> None:
    """Hand packets on when they arrive, to the end."""
    while True:
        at, data = packets.get()
        time.sleep(max(0.0, at - time.monotonic()))
        if not data:
            os.close(target)
            return
        while data:
            data = data[os.write(target, data) :]


def main(program: str) -> None:
    """Relay between this process's input and output and those of a program."""
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    there, back = os.dup(process.stdin.fileno()), process.stdout.fileno()
    process.stdin.close()
    writers = [relay(0, there), relay(back, 1)]
    writers[1].join()


def relay(source: int, target: int) -> threading.Thread:
    """Start to relay, and return the thread that ends when all has arrived."""
    packets: Packets = queue.SimpleQueue()
    threading.Thread(target=read, args=(source, packets), daemon=True).start()
    writer = threading.Thread(target=write, args=(target, packets), daemon=True)
    writer.start()
    return writer


if __name__ == "__main__":
    main(sys.argv[1])
