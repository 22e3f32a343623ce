"""Record metrics, params, artifacts and models of a training. Standard library only; Python 3.6 or newer.

    from hpcdist_tracking import log_metrics, log_params, log_artifact, log_model

    log_params(lr=0.1, batch_size=256)
    log_metrics(step=10, loss=0.25, accuracy=0.91)
    log_model("model.pt", accuracy=0.93)

In a job of hpcdist the program finds this module, and ``hpcdist metrics`` shows what it recorded; a script of
``hpcdist render`` has no run, and nothing is recorded; elsewhere it writes below ``./hpcdist-tracking``. Only
rank 0 records, unless a call says ``all_ranks=True``. Each call appends one line of JSON to a file of its own
process: a kill loses at most the last line. Nothing here ends a training: what cannot be recorded is a
warning on stderr, once for each reason.
"""

import functools
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import shutil
import socket
import sys
import time
from contextlib import suppress
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple, TypeVar, cast

__all__ = ["log_artifact", "log_metrics", "log_model", "log_params", "log_tags", "outputs", "rank"]

_RANKS = (
    "RANK", "HOROVOD_RANK", "HPCDIST_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID",
)  # fmt: skip
"""Where the rank of a process stands; a launcher that the program starts itself sets the first ones."""

_PIECE = 1 << 20
_as_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_MOST = 20
"""Warnings that are printed; names of files may make each another."""

_STOP_AT: Dict[str, Any] = {}
"""By metric, the values at which no further trial starts, each behind 1 if it is the least, or -1."""

_HAS_POLICIES = bool(os.environ.get("HPCDIST_POLICIES") and os.environ.get("HPCDIST_FAILURE"))
"""Whether trials of this search are compared while they run, and the worse ones end."""

with suppress(ValueError):
    _STOP_AT = dict(json.loads(os.environ.get("HPCDIST_STOP_AT") or "{}"))

_warned: Set[str] = set()
Call = TypeVar("Call", bound=Callable[..., None])


def _harmless(call: Call) -> Call:
    """Turn every error of a call into a warning: values of other libraries raise what they like."""

    @functools.wraps(call)
    def harmless(*words: Any, **options: Any) -> None:
        if os.environ.get("HPCDIST_RANK") and not os.environ.get("HPCDIST_TRACKING"):
            if rank() == 0:
                _warn("nothing is recorded: this job was not started by `hpcdist submit`")
            return
        try:
            call(*words, **options)
        except Exception as error:  # noqa: BLE001
            _warn(f"{call.__name__} recorded nothing: {type(error).__name__}: {error!s:.200}")

    return cast(Call, harmless)


@_harmless
def log_metrics(
    values: Optional[Dict[str, Any]] = None,
    step: Optional[float] = None,
    all_ranks: bool = False,
    **metrics: Any,
) -> None:
    """Record numbers at a step; names that are no Python words go into ``values``.

    Numbers are what ``float()`` takes, tensors of one element too; NaN and infinities are kept. Without a
    step, the values of a metric are counted.
    """
    if not all_ranks and rank() != 0:
        return
    texts, judged = [], []
    for name, value in (dict(values, **metrics) if values else metrics).items():
        number = _number(name, value)
        if number is not None:
            if name in _STOP_AT:
                _stop_search(name, number)
            if _HAS_POLICIES:
                judged.append((name, number))
            texts.append(_as_json(str(name)) + ":" + _text(number))
    at = "" if step is None else ',"step":' + _text(_number("step", step))
    _record('{"metrics":{' + ",".join(texts) + "}" + at)
    if judged and rank() == 0:
        _compare(judged, step)


def _compare(values: List[Tuple[str, Any]], step: Optional[float]) -> None:
    """Let the policies of a search see the values; one that they end raises SystemExit."""
    try:
        from hpcdist_pruning import judge  # most searches have no policies

        for name, number in values:
            judge(name, number, step)
    except Exception as error:  # noqa: BLE001 - they are recorded, whatever keeps files from being read
        _warn(f"this trial is not compared with others: {type(error).__name__}: {error!s:.200}")


