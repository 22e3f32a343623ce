r"""The table of trials that the script of a job reads: ``trials.tsv``, one row for each.

Below the names, each row has the number of the trial, its params, its program, and its variables. Tabs are
between them; within them tab, newline, carriage return and backslash are ``\t``, ``\n``, ``\r``, ``\\``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hpcdist.plan.trials import TrialTexts

FILE: Final = "trials.tsv"
PROGRAM: Final = ":program"
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_PARAMS: Final = "POLYAXON_PARAMS"
"""The variable with the params as JSON."""

_JSON: Final = json.JSONDecoder()
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def table(trials: Sequence[TrialTexts]) -> str:
    """Return the table of these trials; a param or variable that one of them lacks is empty."""
    params = _names(trial.params for trial in trials)
    variables = _names(trial.variables for trial in trials)
    rows = [
        (
            str(trial.number),
            *(trial.params.get(name, "") for name in params),
            trial.command,
            *(trial.variables.get(name, "") for name in variables),
        )
        for trial in trials
    ]
    heads = ("trial", *params, PROGRAM, *variables)
    return "".join("\t".join(text.translate(_ESCAPES) for text in row) + "\n" for row in (heads, *rows))


def params(text: str) -> dict[str, dict[str, Any]]:
    """Return the params of each trial of a table, by its number, with the types that they had.

    A row that is no trial is left out.
    """
    heads, *rows = [line.split("\t") for line in text.split("\n")]
    variables = heads[heads.index(PROGRAM) :] if PROGRAM in heads else []  # a param may have such a name, too
    if _PARAMS not in variables:
        return {}
    place = len(heads) - len(variables) + variables.index(_PARAMS)
    whole = (row for row in rows if len(row) == len(heads) and _NUMBER.fullmatch(row[0]))
    # JSON has no other of the escapes
    found = {row[0]: _json(row[place].replace(r"\\", "\\")) for row in whole}
    return {number: values for number, values in found.items() if values is not None}


def params_of(trial: TrialTexts) -> dict[str, Any] | None:
    """Return the params of a trial as they are read from a table; None without any."""
    return _json(trial.variables.get(_PARAMS, ""))


def _json(text: str) -> dict[str, Any] | None:
    try:
        values, end = _JSON.raw_decode(text)  # `json.loads` takes twice as long, for blanks around it
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) and end == len(text) else None


def _names(texts: Iterable[Mapping[str, str]]) -> Sequence[str]:
    return [*{name: None for one in texts for name in one}]
