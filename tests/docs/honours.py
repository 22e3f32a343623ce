"""Which batch systems support which keys of an experiment: each is tried, as the scheduler contract does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from hpcdist.base.errors import PlanError
from hpcdist.experiment.batch import Mail
from hpcdist.schedulers import schedulers
from hpcdist.site.model import Site
from hpcdist.testing.contract import PLAIN, RequestCase, differences, plan, request_cases
from tests.testing.test_contract import ANSWERS, LOCAL, SLOTS

OWN_WORDS: Final = {
    "slurm": "--reservation=x7",
    "pbs": "-l x7=1",
    "lsf": "-app x7",
    "flux": "--setattr=x7=1",
    "sge": "-l x7=1",
    "local": "anything",
}
"""A directive that each batch system has; the contract asks all of them for one that none has."""

SCHEDULERS: Final = schedulers.names()

_NEEDLESS: Final = "not needed"


class Asked(NamedTuple):
    """A value of a field and a scheduler; ``words`` is the reason why it is not passed on, "" if it is."""

    field: str
    scheduler: str
    value: str
    words: str


def asked() -> Iterator[Asked]:
    """Ask each scheduler for everything."""
    for scheduler in SCHEDULERS:
        job = ANSWERS[scheduler][1]
        own = RequestCase("batch.directives", plan(extra_directives=(OWN_WORDS[scheduler],)))
        for case in (own, RequestCase("environment.replicas", PLAIN), *request_cases(job)):
            if case.field != own.field or case is own:
                texts = (_value(case), _words(scheduler, case))
                yield Asked(case.field, scheduler, *(text.replace(job, "ID") for text in texts))


def _words(scheduler: str, case: RequestCase) -> str:
    site = Site(name=scheduler, description="x", scheduler=scheduler, launcher="mpirun", sge=SLOTS)
    try:
        schedulers.get(scheduler).directives(case.plan, site)
    except PlanError as error:
        return f"{error.problems[0].message}; {error.problems[0].hint}"
    return f"{_NEEDLESS}: {LOCAL[case.field]}" if scheduler == "local" and case.field in LOCAL else ""


def _value(case: RequestCase) -> str:
    """Return what the case asks for that the plan without it does not have."""
    without = case.without or PLAIN
    value = next((own for name, own in differences(case.plan, without) if name not in {"groups", "rows"}), "")
    if isinstance(value, Mail):
        return value.events[0] if value.events else value.user
    return str(value[0] if isinstance(value, tuple) else value)


def supported_by(path: tuple[str, ...], answers: Sequence[Asked]) -> str:
    """Return the batch systems that get this key, or ``all``; in parentheses if they refuse some values."""
    about = [answer for answer in answers if answer.field == ".".join(path)]
    names = [_name(scheduler, about) for scheduler in SCHEDULERS]
    return "all" if names == [*SCHEDULERS] else ", ".join(filter(None, names))


def _name(scheduler: str, about: Sequence[Asked]) -> str:
    words = [answer.words for answer in about if answer.scheduler == scheduler]
    if not any(words):
        return scheduler if words else ""
    return f"({scheduler})" if not all(words) or words[0].startswith(_NEEDLESS) else ""


def exceptions(answers: Sequence[Asked]) -> Iterator[tuple[str, str, str, str]]:
    """Yield what is not passed on to batch systems: scheduler, fields, values (none: all), and the reason."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for scheduler in SCHEDULERS:
        for field in dict.fromkeys(answer.field for answer in answers):
            about = [answer for answer in answers if (answer.field, answer.scheduler) == (field, scheduler)]
            refused = [answer for answer in about if answer.words]
            some = [f"`{answer.value}`" for answer in refused if answer.value and len(refused) < len(about)]
            if refused:
                found.setdefault((scheduler, ", ".join(some), refused[0].words), []).append(f"`{field}`")
    return ((name, ", ".join(fields), some, words) for (name, some, words), fields in found.items())
