"""Pipelines and components of Azure ML: a step with its component and the pipeline's values is a job.

So is a sweep with its trial, which it has in place of a component; its search is read from that job.

Sources: azure-ai-ml 1, ``_schema/pipeline`` (https://learn.microsoft.com/azure/machine-learning/
reference-yaml-job-pipeline), and the previews of 2021, whose types end in ``_job`` and ``_component``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from hpcdist.base.errors import ConfigError, Path, Place, Problem, did_you_mean
from hpcdist.base.tree import Map, Seq, texts_in
from hpcdist.importers import PipelineStep
from hpcdist.importers.azure.command import TYPES, own_name
from hpcdist.importers.reading import Reading, one_of, with_texts

SUPPORTED: Final = "supported: `type: command` and `sweep`, CommandComponent, DistributedComponent"
_KINDS: Final = frozenset({"command", "component", "commandcomponent", "distributedcomponent"})
_SWEEPS: Final = frozenset({"sweep", "sweepcomponent"})
_REMOTE: Final = re.compile(r"[A-Za-z][\w+.-]+:|/subscriptions/")
REFERENCE: Final = re.compile(r"\$\{\{\s*(?:parent\.)?(inputs|outputs)\.([^{}]+?)\s*\}\}")
_OF_PIPELINE: Final = frozenset({"$schema", "type", "jobs", "inputs", "outputs", "settings", "compute"})
_DEFAULTS: Final = ("default_compute", "default_compute_target")
_MERGED: Final = ("resources", "distribution", "environment_variables", "limits", "tags", "outputs")
_SOURCES: Final = ("path", "data", "dataset")


def kind_of(data: Mapping[str, Any]) -> str:
    """Return the type of a job or component, without the version and form of its name."""
    return re.sub(r"@.*|_job$", "", str(data.get("type") or "command").lower()).replace("_", "")


def is_sweep(data: Mapping[str, Any]) -> bool:
    """Return whether this is a search over the inputs of its trial."""
    return kind_of(data) in _SWEEPS or str(data.get("job_type")).lower() == "sweep"


def steps(data: Map) -> dict[Path, str]:
    """Return the steps that are commands or sweeps, with their names."""
    jobs = data.get("jobs")
    named = jobs.items() if isinstance(jobs, Map) else ()
    ours = _KINDS | _SWEEPS
    return {("jobs", name): name for name, step in named if isinstance(step, Map) and kind_of(step) in ours}


def file_named_in(data: Map) -> tuple[Path, str] | None:
    """Return the key of a component that is in another file, and the path of that file."""
    is_job = kind_of(data) in _KINDS or is_sweep(data)
    base = _only_step(data) if "jobs" in data else () if is_job else None
    if base is None:
        return None
    step = _at(data, base)
    key = "trial" if is_sweep(step) else "component"
    value = step.get(key)
    if not isinstance(value, str) or _REMOTE.match(value.removeprefix("file:")):
        return None
    return (*base, key), value.removeprefix("file:")


def with_component(data: Map, path: Path, component: Map) -> Map:
    """Return the data with a component at that path."""
    key = str(path[0])
    return data.mapped(
        lambda name, value: (
            value if name != key else with_component(value, path[1:], component) if path[1:] else component
        )
    )


def as_job(data: Map) -> Map:
    """Return a job instead of a pipeline of one step, or of a component in a job; else the data.

    Raises:
        ConfigError: when the step or the component is not a command.
    """
    base = _only_step(data) if "jobs" in data else ()
    if base is None:
        return data
    if not base:
        data = _of_trial(data) if is_sweep(data) else data
        return _merged(data["component"], data) if isinstance(data.get("component"), Map) else data
    step = _resolved(_at(data, base), data)
    step = _of_trial(step) if is_sweep(step) else step
    component = step.get("component")
    job = _merged(component if isinstance(component, Map) else Map(), step)
    if "component" in step and not isinstance(component, Map):
        job.copy_from(step, "component")
    job = _in_pipeline(job, data)
    if "name" not in job:
        job.put("name", base[-1], data["jobs"].place_of(base[-1]))
    return job


def _of_trial(sweep: Map) -> Map:
    """Return a sweep as a job with its trial as the component; the time limit is the trial's."""
    job = sweep.copy()
    for key in ("type", "job_type"):
        job.drop(key)
    job.put("type", "command", sweep.place_of("type"))
    job.rename("trial", "component")
    if "search_space" not in job:
        job.put("search_space", None, sweep.place_of("type"))
    if isinstance(limits := job.get("limits"), Map):
        job["limits"] = limits = limits.copy()
        limits.rename("timeout", "sweep_timeout")
        limits.rename("trial_timeout", "timeout")
    return job


