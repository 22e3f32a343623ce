"""Corrupt run directories: every file of a run broken in many ways, and every verb of jobs run over it.

On the site `local`, in this process. What must hold is in `_wrong`: no fault of hpcdist, an answer in
seconds, the other run still shown, nothing that a terminal obeys.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from click.testing import CliRunner
from click.testing import Result as ClickResult

from hpcdist.cli import main
from tests.chaos.result import Result

FILES: Final = (
    "record.json", "plan.json", "events", "job.sh", "experiment.yml", "logs/job.out", "logs",
    "code.json", "accounting.json", "jobs", "outputs", ".",
)  # fmt: skip
"""What is corrupted of the run ``c-1``; ``c-2`` stays whole beside it."""

FOLDERS: Final = FILES[-4:]

VERBS: Final = (
    ("status",), ("status", "--json"), ("status", "c-1", "c-2"), ("status", "--offline"),
    ("status", "--offline", "--json"),
    ("logs", "c-1"), ("logs", "c-1", "--json"), ("logs", "c-1", "-n", "5"),
    ("logs", "c-1", "--rank", "0", "-n", "5"), ("logs", "c-1", "-f"),
    ("describe", "c-1"), ("describe", "c-1", "--json"), ("wait", "c-1", "c-2", "--timeout", "3"),
    ("cancel", "c-1"), ("submit", "EXP", "--dry-run"), ("status", "--offline", "-l", "--metric", "x"),
    ("outputs", "c-1", "--check"),
)  # fmt: skip

_SECONDS: Final = 20
_VERBS_EACH: Final = 4
_FAULT: Final = 70
_EXPERIMENT: Final = 'name: c\nrun: {cmd: "echo hi; exit 3"}\nbatch: {site: local, walltime: 1m}\n'
_ACCOUNTING: Final = (
    '[{"state": "failed", "ended": 1.0, "exit_code": 3, "hosts": ["n1"], "max_memory": 4096}]'
)

VALUES: Final[tuple[Any, ...]] = (
    None, 1, -1, "", [], {}, "x" * 1000, "9" * 400, "2026-99-99", "2026", "yesterday", "\ud800", True, 1e999,
    10**400, "../../x", "pbs", "nosuch", "running", "1", "99999", "-1", "--help", "$(touch X)", "x y",
    "submitting", "created", "a\nb", "1;x", "\x1b[2J\x07", "9999-12-31T23:59:59+00:00",
    "0001-01-01T00:00:00+14:00", ["\x1b[2J"], {"a": "\ud800"}, "0-999999999999", "1:99999999",
)  # fmt: skip


class Corruption(NamedTuple):
    """One way to break one file of a run."""

    file: str
    what: str
    make: Callable[[Path], None]


class _Hangs(BaseException):
    """A command took too long."""


def corruptions(seed: int) -> Iterator[Corruption]:
    """Yield corruptions without end: first every plain one of every file, then values by chance."""
    chance = random.Random(seed)  # noqa: S311 - a seeded choice, which can be repeated
    plain = [
        Corruption(file, name, make)
        for file in FILES
        for name, make in (
            _PLAIN | _CONTENTS if file not in ("logs", "jobs", "outputs", ".") else _PLAIN
        ).items()
    ]
    yield from chance.sample(plain, len(plain))
    while True:
        file = chance.choice(("record.json", "record.json", "plan.json", "events"))
        yield _by_chance(file, chance)


def _by_chance(file: str, chance: random.Random) -> Corruption:
    if file == "events":
        words = chance.choices(_WORDS, k=chance.randrange(1, 6))
        return Corruption(file, f"line {words}", lambda path: _append(path, " ".join(words) + "\n"))
    if chance.random() < 0.2:
        bits = chance.getrandbits(32)
        return Corruption(file, f"torn bytes {bits}", lambda path: _tear(path, random.Random(bits)))  # noqa: S311
    changes = [(chance.random(), chance.choice(VALUES)) for _ in range(chance.choice((1, 1, 2, 3)))]
    return Corruption(file, f"values {changes}", lambda path: _change(path, changes))


_WORDS: Final = (
    "started", "ended", "submitted", "cancelled", "timeout", "1", "0", "-1", "9" * 5000, "9" * 30, "ID",
    "\u0661", "\x1b[2J", "143", "1700000000", "99999999999", "a", "x" * 9999, "--help",
)  # fmt: skip


def _append(path: Path, line: str) -> None:
    record = path.parent / "record.json"
    job = str(json.loads(record.read_text())["job_id"])
    with path.open("a") as stream:
        stream.write(line.replace("ID", job))


def _tear(path: Path, chance: random.Random) -> None:
    """Change, drop and double pieces of a file."""
    data = bytearray(path.read_bytes())
    for _ in range(chance.randrange(1, 8)):
        at = chance.randrange(len(data) + 1)
        piece = data[at : at + chance.randrange(20)]
        data[at : at + len(piece)] = chance.choice(
            (b"", piece * 2, chance.randbytes(3), b"\\ud800", b'"', b"[[[")
        )
    path.write_bytes(data)


def _change(path: Path, changes: Sequence[tuple[float, Any]]) -> None:
    """Give keys anywhere in a JSON file other values; some are dropped, and some are new."""
    data = json.loads(path.read_text())
    for where, value in changes:
        node, key = _chosen(data, where)
        if where < 0.08:
            node.pop(key, None) if isinstance(node, dict) else None
        elif where > 0.96 and isinstance(node, dict):
            node["new"] = value
        else:
            node[key] = value
        if path.name == "record.json" and where > 0.5:
            data["ended"] = None
    path.write_text(json.dumps(data))


def _chosen(data: Any, where: float) -> tuple[Any, Any]:
    """Return a container and a key or a number in it, by a fraction: two thirds of them at the top."""
    places = [(data, key) for key in data] * 2 + [*_below(data)]
    return places[int(where * 7919) % len(places)]


def _below(data: Any) -> Iterator[tuple[Any, Any]]:
    for value in data.values() if isinstance(data, dict) else data:
        if isinstance(value, dict | list):
            yield from ((value, key) for key in (value if isinstance(value, dict) else range(len(value))))
            yield from _below(value)


def _missing(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def _fifo(path: Path) -> None:
    _missing(path)
    os.mkfifo(path)


def _folder(path: Path) -> None:
    _missing(path)
    path.mkdir()


def _file(path: Path) -> None:
    _missing(path)
    path.touch()


def _link(target: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        _missing(path)
        path.symlink_to(target.format(path.absolute()))

    return make


def _text(text: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(text)

    return make


def _endless(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


_PLAIN: Final[dict[str, Callable[[Path], None]]] = {
    "missing": _missing, "a FIFO": _fifo, "a folder": _folder, "a file": _file, "a loop": _link("{}"),
    "a link to nothing": _link("/nonexistent"), "a link to /dev/zero": _link("/dev/zero"),
    "a link to a folder": _link("/usr"), "not readable": lambda path: path.chmod(0),
    "writable for all": lambda path: path.chmod(0o777),
}  # fmt: skip
_CONTENTS: Final[dict[str, Callable[[Path], None]]] = {
    "empty": _text(b""), "NUL": _text(b"\0" * 100), "deep": _text(b"[" * 100_000),
    "deep keys": _text(b'{"a":' * 100_000), "a number": _text(b"1"), "a list": _text(b"[]"),
    "null": _text(b"null"),
    "a huge number": _text(b"9" * 5000), "large": _text(b"a" * (5 << 20)), "endless": _endless,
    "a byte order": _text(b"\xff\xfe\x00"), "no UTF-8": _text(b'{"name": "\xff"}'), "a line": _text(b"{"),
    "escapes": _text(b"\x1b[2J\x1b]0;x\x07started \x1b[2J 1 0\nended 1 1 \x1b[2J\n"),
    "strange events": _text(
        b"started " + b"9" * 5000 + b" 1 0\nended 1 99999999999999999999999 0\nended 1 1 " + b"9" * 5000
        + "\nstarted \u0661 \u0661 \u0661\n".encode()
    ),
}  # fmt: skip


def runs(count: int, seed: int, folder: Path) -> Result:
    """Corrupt the files of a run so many times, and run a few verbs by chance over each."""
    chance = random.Random(seed)  # noqa: S311
    scene = _scene(folder)
    result = Result("runs", Counter(), [])
    for number, corruption in zip(range(count), corruptions(seed), strict=False):
        scene.restore()
        path = scene.runs / "c-1" / corruption.file
        if not os.path.lexists(path):
            continue
        corruption.make(path)
        endless = corruption.what == "endless" and corruption.file == "logs/job.out"
        for verb in chance.sample(VERBS, _VERBS_EACH):
            if endless and verb[0] == "logs" and verb[2:3] != ("-n",):
                continue  # it reads all of it, as it comes
            what = f"{corruption.file}, {corruption.what[:200]}: {' '.join(verb)}"
            outcome, *wrong = scene.outcome(verb)
            result.outcomes[outcome] += 1
            result.wrong.extend(f"runs: seed {seed}, number {number}: {what}: {fault}" for fault in wrong)
    return result


class _Scene(NamedTuple):
    """An experiment, the runs as they were, those that are corrupted, and whose machine it is."""

    experiment: Path
    originals: Path
    runs: Path
    environment: Mapping[str, str]

    def restore(self) -> None:
        """Bring the runs back, whatever became of them."""
        _removed(self.runs)
        shutil.copytree(self.originals, self.runs)
        self.runs.chmod(0o700)

    def outcome(self, verb: Sequence[str]) -> list[str]:
        """Run a verb, and return how it ended, and what is wrong with that."""
        words = [str(self.experiment) if word == "EXP" else word for word in verb]
        try:
            with _limit(_SECONDS):
                done = CliRunner().invoke(
                    main, [*words, "--runs-dir", str(self.runs)], env=self.environment, prog_name="hpcdist"
                )
        except _Hangs:
            return ["no answer", f"no answer in {_SECONDS} s"]
        return [f"exit code {done.exit_code}", *_wrong(verb, done)]


def _scene(folder: Path) -> _Scene:
    """Submit two jobs that end with 3."""
    experiment, originals = folder / "c.yml", folder / "clean"
    experiment.write_text(_EXPERIMENT)
    environment = {"XDG_CONFIG_HOME": str(folder / "config"), "XDG_CACHE_HOME": str(folder / "cache")}
    for _ in range(2):
        words = ["submit", str(experiment), "--wait", "--runs-dir", str(originals)]
        done = CliRunner().invoke(main, words, env=environment)
        assert done.exit_code == 3, done.output
    (originals / "c-1" / "accounting.json").write_text(_ACCOUNTING)
    return _Scene(experiment, originals, folder / "runs", environment)


def _removed(runs: Path) -> None:
    run = runs / "c-1"
    if run.is_symlink() or run.is_file():
        run.unlink()
    for path in (run, run / "logs", run / "jobs", run / "outputs"):
        with contextlib.suppress(OSError):
            path.chmod(0o700, follow_symlinks=False) if not path.is_symlink() else None
    shutil.rmtree(runs, ignore_errors=True)
    assert not runs.exists()


def _wrong(verb: Sequence[str], done: ClickResult) -> Iterator[str]:
    if done.exit_code == _FAULT or not isinstance(done.exception, SystemExit | None):
        yield f"exit {done.exit_code}, {done.exception!r}, {done.stderr[-200:]!r}"
    if verb[0] == "status" and "c-2" not in done.stdout:
        yield f"the other run is not shown: {done.stdout[-100:]!r} {done.stderr[-200:]!r}"
    if verb[0] != "logs" and ("\x1b" in done.output or "\x07" in done.output):
        yield f"an escape comes through: {done.output[-200:]!r}"


@contextlib.contextmanager
def _limit(seconds: int) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise _Hangs

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
