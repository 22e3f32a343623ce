"""The files of a run directory that leave it, without values that look like secrets.

The doctor's ``secret``, logs, the user's snapshot of code and what is not recorded as an artifact stay.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from hpcdist.runs.rundir import RunDirectory
from hpcdist.script import trial_table

NAMES: Final = ("experiment.yml", "plan.json", "job.sh", trial_table.FILE, "code.json", "code.diff")
_SEARCHED: Final = NAMES[:4]
"""Where secrets are looked for; a diff is of a program, in which such names are variables."""

_LIMIT: Final = 1 << 26
_SHORTEST: Final = 6
MASK: Final = "********"
_NAME: Final = (
    r"(?:token|secret|passw(?:or)?d|passwd|passphrase|credentials?|(?:api|access|secret|private)[_-]?key)"
)
_SECRET: Final = re.compile(
    rf"""{_NAME}["']?(?:\s*[=:]\s*|\s+)(?:"([^"\n]*)"|'([^'\n]*)'|([^\s"',;}})\]]+))|://[^/\s:@"']*:([^/\s@"']+)@""",
    re.IGNORECASE,
)
_HARMLESS: Final = re.compile(r"[$<~/{\[].*|true|false|null", re.DOTALL | re.IGNORECASE)
"""A variable, a placeholder, or the path of a file that has the secret."""


class Masked:
    """Replaces the values in a run's documents whose names are those of secrets, such as ``API_KEY``."""

    def __init__(self, texts: Iterable[str], params: Mapping[str, Any]) -> None:
        found = {next(filter(None, match.groups()), "") for text in texts for match in _SECRET.finditer(text)}
        found |= {
            str(value) for name, value in params.items() if re.search(rf"{_NAME}$", name, re.IGNORECASE)
        }
        secrets = {text for text in found if len(text) >= _SHORTEST and not _HARMLESS.fullmatch(text)}
        forms = {form for text in secrets for form in (text, json.dumps(text)[1:-1], shlex.quote(text))}
        self._forms = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))) or r"(?!)")

    def __call__(self, text: str) -> str:
        """Return the text without them."""
        return self._forms.sub(MASK, text)


def read(directory: RunDirectory, params: Mapping[str, Any]) -> tuple[dict[str, str], Masked]:
    """Return the documents that there are, masked, and what masked them, for other texts of the run.

    Raises:
        OSError: if the run directory cannot be opened, or belongs to another user.
    """
    texts: dict[str, str] = {}
    with directory.opened():
        for name in NAMES:
            with suppress(FileNotFoundError):
                texts[name] = directory.read(name, _LIMIT).decode("utf-8", "replace")
    masked = Masked((texts.get(name, "") for name in _SEARCHED), params)
    return {name: masked(text) for name, text in texts.items()}, masked
