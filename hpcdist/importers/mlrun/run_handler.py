"""A standalone program: call a handler of MLRun. It needs no hpcdist, and Python 3.8 or later.

``python run_handler.py HANDLER [FILE]`` imports FILE, and mlrun calls HANDLER with its context and the
params of the run ($POLYAXON_PARAMS), without a server. Without mlrun, a handler that takes no context is
called directly.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

NEEDED = "install mlrun in the environment of the job, or name an image that has it"


def load(handler: str, file: str) -> Any:
    """Return the function: ``name`` of the file, or ``module.name``; of a class, ``Class::name``."""
    sys.path[:1] = []
    sys.path += [str(Path(file).resolve().parent), str(Path.cwd())]  # last: the folder may be shared
    module, (owner, _, method) = None, handler.partition("::")
    if file:
        spec: Any = importlib.util.spec_from_file_location(Path(file).stem, file)
        module = sys.modules[Path(file).stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    if not hasattr(module, owner) and "." in owner:
        above, _, owner = owner.rpartition(".")
        module = importlib.import_module(above)
    if not hasattr(module, owner):
        sys.exit(f"{file or 'this file'} defines no {owner}, the handler")
    found = getattr(module, owner)
    return getattr(found(), method) if method else found


def is_path(parameter: inspect.Parameter, value: Any) -> bool:
    """Return whether a param is an input: by its annotation, or, without one, if it names a file."""
    if not isinstance(value, str):
        return False
    if parameter.annotation is parameter.empty:
        return not isinstance(parameter.default, str) and ("://" in value or Path(value).exists())
    return "DataItem" in str(parameter.annotation) or "DataFrame" in str(parameter.annotation)


def call_by_mlrun(function: Any, params: dict[str, Any], tracking: Any) -> None:
    """Call a handler by mlrun, which stores the run at MLRUN_DBPATH, if set."""
    parameters = inspect.signature(function).parameters
    inputs = {key for key, value in params.items() if key in parameters and is_path(parameters[key], value)}
    folder = Path(os.environ.get("HPCDIST_RUN_DIR", "run")).name
    name = re.sub("[^a-z0-9]+", "-", folder.lower()).strip("-")
    info = json.loads(os.environ.get("POLYAXON_EXPERIMENT_INFO") or "{}")
    output = Path(tracking.outputs(), *([f"rank-{tracking.rank()}"] if tracking.rank() else []))
    run = {
        "metadata": {"name": name, "project": info.get("project_name", "hpcdist")},
        "spec": {
            "parameters": {key: value for key, value in params.items() if key not in inputs},
            "inputs": {key: value for key, value in params.items() if key in inputs},
            "output_path": str(output),
        },
    }
    status = importlib.import_module("mlrun").new_function(name).run(run, handler=function).status
    for key, value in (status.results or {}).items():
        number = value.item() if hasattr(value, "item") else value
        if isinstance(number, (int, float)):
            tracking.log_metrics({key: number})
    if (output / name).exists():
        tracking.log_artifact(str(output / name))
    if status.state != "completed":  # without a server, mlrun raises nothing, and keeps no error
        sys.exit(f"the handler failed; MLRun's state is {status.state}")


def main() -> None:
    """Call the handler."""
    os.environ.setdefault("MLRUN_HTTPDB__NOP_DB__VERBOSE", "false")  # no server is needed
    params: dict[str, Any] = json.loads(os.environ.get("POLYAXON_PARAMS") or "{}")
    try:
        function = load(*[*sys.argv[1:], ""][:2])
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mlrun":
            raise
        sys.exit(f"{error}; {NEEDED}")
    tracking = importlib.import_module("hpcdist_tracking")
    tracking.log_params(params)
    if importlib.util.find_spec("mlrun") is not None:
        call_by_mlrun(function, params, tracking)
    elif "context" in inspect.signature(function).parameters:
        sys.exit(f"{sys.argv[1]} takes a context of MLRun; {NEEDED}")
    else:
        function(**params)


if __name__ == "__main__":
    main()
