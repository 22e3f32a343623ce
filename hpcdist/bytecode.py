"""Compiled templates, kept from one run to the next: compiling them takes longer than all of the planning."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from jinja2.bccache import Bucket, FileSystemBytecodeCache


class Kept(FileSystemBytecodeCache):
    """Compiled templates in a folder; one that cannot be read or written is no loss."""

    def __init__(self, folder: Path, compiler: str) -> None:
        super().__init__(str(folder), "%s")
        self._compiler = compiler

    def get_source_checksum(self, source: str) -> str:
        """Tell the text from others, and what one compiler makes of it from what another does."""
        return super().get_source_checksum(source + self._compiler)

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill the bucket, if there is something for it."""
        with suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what is in the bucket, if that is possible."""
        with suppress(OSError):
            super().dump_bytecode(bucket)


def kept(compiler: Path, environment: Mapping[str, str] = os.environ) -> Kept | None:
    """Return the user's own compiled templates, by the file that sets how they are compiled.

    None where there is no folder for them in which the user alone can write: what lies there is run.
    """
    with suppress(OSError, RuntimeError):  # RuntimeError: the user has no home
        base = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = base / "hpcdist" / "templates"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_own(folder) and _is_own(folder.parent):
            return Kept(folder, str(compiler.stat().st_mtime_ns))
    return None


def _is_own(folder: Path) -> bool:
    found = folder.lstat()
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not others_write