def _stop_search(name: str, number: float) -> None:
    is_reached = any(sign * number >= sign * limit for sign, limit in _STOP_AT[name])
    if is_reached and os.environ.get("HPCDIST_RUN_DIR"):
        with open(os.path.join(os.environ["HPCDIST_RUN_DIR"], "stop"), "w") as file:
            file.write("as a trial has reached {} {:g}\n".format(name, number))


@_harmless
def log_params(values: Optional[Dict[str, Any]] = None, **params: Any) -> None:
    """Record what the training was started with; a later value of a name replaces an earlier one."""
    _record_first({"params": _plain(dict(values or {}, **params))})


@_harmless
def log_tags(*tags: str) -> None:
    """Record words by which runs are found."""
    _record_first({"tags": [str(tag) for tag in tags]})


@_harmless
def log_artifact(path: str, name: str = "") -> None:
    """Keep a file or folder in the outputs of the run, below ``name`` (else its own), with size and hash.

    What lies there already is not copied. An artifact of the same name is replaced.
    """
    _keep(path, name, {"kind": "artifact"})


@_harmless
def log_model(path: str, name: str = "", **metrics: Any) -> None:
    """Keep a model as `log_artifact` does, with the metrics that it reached."""
    if rank() == 0:
        found = {key: _number(key, value) for key, value in metrics.items()}
        _keep(path, name, {"kind": "model", "metrics": {k: v for k, v in found.items() if v is not None}})


def outputs() -> str:
    """Return the folder of the outputs of the run."""
    return os.environ.get("HPCDIST_OUTPUTS") or os.path.join(_folder(), "outputs")


def rank() -> int:
    """Return the rank of this process, as it is when it is first needed; 0 where it is the only one."""
    if _Rank.process != os.getpid():  # also in a fork
        values = (os.environ.get(name, "") for name in _RANKS)
        _Rank.number = next((int(value) for value in values if value.isdecimal()), 0)
        _Rank.process = os.getpid()
    return _Rank.number


def step_aside(name: str, *parts: str) -> None:
    """Put the real package of this name, if there is one, into the place of the module that stands in for it.

    To be called by that module at its end. ``parts`` are modules of the package for which it stands in, too.
    A package that lacks the first of them keeps what it has, and gets them.
    """
    stand_in = package = sys.modules[name]
    spec = _real(stand_in.__spec__)
    if spec is not None:
        for loaded in [loaded for loaded in sys.modules if loaded == name or loaded.startswith(name + ".")]:
            del sys.modules[loaded]
        package = sys.modules[name] = importlib.util.module_from_spec(spec)
        if spec.loader is not None:  # a namespace has none
            spec.loader.exec_module(package)
    places = getattr(package, "__path__", None)
    if places is not None and importlib.machinery.PathFinder.find_spec(f"{name}.{parts[0]}", places) is None:
        setattr(package, parts[0], stand_in)
        sys.modules.update((f"{name}.{part}", stand_in) for part in parts)


def _real(stand_in: Any) -> Any:
    """Return where the package is for which a module stands in, wherever else Python looks for it."""
    own = os.path.dirname(os.path.abspath(stand_in.origin))
    places = [place for place in sys.path if os.path.abspath(place) != own]
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
    found = [importlib.machinery.PathFinder.find_spec(stand_in.name, places)]
    found += [finder.find_spec(stand_in.name, None) for finder in finders]  # as of an editable installation
    return next((spec for spec in found if spec and not _is_copy(spec, stand_in)), None)


def _is_copy(spec: Any, stand_in: Any) -> bool:
    """Whether it is the module itself, or where hpcdist is installed, too: this module lies beside that."""
    place = os.path.join(os.path.dirname(spec.origin or ""), "hpcdist_tracking.py")
    return spec.origin is not None and (spec.origin == stand_in.origin or os.path.exists(place))


def _number(name: str, value: Any) -> Any:
    """Return a value of JSON, which has no NaN; None if it is no number."""
    try:
        number = float(value)
    except Exception:  # noqa: BLE001 - a tensor of several elements has its own
        _warn(f"the value of metric {name!r} is no number: {value!r:.80}")
        return None
    if isinstance(value, int):
        return int(value)
    return number if number - number == 0 else str(number)


def _text(number: Any) -> str:
    """Return a number as JSON; an encoder of JSON takes longer for a line than writing it does."""
    return _as_json(number) if number is None or isinstance(number, str) else repr(number)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, int):
        return int(value) if -(1 << 63) <= value < 1 << 64 else str(value)  # a seed keeps its digits
    return _number("", value) if isinstance(value, float) else str(value)


