"""A standalone module: what code for MLRun gets where mlrun is not installed. Python 3.8 or later.

`MLClientCtx` and `DataItem` have what handlers use of those of mlrun 1.10 (``mlrun/execution.py``,
``mlrun/datastore/base.py``). Whatever else of mlrun is used raises an error that names it.

`hpcdist_tracking` records results that are numbers, params, labels, artifacts and models, all of rank 0.
Artifacts are in $HPCDIST_OUTPUTS; what another rank writes is in ``rank-N`` there.
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import json
import os
import pickle
import re
import sys
import time
import types
from pathlib import Path
from typing import Any

tracking: Any = importlib.import_module("hpcdist_tracking")
FOLDER = Path(tracking.outputs(), *([f"rank-{tracking.rank()}"] if tracking.rank() else []))


class MLRunNeededError(AttributeError):
    """What only MLRun itself has."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} needs MLRun itself: install mlrun in the environment of the job")


class Partial:
    """A class of MLRun of which a part is here."""

    def __getattr__(self, name: str) -> Any:
        raise MLRunNeededError(f"{type(self).__name__}.{name}")


class DataItem(Partial, str):  # noqa: SLOT000 - a class beside it has no slots
    """The path of an input."""

    key, kind, meta = "", "file", None
    url = artifact_url = property(str)
    suffix = property(lambda self: Path(self).suffix)

    def local(self) -> str:
        path = self.replace("file://", "", 1)
        if "://" in path:
            raise ValueError(f"{self} is not fetched: copy it to this machine, and give its path")
        return path

    def get(self, size: int | None = None, offset: int = 0, encoding: str = "") -> Any:
        content = Path(self.local()).read_bytes()[offset:][:size]
        return content.decode(encoding) if encoding else content

    def as_df(self, columns: Any = None, df_module: Any = None, format: str = "", **options: Any) -> Any:  # noqa: A002
        kind = (format or self.suffix[1:] or "parquet").replace("pq", "parquet")
        if kind not in ("csv", "json", "parquet"):
            raise ValueError(f"{self} is no CSV, JSON or Parquet file, by its name")
        if columns:
            options["usecols" if kind == "csv" else "columns"] = columns
        return getattr(df_module or importlib.import_module("pandas"), f"read_{kind}")(
            self.local(), **options
        )


class Logger(Partial):
    """The logger of a context, which writes to the log of the job."""

    def _write(self, level: str, message: object, *words: object, **values: object) -> None:
        text = str(message) % words if words else str(message)
        more = f": {json.dumps(values, default=plain)}" if values else ""
        sys.stdout.write(f"> {time.strftime('%Y-%m-%d %H:%M:%S')} [{level}] {text}{more}\n")
        sys.stdout.flush()

    debug = functools.partialmethod(_write, "debug")
    info = functools.partialmethod(_write, "info")
    warn = warning = functools.partialmethod(_write, "warning")
    error = exception = functools.partialmethod(_write, "error")


class Artifact(Partial):
    """An artifact: its key, what it consists of, and its path once it is logged."""

    target_path = uri = ""

    def __init__(self, key: str = "", body: Any = None, **others: Any) -> None:
        self.key = key
        self.body = next((one for one in (body, *map(others.get, ("df", "figure"))) if one is not None), None)


