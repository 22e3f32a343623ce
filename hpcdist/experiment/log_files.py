"""The job's own log files, ``batch.output`` and ``batch.error``: paths with ``%j`` and others of Slurm's.

The job's script makes their folders and writes there, in every batch system alike: PBS puts no number of the
job into a path, LSF keeps the output until the end, and Slurm loses it where the folder is missing.
Source: sbatch(1), "filename pattern".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpcdist.errors import Path, Problem
from hpcdist.experiment.batch import Batch

_PLACEHOLDER: Final = re.compile(r"%\d*(.?)")
_KNOWN: Final = frozenset("jAaxu")
"""The job's id (of an element ``12_3``), the array's, the element, the name of the job, the user."""


def with_name(pattern: str, name: str) -> str:
    """Return a pattern with the name of the job in it; the script fills in the others when it runs."""
    return pattern.replace("%x", name)


def problems(batch: Batch, *, is_array: bool) -> Iterator[Problem]:
    """Yield what is wrong with the log files of a job; ``is_array``: it has elements, or trials."""
    for key, pattern in (("output", batch.output), ("error", batch.error)):
        if pattern is not None:
            yield from _problems(pattern, ("batch", key), is_array=is_array)
    if batch.output is not None and batch.output == batch.error:
        yield Problem("it is the file of `output`", ("batch", "error"), "remove it: both then go there")


def _problems(pattern: str, path: Path, *, is_array: bool) -> Iterator[Problem]:
    found = [match.group() for match in _PLACEHOLDER.finditer(pattern)]
    unknown = [text for text in found if text[1:] not in _KNOWN]
    if not pattern.strip() or not pattern.isprintable() or pattern.endswith("/"):
        yield Problem(f"{pattern!r} is not the path of a file", path, "write a path such as `logs/%x-%j.out`")
    elif pattern.startswith("~") or "$" in pattern:
        yield Problem(f"variables and ~ are not expanded in {pattern!r}", path, "write the path itself")
    elif unknown:
        hint = "write %j (the job), %A (its array), %a (its element), %x (its name) or %u (the user)"
        yield Problem(f"{unknown[0]!r} in a log file's name is not supported", path, hint)
    elif is_array and not {"%j", "%a"} & {*found}:
        yield Problem("the elements of an array would write to one file", path, "write %a or %j in its name")
    elif not is_array and "%a" in found:
        yield Problem("'%a' is the element of an array, and the job has none", path, "remove it")
