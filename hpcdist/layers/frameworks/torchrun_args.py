"""Options of torchrun that a site or an experiment adds.

Its parser takes ``-`` and ``_`` in names, and ``--name=value`` or two words
(https://github.com/pytorch/pytorch, torch/distributed/run.py, ``get_args_parser``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hpcdist.errors import Path, Problem

_MEETING: Final = "hpcdist sets where the nodes of the job meet"
_OWN_PROGRAM: Final = "the program is `run.cmd`"
_SET: Final[Mapping[str, str]] = {
    "--nnodes": "the nodes are those of the plan",
    "--node-rank": "the nodes are those of the plan",
    "--nproc-per-node": "the plan has a process for each GPU: `environment.processes_per_replica`",
    "--max-restarts": "write `pytorch: {max_restarts: ...}`",
    **dict.fromkeys(
        ("--rdzv-backend", "--rdzv-endpoint", "--rdzv-id", "--master-addr", "--master-port", "--local-addr",
         "--standalone"), _MEETING,
    ),
    **dict.fromkeys(("--no-python", "--module", "-m", "--run-path"), _OWN_PROGRAM),
}  # fmt: skip
_CONF: Final = "--rdzv-conf"
_WITH_VALUE: Final = frozenset({
    "-r", "--redirects", "-t", "--tee", "--log-dir", "--role", "--monitor-interval", "--start-method",
    "--local-ranks-filter", "--logs-specs", "--numa-binding", "--signals-to-handle", "--shutdown-timeout",
    "--event-log-handler", "--duplicate-stdout-filters", "--duplicate-stderr-filters",
})  # fmt: skip
"""Options that take the next word, whatever it is, as their value (PyTorch 2.13)."""


def problems(args: Sequence[str], path: Path) -> Iterator[Problem]:
    """Yield a problem for each option that is hpcdist's own, or is no option."""
    for index, text in enumerate(args):
        name = _name(text)
        if name in _SET:
            yield Problem(f"{text} is set by hpcdist", (*path, index), f"remove it: {_SET[name]}")
        elif not text.startswith("-") and (not index or not args[index - 1].startswith("-")):
            yield Problem(f"{text!r} is not an option", (*path, index), "write options such as --tee=3")
        elif text.startswith("-") and " " in text.partition("=")[0]:
            words = ", ".join(text.split())
            yield Problem(f"torchrun gets {text!r} as one word", (*path, index), f"write {words}")
        elif name == _CONF:
            yield from _conf_problems(_conf(args, index)[0], text, (*path, index))
        elif name in _WITH_VALUE and "=" not in text and not _has_value(args, index):
            yield Problem(f"{text} has no value", (*path, index), f"write {text}=VALUE")
        elif "$" in text or re.search(r"(?:^|=)~", text):
            hint = "write the value itself"
            yield Problem(f"variables and ~ are not expanded in {text!r}", (*path, index), hint)


def _has_value(args: Sequence[str], index: int) -> bool:
    return index + 1 < len(args) and not args[index + 1].startswith("-")


def _conf_problems(value: str, text: str, path: Path) -> Iterator[Problem]:
    if not value:
        yield Problem(f"{text} has no value", path, "write --rdzv-conf=timeout=900")
    elif any(part.partition("=")[0].strip() == "is_host" for part in value.split(",")):
        yield Problem("is_host is set by hpcdist", path, f"remove it: {_MEETING}")


def split(args: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the options, and apart from them what ``--rdzv-conf`` sets (``timeout=900``).

    As an option that would replace the variable that says which node is the rendezvous host.
    """
    others: list[str] = []
    conf: list[str] = []
    index = 0
    while index < len(args):
        text, count = args[index], 1
        if _name(text) == _CONF:
            value, count = _conf(args, index)
            conf += [part for part in value.split(",") if part]
        else:
            others.append(text)
        index += count
    return tuple(others), tuple(conf)


def _name(text: str) -> str:
    return text.partition("=")[0].replace("_", "-") if text.startswith("-") else ""


def _conf(args: Sequence[str], index: int) -> tuple[str, int]:
    """Return the value of this ``--rdzv-conf``, and how many words both are."""
    _, equals, value = args[index].partition("=")
    if equals:
        return value, 1
    return (args[index + 1], 2) if index + 1 < len(args) else ("", 1)