def _keep(path: str, name: str, entry: Dict[str, Any]) -> None:
    if rank() != 0:
        return
    try:
        entry["path"] = _copied(str(path), name)
        place = os.path.join(outputs(), entry["path"])
        entry["sha256"], entry["bytes"] = _hash(place)
    except (OSError, ValueError, shutil.Error) as error:
        _warn(f"{path} cannot be kept: {error}")
    else:
        _record(_as_json({"artifact": entry})[:-1])


def _copied(path: str, name: str) -> str:
    """Copy it into the outputs, if it is not there; return its path below them."""
    folder, source = os.path.realpath(outputs()), os.path.realpath(path)
    if source.startswith(folder + os.sep) and not name:
        return os.path.relpath(source, folder)
    name = os.path.normpath(name or os.path.basename(source))
    if os.path.isabs(name) or name.split(os.sep)[0] in ("", ".", ".."):
        raise ValueError(f"{name} lies outside the outputs")
    target = os.path.join(folder, name)
    if source == target or target.startswith(source + os.sep):
        raise ValueError("it would be copied into itself")
    _replace(source, target)
    return name


def _replace(source: str, target: str) -> None:
    """Put a copy into its place at once, so that a kill leaves the old one or the new one."""
    new, old = (f"{target}.{word}-{os.getpid()}" for word in ("new", "old"))
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    if not os.path.isdir(source):
        shutil.copyfile(source, new)
        os.replace(new, target)
        return
    shutil.copytree(source, new)
    if os.path.lexists(target):
        os.rename(target, old)
    os.rename(new, target)
    shutil.rmtree(old, ignore_errors=True)


def _hash(path: str) -> Any:
    """Return the SHA-256 and the number of bytes; of a folder, those of its list of files and hashes."""
    if not os.path.isdir(path):
        return _hash_of_file(path)
    total, digest = 0, hashlib.sha256()
    for file in sorted(_files(path)):
        text, size = _hash_of_file(os.path.join(path, file))
        digest.update(f"{text}  {file}\n".encode("utf-8", "surrogateescape"))
        total += size
    return digest.hexdigest(), total


def _files(folder: str) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        for name in names:
            yield os.path.relpath(os.path.join(place, name), folder)


def _hash_of_file(path: str) -> Any:
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as stream:
        for piece in iter(lambda: stream.read(_PIECE), b""):
            digest.update(piece)
            size += len(piece)
    return digest.hexdigest(), size


class _Rank:
    """The rank of this process: seven variables are looked up once."""

    process = 0
    number = 0


class _File:
    """The file of this process, opened when it first records something."""

    process = 0
    handle = -1
    torn = False


def _record_first(entry: Dict[str, Any]) -> None:
    if rank() == 0:
        _record(_as_json(entry)[:-1])


def _record(entry: str) -> None:
    """Append a line, which the time completes; of what a full disk has cut short, the next is kept apart."""
    text = '{},"at":{:.3f}}}\n'.format(entry, time.time())
    try:
        if _File.process != os.getpid():  # also that of a fork
            _File.handle, _File.process, _File.torn = _opened(), os.getpid(), False
        line = ("\n" + text if _File.torn else text).encode()
        written = os.write(_File.handle, line)
        _File.torn = written < len(line)
        if _File.torn:
            _warn("the disk is full; metrics are lost")
    except (OSError, ValueError) as error:
        _warn(f"metrics are lost: {error}")


def _opened() -> int:
    os.makedirs(_folder(), mode=0o700, exist_ok=True)
    host = socket.gethostname().split(".")[0]
    name = f"rank-{rank()}.{host}.{os.getpid()}.jsonl"
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
    return os.open(os.path.join(_folder(), name), flags, 0o600)


def _folder() -> str:
    return os.environ.get("HPCDIST_TRACKING") or "hpcdist-tracking"


def _warn(text: str) -> None:
    """Print a warning once; a closed stderr is no reason to end."""
    if text not in _warned and len(_warned) < _MOST:
        _warned.add(text)
        with suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(f"hpcdist_tracking: warning: {text}\n")
