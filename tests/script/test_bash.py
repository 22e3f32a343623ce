"""What scripts need of bash: nothing that 4.2 does not have; with several launches, as of servers, 4.3."""

from __future__ import annotations

import re
from typing import Final

from hpcdist.base.resources import template_folders
from hpcdist.script.renderer import render
from tests.experiments import environment
from tests.plans import planned
from tests.script.jobs import ONE_PROCESS

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

FILES: Final = (
    *("job/*.j2", "inside.sh", "processes.sh", "remote.sh", "stacks.sh"),
    *("runtime/*.sh", "runtime/supervisor/*.sh"),
)


def test_templates_need_no_later_bash() -> None:
    folder, found = template_folders()[-1], set()
    for file in (file for pattern in FILES for file in sorted(folder.glob(pattern))):
        code = re.sub(r"(?m)^ *#.*", "", file.read_text())
        found |= {(file.name, since) for form, since in LATER.items() if re.search(form, code)}
    assert found == {("launches.sh.j2", "4.3")}


def test_only_several_launches_need_it() -> None:
    servers = planned(framework="tensorflow", environment=environment(1, ps=1))
    plans = planned(), planned(framework="mpi"), planned(ONE_PROCESS), servers
    assert ["wait -n" in render(plan) for plan in plans] == [False, False, True, True]
