"""The lines of a file that a process recorded: one of JSON for each call of `hpcdist_tracking`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

_PIECE: Final = 1 << 22
_LONGEST: Final = 1 << 24
"""Bytes of a line; what is longer is damaged, and must not fill the memory."""


class Artifact(msgspec.Struct, frozen=True):
    """A file or folder that is kept: its path below the outputs, and its hash when it was recorded."""

    kind: str
    path: str
    sha256: str
    bytes: int
    metrics: Mapping[str, float | str] = {}


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One call: ``at`` in seconds since 1970; NaN and infinities are ``nan``, ``inf``, ``-inf`` as text."""

    at: float
    step: float | str | None = None
    metrics: Mapping[str, float | str] = {}
    params: Mapping[str, Any] = {}
    tags: tuple[str, ...] = ()
    artifact: Artifact | None = None


_decoder: Final = msgspec.json.Decoder(Entry)
_INVALID: Final = (
    msgspec.DecodeError,
    ValueError,
    RecursionError,
)  # the first is a ValueError from msgspec 0.21 on


class Losses:
    """What could not be read: ``damaged`` lines, and a sentence for each of the ``unread`` files."""

    def __init__(self) -> None:
        self.damaged = 0
        self.unread: list[str] = []


def unread(path: Path, error: OSError) -> str:
    """Return the sentence of a file or folder that cannot be read."""
    return f"{error.filename or path} was not read: {error.strerror}"


class Reader:
    """Reads a file that may still be written to; what is not yet written to its end is left for later."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._rest = b""
        self.damaged = 0
        """How many whole lines were no entries."""

    def new(self) -> Iterator[Entry]:
        """Yield the entries that were not read before, up to where the file now ends.

        Raises:
            OSError: if the file cannot be read.
        """
        left = (
            os.fstat(self._stream.fileno()).st_size - self._stream.tell()
        )  # it may grow faster than it is read
        while left > 0 and (piece := self._stream.read(min(left, _PIECE))):
            left -= len(piece)
            whole, newline, self._rest = (self._rest + piece).rpartition(b"\n")
            if newline:
                yield from self._decoded(whole)
            if len(self._rest) > _LONGEST:
                self._rest = b"?"  # so that the end of this line is no entry

    def _decoded(self, lines: bytes) -> list[Entry]:
        try:
            return _decoder.decode_lines(lines)
        except _INVALID:
            return [*self._one_by_one(lines)]

    def _one_by_one(self, lines: bytes) -> Iterator[Entry]:
        for line in filter(None, lines.split(b"\n")):
            try:
                yield _decoder.decode(line)
            except _INVALID:
                self.damaged += 1
