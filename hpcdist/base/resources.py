"""Finds site files and templates: the user's own first, then the shipped ones."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hpcdist.base import ownership
from hpcdist.base.errors import ConfigError, Problem, did_you_mean
from hpcdist.base.ownership import user_folder

if TYPE_CHECKING:
    from importlib.abc import Traversable

_PACKAGE = Path(__file__).resolve().parents[1]


def shipped(folder: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Return a folder that is shipped with hpcdist: inside the package in a wheel, next to it in a checkout.

    If hpcdist runs from an archive (a zipapp, a wheel on ``PYTHONPATH``), the folder is first unpacked into
    the user's cache: templates include each other by path, and messages name files that can be read.

    Raises:
        ConfigError: when it must be unpacked, and there is no folder for it.
    """
    for place in (_PACKAGE / folder, _PACKAGE.parent / folder):
        if place.is_dir():
            return place
    return _unpacked(folder, user_cache("shipped", environment))


@functools.cache
def _unpacked(folder: str, cache: Path | None) -> Path:
    from importlib.resources import files

    source, archive = files("hpcdist") / folder, _PACKAGE.parent
    if not source.is_dir():
        hint = "build it from an installed hpcdist: `pip install --target`, then `python -m zipapp`"
        raise ConfigError(Problem(f"there is no {folder} in {archive}", hint=hint))
    if cache is None:
        message = f"hpcdist runs from {archive}, and there is no folder in which to unpack its {folder}"
        hint = "set XDG_CACHE_HOME to a folder to which only you can write"
        raise ConfigError(Problem(message, hint=hint))
    return unpack(source, cache)


def unpack(folder: Traversable, cache: Path) -> Path:
    """Return a copy of this folder in the cache, named by a hash of its contents; existing files are kept.

    Files are written atomically, and a missing one (file systems are purged) is written again, so several
    processes may do this at once.
    """
    from hashlib import sha256
    from tempfile import mkstemp

    contents = dict(sorted(_contents(folder, "")))
    copy = cache / f"{folder.name}-{sha256(repr(contents).encode()).hexdigest()[:16]}"
    for name, content in contents.items():
        file = copy / name
        if not file.exists():
            ownership.make(file.parent)
            handle, temporary = mkstemp(dir=file.parent)
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
            Path(temporary).replace(file)
    return copy


def _contents(folder: Traversable, above: str) -> Iterator[tuple[str, bytes]]:
    """Yield every file of a folder by its path in it."""
    for item in folder.iterdir():
        name = f"{above}{item.name}"
        if item.is_dir():
            yield from _contents(item, f"{name}/")
        else:
            yield name, item.read_bytes()


def user_cache(name: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return a folder of ``~/.cache/hpcdist``, created if necessary.

    None if others could write to it: its contents are run.
    """
    own = user_folder("XDG_CACHE_HOME", ".cache", environment)
    with suppress(OSError):
        if own and _is_private(own) and _is_private(own / name):
            return own / name
    return None


def _is_private(folder: Path) -> bool:
    """Create the folder if necessary; return whether only the user can write to it and replace it."""
    ownership.make(folder)
    if folder.is_symlink():
        return False
    with ownership.folder(folder) as handle:
        return not ownership.weakness(folder, handle)


def site_folders(extra: Iterable[str] = (), environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Return the folders in which sites are searched; the first that has a site of a name wins.

    ``--site-path``, ``$HPCDIST_SITE_PATH``, ``~/.config/hpcdist/sites``, ``/etc/hpcdist/sites``, then the
    shipped ones.
    """
    config = user_folder("XDG_CONFIG_HOME", ".config", environment)
    return (
        *(Path(folder) for folder in extra),
        *(Path(part) for part in environment.get("HPCDIST_SITE_PATH", "").split(os.pathsep) if part),
        *([config / "sites"] if config else []),
        Path("/etc/hpcdist/sites"),
        shipped("site_configs", environment),
    )


def site_files(folders: Iterable[Path]) -> dict[str, Path]:
    """Return every site file by the name of its site."""
    found: dict[str, Path] = {}
    for file in _yaml_files(folders):
        found.setdefault(file.stem, file)
    return found


def _yaml_files(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        if folder.is_dir():
            yield from sorted(file for file in folder.iterdir() if _is_yaml(file))


def _is_yaml(file: Path) -> bool:
    """Whether it is a readable YAML file: every command reads all site files, and a FIFO would block."""
    return file.suffix in {".yaml", ".yml"} and (file.is_file() or not file.exists())


def site_file(name: str, folders: Iterable[Path]) -> Path:
    """Return the file of a site; a name with a slash or a YAML suffix is the file itself.

    Raises:
        ConfigError: when there is no such file or site; the hint names the closest.
    """
    if is_file_name(name):
        return _named_file(Path(name))
    folders = [*folders]
    if file := _by_name(name, folders):
        return file
    hint = _local_file_hint(name) or did_you_mean(name, site_files(folders))
    raise ConfigError(Problem(f"there is no site {name!r}", hint=hint))


def _by_name(name: str, folders: Iterable[Path]) -> Path | None:
    """Return the file of this name in `site_files`, without looking at the others."""
    names = (f"{name}.yaml", f"{name}.yml")
    for folder in folders:
        there = {file.name for file in folder.iterdir()} if folder.is_dir() else ()
        if file := next((folder / each for each in names if each in there and _is_yaml(folder / each)), None):
            return file
    return None


def is_file_name(site: str) -> bool:
    """Whether a site is given as a file, not by name."""
    return "/" in site or site.endswith((".yaml", ".yml"))


def _named_file(path: Path) -> Path:
    with suppress(RuntimeError):  # there is no such user
        path = path.expanduser()
    if path.exists():
        return path
    beside = (file.name for file in _yaml_files([path.parent]))
    message = f"there is no site file {str(path.absolute())!r}"
    raise ConfigError(Problem(message, hint=did_you_mean(path.name, beside, most=20)))


def _local_file_hint(name: str) -> str:
    """Return the hint to a file of this site in the current folder, if there is one."""
    found = next((file for file in (f"{name}.yaml", f"{name}.yml") if Path(file).is_file()), None)
    return f"write `./{found}` for the file in this folder" if found else ""


def template(name: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the text of a template, from the first folder that has it.

    Raises:
        OSError: when it cannot be read.
    """
    files = [folder / name for folder in template_folders(environment)]
    return next((file for file in files if file.exists()), files[-1]).read_text(encoding="utf-8")


def template_folders(environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Return the folders in which templates are searched: ``$HPCDIST_TEMPLATE_PATH``, then shipped."""
    own = (Path(part) for part in environment.get("HPCDIST_TEMPLATE_PATH", "").split(os.pathsep) if part)
    return (*own, shipped("templates", environment))
