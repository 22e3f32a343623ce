"""hpcdist: one experiment file; any supercomputer.

The rooms, from the ground up: a package imports only from the lines above its own, and from its left. The
docstring of each is its page, which names the file for each thing.

    base    errors, units, quoting, plug-ins; YAML with places; processes, files, locks, shipped data
    experiment    what the user asks for
    site    what the machine offers; NCCL's variables
    plan    everything decided, with its origin
    layers    launchers, frameworks, containers: words in front of a command, variables around it
    schedulers    one for each batch system: commands for it, and its answers
    planner    decisions, pure: experiment + site become a plan; its advice, its lint and what it may cost
    script    a plan becomes a script; the run's files beside it
    importers    files of other systems become experiments
    loading    a file becomes an experiment or a site; the machine is chosen, and both become a plan
    runs    submit, status, logs, cancel, wait, one directory per run; here, or on a machine by ssh
    tracking    metrics that runs recorded: read, compared, shown on a report page, and exported
    checks    what could keep jobs from running well, what they used, and which nodes failed
    searches    the trials of a search that was submitted, and further jobs of any run
    studies    scaling, pipelines and rehearsals: several runs for one question, or a run put to the test
    testing    FakeShell and the contract that every scheduler keeps
    api    what `import hpcdist` gives a program
    cli    one short module per verb

What runs in a job is in `templates/`, next to this package: `templates/job/` has the parts of the script,
which `hpcdist.script` names; `templates/runtime/supervisor/`, with its page, what runs next to a submitted
job: attempts, restarts after a failure or at the time limit, causes of failures, steps, trials, samples;
`templates/python/` the modules that programs import; `templates/report/` the report page. The other scripts
there are what `exec`, `debug`, `doctor` and remotes run on nodes and other machines.

The names below are the public interface for programs; each is imported when it is used first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpcdist.api.experiments import Experiment, define, load, sweep
    from hpcdist.api.finding import Runs, find_run, find_runs
    from hpcdist.api.functions import call, call_each
    from hpcdist.api.pipelines import Pipeline, PipelineRun, find_pipeline, load_pipeline
    from hpcdist.api.plans import Plan
    from hpcdist.api.results import Metrics, Series, Trial
    from hpcdist.api.runs import Run, wait, wait_async
    from hpcdist.base.errors import (
        ConfigError,
        HpcdistError,
        JobFailed,
        OutputError,
        Place,
        PlanError,
        Problem,
        RenderError,
        SchedulerError,
        ServiceError,
        SubmissionUnknown,
        WaitTimeout,
    )
    from hpcdist.schedulers.job import JobState, Status
    from hpcdist.tracking.outputs import Output

__version__ = "0.1.0"

__all__ = [
    "ConfigError",
    "Experiment",
    "HpcdistError",
    "JobFailed",
    "JobState",
    "Metrics",
    "Output",
    "OutputError",
    "Pipeline",
    "PipelineRun",
    "Place",
    "Plan",
    "PlanError",
    "Problem",
    "RenderError",
    "Run",
    "Runs",
    "SchedulerError",
    "Series",
    "ServiceError",
    "Status",
    "SubmissionUnknown",
    "Trial",
    "WaitTimeout",
    "call",
    "call_each",
    "define",
    "find_pipeline",
    "find_run",
    "find_runs",
    "load",
    "load_pipeline",
    "sweep",
    "wait",
    "wait_async",
]

_MODULES = {
    "api.experiments": ("Experiment", "define", "load", "sweep"),
    "api.finding": ("Runs", "find_run", "find_runs"),
    "api.functions": ("call", "call_each"),
    "api.pipelines": ("Pipeline", "PipelineRun", "find_pipeline", "load_pipeline"),
    "api.plans": ("Plan",),
    "api.results": ("Metrics", "Series", "Trial"),
    "api.runs": ("Run", "wait", "wait_async"),
    "schedulers.job": ("JobState", "Status"),
    "tracking.outputs": ("Output",),
}
"""Where public names are defined; those that are not here are of `hpcdist.base.errors`."""


def __getattr__(name: str) -> Any:
    """Import a public name, which is kept then."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = next((module for module, names in _MODULES.items() if name in names), "base.errors")
    value = globals()[name] = getattr(importlib.import_module(f"hpcdist.{module}"), name)
    return value


def __dir__() -> list[str]:
    """Return the public names, also those that were not used yet."""
    return sorted({*globals(), *__all__})
