"""What of a run directory may be given to others: some of its files, without values that look like secrets.

The doctor's ``secret``, logs, copies of code and what was not recorded as an artifact are not among them.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from hpcdist.runs.rundir import OPTIONS, RunDirectory
from hpcdist.script import trial_table

MASK: Final = "********"
_OF_JOB: Final = re.compile(r"(plan\.[0-9]+\.json|job\.[0-9]+\.sh|trials\.[0-9]+\.tsv)")
"""The files of the later jobs of a run."""

NAMES: Final = ("experiment.yml", OPTIONS, "plan.json", "job.sh", trial_table.FILE, "code.json", "code.diff")
_SEARCHED: Final = NAMES[:5]
"""Where secrets are looked for; a diff is of a program, in which such names are variables."""

_RUNTIME: Final = "\n# --- The runtime of hpcdist "
"""What is the same in every script begins so."""

_LIMIT: Final = 1 << 26
_SHORTEST: Final = 6
_NAME: Final = (
    r"(?:token|secret|passwo?r?d|passphrase|credentials?|(?:api|access|secret|private)[_-]?key(?:[_-]id)?)"
)
_VALUE: Final = r"""(?:\\?"([^"\\\n]*)|'([^'\n]*)|([^\s"',;}\])\\]+))"""
_SECRET: Final = re.compile(
    rf"""{_NAME}\\?["']?\s*(?:[=:]|,\s*"value":)\s*{_VALUE}|(?<![\w-])(?=\w*-)[\w-]*{_NAME}\s+{_VALUE}|://[^/\s:@"']*:([^/\s@"']+)@""",
    re.IGNORECASE,
)
_PARAM: Final = re.compile(rf".*{_NAME}", re.DOTALL | re.IGNORECASE)
_HARMLESS: Final = re.compile(r"[$<~/{\[-].*", re.DOTALL)
"""A variable, a placeholder, another option, or the path of a file that has the secret."""


class Masked:
    """Replaces these values, also as JSON and as a shell's word."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for text in secrets for form in (text, json.dumps(text)[1:-1], shlex.quote(text))}
        self._forms = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))) or r"(?!)")

    def __call__(self, text: str) -> str:
        """Return the text without them."""
        return self._forms.sub(MASK, text)


def secrets(directory: RunDirectory, params: Mapping[str, Any]) -> set[str]:
    """Return the values in the files of a run, and in params, whose names are those of secrets.

    A file that cannot be read has none.
    """
    texts: list[str] = []
    for name in _SEARCHED:
        with suppress(OSError):
            texts.append(directory.read(name, _LIMIT).decode("utf-8", "replace"))
    return secrets_in(texts, params)


def secrets_in(texts: Iterable[str], *params: Mapping[str, Any]) -> set[str]:
    """Return the values in these texts, and in params, whose names are those of secrets."""
    parts = (text.partition(_RUNTIME)[0] for text in texts)
    found = {next(filter(None, match.groups()), "") for text in parts for match in _SECRET.finditer(text)}
    pairs = (pair for each in params for pair in each.items())
    found |= {value for name, value in pairs if isinstance(value, str) and _PARAM.fullmatch(name)}
    return {text for text in found if len(text) >= _SHORTEST and not _HARMLESS.fullmatch(text)}


def read(directory: RunDirectory, *params: Mapping[str, Any]) -> tuple[dict[str, str], Masked]:
    """Return the files that there are, masked, and what masked them, for other texts of the run.

    ``params``: those of the run, and of each of its elements.

    Raises:
        OSError: if the run directory cannot be opened, or belongs to another user.
    """
    texts: dict[str, str] = {}
    with directory.opened():
        for name in (*NAMES, *_of_jobs(directory)):
            with suppress(FileNotFoundError):
                texts[name] = directory.read(name, _LIMIT).decode("utf-8", "replace")
    masked = Masked(secrets_in((texts.get(name, "") for name in _SEARCHED), *params))
    return {name: masked(text) for name, text in texts.items()}, masked


def _of_jobs(directory: RunDirectory) -> list[str]:
    return sorted(path.name for path in directory.path.iterdir() if _OF_JOB.fullmatch(path.name))
