"""Stands in for azureml-core, whose programs then run outside Azure and record in files.

    from azureml.core import Run

    run = Run.get_context()
    run.log("loss", 0.5)

Only what Azure's pages show of the run of a program is here; anything else is an error that names it. As in
azureml-core outside Azure, the run is an ``OfflineRun``. Where azureml-core is installed, it is used; of
other packages that are parts of ``azureml`` nothing is hidden.
"""

import io
import json
import os
from contextlib import suppress
from typing import Any, Callable, Dict, List, Optional, Union

import hpcdist_tracking
from hpcdist_tracking import log_artifact, log_metrics, log_model, log_params, log_tags, step_aside

__all__ = ["Run"]
__path__: List[str] = []


class Model:
    """A registered model, which is in the outputs of the run."""

    def __init__(self, name: str) -> None:
        self.name = self.id = name
        self.version = 1


class Run:
    """The run, or a child of it, whose metrics have its name in front; rank 0 alone records."""

    _tags: Dict[str, Optional[str]] = {}
    _properties: Dict[str, str] = {}

    def __init__(self, prefix: str = "", parent: Optional["Run"] = None) -> None:
        self._prefix = prefix
        self._children = 0
        self.parent = parent
        self._run_id = "OfflineRun_" + os.environ.get("HPCDIST_JOB_ID", "0")
        self.id = self.name = self._run_id + prefix.rstrip("/").replace("/", ".")
        self.number = 1

    def __getattr__(self, name: str) -> Any:
        """Refuse what is not here by its name."""
        reason = "has no counterpart outside Azure; guard this call, or remove it"
        raise AttributeError("azureml.core: Run.{} {}".format(name, reason))

    @staticmethod
    def get_context(*_: Any, **__: Any) -> "Run":
        """Return the run of this program."""
        return _CONTEXT

    def log(self, name: str, value: Any, description: str = "", step: Any = None) -> None:
        """Record a number at a step; a text is a param."""
        del description
        if isinstance(value, (list, tuple, range)):
            self.log_list(name, value)
        elif isinstance(value, str):
            log_params({self._prefix + name: value})
        else:
            log_metrics({self._prefix + name: value}, step=step)

    def log_list(self, name: str, value: Any, description: str = "") -> None:
        """Record each value of a list."""
        for item in value:
            self.log(name, item, description)

    def log_row(self, name: str, description: Optional[str] = None, **columns: Any) -> None:
        """Record each column as a metric ``NAME/COLUMN``."""
        del description
        log_metrics({"{}{}/{}".format(self._prefix, name, column): item for column, item in columns.items()})

    def log_table(self, name: str, value: Dict[str, Any], description: str = "") -> None:
        """Record the rows of a table: a list for each column."""
        for row in zip(*value.values()):
            self.log_row(name, description, **dict(zip(value, row)))

    def log_image(self, name: str, path: Any = None, plot: Any = None, description: str = "") -> None:
        """Keep an image: a file, or a figure of Matplotlib."""
        del description
        if plot is not None:
            _keep_new(name + ".png", plot.savefig)
        else:
            self.upload_file(name + os.path.splitext(str(path))[1], path)

    def _log_chart(self, name: str, value: Any, description: Optional[str] = "") -> None:
        """Keep the data of a chart as JSON."""
        del description
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        self.upload_file(name + ".json", io.BytesIO(text.encode()))

    log_confusion_matrix = log_accuracy_table = log_residuals = log_predictions = _log_chart

    def upload_file(self, name: str, path_or_stream: Any, datastore_name: Optional[str] = None) -> None:
        """Keep a file."""
        del datastore_name
        if hasattr(path_or_stream, "read"):
            _keep_new(name, lambda place: _write(place, path_or_stream.read()))
            return
        is_there = os.path.realpath(path_or_stream) == os.path.realpath(_place(name))
        log_artifact(path_or_stream, "" if is_there else _below_outputs(name))

    upload_folder = upload_file

    def upload_files(self, names: Any, paths: Any, **_: Any) -> None:
        """Keep several files."""
        for name, path in zip(names, paths):
            self.upload_file(name, path)

    def register_model(self, model_name: str, model_path: Optional[str] = None, **_: Any) -> Model:
        """Record a model that is in the outputs, or elsewhere."""
        path = model_path or model_name
        log_model(_place(path) if os.path.exists(_place(path)) else path)
        return Model(model_name)

    def tag(self, key: str, value: Optional[str] = None) -> None:
        """Record a tag: ``KEY``, or ``KEY=VALUE``."""
        self._tags[key] = value
        log_tags(key if value is None else "{}={}".format(key, value))

    def set_tags(self, tags: Union[str, Dict[str, Optional[str]]]) -> None:
        """Record several tags."""
        for key, value in ({tags: None} if isinstance(tags, str) else tags).items():
            self.tag(key, value)

    def get_tags(self) -> Dict[str, Optional[str]]:
        """Return the tags of this program."""
        return self._tags

    def add_properties(self, properties: Dict[str, str]) -> None:
        """Record properties, which are params here."""
        self._properties.update(properties)
        log_params(properties)

    def get_properties(self) -> Dict[str, str]:
        """Return the properties of this program."""
        return self._properties

    tags = property(get_tags)
    properties = property(get_properties)

    def child_run(self, name: Optional[str] = None, **_: Any) -> "Run":
        """Return a child."""
        self._children += 1
        return type(self)("{}{}/".format(self._prefix, name or self._children), self)

    def _nothing(self, *_: Any, **__: Any) -> None:
        """Record nothing: hpcdist knows how a run begins and ends."""

    start = complete = fail = cancel = flush = wait_for_completion = __exit__ = _nothing

    def __enter__(self) -> "Run":
        """Return itself, which is there already."""
        return self


class _OfflineRun(Run):
    """What programs compare the type of a run with, to find out whether they are on Azure."""


def _below_outputs(name: str) -> str:
    """Return a path without the name that Azure gives to the folder of the outputs."""
    path = os.path.normpath("/" + name)[1:]
    return path[len("outputs/") :] if path.startswith("outputs/") else path


def _place(name: str) -> str:
    return os.path.join(hpcdist_tracking.outputs(), _below_outputs(name))


def _keep_new(name: str, write: Callable[[str], Any]) -> None:
    """Let this write a file of the outputs, and keep it; what cannot be written is a warning."""
    if hpcdist_tracking.rank() == 0:
        with suppress(OSError):
            os.makedirs(os.path.dirname(_place(name)), exist_ok=True)
            write(_place(name))
        log_artifact(_place(name))


def _write(place: str, content: bytes) -> None:
    with open(place, "wb") as file:
        file.write(content)


def __getattr__(name: str) -> Any:
    """Refuse what is not here by its name."""
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError(
        "azureml.core.{} needs azureml-core itself: install it in the environment of the job".format(name)
    )


_CONTEXT = _OfflineRun(parent=_OfflineRun())

step_aside(__name__, "core", "core.run")
