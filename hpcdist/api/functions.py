"""A function of Python as the program of a job."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.resources import files
from typing import Any, NamedTuple

from hpcdist.api import called
from hpcdist.api.experiments import Experiment, check_type
from hpcdist.api.plans import Plan
from hpcdist.api.runs import Run
from hpcdist.api.values import all_of
from hpcdist.base.errors import ConfigError, Problem
from hpcdist.base.words import quote


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
    What the function imports must be importable there; the current folder is searched last. Unpickling a
    result runs what is in it: only files that are this user's own are read. ``timeout`` in seconds:
    `Run.result` goes on.

    Raises:
        ConfigError: if cloudpickle is missing, the function cannot be pickled, or the experiment has several
            elements or trials.
        JobFailed: if the job ended without a result.
        WaitTimeout: if it has not ended by then; the job goes on.
        SchedulerError: as `Plan.submit`.
    """
    return plan_of(function, args, on, python).submit(runs_dir).result(timeout)


def call_each(  # noqa: PLR0913 - as `call`
    function: Callable[..., Any],
    arguments: Iterable[tuple[Any, ...]],
    *,
    on: Experiment,
    concurrency: int | None = None,
    python: str = sys.executable,
    runs_dir: str | os.PathLike[str] | None = None,
    timeout: float | None = None,
    return_exceptions: bool = False,
) -> list[Any]:
    """Run a function once for each tuple of arguments, as the trials of one run; return the results in order.

    Each trial is what a job of `call` is, and may have several tasks. The run is a search of the batch
    system's kind: a job array, or packed on whole nodes where the site wants that; ``concurrency``: how many
    trials run at once. ``return_exceptions``: those of trials that failed are in the list. Without it, that
    of the first such trial is raised when all have ended. ``timeout`` in seconds.

    Raises:
        ConfigError: as `call`, or if the experiment has trials or elements of its own.
        JobFailed: if a trial ended without a result.
        WaitTimeout: if not all have ended by then; the job goes on.
        SchedulerError: as `Plan.submit`.
    """
    every = all_of(tuple, arguments, "arguments")
    if not every:
        return []
    run = plan_of_each(function, every, on, python, concurrency).submit(runs_dir)
    run.wait(timeout)
    found = [_outcome(run, end) for _, end in sorted(called.ends(run._run).items())]  # noqa: SLF001 - as there
    failed = None if return_exceptions else next((each.error for each in found if each.error), None)
    if failed:
        raise failed
    return [each.error or each.value for each in found]


class _Outcome(NamedTuple):
    value: Any = None
    error: Exception | None = None


def _outcome(run: Run, end: called.CallEnd) -> _Outcome:
    try:
        return _Outcome(called.result(run._run, end))  # noqa: SLF001 - of this room
    except Exception as error:  # noqa: BLE001 - the function's own, whatever it is
        return _Outcome(error=error)


def plan_of(function: Callable[..., Any], args: tuple[Any, ...], on: Experiment, python: str) -> Plan:
    """Return the plan of the call, with the files that its run has beside those of others.

    Raises:
        ConfigError: as `call`.
    """
    plan = _planned((function, args), on, python, {})
    if plan.elements > 1:
        message = f"{plan.name} has {plan.elements} elements or trials, and a call has one result"
        raise ConfigError(Problem(message, hint="call the function on an experiment without these"))
    return plan


def plan_of_each(
    function: Callable[..., Any],
    arguments: list[tuple[Any, ...]],
    on: Experiment,
    python: str,
    concurrency: int | None = None,
) -> Plan:
    """Return the plan of the calls, one a trial.

    Raises:
        ConfigError: as `call_each`.
    """
    search = {"hptuning.matrix.call": {"range": [1, len(arguments) + 1, 1]}}
    limit = {} if concurrency is None else {"hptuning.concurrency": concurrency}
    plan = _planned((function, arguments), on, python, {**search, **limit}, " {{ call }}")
    if plan.elements != len(arguments):
        message = f"{plan.name} has elements or trials of its own, beside those of the {len(arguments)} calls"
        raise ConfigError(Problem(message, hint="call the function on an experiment without these"))
    return plan


def _planned(
    work: tuple[Callable[..., Any], Any],
    on: Experiment,
    python: str,
    settings: Mapping[str, Any],
    words: str = "",
) -> Plan:
    if not callable(work[0]):
        raise ConfigError(Problem(f"{work[0]!r} is no function", hint="write its name, without parentheses"))
    check_type(on, "on")
    encoded = base64.b64encode(_pickled(work)).decode()
    digest = hashlib.sha256(encoded.encode()).hexdigest()
    command = f'{quote(python)} "$HPCDIST_RUN_DIR/call.py" {digest}{words}'
    plan = on.changed(settings={**settings, "run.cmd": command}).plan()
    version = ".".join(map(str, sys.version_info[:2]))
    program = files("hpcdist.api").joinpath("task.py").read_text(encoding="utf-8")
    beside = {"call.py": program, "call.txt": f"{version} {encoded}"}
    return Plan(plan._made, plan._options, beside)  # noqa: SLF001 - of this room


def _pickled(work: tuple[Callable[..., Any], Any]) -> bytes:
    try:
        import cloudpickle
    except ImportError as error:
        hint = "install it: pip install 'hpcdist[call]'"
        raise ConfigError(Problem("calling a function needs cloudpickle", hint=hint)) from error
    try:
        return bytes(cloudpickle.dumps(work))
    except Exception as error:
        message = f"the function or an argument cannot be pickled: {type(error).__name__}: {error}"
        raise ConfigError(Problem(message, hint="open files and locks inside the function")) from error