def unused(data: Map) -> list[str]:
    """Return the inputs and outputs of a pipeline that its only step does not use."""
    base = _only_step(data) if "jobs" in data else None
    text = "" if not base else str(_at(data, base))
    used = {(match[1], match[2].split(".")[0]) for match in REFERENCE.finditer(text)}
    names = [(kind, name) for kind in ("inputs", "outputs") for name in Reading(data).keys(kind) if base]
    return [f"{kind}.{name}" for kind, name in names if (kind, name) not in used]


def paths_of(node: Map | Seq, above: Path = ()) -> dict[Place, Path]:
    """Return the path of each key and value by its place, which stays the same in a job made of a step."""
    found: dict[Place, Path] = {}
    for step in node if isinstance(node, Map) else range(len(node)):
        value, path = node[step], (*above, step)  # type: ignore[index]
        key = node.key_places.get(str(step)) if isinstance(node, Map) else None
        inner = value if isinstance(value, (Map, Seq)) else None
        found |= {place: path for place in (key, None if inner else node.place_of(step)) if place}  # type: ignore[arg-type]
        found |= paths_of(inner, path) if inner else {}
    return found


def _only_step(data: Map) -> Path | None:
    jobs = data["jobs"]
    if not isinstance(jobs, Map) or len(jobs) != 1:
        return None
    return next(iter(steps(data)), None)


def _at(data: Map, path: Path) -> Map:
    for step in path:
        data = data[step]  # type: ignore[index]
    return data


def _in_pipeline(job: Map, pipeline: Map) -> Map:
    """Return a job with the names, the compute target and the settings of its pipeline."""
    job.place = pipeline.place
    for key in pipeline:
        if key not in _OF_PIPELINE:
            job.copy_from(pipeline, key)
    settings = pipeline["settings"].copy() if isinstance(pipeline.get("settings"), Map) else Map()
    owners = ((pipeline, "compute"), *((settings, key) for key in _DEFAULTS))
    for owner, key in owners:
        if "compute" not in job and key in owner:
            job.copy_from(owner, key, "compute")
        settings.drop(key)
    if settings:
        job.put("settings", settings, pipeline.place_of("settings"))
    return job


def _merged(component: Map, step: Map) -> Map:
    """Return a component with the changes of a step."""
    if kind_of(component) not in _KINDS:
        why = f"this component is of the type {component['type']!r}, which is not run"
        raise ConfigError(
            Problem(why, ("component",), SUPPORTED, place=component.place_of("type") or component.place)
        )
    job = Map(place=step.place)
    for source in (component, step):
        for key, value in source.items():
            above = job.get(key)
            if key == "inputs" and isinstance(value, Map) and isinstance(above, Map):
                job.put(key, _inputs(above, value), source.place_of(key))
            elif key in _MERGED and isinstance(value, Map) and isinstance(above, Map):
                job.put(key, _joined(above, value), source.place_of(key))
            elif key != "component" and not (key in ("$schema", "type") and key in component):
                job.copy_from(source, key)
    if kind_of(job) == "component":
        job.put("type", "command", step.place_of("type"))
    return job


def _joined(first: Map, second: Map) -> Map:
    new = first.copy()
    for key in second:
        new.copy_from(second, key)
    return new


def _inputs(declared: Map, given: Map) -> Map:
    """Return the declared inputs of a component with the values that a step gives them."""
    new = Map(place=declared.place)
    for name in dict.fromkeys((*declared, *given)):
        if given.get(name) is None or not isinstance(declared.get(name), Map):
            new.copy_from(declared if given.get(name) is None and name in declared else given, name)
        else:
            new.put(name, _with_value(declared[name], given, name), given.place_of(name))
    return new


def _with_value(declared: Map, given: Map, name: str) -> Map:
    """Return the declaration of an input with its value instead of a default."""
    entry = declared.copy()
    entry.drop("optional")
    entry.drop("default")
    if isinstance(given[name], Map):
        return _joined(given[name], entry)
    entry.copy_from(given, name, "path" if _is_path(entry) else "default")
    return entry


def _is_path(entry: Map) -> bool:
    return "type" in entry and str(entry["type"]).lower() not in TYPES


def _resolved(step: Map, pipeline: Map) -> Map:
    """Return a step with the values of the pipeline's inputs and outputs that it names."""
    overrides = step.get("overrides")
    new = _joined(step, overrides) if isinstance(overrides, Map) else step.copy()
    if isinstance(overrides, Map):
        new.drop("overrides")
    for key in ("inputs", "outputs"):
        if isinstance(section := new.get(key), Map):
            new[key] = _filled(section, pipeline)
            for name, value in new[key].items():
                new[key][name] = _unfolded(_filled(value, pipeline)) if isinstance(value, Map) else value
    for key, value in new.items():
        if key not in ("inputs", "outputs", "component") and isinstance(value, Map):
            new[key] = _filled(value, pipeline, "default")
    return _filled(new, pipeline, "default")


