"""`hpcdist submit` on a disk that gets full, a tmpfs of its own: what did not run may not be completed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from tests.chaos.result import Result

LEVELS: Final = 161
"""With one page less than this left all of a small run is written: its files take some 120 of them."""

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_PAGES: Final = 256
_FILL: Final = f"""\
mount -t tmpfs -o size={_PAGES * _PAGE} none small || exit 99
dd if=/dev/zero of=small/fill bs={_PAGE} count="$1" status=none || exit 99
"""
_CUT: Final = """\
trap '' XFSZ
ulimit -f "$1"
"""
_SUBMIT: Final = """\
"$0" -m hpcdist submit small.yml --site local --runs-dir small/runs --wait
code=$?
ls small/runs 2>/dev/null | wc -l >left
exit "$code"
"""


class Found(NamedTuple):
    """The exit code, how many of two tasks ran (below 0: not their whole command), how many runs are left."""

    code: int
    tasks: int
    runs: int
    err: str

    @property
    def is_sound(self) -> bool:
        """Whether the run could not be written, its job refused to run, or all ran."""
        return (self.code, self.tasks, self.runs) in {(2, 0, 0), (2, 0, 1), (86, 0, 1), (0, 2, 1)}


def submit(folder: Path, pages: int, comment: str = "") -> Found:
    """Submit two tasks where so many pages are left; the comment makes their command longer."""
    return _submit(folder, ("unshare", "--mount", "--map-root-user"), _FILL, _PAGES - pages - 2, comment)


def submit_cut(folder: Path, kib: int) -> Found:
    """Submit two tasks where no file may be longer; this needs no file system of its own."""
    return _submit(folder, (), _CUT, kib)


def _submit(folder: Path, within: tuple[str, ...], before: str, number: int, comment: str = "") -> Found:
    (folder / "small").mkdir()
    experiment = {
        "name": "small",
        "framework": "pytorch",
        "environment": {"replicas": {"n_workers": 1}},
        "run": {"cmd": f"echo cut >>ran{comment}\necho ran >>ran"},
        "batch": {"launcher": "processes", "walltime": "5m"},
    }
    (folder / "small.yml").write_text(yaml.safe_dump(experiment))
    done = subprocess.run(
        [*within, "bash", "-c", before + _SUBMIT, sys.executable, str(number)],
        cwd=folder,
        env=os.environ | {"HPCDIST_CONFIG": "/dev/null", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (folder / "ran").read_text().split() if (folder / "ran").exists() else []
    tasks = lines.count("ran") if lines.count("cut") == lines.count("ran") else -len(lines)
    return Found(done.returncode, tasks, int((folder / "left").read_text()), done.stderr)


def disks(count: int, seed: int, folder: Path) -> Result:
    """Submit so often, at one level after the other, with commands of any length."""
    rnd = random.Random(seed)  # noqa: S311 - lengths, no secrets
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(count):
        place = folder / str(number)
        place.mkdir()
        pages, length = number % LEVELS, rnd.choice([0, rnd.randrange(2 * _PAGE)])
        found = submit(place, pages, f" # {'x' * length}")
        outcomes[f"exit code {found.code}, {found.tasks} of 2 tasks ran"] += 1
        if not found.is_sound:
            wrong.append(f"{pages} pages left, a comment of {length} characters: {found}")
    return Result("disks", outcomes, wrong)
