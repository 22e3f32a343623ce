"""What the runtime needs of bash: nothing that 4.2 does not have, and for the launcher `processes` 4.3."""

from __future__ import annotations

import re
from typing import Final

from hpcdist.host.resources import shipped

LATER: Final = {
    r"\bwait -n\b": "4.3",
    r"\b(?:local|declare|typeset) -\w*n\b": "4.3",
    r"\bwait -\w*p\b": "5.1",
    r"\$\{[\w\[\]@*!]+@[A-Za-z]\}": "4.4",
    r"\b(?:mapfile|readarray) -\w*d\b": "4.4",
    r"\binherit_errexit\b": "4.4",
    r"\$\{?EPOCH(?:SECONDS|REALTIME)(?!:-)": "5.0",
    r"\bBASH_ARGV0\b": "5.0",
    r"\bSRANDOM\b": "5.1",
}
"""Syntax, and the version of bash that has it first (its CHANGES); with ``:-`` a variable may be missing."""

GUARDED: Final = {
    ("rehearsal.sh", "if [[ ${EPOCHREALTIME:-} ]]; then # bash 5"): "now=${EPOCHREALTIME/[.,]/}"
}
"""Lines behind which a later syntax stands, as they ask for it."""


def test_templates_need_no_later_bash() -> None:
    found = set()
    for file in sorted(shipped("templates").joinpath("runtime").glob("*.sh")):
        before = ""
        for line in file.read_text().splitlines():
            is_guarded = GUARDED.get((file.name, before.strip())) == line.strip()
            code = "" if is_guarded or line.lstrip().startswith("#") else line
            found |= {(file.name, since) for form, since in LATER.items() if re.search(form, code)}
            before = line
    assert found == {("launchers.sh", "4.3")}
    launchers = shipped("templates").joinpath("runtime", "launchers.sh").read_text()
    [function] = re.findall(r"(?m)^(\w+)\(\) \{(?:(?!^\}).*\n)*?.*\bwait -n\b", launchers)
    assert function == "start_processes"
