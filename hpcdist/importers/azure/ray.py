"""``distribution: {type: ray}`` of Azure ML: its keys become those of ``framework: ray``.

Source: ``RayDistribution`` of azure-ai-ml 1.20 (``entities/_job/distribution.py``).
"""

from __future__ import annotations

import shlex
from typing import Final

from hpcdist.importers.reading import Reading

_IGNORED: Final = {
    "port": "the job has ports of its own",
    "address": "hpcdist starts the head on the first node",
}
_DASHBOARD: Final = 8265


def put_ray(read: Reading, section: str) -> None:
    """Set the framework and its options."""
    read.put("framework", "ray", section, "type")
    read.ignore_all(_IGNORED, section)
    shown, port = read.get(section, "include_dashboard"), read.get(section, "dashboard_port")
    if shown is not False and (shown or port is not None):
        name = "dashboard_port" if port is not None else "include_dashboard"
        read.put("ray.dashboard_port", _DASHBOARD if port is None else port, section, name)
    _put_options(read, section)


def _put_options(read: Reading, section: str) -> None:
    """Set options of the head, and of all nodes where the workers have the same."""
    head, workers = (_words(read, section, f"{name}_node_additional_args") for name in ("head", "worker"))
    if workers and workers != head:
        why = "options of `ray start` can be given for the head, or for all nodes"
        hint = "write the same in head_node_additional_args, or remove it"
        read.refuse(section, "worker_node_additional_args", why=why, hint=hint)
    elif head:
        key = "args" if workers else "head_args"
        read.put(f"ray.{key}", head, section, "head_node_additional_args")


def _words(read: Reading, section: str, name: str) -> list[str]:
    """Return options, each with its value as one word."""
    try:
        words = shlex.split(read.text(section, name) or "")
    except ValueError:
        read.refuse(section, name, why="a quote is not closed")
        return []
    joined: list[str] = []
    for word in words:
        if joined and not word.startswith("--") and "=" not in joined[-1]:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined
