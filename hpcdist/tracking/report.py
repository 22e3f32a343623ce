"""The page: one HTML file with its style, scripts and data, which loads nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import jinja2
from markupsafe import Markup

from hpcdist import __version__
from hpcdist.base.errors import ConfigError, Problem, RenderError, bytes_text
from hpcdist.base.resources import template_folders
from hpcdist.runs import copying
from hpcdist.runs.job_states import Report
from hpcdist.schedulers import hostlist
from hpcdist.tracking import comparison, report_data, report_plots, series, trial_params
from hpcdist.tracking.comparison import Tracked
from hpcdist.tracking.report_data import (
    LONGEST,
    LONGEST_NAME,
    MOST_ITEMS,
    MOST_RUNS,
    Limits,
    RunFiles,
    RunView,
    Share,
    Supply,
    at_most,
    duration,
    first,
    moment,
    most_columns,
    number_text,
    script_data,
    template_text,
    visible,
)
from hpcdist.tracking.report_plots import Curve, Plot, SearchView, plots
from hpcdist.tracking.series import RecordedMetrics

_MODELS: Final = 400_000
"""The most characters of the table of models."""

_END: Final = re.compile("</(?=script|style)", re.IGNORECASE)
_NO_PLOTLY: Final = "a report needs Plotly, which is not installed"


class Collected(NamedTuple):
    """A run, what it recorded under the names of its elements, its metrics, and its search."""

    view: RunView
    tracked: Sequence[Tracked]
    curves: Sequence[Curve]
    search: SearchView | None = None


Cut = Callable[[object], str]
"""Shortens a text, and masks secrets in it."""


class StudyView(NamedTuple):
    """A scaling study among the runs; without ``rows``, ``lines`` has the reason."""

    title: str
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    lines: Sequence[str] = ()
    figure: Callable[[Cut], dict[str, Any] | None] | None = None
    """Returns its plot in Plotly's form, with texts that are safe to show."""


class Content(NamedTuple):
    """All that a page shows."""

    title: str
    made_at: str
    runs: Sequence[RunView]
    tracked: Share[Tracked]
    """The runs and elements."""
    differing: Share[str]
    """The params that are columns."""
    metrics: Share[str]
    """The metrics that are columns."""
    same: Share[tuple[str, Any]]
    """The params that are the same in all."""
    plots: Share[Plot]
    searches: Sequence[SearchView]
    studies: Sequence[StudyView]
    models: Share[Tracked]
    secrets: frozenset[str] = frozenset()
    """Values that look like secrets, which are masked everywhere."""


def content(
    reports: Sequence[Report], now: float, supply: Supply, studies: Sequence[StudyView] = ()
) -> Content:
    """Return the content of a page about these runs and studies; ``supply`` returns more about a run.

    Raises:
        ConfigError: if there are too many.
        OSError: if the records of a run cannot be read.
    """
    if len(reports) > MOST_RUNS:
        hint = "name fewer, such as those of one experiment: 'train-*'"
        raise ConfigError(Problem(f"a report shows at most {MOST_RUNS} runs, not {len(reports)}", hint=hint))
    found: list[Collected] = []
    share = Limits.of(len(reports))
    for report in reports:
        first_item = sum(len(one.tracked) for one in found)
        found.append(_collect(RunFiles(report, now, supply), first_item, share))
    tracked = [item for one in found for item in one.tracked]
    differing = comparison.differing(tracked) if len(tracked) > 1 else []
    same = (
        [(name, value) for name, value in tracked[0].params.items() if name not in differing]
        if tracked
        else []
    )
    return Content(
        title=reports[0].run.name if len(reports) == 1 else f"{len(reports)} runs",
        made_at=moment(now),
        runs=[one.view for one in found],
        tracked=at_most(tracked, MOST_ITEMS),
        differing=at_most(differing, most_columns(len(tracked))),
        metrics=at_most(trial_params.names(item.metrics for item in tracked), most_columns(len(tracked))),
        same=first(same, share.others * 2),
        plots=plots(one for each in found for one in each.curves),
        searches=[one.search for one in found if one.search],
        studies=studies,
        models=first(comparison.models(tracked), _MODELS, _size_of_model),
        secrets=frozenset(_secrets(reports, tracked)),
    )


def _collect(source: RunFiles, first_item: int, share: Limits) -> Collected:
    """Return what is shown of one run; ``first_item``: the number of its first element in the report."""
    run, stored = source.run, source.stored
    found = series.read(run.directory, stored)
    items = comparison.tracked_in(found, run, stored)
    numbers = {item.name: first_item + number for number, item in enumerate(items)}
    names = {job: name for job, name in comparison.job_names(run, found).items() if name in numbers}
    return Collected(
        view=report_data.view(source, found, share),
        tracked=items,
        curves=[*_curves(found, names, numbers)],
        search=report_plots.search(run, source.attempts, items, source.now, share.trials),
    )


def _curves(found: RecordedMetrics, names: Mapping[str, str], numbers: Mapping[str, int]) -> Iterator[Curve]:
    ranks: dict[tuple[str, str], int] = {}
    began: dict[str, float] = {}
    for key, points in found.series.items():
        ranks[key.job, key.name] = ranks.get((key.job, key.name), 0) + 1
        first = min(points.times)
        if first <= 0:  # of output, or of files without times
            first = min(filter(lambda time: time > 0, points.times), default=float("inf"))
        began[key.job] = min(began.get(key.job, first), first)
    for key in sorted(key for key in found.series if key.job in names):
        name, points = names[key.job], found.series[key]
        rank = f" rank {key.rank}" if ranks[key.job, key.name] > 1 else ""
        yield Curve.of(key.name, (numbers[name], f"{name}{rank}"), points, began[key.job])


def _secrets(reports: Iterable[Report], tracked: Iterable[Tracked]) -> Iterator[str]:
    for report in reports:
        yield from copying.secrets(report.run.directory, {})
    for item in tracked:
        yield from copying.secrets_in((), item.params)


def _size_of_model(item: Tracked) -> int:
    [model] = item.artifacts
    return len(model.path[:LONGEST]) + len(model.sha256[:LONGEST]) + len(str(item.metrics))


def html(shown: Content, library: str, folders: Iterable[Path] | None = None) -> str:
    """Write the page; ``library`` is the JavaScript of Plotly.

    Raises:
        RenderError: when a template is missing or wrong.
    """
    masked = copying.Masked(shown.secrets)

    def cut(value: object) -> str:
        return visible(masked(str(value)), LONGEST_NAME)

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
            data=script_data(_data(shown, cut)),
        )
    except (jinja2.TemplateError, ValueError) as error:
        raise RenderError(f"the template of the report: {error}") from error


_POLICY: Final = "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
"""Plotly sets styles of what it draws; a style can load nothing."""


def _environment(folders: Iterable[Path], masked: copying.Masked, cut: Cut) -> jinja2.Environment:
    """Return a Jinja environment with the templates of these folders, and filters for values."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([str(folder / "report") for folder in folders]),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        finalize=lambda value: template_text(value, masked),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "size": _size,
        "hosts": hostlist.compress,
        "number": number_text,
        "step": "{:.10g}".format,
        "cut": cut,
        "moment": moment,
        "duration": duration,
    }
    return environment


def _scripts(environment: jinja2.Environment, shown: Content, library: str) -> list[Markup]:
    """Return the scripts of a page; if there are plots, the library first."""
    scripts = [_asset(environment, "plots.js") + _asset(environment, "report.js")]
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
    """Return a script or style that is safe inside an element; browsers normalize line ends."""
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
