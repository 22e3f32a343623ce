"""Job scripts of Slurm, PBS, LSF, Flux and Grid Engine: directives, and a body with one launch line.

body    the statements of a script
directives    its directives, by a table
size    the nodes, tasks, CPUs, GPUs and memory that they request
lines    the words of its launch line
launches    what that starts
conversion    the body becomes the command, or stays as it is
lint rules    what is wrong with a script as it stands, and its mended copy

Nothing is executed. A directive becomes a key, a line of `batch.directives`, or a remark.
"""

from __future__ import annotations

import re
from typing import Final

from hpcdist.base.errors import Place
from hpcdist.base.tree import Document, Map, Seq
from hpcdist.experiment.shell_words import heredoc_lines
from hpcdist.importers import Form, Imported
from hpcdist.importers.job import ForeignJob
from hpcdist.importers.job_scripts.body import statements
from hpcdist.importers.job_scripts.conversion import Body
from hpcdist.importers.job_scripts.directives import SYSTEMS, Header, System
from hpcdist.importers.job_scripts.size import size_of
from hpcdist.importers.reading import Reading

_SHELL: Final = re.compile(r"#!\s*(?:/\S*/)?(?:env\s+(?:-S\s+)?)?(?:/\S*/)?(?:ba|z|k|da)?sh\b(?P<options>.*)")
_KEY: Final = "job_script"
_AFTER: Final = "it stands behind the first command, where {} reads no directive"


def document_of(text: str, file: str) -> Document | None:
    """Return a job script as a document; None for any other text.

    Its data are the batch system, the texts of the directives, the lines of the body, each at its place.
    """
    lines = text.replace("\r\n", "\n").splitlines()
    system = next((system for system in SYSTEMS.values() if _is_of(system, lines)), None)
    if system is None:
        return None
    place = Place(file, 1, 1)
    data = Map({_KEY: system.name, "login": _is_login(lines[0]), "first": lines[0]}, place=place)
    directives, late, body = Seq(place=place), Seq(place=place), Seq(place=place)
    is_header, first, inner = True, 0, heredoc_lines("\n".join([*lines, ""]))
    for number, line in enumerate(lines, 1):
        match = None if number in inner else re.match(system.prefix, line)
        at = Place(file, number, match.end() + 2 if match else 1)
        is_header = is_header and (not line.strip() or line.startswith("#"))
        if match:
            (directives if is_header else late).add(line[match.end() :].strip(), at)
            first = number if is_header else first
        body.add("" if match or number == 1 else line, at)
    for index in range(first):
        body[index] = ""
    for key, value in (("directives", directives), ("late", late), ("body", body)):
        data.put(key, value, place)
    return Document(data, file, text)


def _is_of(system: System, lines: list[str]) -> bool:
    is_shell = bool(lines) and bool(_SHELL.match(lines[0]) or re.match(system.prefix, lines[0]))
    return is_shell and any(re.match(system.prefix, line) for line in lines)


def _is_login(line: str) -> bool:
    match = _SHELL.match(line)
    return bool(match and re.search(r"(?:^|\s)-\w*l|--login", match["options"]))


class JobScript(Form):
    """The importer of documents that `document_of` makes; ``whole``: bodies stay as they are."""

    def __init__(self, *, whole: bool = False) -> None:
        self.whole = whole

    def recognises(self, data: Map) -> bool:
        """Decide by the key that only such a document has."""
        return _KEY in data and not self.whole

    def read(self, data: Map) -> Imported:
        """Return the native form."""
        read, job = Reading(data), ForeignJob()
        system = SYSTEMS[str(read.get(_KEY))]
        is_login = bool(read.get("login"))
        for key in ("body", "late"):
            read.get(key)
        header = Header(system, read, job)
        header.take()
        first = str(read.get("first"))
        if re.search(r"\b[zk]sh\b", first):
            read.warn(
                "first",
                why=f"bash runs it, and not `{first.strip()}`: arrays begin at 0, and words are split",
            )
        for index, text in read.items("late"):
            read.warn("late", index, why=f"`{text}` has no effect: {_AFTER.format(system.title)}")
        text = "\n".join(data["body"])
        body = Body(read, header, job, statements(text), text, size_of(header), is_login)
        if self.whole:
            body.keep("as `--from job_body` says")
        else:
            body.convert()
        job.write(read)
        found = read.finish()
        remarks = (one._replace(path=()) for one in found.remarks)
        return found._replace(remarks=tuple(remarks), origins=dict.fromkeys(found.origins, ()))


IMPORTER: Final = JobScript()
WHOLE: Final = JobScript(whole=True)
