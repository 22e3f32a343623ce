"""A function of Python as the program of a job."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from hpcdist.api.experiments import Experiment
from hpcdist.api.plans import Plan
from hpcdist.errors import ConfigError, Problem
from hpcdist.words import quote


def call(
    function: Callable[..., Any],
    *args: Any,
    on: Experiment,
    python: str = sys.executable,
    runs_dir: str | os.PathLike[str] | None = None,
    timeout: float | None = None,
) -> Any:
    """Run a function as the job of an experiment, in place of its command, and return its result.

    Every task calls it once with the same arguments; the result is that of rank 0, those of others are
    dropped. If a task raises, its exception is raised here, that of the lowest such rank, with the traceback
    as the text of its cause. Keyword arguments are given by `functools.partial`. Function, arguments and
    result are pickled by cloudpickle, which ``python`` on the nodes needs too, of the same version as here.
    What the function imports must be importable there; the current folder is. Unpickling a result runs what
    is in it: only files that are this user's own are read. ``timeout`` in seconds: `Run.result` goes on.

    Raises:
        ConfigError: if cloudpickle is missing, the function cannot be pickled, or the experiment has several
            elements or trials.
        JobFailed: if the job ended without a result.
        WaitTimeout: if it has not ended by then; the job goes on.
        SchedulerError: as `Plan.submit`.
    """
    return plan_of(function, args, on, python).submit(runs_dir).result(timeout)


def plan_of(function: Callable[..., Any], args: tuple[Any, ...], on: Experiment, python: str) -> Plan:
    """Return the plan of the call, with the files that its run has beside those of others.

    Raises:
        ConfigError: as `call`.
    """
    encoded = base64.b64encode(_pickled(function, args)).decode()
    digest = hashlib.sha256(encoded.encode()).hexdigest()
    command = f'{quote(python)} "$HPCDIST_RUN_DIR/call.py" {digest}'
    plan = on.changed(settings={"run.cmd": command}).plan()
    if plan.elements > 1:
        message = f"{plan.name} has {plan.elements} elements or trials, and a call has one result"
        raise ConfigError(Problem(message, hint="call the function on an experiment without these"))
    version = ".".join(map(str, sys.version_info[:2]))
    program = files("hpcdist.api").joinpath("task.py").read_text(encoding="utf-8")
    beside = {"call.py": program, "call.txt": f"{version} {encoded}"}
    return Plan(plan._made, plan._options, beside)  # noqa: SLF001 - of this room


def _pickled(function: Callable[..., Any], args: tuple[Any, ...]) -> bytes:
    try:
        import cloudpickle
    except ImportError as error:
        hint = "install it: pip install 'hpcdist[call]'"
        raise ConfigError(Problem("calling a function needs cloudpickle", hint=hint)) from error
    try:
        return bytes(cloudpickle.dumps((function, args)))
    except Exception as error:
        message = f"the function or an argument cannot be pickled: {type(error).__name__}: {error}"
        raise ConfigError(Problem(message, hint="open files and locks inside the function")) from error
