"""What staging saves: files that go from node to node as sbcast sends them, or that each node reads itself.

A simulation with real files: nodes are folders here, and their network links and the shared disk have rates
that are far below what this machine can do, so that these decide and not its two cores. As sbcast does, a
block is sent to everyone before the next one, by each node to at most ``_FANOUT`` others, one after another
over its link (https://slurm.schedmd.com/sbcast.html, ``--fanout``; slurm.conf(5), ``TreeWidth``).
"""

from __future__ import annotations

import os
import shutil
import tarfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

_MIB = 1 << 20
_LINK = 16 * _MIB
"""Bytes a second of a node's link."""
_BLOCK = _MIB // 4
_SIZE = _MIB
_FANOUT = 16
_OPENS = 200
"""Files that the shared disk opens a second, for all nodes together."""
_FILES = 20


class Rate:
    """A device that does so much a second, whoever asks."""

    def __init__(self, each_second: float) -> None:
        self.each_second = each_second
        self.free_at = 0.0
        self.lock = threading.Lock()

    def take(self, amount: float) -> None:
        """Wait until it has done this."""
        with self.lock:
            self.free_at = max(self.free_at, time.monotonic()) + amount / self.each_second
            done = self.free_at
        time.sleep(max(0.0, done - time.monotonic()))


class Node:
    """A node: its link, and its local disk."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.link = folder, Rate(_LINK)

    def append(self, block: bytes) -> None:
        """Write a block of the file."""
        with (self.folder / "data").open("ab") as file:
            file.write(block)


def _blocks(file: Path) -> Sequence[bytes]:
    data = file.read_bytes()
    return [data[start : start + _BLOCK] for start in range(0, len(data), _BLOCK)]


def _each(file: Path, disk_of: Callable[[], Rate], nodes: Sequence[Node]) -> None:
    disk = disk_of()

    def read(node: Node) -> None:
        for block in _blocks(file):
            disk.take(len(block))
            node.link.take(len(block))
            node.append(block)

    _all(read, nodes)


def _tree(file: Path, disk_of: Callable[[], Rate], nodes: Sequence[Node]) -> None:
    disk = disk_of()

    def send(sender: Node, block: bytes, others: Sequence[Node]) -> None:
        groups = [group for group in (others[start::_FANOUT] for start in range(_FANOUT)) if group]

        def give(group: Sequence[Node]) -> None:
            sender.link.take(len(block))
            group[0].append(block)
            send(group[0], block, group[1:])

        if groups:
            _all(give, groups)

    for block in _blocks(file):
        disk.take(len(block))
        nodes[0].append(block)
        send(nodes[0], block, nodes[1:])


def _small_files_by_each(folder: Path, nodes: Sequence[Node]) -> None:
    opens = Rate(_OPENS)

    def read(node: Node) -> None:
        for file in folder.iterdir():
            opens.take(1)
            (node.folder / file.name).write_bytes(file.read_bytes())

    _all(read, nodes)


def _archive_in_a_tree(file: Path, nodes: Sequence[Node]) -> None:
    def unpack(node: Node) -> None:
        with tarfile.open(node.folder / "data") as packed:
            for member in packed:
                if content := packed.extractfile(member):
                    (node.folder / Path(member.name).name).write_bytes(content.read())

    _tree(file, partial(Rate, 8 * _LINK), nodes)
    _all(unpack, nodes)


def _all(task: Callable[[Any], None], items: Sequence[Any]) -> None:
    with ThreadPoolExecutor(len(items)) as pool:
        list(pool.map(task, items))


def _seconds(folder: Path, count: int, copy: Callable[[Sequence[Node]], None]) -> float:
    """How long this takes to so many nodes, which all must have the same files then."""
    nodes = [Node(folder / str(number)) for number in range(count)]
    begun = time.perf_counter()
    copy(nodes)
    taken = time.perf_counter() - begun
    found = {
        tuple(sorted((file.name, file.stat().st_size) for file in node.folder.iterdir())) for node in nodes
    }
    if len(found) != 1:
        raise ValueError("the nodes have different files")
    for node in nodes:
        shutil.rmtree(node.folder)
    return taken


def main(directory: Path, line: Callable[[str, float, float, str], None]) -> None:
    """Print the ratios."""
    folder, file, archive = directory / "nodes", directory / "one", directory / "small.tar"
    folder.mkdir()
    file.write_bytes(os.urandom(_SIZE))
    small = directory / "small"
    small.mkdir()
    for number in range(_FILES):
        (small / str(number)).write_bytes(b"x" * 1024)
    with tarfile.open(archive, "w") as made:
        made.add(small, ".")
    for links, goal in ((1, "< 1 from 32 nodes on"), (8, "none: docs/how-to/steps.md")):
        for count in (16, 64, 128):
            disk = partial(Rate, links * _LINK)
            tree = _seconds(folder, count, partial(_tree, file, disk))
            each = _seconds(folder, count, partial(_each, file, disk))
            what = f"a file to {count} nodes, a disk of {links} link{'s' * (links > 1)}: tree / each"
            line(what, tree, each, goal)
    for count in (16, 64):
        tree = _seconds(folder, count, partial(_archive_in_a_tree, archive))
        each = _seconds(folder, count, partial(_small_files_by_each, small))
        line(f"{_FILES} small files to {count} nodes: archive by a tree / each", tree, each, "< 1")
