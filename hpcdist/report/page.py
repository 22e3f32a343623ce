"""The page: one file of HTML with its style, its scripts and its data, which asks for nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import jinja2
from markupsafe import Markup

from hpcdist import __version__
from hpcdist.errors import ConfigError, Problem, RenderError, bytes_text
from hpcdist.host.resources import template_folders
from hpcdist.report import collecting, curves, limits, text
from hpcdist.report.collecting import Collected, RunView
from hpcdist.report.curves import Plot
from hpcdist.report.limits import Share
from hpcdist.report.search import Search
from hpcdist.runs import shareable
from hpcdist.runs.states import Report
from hpcdist.schedulers import hostlist
from hpcdist.tracking import comparison, trial_params
from hpcdist.tracking.comparison import Tracked

_MODELS: Final = 400_000
"""Characters of the table of models."""

_END: Final = re.compile("</(?=script|style)", re.IGNORECASE)
_NO_PLOTLY: Final = "a report needs Plotly, which is not installed"

Cut = Callable[[object], str]
"""What shortens a text, and masks secrets in it."""


class StudyView(NamedTuple):
    """A scaling study among the runs; without ``rows``, ``lines`` has the reason."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    lines: Sequence[str]
    figure: Callable[[Cut], dict[str, Any] | None] | None
    """Returns its plot as Plotly has it, with texts as they may be shown."""


class Content(NamedTuple):
    """All that a page shows; ``tracked`` are the runs and elements, ``differing`` and ``metrics`` columns.

    ``secrets`` are values that look like some, which are masked wherever they stand.
    """

    title: str
    made_at: str
    runs: Sequence[RunView]
    tracked: Share[Tracked]
    differing: Share[str]
    metrics: Share[str]
    same: Share[tuple[str, Any]]
    plots: Share[Plot]
    searches: Sequence[Search]
    studies: Sequence[StudyView]
    models: Share[Tracked]
    secrets: frozenset[str] = frozenset()


def content(reports: Sequence[Report], now: float, studies: Sequence[StudyView] = ()) -> Content:
    """Return what a page about these runs shows, and the ``studies`` among them.

    Raises:
        ConfigError: if they are too many.
        OSError: if what one recorded cannot be read.
    """
    if len(reports) > limits.MOST_RUNS:
        hint = "name fewer, such as those of one experiment: 'train-*'"
        raise ConfigError(
            Problem(f"a report shows at most {limits.MOST_RUNS} runs, not {len(reports)}", hint=hint)
        )
    found: list[Collected] = []
    share = limits.Limits.of(len(reports))
    for report in reports:
        found.append(collecting.collected(report, sum(len(one.tracked) for one in found), share, now))
    tracked = [item for one in found for item in one.tracked]
    differing = comparison.differing(tracked) if len(tracked) > 1 else []
    same = (
        [(name, value) for name, value in tracked[0].params.items() if name not in differing]
        if tracked
        else []
    )
    return Content(
        title=reports[0].run.name if len(reports) == 1 else f"{len(reports)} runs",
        made_at=collecting.moment(now),
        runs=[one.view for one in found],
        tracked=limits.at_most(tracked, limits.MOST_ITEMS),
        differing=limits.at_most(differing, limits.columns(len(tracked))),
        metrics=limits.at_most(
            trial_params.names(item.metrics for item in tracked), limits.columns(len(tracked))
        ),
        same=limits.first(same, share.others * 2),
        plots=curves.plots(one for each in found for one in each.series),
        searches=[one.search for one in found if one.search],
        studies=studies,
        models=limits.first(comparison.models(tracked), _MODELS, _size_of_model),
        secrets=frozenset(_secrets(reports, tracked)),
    )


def _secrets(reports: Iterable[Report], tracked: Iterable[Tracked]) -> Iterator[str]:
    for report in reports:
        yield from shareable.secrets(report.run.directory, {})
    for item in tracked:
        yield from shareable.secrets_in((), item.params)


def _size_of_model(item: Tracked) -> int:
    [model] = item.artifacts
    return len(model.path[: text.LONGEST]) + len(model.sha256[: text.LONGEST]) + len(str(item.metrics))


def html(shown: Content, library: str, folders: Iterable[Path] | None = None) -> str:
    """Write the page; ``library`` is the JavaScript of Plotly.

    Raises:
        RenderError: when a template is missing or wrong.
    """
    masked = shareable.Masked(shown.secrets)

    def cut(value: object) -> str:
        return text.visible(masked(str(value)), limits.LONGEST_NAME)

    environment = _environment(folders or template_folders(), masked, cut)
    try:
        scripts = _scripts(environment, shown, library)
        sources = " ".join(map(_hash, scripts))
        return environment.get_template("report.html.j2").render(
            **shown._asdict(),
            version=__version__,
            style=_asset(environment, "report.css"),
            scripts=scripts,
            policy=Markup(f"default-src 'none'; script-src {sources}; {_POLICY}"),  # noqa: S704 - hashes
            data=text.data(_data(shown, cut)),
        )
    except (jinja2.TemplateError, ValueError) as error:
        raise RenderError(f"the template of the report: {error}") from error


_POLICY: Final = "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
"""Plotly sets styles of what it draws; a style can load nothing."""


def _environment(folders: Iterable[Path], masked: shareable.Masked, cut: Cut) -> jinja2.Environment:
    """Return the templates of these folders, and what is shown in another form than Python's."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([str(folder / "report") for folder in folders]),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        finalize=lambda value: text.finalized(value, masked),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "size": _size,
        "hosts": hostlist.compress,
        "number": text.number,
        "step": "{:.10g}".format,
        "cut": cut,
        "moment": collecting.moment,
        "duration": collecting.duration,
    }
    return environment


def _scripts(environment: jinja2.Environment, shown: Content, library: str) -> list[Markup]:
    """Return what draws the plots of a page, the library first, if it has any."""
    scripts = [_asset(environment, "near.js") + _asset(environment, "report.js")]
    if shown.searches:
        scripts.append(_asset(environment, "search.js"))
    if shown.plots.items or shown.searches or any(one.rows for one in shown.studies):
        scripts.insert(0, _inline(library))
    return scripts


def _data(shown: Content, cut: Cut) -> dict[str, Any]:
    return {
        "items": len(shown.tracked.items),
        "plots": [{"name": cut(plot.name), "traces": plot.traces} for plot in shown.plots.items],
        "searches": [one.data(cut) for one in shown.searches],
        "studies": [one.figure and one.figure(cut) for one in shown.studies],
    }


def _asset(environment: jinja2.Environment, name: str) -> Markup:
    if environment.loader is None:
        raise RenderError(f"there is no template {name}")
    return _inline(environment.loader.get_source(environment, name)[0])


def _inline(script: str) -> Markup:
    """Return a script or style as it may stand in an element; browsers normalize line ends."""
    return Markup(_END.sub(r"<\\/", script.replace("\r\n", "\n")))  # noqa: S704 - shipped, or the user's own


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _size(count: int | None) -> str:
    return "missing" if count is None else bytes_text(count, "B")


def library() -> str:
    """Return the JavaScript of Plotly.

    Raises:
        ConfigError: if it is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ConfigError(Problem(_NO_PLOTLY, hint="run `pip install 'hpcdist[report]'`")) from None
    return str(get_plotlyjs())