def _filled(node: Map, pipeline: Map, inner: str = "") -> Map:
    """Return a section with the pipeline's values in place of their names; of sections, ``inner``."""
    new = node.copy()
    for key, value in node.items():
        match = REFERENCE.fullmatch(value.strip()) if isinstance(value, str) else None
        *groups, name = (match[1], *match[2].split(".")) if match else ("",)
        owner: Any = pipeline
        for group in groups:
            owner = owner.get(group) if isinstance(owner, Map) else None
        if match and isinstance(owner, Map) and isinstance(owner.get(name), Map) and inner:
            owner, name = owner[name], inner
        if match and isinstance(owner, Map) and name in owner:
            new.copy_from(owner, name, key)
    return new


def _unfolded(value: Map) -> Map:
    """Return an input whose path is a section as one section."""
    inner = next((name for name in _SOURCES if isinstance(value.get(name), Map)), None)
    if inner is None:
        return value
    outer = value.copy()
    outer.drop(inner)
    return _joined(value[inner], outer)


# --- A pipeline of Azure ML as its steps: outputs of a step are inputs of another
#
# A step waits only for the steps whose outputs it reads (``${{parent.jobs.NAME.outputs.OUTPUT}}``).

_OUTPUT: Final = re.compile(r"\$\{\{\s*parent\.jobs\.([^{}.\s]+)\.outputs\.([^{}.\s]+)\s*\}\}")
_OF_JOBS: Final = re.compile(r"\$\{\{\s*parent\.jobs\b[^{}]*\}\}")


def steps_of(data: Map) -> list[PipelineStep]:
    """Return the steps of a pipeline; empty for a single step, which is a job.

    Raises:
        ConfigError: with the steps that are not commands, and the outputs that no step has.
    """
    jobs = data.get("jobs")
    runnable = steps(data)
    if not isinstance(jobs, Map) or len(jobs) == 1 or not runnable:
        return []
    problems = [*_others(jobs, runnable), *_unknown(jobs)]
    if problems:
        raise ConfigError(*problems)
    parts = one_of({path: str(path[-1]) for path in runnable}, data)
    return [PipelineStep(name, _alone(part, name)) for name, part in parts.items()]


def _others(jobs: Map, runnable: dict[Path, str]) -> Iterator[Problem]:
    for name, step in jobs.items():
        if ("jobs", name) not in runnable:
            kind = kind_of(step) if isinstance(step, Map) else "none"
            message = f"the step {name} is no command or sweep, but of the type {kind}"
            hint = "choose another one alone with `--name`"
            yield Problem(message, ("jobs", name), hint, place=jobs.place_of(name))


def _unknown(jobs: Map) -> Iterator[Problem]:
    """Yield what looks like the output of a step, but is not one; a component in a file is not read here."""
    for path, text in texts_in(jobs, ("jobs",)):
        for match in _OF_JOBS.finditer(text):
            exact = _OUTPUT.fullmatch(match[0])
            if not exact:
                yield Problem(f"{match[0]} is no output of a step", path, "write `jobs.NAME.outputs.OUTPUT`")
                continue
            step, known = jobs.get(exact[1]), _outputs(jobs.get(exact[1]))
            if not isinstance(step, Map):
                yield Problem(f"there is no step {exact[1]!r}", path, did_you_mean(exact[1], jobs))
            elif known is not None and exact[2] not in known:
                yield Problem(f"{exact[1]} has no output {exact[2]!r}", path, did_you_mean(exact[2], known))


def _outputs(step: Any) -> set[str] | None:
    """Return the names of a step's outputs; None where they are in a file."""
    component = step.get("component", step.get("trial")) if isinstance(step, Map) else None
    if isinstance(component, str):
        return None
    declared = (part.get("outputs") for part in (step, component) if isinstance(part, Map))
    return {name for outputs in declared if isinstance(outputs, Map) for name in outputs}


def _alone(part: Map, name: str) -> Map:
    """Return a pipeline of one step, with the inputs and outputs of the pipeline that it uses."""
    step = with_texts(part["jobs"][name], lambda text: _OUTPUT.sub(_path, text))
    used = {(match[1], match[2].split(".")[0]) for match in REFERENCE.finditer(str(step))}
    new = part.copy()
    new["jobs"] = part["jobs"].mapped(lambda _, __: step)
    for key in ("inputs", "outputs"):
        if isinstance(section := part.get(key), Map):
            new[key] = section.copy()
            for unused in {each for each in section if (key, each) not in used}:
                new[key].drop(unused)
    return new


def _path(match: re.Match[str]) -> str:
    return f"{{{{ ops.{match[1]}.outputs.path }}}}/{own_name(match[2])}"
