"""The scaling studies among the runs of a report, each as a table with its plot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from hpcdist.errors import ConfigError
from hpcdist.runs.states import Report
from hpcdist.scaling import results, study, table
from hpcdist.scaling.results import Result
from hpcdist.scaling.study import Found, Member, Study

_MOST: Final = 20
"""How many sentences about what is missing a page has."""


class StudyView(NamedTuple):
    """A study, of the runs that are in the report; ``result`` is None where ``lines`` are a problem."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    lines: Sequence[str]
    result: Result | None = None


def studies(reports: Iterable[Report]) -> list[StudyView]:
    """Return the studies that these runs are of, in the order of their first runs."""
    by_token: dict[str, list[tuple[Report, Member]]] = {}
    for report in reports:
        if member := study.of(report.run):
            by_token.setdefault(member.study.token, []).append((report, member))
    return [*_views(by_token.values())]


def _views(found: Iterable[Sequence[tuple[Report, Member]]]) -> Iterator[StudyView]:
    for pairs in found:
        of = pairs[0][1].study
        try:
            result = results.result(of, _each_once(pairs, of))
        except ConfigError as error:
            yield StudyView(f"{of.experiment}: {of.mode} scaling", (), (), [str(error)])
            continue
        if result.sizes:
            rows = [*map(table.row, result.sizes)]
            lines = [*table.lines(result), *result.lost[:_MOST]]
            yield StudyView(table.title(result), table.heads(result), rows, lines, result)


def _each_once(pairs: Sequence[tuple[Report, Member]], of: Study) -> list[tuple[Report, Member]]:
    """Return one run of each size and repetition, as a study does."""
    reports = {report.run.directory: report for report, _ in pairs}
    chosen = study.of_study([Found(report.run, member) for report, member in pairs], of)
    return [(reports[one.run.directory], one.member) for one in chosen]
