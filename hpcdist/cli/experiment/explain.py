"""``hpcdist plan --explain``, for short ``hpcdist explain``: every decision with its origin."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import click

from hpcdist.cli import show
from hpcdist.cli.options import experiment_options, json_option, on_option
from hpcdist.cli.session import planned_as_submitted
from hpcdist.loading.planning import ExperimentOptions, Planned
from hpcdist.plan.values import Origin
from hpcdist.script import explained
from hpcdist.site.model import Site, Source
from hpcdist.site.provenance import source_of


@click.command("explain")
@experiment_options
@on_option
@json_option
def command(options: ExperimentOptions, json: bool) -> None:
    """The same as plan --explain."""
    show_origins(planned_as_submitted(options), json=json)


def show_origins(made: Planned, *, json: bool) -> None:
    """Print every decision of a plan, and every line of its script, with its origin."""
    site = ("decided", f"site: {made.plan.identity.site}", Origin("place", made.machine.origin))
    found = [site, *explained.lines(made.plan)]
    sources = [_source(made.machine.site, origin) for _, _, origin in found]
    if json:
        keys = ("section", "what", "origin", "source")
        show.as_json(
            [
                dict(zip(keys, (section, what, str(origin), source), strict=True))
                for (section, what, origin), source in zip(found, sources, strict=True)
            ]
        )
    else:
        _print(found, sources)


def _print(found: Sequence[explained.Line], sources: Sequence[Source | None]) -> None:
    """Print all lines, each with the number of its source, then the list of sources."""
    cited = list(dict.fromkeys(source for source in sources if source))
    marks = [f" [{cited.index(source) + 1}]" if source else "" for source in sources]
    rows = [
        (section, what, f"{origin}{mark}") for (section, what, origin), mark in zip(found, marks, strict=True)
    ]
    for number, source in enumerate(cited, 1):
        by = "" if source.by == "centre" else f", by a {source.by}"
        rows.append(("sources", f"[{number}] {source.where}", f"read {source.read}{by}"))
    for number, (section, members) in enumerate(groupby(rows, key=lambda row: row[0])):
        click.echo(f"{chr(10) * bool(number)}{section}")
        show.table((), [(f"  {_short(what)}", origin) for _, what, origin in members])


def _source(site: Site, origin: Origin) -> Source | None:
    return source_of(site, origin.key) if origin.kind == "site" else None


def _short(text: str) -> str:
    return text.replace("\n", "\\n")
