"""Templates that only a server of Polyaxon fills in, and the values of a job that replace them.

Sources of names: polyaxon/cli v2.16.4 (``cli/polyaxon/_contexts``), and Polyaxon 0.5 and 0.6
(``docs/references/polyflow``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from hpcdist.base.errors import did_you_mean

ARTIFACTS: Final = "artifacts_path"
"""The variable of the command for Polyaxon's folder of code, where the job was submitted."""

_JOB_VALUES: Final = {
    "run_outputs_path": "$POLYAXON_RUN_OUTPUTS_PATH",
    "artifacts_path": f"${ARTIFACTS}",
    "uuid": "${HPCDIST_RUN_DIR##*/}",
}
_ALONE: Final = re.compile(r"\{\{-?\s*globals\.(\w+)\s*-?\}\}")
_WITHIN: Final = {
    re.compile(r"\{\{-?\s*globals\.run_artifacts_path\s*-?\}\}/outputs\b"): "{{ globals.run_outputs_path }}",
    re.compile(r"\{\{-?\s*globals\.run_artifacts_path\s*-?\}\}/(?:uploads|code)\b"): (
        "{{ globals.artifacts_path }}"
    ),
}
"""Folders in a run's folder: outputs, and the code that Polyaxon's command line uploads."""
_EXPRESSION: Final = re.compile(r"(?<=\{\{).*?(?=\}\})|(?<=\{%).*?(?=%\})", re.DOTALL)
_RUNS: Final = ("ops", "runs", "jobs", "experiments", "hooks", "joins")
_ROOTS: Final = ("params", "globals", "connections", "init", "dag", *_RUNS)
_NAME: Final = re.compile(rf"(?<![\w.'\"\]])({'|'.join(_ROOTS)})((?:\.[\w-]+|\[[^\[\]]*\])+)")
_WORD: Final = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_PARAMS: Final = re.compile(r"\bparams\.(?=\w)")
_VALUE: Final = "write the value itself, or make it a param"
_NOW: Final = "write `$(date +%FT%T)` in the command"
_HINTS: Final = {
    "artifacts_path": "write the path itself",
    "run_artifacts_path": "what $POLYAXON_RUN_OUTPUTS_PATH holds is kept",
    "run_outputs_path": "write $POLYAXON_RUN_OUTPUTS_PATH, or `{{ globals.run_outputs_path }}` alone, "
                        "in the command",
    "uuid": "write $HPCDIST_RUN_DIR, which is unique, in the command",
    "store_path": "write the path of the site's own file system",
    **dict.fromkeys(("created_at", "compiled_at", "started_at", "schedule_at"), _NOW),
    "iteration": "write the number, or `batch: {array: ...}`",
}  # fmt: skip


class Unknown(NamedTuple):
    """A name in a template without a value in a batch job, why, and what to write instead."""

    name: str
    why: str
    hint: str
    of_run: bool = False


def job_value(block: str) -> str | None:
    """Return the shell text of a template that is a single name with a value known in the job."""
    alone = _ALONE.fullmatch(block)
    return _JOB_VALUES.get(alone[1]) if alone else None


def has_job_value(text: str) -> bool:
    """Return whether a text contains a template whose value only the job knows."""
    return any(job_value(match[0]) for match in _ALONE.finditer(simplified(text)))


def has_artifacts_path(text: str) -> bool:
    """Return whether a text contains a template of Polyaxon's folder of code."""
    return any(match[1] == "artifacts_path" for match in _ALONE.finditer(simplified(text)))


def simplified(text: str, repository: str = "") -> str:
    """Return a text with known folders of Polyaxon replaced by a job's folders.

    ``repository``: the name of the code that Polyaxon fetches; here it is in the submit directory.
    """
    for pattern, block in _WITHIN.items():
        text = pattern.sub(block, text)
    if repository:
        code = rf"(\{{\{{-?\s*globals\.artifacts_path\s*-?\}}\}})/{re.escape(repository)}(?![\w.-])"
        text = re.sub(code, r"\1", text)
    return text


def unknown_names(text: str, own: Collection[str] = (), *, in_param: bool = False) -> Iterator[Unknown]:
    """Yield the names in the templates of a text that have no value here; ``own`` are params.

    ``in_param``: this is the value of a param, in which hpcdist fills in no templates.
    """
    for expression in _EXPRESSION.findall(text) if "{{" in text or "{%" in text else ():
        for match in _NAME.finditer(_PARAMS.sub("", expression) if in_param else expression):
            key = re.sub(r"\W.*", "", match[2][1:])
            if match[1] == "params" and own and not in_param:
                if key not in own:
                    yield Unknown(match[0], f"there is no param {key!r}", did_you_mean(key, own))
            elif match[1] not in own:
                yield _unknown(match[0], match[1], key)
        words = _WORD.findall(_QUOTED.sub("", _PARAMS.sub("", expression)))
        if in_param and any(word in own for word in words):
            yield unfilled(expression)


def unfilled(text: str) -> Unknown:
    """Return that a template in the value of a param is not filled in."""
    why = "a param is filled in once, and not the templates in its value"
    return Unknown(text, why, "write the value itself")


def _unknown(name: str, root: str, key: str) -> Unknown:
    if root in _RUNS:
        return Unknown(name, f"{name!r} comes from another run", _VALUE, of_run=True)
    if root == "dag":
        return Unknown(name, f"{name!r} belongs to a pipeline", _VALUE, of_run=True)
    hint = _HINTS.get(key, _VALUE) if root == "globals" else _VALUE
    if root in ("connections", "init"):
        hint = "write the path or the address itself"
    return Unknown(name, f"{name!r} is known to a server of Polyaxon only", hint)
