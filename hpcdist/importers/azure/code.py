"""The code of an Azure ML job, and the directory in which its command runs.

Azure copies the code to a directory of each node, makes ``outputs`` and ``logs`` in it before the command
runs, and keeps what is written to them
(https://learn.microsoft.com/azure/machine-learning/how-to-save-write-experiment-files).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Final

from hpcdist.errors import Path
from hpcdist.importers.azure.command import SUBMITTED_IN, Translation
from hpcdist.importers.container import escape_templates
from hpcdist.importers.reading import Reading
from hpcdist.words import quote

_REMOTE: Final = re.compile(r"[A-Za-z][\w+.-]+:|git@")
_OUTPUTS: Final = 'ln -sn "$HPCDIST_OUTPUTS" outputs; ln -sn "$HPCDIST_OUTPUTS/logs" logs;'
_HIDDEN: Final = (
    "[[ ${HPCDIST_RANK:-0} != 0 || ! -e $OLDPWD/outputs && ! -e $OLDPWD/logs ]] || "
    'echo "./outputs and ./logs are those of $HPCDIST_OUTPUTS, and not of $OLDPWD" >&2'
)
_MLFLOW: Final = (
    'export MLFLOW_TRACKING_URI="${MLFLOW_TRACKING_URI:-file:$HPCDIST_OUTPUTS/mlruns-${HPCDIST_RANK:-0}}" '
    "MLFLOW_ALLOW_FILE_STORE=true"
)
"""On Azure, MLflow records without being told where; version 3 takes files only if it is allowed to."""


class Code:
    """The code of a file, taken from it; paths are relative to the submit directory."""

    def __init__(self, read: Reading, command: Path, *, legacy: bool) -> None:
        self._read = read
        self._path = self._code(read.folder(*command) if legacy else "")
        self._included = [*self._includes()]

    def preparation(self, translation: Translation) -> Iterator[str]:
        """Yield the lines before a command: its own directory on each node, with links to the code.

        Its ``outputs`` and ``logs`` are links to the outputs of the run, so that nothing is written to
        folders of these names in the code, which other runs use too. What is there already, by
        another task or an earlier start, stays.
        """
        if translation.has_paths or self._included:
            yield f"{SUBMITTED_IN}=$PWD"
        if self._path not in ("", "."):
            yield f"cd {escape_templates(quote(self._path))} || exit"
        folders = dict.fromkeys(["logs", *(item.name for item in translation.used if not item.is_file)])
        outputs = " ".join(f'"$HPCDIST_OUTPUTS/{name}"' for name in folders)
        yield f'mkdir -p {outputs} "$HPCDIST_JOB_DIR/code/$HPCDIST_NODE" && cd "$_" || exit'
        yield _HIDDEN
        yield _MLFLOW
        included = "".join(f"{self._word(path)} " for path in self._included)
        yield f'(shopt -s dotglob nullglob; {_OUTPUTS} ln -s "$OLDPWD"/* {included}.) 2>/dev/null'

    def _word(self, path: str) -> str:
        submitted_in = "" if path.startswith("/") else f'"${SUBMITTED_IN}"/'
        return submitted_in + escape_templates(quote(path))

    def _code(self, default: str) -> str:
        """Return the folder in which the command runs."""
        read, path = self._read, self._path_of_code()
        code = read.get(*path) if path != ("code",) or not isinstance(read.peek("code"), dict) else None
        if code is None:
            return default
        if not isinstance(code, str):
            read.refuse(*path, why=f"expected the path of a folder, got {code!r}")
            return ""
        if _REMOTE.match(code) or code.endswith(".zip"):
            why, hint = f"the code {code!r} is not fetched", "check it out, and write its folder"
            read.warn(*path, why=why, hint=hint)
            return ""
        if re.search(r"\.(py|sh|ipynb|R|r|jl)$", code):  # a file, which Azure puts into a folder of its own
            code = posixpath.dirname(code)
        return self._relative(code, *path)

    def _path_of_code(self) -> Path:
        keys = ("path", "directory", "local_path", "file")
        return next((("code", key) for key in keys if self._read.peek("code", key) is not None), ("code",))

    def _includes(self) -> Iterator[str]:
        """Yield the files and folders that are added to the code."""
        for at, item in self._read.items("additional_includes"):
            if isinstance(item, str) and not _REMOTE.match(item):
                self._read.get("additional_includes", at)
                yield self._relative(item, "additional_includes", at)
            else:
                why = "it is not fetched: add a copy of it to the code"
                self._read.ignore("additional_includes", at, why=why)

    def _relative(self, path: str, *key: str | int) -> str:
        return posixpath.normpath(posixpath.join(self._read.folder(*key), path))
