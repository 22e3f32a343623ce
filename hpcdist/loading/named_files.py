"""Files that a job file names, such as the component of an operation, or a table of params.

A name begins at the folder of the job file, or else at the root of its tree, as in a repository. A job file
may come from anyone, so what it names has to be a regular file of at most 1 MiB in the same tree of folders,
also after symbolic links are resolved.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from hpcdist import importers
from hpcdist.documents import source, tables
from hpcdist.documents.tree import Document
from hpcdist.errors import ConfigError, Problem
from hpcdist.host import untrusted

_OUTSIDE: Final = "copy it there, or submit from a directory that contains both"


def with_named_file(document: Document, form: str = "") -> Document:
    """Return the document with the contents of the file that it names, the document itself if it names none.

    Its text has the lines of that file as comments at its end, so that a record of it is complete.

    Raises:
        ConfigError: when that file cannot be read, or has problems; or no importer has the name ``form``.
    """
    named = importers.file_named_in(document.data, form)
    if named is None:
        return document
    path, name = named
    folder = Path() if document.file.startswith("<") else Path(document.file).parent
    root = _root(folder.resolve())
    try:
        files = [folder / name, Path(os.path.relpath(root)) / name]
        file = next((file for file in files if file.exists()), files[0])
        label = os.path.normpath(file)
        text = source.decode(_contents(file, root), label)
    except (OSError, ValueError, RuntimeError) as error:  # the last for a circle of links, until Python 3.12
        message, hint = _reason(error)
        raise ConfigError(
            document.locate(Problem(f"{name!r} cannot be read: {message}", path, hint))
        ) from None
    content = tables.columns(text, label) if label.endswith(".csv") else source.parse(text, label).data
    data = importers.with_named_file(document.data, content, form)
    comments = "".join(f"# {line}\n" for line in (f"{label}:", *text.splitlines()))
    return document._replace(data=data, text=f"{document.text.rstrip()}\n{comments}")


def _contents(file: Path, root: Path) -> bytes:
    """Read a file below the root of a tree.

    Raises:
        OSError: as `untrusted.read` does, and for a file elsewhere.
    """
    real = file.resolve()
    if not real.is_relative_to(root):
        raise PermissionError(0, f"it is not in {root}")
    return untrusted.read(real, source.MAX_BYTES)


def _root(folder: Path) -> Path:
    """Return the git work tree of a folder, else the working directory above it, else the folder itself."""
    tree = next((above for above in (folder, *folder.parents) if (above / ".git").exists()), None)
    here = Path.cwd()
    return tree or (here if folder.is_relative_to(here) else folder)


def _reason(error: Exception) -> tuple[str, str]:
    message = getattr(error, "strerror", None) or str(error)
    if isinstance(error, PermissionError) and not error.errno:
        return message, _OUTSIDE
    if isinstance(error, FileNotFoundError):
        return (
            "there is no such file",
            "write its path, beginning at the folder of this file or of its repository",
        )
    return message, ""
