"""A standalone program: call a handler of MLRun. It needs no hpcdist, and Python 3.8 or later.

``python run_handler.py HANDLER [FILE]`` imports FILE and calls HANDLER with ``context`` and the params of the
run ($POLYAXON_PARAMS). Where mlrun is installed, mlrun makes the call; it needs no server. Elsewhere
``stand_in.py``, beside this file, takes its place.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

_STAND_IN = "stand_in" if __name__ == "__main__" else "hpcdist.importers.mlrun.stand_in"
stand_in: Any = importlib.import_module(_STAND_IN)  # in a job it is beside this file


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


def call(function: Any, context: Any) -> None:
    """Call a handler where mlrun is not installed."""
    parameters = inspect.signature(function).parameters
    given = {**context.parameters, "context": context}
    for name, path in context.inputs.items():
        hint = str(parameters[name].annotation)
        item = stand_in.DataItem(path)
        given[name] = item.as_df() if "DataFrame" in hint and "DataItem" not in hint else item
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        for name in given.keys() - {"context", *parameters}:
            context.logger.warning("%s takes no %s", function.__name__, name)
        given = {name: value for name, value in given.items() if name in parameters}
    value = function(**given)
    value = asyncio.run(value) if inspect.iscoroutine(value) else value
    if value is not None:
        context.log_result("return", value)
    if context.error:
        sys.exit(f"the handler set an error: {context.error}")


def call_by_mlrun(function: Any, context: Any) -> None:
    """Call a handler by mlrun: it stores the run where MLRUN_DBPATH is, nowhere without it."""
    run = {
        "metadata": {"name": context.name, "project": context.project},
        "spec": {
            "parameters": context.parameters,
            "inputs": context.inputs,
            "output_path": str(stand_in.FOLDER),
        },
    }
    status = importlib.import_module("mlrun").new_function(context.name).run(run, handler=function).status
    for key, value in (status.results or {}).items():
        stand_in.log_result(key, value)
    if (folder := stand_in.FOLDER / context.name).exists():
        stand_in.tracking.log_artifact(str(folder))
    if status.state != "completed":  # without a server, mlrun raises nothing, and keeps no error
        sys.exit(f"the handler failed; MLRun's state is {status.state}")


def main() -> None:
    """Call the handler."""
    os.environ.setdefault("MLRUN_HTTPDB__NOP_DB__VERBOSE", "false")  # no server is needed
    has_mlrun = importlib.util.find_spec("mlrun") is not None
    params: dict[str, Any] = json.loads(os.environ.get("POLYAXON_PARAMS") or "{}")
    context = stand_in.MLClientCtx({}, {})
    if not has_mlrun:
        stand_in.StandIn.names["get_or_create_ctx"] = lambda *_, **__: context
        sys.meta_path.append(stand_in.StandIn)
    function = load(*[*sys.argv[1:], ""][:2])
    parameters = inspect.signature(function).parameters
    for name, value in params.items():
        there = name in parameters and is_path(parameters[name], value)
        (context.inputs if there else context.parameters)[name] = value
    stand_in.tracking.log_params(params)
    if has_mlrun:
        call_by_mlrun(function, context)
    else:
        call(function, context)


if __name__ == "__main__":
    main()
