"""Stands in for the client of Polyaxon 0.x, whose programs then run without a server and record in files.

    from polyaxon_client.tracking import Experiment, get_outputs_path

Only what Polyaxon's pages show of ``tracking`` is here; anything else is an error that names it. Where
PyPI's ``polyaxon-client`` is installed and ``POLYAXON_HOST`` or ``POLYAXON_API_HOST`` names a server, that
one is used (by itself it needs a server, and no longer starts on Python 3.10 or later).
"""

import json
import os
import sys
from typing import Any, Dict, List, Optional, Union

import hpcdist_tracking
from hpcdist_tracking import log_artifact, log_metrics, log_params, log_tags, step_aside

__path__: List[str] = []


def get_outputs_path() -> str:
    """Return the folder of the outputs of the run."""
    return hpcdist_tracking.outputs()


def get_data_paths() -> Dict[str, str]:
    """Return the data folders that the experiment names, by their names."""
    found: Dict[str, str] = _read("POLYAXON_RUN_DATA_PATHS")
    return found


def get_log_level() -> Optional[str]:
    """Return the log level of the experiment, if it has one."""
    return os.environ.get("POLYAXON_LOG_LEVEL")


def _read(variable: str) -> Any:
    try:
        return json.loads(os.environ.get(variable) or "{}")
    except ValueError:
        return {}


class _Tracked:
    """What an experiment and a job have in common; every call is recorded by rank 0 alone."""

    def __init__(self, *names: Any, **options: Any) -> None:
        del names, options  # of a project on a server

    def __getattr__(self, name: str) -> Any:
        """Refuse what is not here by its name."""
        reason = "has no counterpart without a server; guard this call, or remove it"
        raise AttributeError(f"polyaxon_client.tracking: {type(self).__name__}.{name} {reason}")

    def create(self, *options: Any, **more: Any) -> "_Tracked":
        """Return itself: the run is there already."""
        del options, more
        return self

    def log_metrics(self, **metrics: Any) -> None:
        """Record metrics; ``step`` and ``timestamp`` are none of them."""
        metrics.pop("timestamp", None)
        log_metrics(metrics, step=metrics.pop("step", None))

    def log_params(self, reset: bool = False, **params: Any) -> None:
        """Record params; nothing is reset, as a later value replaces an earlier one."""
        del reset
        log_params(params)

    def log_tags(self, tags: Union[str, List[str]], reset: bool = False) -> None:
        """Record tags: a list, or a text with commas."""
        del reset
        log_tags(*(tags.split(",") if isinstance(tags, str) else tags))

    def log_artifact(self, file_path: str) -> None:
        """Keep a file."""
        log_artifact(file_path)

    def log_artifacts(self, dir_path: str) -> None:
        """Keep a folder."""
        log_artifact(dir_path)

    def log_output(self, filename: str, **options: Any) -> None:
        """Keep a file."""
        del options
        log_artifact(filename)

    def log_outputs(self, dirname: str, **options: Any) -> None:
        """Keep a folder."""
        del options
        log_artifact(dirname)

    def _nothing(self, *values: Any, **options: Any) -> None:
        """Record nothing: hpcdist knows how a run ends, where it ran and what it is called."""

    log_status = log_succeeded = log_stopped = log_failed = _nothing
    start = end = succeeded = stop = failed = _nothing
    log_code_ref = log_run_env = log_framework = log_backend = log_build = log_data_ref = _nothing
    set_name = set_description = _nothing

    def get_outputs_path(self) -> str:
        """Return the folder of the outputs of the run."""
        return get_outputs_path()

    def get_log_level(self) -> Optional[str]:
        """Return the log level of the experiment, if it has one."""
        return get_log_level()

    @staticmethod
    def get_data_paths() -> Dict[str, str]:
        """Return the data folders that the experiment names, by their names."""
        return get_data_paths()

    @staticmethod
    def get_params() -> Dict[str, Any]:
        """Return the params of the experiment."""
        found: Dict[str, Any] = _read("POLYAXON_PARAMS")
        return found

    get_declarations = get_params


class Experiment(_Tracked):
    """An experiment, which is this run."""

    @staticmethod
    def get_experiment_info() -> Dict[str, Any]:
        """Return its names."""
        found: Dict[str, Any] = _read("POLYAXON_EXPERIMENT_INFO")
        return found

    @staticmethod
    def get_task_info() -> Dict[str, Any]:
        """Return the role and the index of this task."""
        found: Dict[str, Any] = _read("POLYAXON_TASK_INFO")
        return found

    @staticmethod
    def get_tf_config(envvar: str = "TF_CONFIG") -> Dict[str, Any]:
        """Return TensorFlow's description of the cluster, which is set already."""
        found: Dict[str, Any] = _read(envvar)
        return found


class Job(_Tracked):
    """A job, which is this run."""

    @staticmethod
    def get_job_info() -> Dict[str, Any]:
        """Return its names."""
        found: Dict[str, Any] = _read("POLYAXON_JOB_INFO")
        return found


sys.modules[f"{__name__}.tracking"] = tracking = sys.modules[__name__]

if os.environ.get("POLYAXON_HOST") or os.environ.get("POLYAXON_API_HOST"):
    step_aside(__name__, "tracking")
