"""Every decision of a plan, and every line of its script, with its origin."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

import msgspec

from hpcdist.base.words import quote
from hpcdist.plan.folding import counted, kind_of, span
from hpcdist.plan.model import Plan
from hpcdist.plan.placement import Group, Row
from hpcdist.plan.values import Origin, Variable, Word
from hpcdist.schedulers import schedulers

Line = tuple[str, str, Origin]
"""Section, text, origin."""

_FIELDS: Final = {
    "name": "identity.name", "command": "identity.command", "launcher": "launch.launcher",
    "walltime": "request.walltime", "account": "request.account", "qos": "request.qos",
    "exclusive": "request.exclusive", "dependency": "request.dependency", "array": "request.array",
    "signal": "request.signal", "requeue": "request.requeue", "max_restarts": "completion.max_restarts",
    "restart": "completion.restarts.summary",
    "exclude_nodes": "request.exclude_nodes",
    "output": "request.output", "error": "request.error", "mail": "request.mail.user",
    "gpu_visibility": "gpus.visibility", "image": "container.image",
    "container": "container.runtime",
}  # fmt: skip
"""Keys of a plan's origins, and the fields that they explain."""


def lines(plan: Plan) -> Iterator[Line]:
    """Yield every decision of a plan but the choice of its site."""
    for key, path in _FIELDS.items():
        value = _value(plan, path)
        if key in plan.origins and value not in (None, (), 0):
            yield "decided", f"{key}: {value}", plan.origins[key]
    yield from (("placement", _nodes(group), _chosen(group)) for group in plan.placement.groups)
    yield from (("placement", _replicas(row), row.origin) for row in plan.placement.rows)
    header = schedulers.get(plan.identity.scheduler).header(plan, None)
    yield from (("directives", text, origin) for text, origin in header)
    yield from (
        ("setup", word.text, word.origin) for word in (*plan.environment.setup, *plan.environment.task_setup)
    )
    yield from (("variables", _variable(item), item.origin) for item in plan.environment.variables)
    yield from (
        ("variables of each task", _variable(item), item.origin) for item in plan.environment.task_variables
    )
    yield from (("steps", f"{step.time} ({step.on}): {step.command}", step.origin) for step in plan.steps)
    for origin, words in groupby(plan.words, key=lambda word: word.origin):
        yield "launch", " ".join(map(_word, words)), origin


def _value(plan: Plan, path: str) -> object:
    """Return the field at a dotted path; None if the plan lacks it."""
    found: object = plan
    for name in path.split("."):
        found = getattr(found, name, None)
    return tuple(map(str, found)) if isinstance(found, tuple) else found


def _variable(item: Variable) -> str:
    return f'{item.name}="{item.value}"' if item.shell else f"{item.name}={quote(item.value)}"


def _word(word: Word) -> str:
    return word.text if word.shell else quote(word.text)


def _nodes(group: Group) -> str:
    return f"{counted('node', group.node, group.nodes)}: {kind_of(group) or 'of any kind'}"


def _chosen(group: Group) -> Origin:
    return msgspec.structs.replace(group.origin, reason=group.reason) if group.reason else group.origin


def _replicas(row: Row) -> str:
    """Describe a row of the placement: ``worker 0-3: ranks 1-4 on node 0, each 2 CPUs, 1 GPU, 512 MiB``."""
    last = row.index + (row.tasks - 1) // row.tasks_per_replica
    name = row.role if row.role == "master" else f"{row.role} {span(row.index, last)}"
    amounts = [f"{row.cpus} CPU{'s' * (row.cpus != 1)}"]
    amounts += [f"{row.gpus} GPU{'s' * (row.gpus != 1)}"] if row.gpus else []
    amounts += [f"shared by {row.tasks_per_gpu}"] if row.tasks_per_gpu > 1 else []
    amounts += [f"{row.memory} MiB"] if row.memory is not None else []
    ranks, nodes = counted("rank", row.rank, row.tasks), counted("node", row.node, row.nodes)
    return f"{name}: {ranks} on {nodes}, {'each ' * (row.tasks > 1)}{', '.join(amounts)}"
