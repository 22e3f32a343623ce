"""Compiled templates, kept from one run to the next: compiling them takes longer than all of the planning."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from jinja2.bccache import Bucket, FileSystemBytecodeCache

from hpcdist.host.resources import user_cache


class Kept(FileSystemBytecodeCache):
    """A cache folder of compiled templates; failures to read or write it are ignored."""

    def __init__(self, folder: Path, compiler: str) -> None:
        super().__init__(str(folder), "%s")
        self._compiler = compiler

    def get_source_checksum(self, source: str) -> str:
        """Return a checksum of the text and of the compiler's version."""
        return super().get_source_checksum(source + self._compiler)

    def load_bytecode(self, bucket: Bucket) -> None:
        """Load the bucket from the cache, if it is there."""
        with suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write the bucket to the cache, if that is possible."""
        with suppress(OSError):
            super().dump_bytecode(bucket)


def kept(compiler: Path, environment: Mapping[str, str] = os.environ) -> Kept | None:
    """Return the user's own compiled templates, by the file (or its archive) that sets how they are compiled.

    None where there is no folder for them in which the user alone can write.
    """
    folder = user_cache("templates", environment)
    there = next((path for path in (compiler, *compiler.parents) if path.exists()), None)
    return Kept(folder, str(there.stat().st_mtime_ns)) if folder and there else None
