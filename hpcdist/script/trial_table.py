r"""The table of trials that the script reads: ``trials.tsv``, one row for each.

Below the names, each row has the number of the trial, its params, its program, and its variables. Tabs are
between them; within them tab, newline, carriage return and backslash are ``\t``, ``\n``, ``\r``, ``\\``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hpcdist.plan.trials import TrialTexts

FILE: Final = "trials.tsv"
PROGRAM: Final = ":program"
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def table(trials: Sequence[TrialTexts]) -> str:
    """Return the table of these trials; a param or variable that one of them lacks is empty."""
    params = _names(trial.params for trial in trials)
    variables = _names(trial.variables for trial in trials)
    rows = [
        (
            str(number),
            *(trial.params.get(name, "") for name in params),
            trial.command,
            *(trial.variables.get(name, "") for name in variables),
        )
        for number, trial in enumerate(trials, 1)
    ]
    heads = ("trial", *params, PROGRAM, *variables)
    return "".join("\t".join(text.translate(_ESCAPES) for text in row) + "\n" for row in (heads, *rows))


def _names(texts: Iterable[Mapping[str, str]]) -> Sequence[str]:
    return [*{name: None for one in texts for name in one}]
