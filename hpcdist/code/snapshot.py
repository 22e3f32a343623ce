"""The copy of the files of a snapshot.

What disappears meanwhile is left out, as git would list it as deleted. A symbolic link stays one: within the
snapshot it leads to the copy, and out of it to where it led. FIFOs, sockets and devices are left out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from hpcdist.code.listing import PATH, Listing
from hpcdist.errors import ConfigError, Problem, bytes_text
from hpcdist.host import untrusted

_PIECE: Final = 1 << 20
_SHOWN: Final = 3
"""How many of the largest files a message names."""


class File(NamedTuple):
    """A name of a listing that is there, and what the file system says of it."""

    name: str
    found: os.stat_result

    @property
    def bytes(self) -> int:
        """How much it adds to a snapshot."""
        return self.found.st_size if stat.S_ISREG(self.found.st_mode) else 0

    @property
    def can_be_copied(self) -> bool:
        """Whether it is a regular file, a symbolic link or a folder."""
        mode = self.found.st_mode
        return stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)


class Contents(NamedTuple):
    """The files of a snapshot, and the names of those that are of no kind that can be copied."""

    files: tuple[File, ...]
    left_out: tuple[str, ...]

    @property
    def bytes(self) -> int:
        """Their size."""
        return sum(file.bytes for file in self.files)


def contents(listing: Listing, limit: int) -> Contents:
    """Return the files of a listing that are there.

    Raises:
        ConfigError: when they are larger than ``limit`` bytes, or one cannot be examined.
    """
    there = [*_there(listing)]
    files = tuple(file for file in there if file.can_be_copied)
    found = Contents(files, tuple(file.name for file in there if not file.can_be_copied))
    if found.bytes > limit:
        raise _too_large(listing, found, limit)
    return found


def _there(listing: Listing) -> Iterator[File]:
    for name in listing.names:
        try:
            yield File(name, (listing.top / name).lstat())
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise _unreadable(error) from error


def copy(listing: Listing, files: Iterable[File], target: Path, limit: int) -> int:
    """Copy these files into a new folder; return the bytes that were copied.

    Raises:
        ConfigError: when a file cannot be read, or they have grown beyond ``limit`` bytes.
        OSError: when the copy cannot be written.
    """
    target.mkdir(mode=0o700)
    left, made = limit, {target}
    for file in files:
        place = target / file.name
        folder = place if stat.S_ISDIR(file.found.st_mode) else place.parent
        if folder not in made:
            folder.mkdir(parents=True, exist_ok=True)
            made.add(folder)
        if stat.S_ISLNK(file.found.st_mode):
            _copy_link(listing.top, file.name, place)
        elif stat.S_ISREG(file.found.st_mode):
            left -= _copy_file(listing.top / file.name, place, left)
    return limit - left


def _copy_link(top: Path, name: str, place: Path) -> None:
    try:
        target = (top / name).readlink()
    except OSError:  # it has disappeared, or is no link any more
        return
    folder = (top / name).parent
    leads_to = Path(os.path.normpath(folder / target))
    place.symlink_to(os.path.relpath(leads_to, folder) if leads_to.is_relative_to(top) else leads_to)


def _copy_file(source: Path, place: Path, limit: int) -> int:
    try:
        stream = untrusted.open_regular(source)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        raise _unreadable(error) from error
    with stream:
        found = os.fstat(stream.fileno())
        with place.open("xb") as copied:
            size = sum(copied.write(piece) for piece in _pieces(stream, source, limit))
            os.fchmod(copied.fileno(), stat.S_IMODE(found.st_mode) & 0o755 | stat.S_IRUSR | stat.S_IWUSR)
        os.utime(place, ns=(found.st_atime_ns, found.st_mtime_ns))
    return size


def _pieces(stream: BinaryIO, source: Path, limit: int) -> Iterator[bytes]:
    left = limit
    while piece := _read(stream, source):
        left -= len(piece)
        if left < 0:
            raise ConfigError(Problem(f"{source} grows while it is copied, beyond the limit", PATH))
        yield piece


def _read(stream: BinaryIO, source: Path) -> bytes:
    try:
        return stream.read(_PIECE)
    except OSError as error:
        error.filename = str(source)
        raise _unreadable(error) from error


def _unreadable(error: OSError) -> ConfigError:
    hint = "make it readable, or list it in .gitignore"
    return ConfigError(Problem(f"{error.filename} cannot be read: {error.strerror}", PATH, hint))


def _too_large(listing: Listing, found: Contents, limit: int) -> ConfigError:
    largest = sorted(found.files, key=lambda file: file.bytes, reverse=True)[:_SHOWN]
    named = ", ".join(f"{file.name} ({bytes_text(file.bytes)})" for file in largest)
    has = f"has {bytes_text(found.bytes)}, and the limit is {bytes_text(limit)}"
    message = f"the code in {listing.top} {has}: {named}"
    enough = -(-found.bytes >> 20) + 1
    ignored = "list what is no code in .gitignore" if listing.by_git else "move what is no code elsewhere"
    return ConfigError(Problem(message, PATH, f"{ignored}, or write `max_code_size: {enough}Mi` in `batch`"))
