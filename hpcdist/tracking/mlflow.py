"""Runs and models that MLflow wrote as files, with `MLFLOW_TRACKING_URI=file:FOLDER` (MLflow 1 to 3).

``FOLDER/EXPERIMENT/RUN`` has a file for each metric, with lines ``milliseconds value step``, for each param
and for each tag, named as it is; MLflow 3 keeps models in ``FOLDER/EXPERIMENT/models/ID``, and earlier ones
in the ``artifacts`` of the run (``mlflow/store/tracking/file_store.py``).
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from hpcdist.host import untrusted
from hpcdist.tracking.entries import Artifact, Entry

META: Final = "meta.yaml"
"""The file of an experiment, of a run and of a model."""

_START: Final = re.compile(rb"^start_time: ([0-9]{1,15})$", re.MULTILINE)

_MOST_BYTES: Final = 1 << 30
_OWN_TAG: Final = "mlflow."


def read(experiment: Path, outputs: Path) -> Iterator[list[Entry]]:
    """Yield what each run of an experiment recorded, in the order of their starts, and then the models.

    What is damaged is left out. The metrics of a child have its name in front. The path of a model is the one
    below ``outputs``.
    """
    for run in sorted(_folders(experiment), key=_start):
        if (run / "metrics").is_dir():
            yield [*_run(run, outputs)]
    for model in _folders(experiment / "models"):
        yield [*_model(model / "artifacts", model, outputs)]


def _folders(folder: Path) -> list[Path]:
    """Return the folders of runs, or of models; links are not followed."""
    there = () if folder.is_symlink() or not folder.is_dir() else folder.iterdir()
    return sorted(each for each in there if untrusted.is_regular(each / META) and not each.is_symlink())


def _start(run: Path) -> int:
    with suppress(OSError):
        if found := _START.search(untrusted.read(run / META, _MOST_BYTES)):
            return int(found[1])
    return 0


def _run(folder: Path, outputs: Path) -> Iterator[Entry]:
    tags = {name: text for name, text in _texts(folder / "tags").items() if "\n" not in text}
    prefix = f"{tags.get('mlflow.runName', folder.name)}/" if "mlflow.parentRunId" in tags else ""
    yield from _points(folder, prefix)
    params = {f"{prefix}{name}": _value(value) for name, value in _texts(folder / "params").items()}
    own = tuple(f"{name}={value}" for name, value in tags.items() if not name.startswith(_OWN_TAG))
    if params or own:
        yield Entry(at=0.0, params=params, tags=own)
    for file in _files(folder / "artifacts"):
        if file.name == "MLmodel":
            yield from _model(file.parent, folder, outputs)


def _points(folder: Path, prefix: str = "") -> Iterator[Entry]:
    """Yield the values of each metric by their steps; MLflow 3 repeats one for each model."""
    for name, text in _texts(folder / "metrics").items():
        points = set()
        for line in text.splitlines():
            with suppress(ValueError):
                at, value, step = line.split()[:3]
                points.add((float(step), float(at), repr(float(value))))
        for number, time, shown in sorted(points):
            yield Entry(at=time / 1000, step=number, metrics={prefix + name: float(shown)})


def _model(place: Path, run: Path, outputs: Path) -> Iterator[Entry]:
    """Yield a model with the last values of the metrics of its run."""
    files = [*_files(place)]
    if files:
        metrics = {name: value for entry in _points(run) for name, value in entry.metrics.items()}
        size = sum(file.lstat().st_size for file in files)
        yield Entry(at=0.0, artifact=Artifact("model", os.path.relpath(place, outputs), "", size, metrics))


def _value(text: str) -> float | str:
    """Return a param, which MLflow keeps as text, as the number that it is."""
    with suppress(ValueError, RecursionError, OverflowError):
        number: object = json.loads(text)
        if isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number):
            return number
    return text


def _texts(folder: Path) -> dict[str, str]:
    """Return the text of each file, by its path, which is the name of a metric, param or tag."""
    found = {}
    for file in _files(folder):
        with suppress(OSError):
            text = untrusted.read(file, _MOST_BYTES).decode("utf-8", "replace")
            found[str(file.relative_to(folder))] = text
    return found


def _files(folder: Path) -> list[Path]:
    """Return the files below a folder by their names; links are not followed."""
    walk = () if folder.is_symlink() else os.walk(folder)
    return sorted(Path(place, name) for place, _, names in walk for name in names)
