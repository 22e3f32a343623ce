"""A job script as what it becomes: the native form, and the remarks without the file's name."""

from __future__ import annotations

import textwrap
from typing import Any, NamedTuple

from hpcdist import importers
from hpcdist.base.tree import Map
from hpcdist.importers.job import ForeignJob
from hpcdist.importers.job_scripts import document_of
from hpcdist.importers.job_scripts.directives import SYSTEMS, Header
from hpcdist.importers.job_scripts.size import size_of
from hpcdist.importers.reading import Reading


class Read(NamedTuple):
    """The native form of a script, and its remarks with their lines."""

    data: Map
    remarks: list[str]


def read(text: str, form: str = "") -> Read:
    """Return what a script becomes."""
    document = document_of(textwrap.dedent(text).lstrip(), "job.sh")
    assert document is not None
    found = importers.read(document.data, form)
    located = [str(document.locate(problem)) for problem in found.remarks]
    return Read(found.data, [remark.removeprefix("job.sh:") for remark in located])


def header_of(text: str) -> Header:
    """Return the directives of a script."""
    document = document_of(text, "job.sh")
    assert document is not None
    header = Header(SYSTEMS[str(document.data["job_script"])], Reading(document.data), ForeignJob())
    header.take()
    return header


def request_of(text: str) -> tuple[object, ...]:
    """Return what a script requests: nodes, CPUs, GPUs and memory of each, and time."""
    header = header_of(text)
    size = size_of(header)
    walltime = header.job.settings.get("batch.walltime")
    cpus = size.cpus or size.tasks
    return size.nodes, cpus, size.gpus, size.memory, walltime and walltime.value


def command_of(text: str) -> Any:
    """Return the command that a script becomes."""
    return read(text).data["run"]["cmd"]
