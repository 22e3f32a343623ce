"""A pipeline of Azure ML as its steps: what one writes is the path of an input of another.

Steps wait for those whose outputs they read (``${{parent.jobs.NAME.outputs.OUTPUT}}``), and for no others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from hpcdist.documents.tree import Map, Seq, texts_in
from hpcdist.errors import ConfigError, Path, Problem, did_you_mean
from hpcdist.importers import Step
from hpcdist.importers.azure.outputs import own_name
from hpcdist.importers.azure.steps import REFERENCE, kind_of, steps
from hpcdist.importers.reading import one_of

_OUTPUT: Final = re.compile(r"\$\{\{\s*parent\.jobs\.([^{}.\s]+)\.outputs\.([^{}.\s]+)\s*\}\}")
_OF_JOBS: Final = re.compile(r"\$\{\{\s*parent\.jobs\b[^{}]*\}\}")


def steps_of(data: Map) -> list[Step]:
    """Return the steps of a pipeline; none of one step alone, which is a job.

    Raises:
        ConfigError: with the steps that are no commands, and the outputs that no step has.
    """
    jobs = data.get("jobs")
    runnable = steps(data)
    if not isinstance(jobs, Map) or len(jobs) == 1 or not runnable:
        return []
    problems = [*_others(jobs, runnable), *_unknown(jobs)]
    if problems:
        raise ConfigError(*problems)
    parts = one_of({path: str(path[-1]) for path in runnable}, data)
    return [Step(name, _alone(part, name)) for name, part in parts.items()]


def _others(jobs: Map, runnable: dict[Path, str]) -> Iterator[Problem]:
    for name, step in jobs.items():
        if ("jobs", name) not in runnable:
            kind = kind_of(step) if isinstance(step, Map) else "none"
            message = f"the step {name} is no command or sweep, but of the type {kind}"
            hint = "choose another one alone with `--name`"
            yield Problem(message, ("jobs", name), hint, place=jobs.place_of(name))


def _unknown(jobs: Map) -> Iterator[Problem]:
    """Yield what is written like the output of a step and is none; a component in a file is not read here."""
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
    step = _with_paths(part["jobs"][name])
    used = {(match[1], match[2].split(".")[0]) for match in REFERENCE.finditer(str(step))}
    new = part.copy()
    new["jobs"] = part["jobs"].mapped(lambda _, __: step)
    for key in ("inputs", "outputs"):
        if isinstance(section := part.get(key), Map):
            new[key] = section.copy()
            for unused in {each for each in section if (key, each) not in used}:
                new[key].drop(unused)
    return new


def _with_paths(node: Any) -> Any:
    """Return a step with the folders of other steps in place of the names of their outputs."""
    if isinstance(node, (Map, Seq)):
        return node.mapped(lambda _, item: _with_paths(item))
    return _OUTPUT.sub(_path, node) if isinstance(node, str) else node


def _path(match: re.Match[str]) -> str:
    return f"{{{{ ops.{match[1]}.outputs.path }}}}/{own_name(match[2])}"
