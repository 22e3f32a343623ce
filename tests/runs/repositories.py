"""Real repositories of git in temporary folders."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@b.org", "-c", "protocol.file.allow=always")


def git(folder: Path, *words: str) -> str:
    """Run git in a folder, without the user's own configuration; return what it prints."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *IDENTITY, *words], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def repository(folder: Path, **files: str) -> str:
    """Make a repository with these files (``__`` is a dot), and commit them; return the commit."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch=main", ".")
    return commit(folder, **files)


def commit(folder: Path, **files: str) -> str:
    """Write these files and commit everything; return the commit."""
    for name, text in files.items():
        path = folder / name.replace("__", ".")
        path.write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=more", "--allow-empty")
    return git(folder, "rev-parse", "HEAD")


def tree(folder: Path) -> list[str]:
    """Return the files below a folder, without those of git; links with where they lead."""
    found = []
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found.append(f"{name} -> {path.readlink()}")
        elif path.is_file() and ".git" not in path.parts:
            found.append(name)
    return found
