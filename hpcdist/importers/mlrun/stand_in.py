"""A standalone module: what code for MLRun gets where mlrun is not installed. Python 3.8 or later.

`MLClientCtx` and `DataItem` have what handlers use of those of mlrun 1.10 (``mlrun/execution.py``,
``mlrun/datastore/base.py``). Whatever else of mlrun is used raises an error that names it.

Artifacts, and ``tracking.jsonl`` with a line for each result and artifact, are in $HPCDIST_OUTPUTS; a rank
other than 0 has the folder ``rank-N`` there.
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import json
import os
import pickle
import re
import shutil
import sys
import time
import types
from pathlib import Path
from typing import Any

RANK = int(os.environ.get("HPCDIST_RANK", "0"))
FOLDER = Path(os.environ.get("HPCDIST_OUTPUTS", "outputs"), *([f"rank-{RANK}"] if RANK else []))


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
    """The context of a handler."""

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

    def is_logging_worker(self) -> bool:
        return RANK == 0

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
        track(label=key, value=str(value))

    def set_annotation(self, key: str, value: Any, **_: Any) -> None:
        track(annotation=key, value=str(value))

    def set_state(self, execution_state: str = "", error: object = None, **_: Any) -> None:
        self.error = str(error or self.error)
        self.state = "error" if self.error else execution_state or self.state
        track(state=self.state, error=self.error)

    def commit(self, message: str = "", **_: Any) -> None:
        if message:
            self.set_annotation("message", message)

    def log_result(self, key: str, value: Any, **_: Any) -> None:
        self.results[key] = value
        track(result=key, value=value)

    def log_results(self, results: dict[str, Any], **_: Any) -> None:
        for key, value in results.items():
            self.log_result(key, value)

    def log_artifact(self, item: Any, body: Any = None, **more: Any) -> Artifact:
        artifact = Artifact(item) if isinstance(item, str) else item
        source = Path(more.get("local_path") or more.get("src_path") or "")
        inside = not source.is_absolute() and ".." not in source.parts
        name = str(source if inside else source.name).strip(".") or artifact.key
        target = Path(more.get("target_path") or self._folder(more) / name)
        if more.get("format") and not target.suffix:
            target = Path(f"{target}.{more['format']}")
        target = keep(artifact.body if body is None else body, source, target, more.get("index"))
        return self._kept(artifact, target, more)

    def log_dataset(self, key: str, df: Any = None, **more: Any) -> Artifact:
        kind = more.get("format") or Path(more.get("local_path") or "").suffix[1:] or "parquet"
        return self.log_artifact(key, df, **{**more, "kind": "dataset", "format": kind})

    def log_model(self, key: str, body: Any = None, **more: Any) -> Artifact:
        folder, file = self._folder(more) / key, more.get("model_file") or f"{key}.pkl"
        source = Path(more.get("model_dir") or more.get("model_file") or "")
        keep(body, source, folder if body is None and source.is_dir() else folder / Path(file).name)
        for name, extra in (more.get("extra_data") or {}).items():
            track(artifact=f"{key}.{name}", path=str(keep(extra, Path(), folder / Path(name).name)))
        return self._kept(Artifact(key), folder, {**more, "kind": "model"})

    def _folder(self, more: dict[str, Any]) -> Path:
        return Path(self.artifact_path, more.get("artifact_path") or "")

    def _kept(self, artifact: Artifact, target: Path, more: dict[str, Any]) -> Artifact:
        artifact.target_path = artifact.uri = str(target)
        names = ("kind", "labels", "framework", "metrics", "parameters")
        track(
            artifact=artifact.key, path=str(target), **{name: more[name] for name in names if more.get(name)}
        )
        return artifact


def track(**values: Any) -> None:
    """Append a line to ``tracking.jsonl``."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "tracking.jsonl").open("a") as stream:
        stream.write(json.dumps({"time": round(time.time(), 3), **values}, default=plain) + "\n")


def plain(value: Any) -> Any:
    """Return a value for JSON, such as a number of NumPy."""
    return value.item() if getattr(value, "size", 0) == 1 and hasattr(value, "item") else str(value)


def keep(body: Any, source: Path, target: Path, index: object = None) -> Path:
    """Write a body as its type requires, or copy a file or folder; return where it is."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for method, suffix in (("savefig", "png"), ("write_html", "html")):
        if hasattr(body, method):
            target = target if target.suffix else Path(f"{target}.{suffix}")
            getattr(body, method)(str(target))
            return target
    if hasattr(body, "to_csv"):
        target = target if target.suffix else Path(f"{target}.csv")
        method = "to_csv" if target.suffix == ".csv" else "to_parquet"
        getattr(body, method)(str(target), **({} if index is None else {"index": index}))
    elif isinstance(body, (dict, list)):
        target.write_text(json.dumps(body, default=plain))
    elif body is not None:
        content = body.encode() if isinstance(body, str) else body
        target.write_bytes(content if isinstance(content, bytes) else pickle.dumps(body))
    elif source.is_dir() and source.name:
        shutil.copytree(source, target, dirs_exist_ok=True)
    elif source.resolve() != target.resolve():
        shutil.copy(source, target)
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
