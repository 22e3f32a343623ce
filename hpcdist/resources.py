"""Finding what is data: site files and templates, the user's own before the shipped ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from hpcdist.errors import ConfigError, Problem, did_you_mean

_PACKAGE = Path(__file__).resolve().parent


def shipped(folder: str) -> Path:
    """Return a folder that travels with hpcdist: inside the package in a wheel, beside it in a checkout."""
    inside = _PACKAGE / folder
    return inside if inside.is_dir() else _PACKAGE.parent / folder


def site_folders(extra: Iterable[str] = (), environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Return the folders in which sites are looked for, the first that has a name wins.

    ``--site-path``, ``$HPCDIST_SITE_PATH``, ``~/.config/hpcdist/sites``, ``/etc/hpcdist/sites``, then the
    shipped ones.
    """
    config = Path(environment.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return (
        *(Path(folder) for folder in extra),
        *(Path(part) for part in environment.get("HPCDIST_SITE_PATH", "").split(os.pathsep) if part),
        config / "hpcdist" / "sites",
        Path("/etc/hpcdist/sites"),
        shipped("site_configs"),
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
            yield from sorted(file for file in folder.iterdir() if file.suffix in {".yaml", ".yml"})


def site_file(name: str, folders: Iterable[Path]) -> Path:
    """Return the file of a site; a name with a slash or a YAML ending is the file itself.

    Raises:
        ConfigError: when it is not there, or no folder has it; the hint names the nearest.
    """
    is_path = "/" in name or name.endswith((".yaml", ".yml"))
    if is_path and Path(name).exists():
        return Path(name)
    files = site_files(folders)
    if name not in files:
        what = "site file" if is_path else "site"
        raise ConfigError(Problem(f"there is no {what} {name!r}", hint=did_you_mean(Path(name).stem, files)))
    return files[name]


def template_folders(environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Return where templates are looked for: ``$HPCDIST_TEMPLATE_PATH``, then the shipped ones."""
    own = (Path(part) for part in environment.get("HPCDIST_TEMPLATE_PATH", "").split(os.pathsep) if part)
    return (*own, shipped("templates"))