class MLClientCtx(Partial):
    """The context of a handler, or of a program that is none."""

    kind, iteration, tag, in_path, state, error = "run", 0, "", "", "running", ""

    def __init__(self, params: dict[str, Any], inputs: dict[str, str]) -> None:
        info = json.loads(os.environ.get("POLYAXON_EXPERIMENT_INFO") or "{}")
        folder = Path(os.environ.get("HPCDIST_RUN_DIR", "run")).name
        self.uid = self.name = re.sub("[^a-z0-9]+", "-", folder.lower()).strip("-")
        self.project = info.get("project_name", "hpcdist")
        self.parameters, self.inputs = params, inputs
        self.labels: dict[str, str] = {}
        self.results: dict[str, Any] = {}
        self.artifact_path = self.out_path = str(FOLDER)
        self.logger = Logger()

    def __enter__(self) -> MLClientCtx:  # noqa: PYI034 - Python 3.8 has no Self
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.set_state(error=error)

    def is_logging_worker(self) -> bool:
        return bool(tracking.rank() == 0)

    def get_param(self, key: str, default: Any = None) -> Any:
        return self.parameters.setdefault(key, default)

    def get_input(self, key: str, url: str = "") -> DataItem:
        return DataItem(self.inputs.setdefault(key, url or self.parameters.get(key, "")))

    def get_dataitem(self, url: str, **_: Any) -> DataItem:
        return DataItem(url)

    def get_secret(self, key: str, **_: Any) -> str | None:
        return os.environ.get(key)

    def artifact_subpath(self, *parts: str) -> str:
        return str(Path(self.artifact_path, *parts))

    def set_label(self, key: str, value: Any, **_: Any) -> None:
        self.labels[key] = str(value)
        tracking.log_tags(f"{key}={value}")

    def set_annotation(self, key: str, value: Any, **_: Any) -> None:
        self.logger.info("%s: %s", key, value)

    def set_state(self, execution_state: str = "", error: object = None, **_: Any) -> None:
        self.error = str(error or self.error)
        self.state = "error" if self.error else execution_state or self.state

    def commit(self, message: str = "", **_: Any) -> None:
        if message:
            self.set_annotation("message", message)

    def log_result(self, key: str, value: Any, **_: Any) -> None:
        self.results[key] = value
        log_result(key, value)

    def log_results(self, results: dict[str, Any], **_: Any) -> None:
        for key, value in results.items():
            self.log_result(key, value)

    def log_artifact(self, item: Any, body: Any = None, **more: Any) -> Artifact:
        artifact = Artifact(item) if isinstance(item, str) else item
        body = artifact.body if body is None else body
        local, target = (
            str(more.get("local_path") or more.get("src_path") or ""),
            more.get("target_path") or "",
        )
        if body is not None:
            inside = not Path(local).is_absolute() and ".." not in Path(local).parts
            name = (local if inside else Path(local).name) or artifact.key
            place = write(
                body, Path(target or self._folder(more) / name), more.get("format"), more.get("index")
            )
        elif target or local:
            place = Path(target or local)
        else:
            raise ValueError(f"the artifact {artifact.key} has neither a body nor a local_path")
        artifact.target_path = artifact.uri = str(place)
        if body is None and (target or (place.is_dir() and not more.get("upload"))):
            self.logger.info("the artifact %s is %s, and not copied", artifact.key, place)
        else:
            tracking.log_artifact(str(place))
        return artifact

    def log_dataset(self, key: str, df: Any = None, **more: Any) -> Artifact:
        kind = more.get("format") or Path(more.get("local_path") or "").suffix[1:] or "parquet"
        return self.log_artifact(key, df, **{**more, "format": kind})

    def log_model(self, key: str, body: Any = None, **more: Any) -> Artifact:
        artifact, folder = Artifact(key), self._folder(more) / key
        source = str(more.get("model_dir") or more.get("model_file") or "")
        if body is not None:
            write(body, folder / Path(source or f"{key}.pkl").name)
            source = str(folder)
        metrics = {name: value for name, value in (more.get("metrics") or {}).items() if is_number(value)}
        tracking.log_model(source, **{name: metrics[name] for name in metrics.keys() - {"path", "name"}})
        for name, extra in (more.get("extra_data") or {}).items():
            if isinstance(extra, bytes):
                tracking.log_artifact(str(write(extra, folder / Path(name).name)))
            elif not isinstance(extra, Artifact):
                self.logger.warning("the extra data %s of model %s is not kept: it is no bytes", name, key)
        artifact.target_path = artifact.uri = source
        return artifact

    def _folder(self, more: dict[str, Any]) -> Path:
        return Path(self.artifact_path, more.get("artifact_path") or "")


def is_number(value: Any) -> bool:
    """Return whether this is a number, of Python or NumPy."""
    return isinstance(plain(value) if hasattr(value, "item") else value, (int, float))


def log_result(key: str, value: Any) -> None:
    """Record a number; anything else is a line of the log."""
    if is_number(value):
        tracking.log_metrics({key: value})
    else:
        Logger().info("result %s: %s", key, value)


def plain(value: Any) -> Any:
    """Return a value for JSON, such as a number of NumPy."""
    return value.item() if getattr(value, "size", 0) == 1 and hasattr(value, "item") else str(value)


def write(body: Any, target: Path, format_: Any = "", index: object = None) -> Path:
    """Write a body as its type requires; return the file, which has a suffix if it has a format."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for method, suffix in (("savefig", "png"), ("write_html", "html"), ("to_csv", "csv")):
        if hasattr(body, method):
            target = target if target.suffix else Path(f"{target}.{format_ or suffix}")
            is_parquet = (format_ or target.suffix[1:]) in ("parquet", "pq")
            options = {} if index is None else {"index": index}
            getattr(body, "to_parquet" if is_parquet else method)(str(target), **options)
            return target
    target = Path(f"{target}.{format_}") if format_ and not target.suffix else target
    if isinstance(body, (dict, list)):
        body = json.dumps(body, default=plain)
    content = body.encode() if isinstance(body, str) else body
    target.write_bytes(content if isinstance(content, bytes) else pickle.dumps(body))
    return target


class Absent(type):
    """A class of MLRun that is not here: code may import it, and annotate with it, but not use it."""

    def __call__(cls, *_: Any, **__: Any) -> Any:
        raise MLRunNeededError(f"{cls.__module__}.{cls.__name__}")

    def __getattr__(cls, name: str) -> Any:
        raise (
            AttributeError(name)
            if name.startswith("__")
            else MLRunNeededError(f"{cls.__module__}.{cls.__name__}.{name}")
        )


class StandIn(types.ModuleType):
    """A module of mlrun where mlrun is not installed, and what finds it."""

    __path__: Any = ()
    names: Any = {
        "DataItem": DataItem,
        "MLClientCtx": MLClientCtx,
        "get_dataitem": DataItem,
        "logger": Logger(),
    }

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("artifacts", "datastore", "errors", "execution", "run"):
            return StandIn(f"{self.__name__}.{name}")
        base = Exception if name.endswith("Error") else Artifact if name.endswith("Artifact") else None
        return self.names.get(name) or base or Absent(name, (), {"__module__": self.__name__})

    @classmethod
    def find_spec(cls, name: str, *_: object) -> Any:
        loader: Any = cls
        is_mlrun = name.partition(".")[0] == "mlrun"
        return importlib.machinery.ModuleSpec(name, loader) if is_mlrun else None

    @classmethod
    def create_module(cls, spec: Any) -> StandIn:
        return cls(spec.name)

    @staticmethod
    def exec_module(module: Any) -> None:
        pass
