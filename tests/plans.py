"""Plans for tests: an experiment's keys and a site make one."""

from __future__ import annotations

from typing import Any

import msgspec

from hpcdist.experiment.batch import ArraySpec
from hpcdist.plan.model import Plan
from hpcdist.planner.make_plan import make_plan
from hpcdist.site.model import Site
from tests.experiments import experiment, where
from tests.sites import shipped_site

TESTBED = shipped_site("testbed")
LOCAL = shipped_site("local")

COMMAND = '"$commands"'
WRAPPER = 'bash -c "$(declare -f task); task"'
WRAPPED = [WRAPPER, COMMAND]
"""The end of every launch line that starts tasks."""


def planned(machine: Site = TESTBED, **data: Any) -> Plan:
    """Return the plan of an experiment with these keys."""
    return make_plan(experiment(**data), machine, where)


def stored(array: str | None, **request: Any) -> str:
    """Return the plan.json of a job array; of it only what is requested."""
    return msgspec.json.encode({"request": {"array": array and ArraySpec.parse(array), **request}}).decode()


def warnings_of(plan: Plan) -> tuple[str, ...]:
    """Return the warnings among the plan's notes, as sentences."""
    return tuple(str(note) for note in plan.notes if note.severity == "warning")


def words(plan: Plan) -> list[str]:
    """Return the launch line, word by word."""
    return [word.text for word in plan.words]


def changed(machine: Site, **changes: Any) -> Site:
    """Return the site with these changes."""
    return msgspec.structs.replace(machine, **changes)
