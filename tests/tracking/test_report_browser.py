"""The page in a real Chromium: opened from a disk, used by mouse and keyboard, printed, and attacked."""

from __future__ import annotations

import math
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from hpcdist.cli.jobs.report import content as report_content
from hpcdist.studies.scaling_runs import Member
from hpcdist.tracking import report as report_page
from hpcdist.tracking.report_data import visible
from tests.studies import scaling_made
from tests.tracking import made_reports as made
from tests.tracking.made_reports import HOSTILE, NOW

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

    Open = Callable[..., AbstractContextManager[Page]]

pytestmark = [pytest.mark.real, pytest.mark.extended]

STEPS: Final = 3000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Debian's Chromium, which as root refuses to start with its sandbox."""
    from playwright.sync_api import sync_playwright  # only `tools/setup all` installs it

    program = shutil.which("chromium")
    assert program, "tools/setup all installs it"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def harmless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page about three runs with two metrics, of which one has a gap."""
    folder = tmp_path_factory.mktemp("runs")
    curve = [math.exp(-step / 500) for step in range(STEPS)]
    runs = [
        made.run(
            folder, "train", {"loss": curve, "val/acc": [0.5, math.nan, 0.75]}, plan=made.params(lr=0.1)
        ),
        made.run(folder, "train", {"loss": curve[::2], "val/acc": [0.6, 0.7]}, plan=made.params(lr=0.2)),
        made.run(folder, "train", {"loss": curve[::3]}, status=made.FAILED, plan=made.params(lr=0.4)),
    ]
    return written(folder, *runs)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    return written(folder, made.hostile(folder), made.run(folder, "other", {HOSTILE[0]: [1.0, 2.0]}))


@pytest.fixture(scope="module")
def searches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page about two searches, of which one has hostile texts in all places."""
    folder = tmp_path_factory.mktemp("searches")
    trials = [{"lr": lr, "opt": opt} for lr in (0.001, 0.1) for opt in ("sgd", "adam")]
    texts = [dict(zip(HOSTILE, HOSTILE[number:] + HOSTILE[:number], strict=True)) for number in range(5)]
    return written(
        folder,
        made.search(folder, trials, [0.5, 0.25, None, 0.75]),
        made.search(folder, texts, [1, 2, 4, 3, 5], order=f"-{HOSTILE[0]}"),
    )


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page about a scaling study, whose metric has a hostile name."""
    folder, name = tmp_path_factory.mktemp("study"), f"{HOSTILE[3]}/s"
    members = [Member(scaling_made.STUDY, nodes, 1) for nodes in (1, 2)]
    return written(folder, *(scaling_made.run(folder, each, {name: [5.0 * each.nodes]}) for each in members))


def written(folder: Path, *runs: Any) -> Path:
    file = folder / "report.html"
    file.write_text(report_page.html(report_content(runs, NOW), report_page.library()))
    return file


@pytest.fixture
def opened(browser: Browser) -> Open:
    """Open a file; at the end nothing was reported, asked for, or shown as a dialog."""

    @contextmanager
    def open_page(file: Path, **options: Any) -> Iterator[Page]:
        found: list[str] = []
        requests: list[str] = []
        context = browser.new_context(**options)
        try:
            shown = context.new_page()
            shown.on("console", lambda message: found.append(message.text))
            shown.on("pageerror", lambda error: found.append(str(error)))
            shown.on("dialog", partial(dismiss, found))
            context.on("request", lambda request: requests.append(request.url))
            shown.goto(file.as_uri())
            if options.get("java_script_enabled", True):
                shown.wait_for_selector(".js-plotly-plot .scatterlayer .trace")
            yield shown
            assert found == []
            assert [url for url in requests if not url.startswith(("data:", "blob:"))] == [file.as_uri()]
        finally:
            context.close()

    return open_page


def dismiss(found: list[str], dialog: Dialog) -> None:
    found.append(dialog.message)
    dialog.dismiss()


HIDDEN: Final = """() => Object.fromEntries([...document.querySelectorAll(".js-plotly-plot")].map(div => [
    div.dataset.plot, div.data.filter(trace => trace.visible === "legendonly").map(trace => trace.name)
]))"""
"""The traces that are hidden in each plot."""


def boxes(shown: Page) -> list[bool]:
    found = shown.evaluate("[...document.querySelectorAll('input[data-item]')].map(box => box.checked)")
    return [bool(one) for one in found]


def test_a_click_on_a_legend_hides_the_run_in_all_plots(harmless: Path, opened: Open) -> None:
    with opened(harmless) as shown:
        assert (shown.evaluate(HIDDEN), boxes(shown)) == ({"0": [], "1": []}, [True] * 3)
        entry = shown.locator('.plot[data-plot="0"] .legend .traces').nth(1)
        assert entry.text_content() == "train-2"
        before = shown.locator('.plot[data-plot="0"] .scatterlayer .trace').count()
        entry.locator(".legendtoggle").click()
        shown.wait_for_function("() => !document.querySelector('input[data-item=\"1\"]').checked")
        assert shown.evaluate(HIDDEN) == {"0": ["train-2"], "1": ["train-2"]}
        assert shown.locator('.plot[data-plot="0"] .scatterlayer .trace').count() == before - 1
        assert shown.locator("#shown").text_content() == "2 of 3 are shown"
        shown.wait_for_timeout(500)  # or it would be a double click
        entry.locator(".legendtoggle").click()
        shown.wait_for_function("() => document.querySelector('input[data-item=\"1\"]').checked")
        assert shown.evaluate(HIDDEN) == {"0": [], "1": []}


def test_a_double_click_on_a_legend_leaves_one_run(harmless: Path, opened: Open) -> None:
    with opened(harmless) as shown:
        entry = shown.locator('.plot[data-plot="0"] .legend .traces').nth(0)
        entry.locator(".legendtoggle").dblclick()
        shown.wait_for_function("() => document.getElementById('shown').textContent.startsWith('1 ')")
        assert boxes(shown) == [True, False, False]


def test_everything_can_be_reached_by_keyboard(harmless: Path, opened: Open) -> None:
    with opened(harmless) as shown:
        shown.keyboard.press("Tab")
        assert shown.evaluate("document.activeElement.textContent") == "Skip to the content"
        assert (shown.locator(".skip").bounding_box() or {"x": -1})["x"] >= 0
        shown.locator("input[name=axis]").first.focus()
        shown.keyboard.press("ArrowRight")
        title = shown.locator('.plot[data-plot="0"] .xtitle')
        assert title.text_content() == "minutes since the first value"
        for _ in range(4):  # over the scale and the two buttons
            shown.keyboard.press("Tab")
        shown.keyboard.press("Space")
        assert boxes(shown) == [False, True, True]
        assert shown.evaluate(HIDDEN) == {"0": ["train-1"], "1": ["train-1"]}
        style = shown.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert style == "solid"


def test_no_button_of_a_plot_hands_it_to_others(harmless: Path, opened: Open) -> None:
    """Plotly has one that sends the data to its makers' server, which no policy of a page forbids."""
    with opened(harmless) as shown:
        shown.locator('.plot[data-plot="0"]').hover()
        buttons = shown.locator('.plot[data-plot="0"] .modebar-btn')
        titles = [button.get_attribute("aria-label") for button in buttons.all()]
        assert titles == ["Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"]
        with shown.expect_download() as download:
            buttons.first.click()
        assert download.value.path().read_bytes().startswith(b"\x89PNG")
        assert len(shown.context.pages) == 1


def test_the_scale_and_the_axis(harmless: Path, opened: Open) -> None:
    with opened(harmless) as shown:
        shown.locator("#log").check()
        assert shown.evaluate("document.querySelector('.plot').layout.yaxis.type") == "log"
        shown.get_by_label("time").check()
        x = shown.evaluate("Array.from(document.querySelector('.plot').data[0].x)")
        assert (x[0], round(x[-1] * 60)) == (0, STEPS - 1)


def test_values_that_are_hostile_stay_text(hostile: Path, opened: Open) -> None:
    with opened(hostile, viewport={"width": 1280, "height": 20_000}) as shown:
        shown.wait_for_function("() => document.querySelectorAll('.js-plotly-plot').length === 9")
        assert shown.locator("script").count() == 3
        assert shown.locator("img, iframe, object, embed, base").count() == 0
        links = shown.evaluate("[...document.links].map(link => link.getAttribute('href'))")
        assert all(link.startswith("#") for link in links)
        assert {*shown.locator("article h3").all_text_contents()} == {*map(visible, HOSTILE)}
        shown.locator('.plot[data-plot="0"] .nsewdrag').hover(position={"x": 15, "y": 40})
        shown.wait_for_selector('.plot[data-plot="0"] .hoverlayer text')
        assert shown.locator(".plot a[href], .plot svg a").count() == 0
        shown.get_by_text("hostile-1").first.click()


def test_a_study_is_drawn_and_its_metric_stays_text(study: Path, opened: Open) -> None:
    with opened(study, viewport={"width": 1280, "height": 5000}) as shown:
        assert shown.locator(".plot[data-study] .scatterlayer .trace").count() == 3
        assert shown.locator("img, iframe, .plot a[href], .plot svg a").count() == 0
        title = shown.locator(".plot[data-study] .ytitle").text_content()
        assert title == f"{HOSTILE[3]}/s"


def test_a_search_is_drawn_and_its_texts_stay_text(searches: Path, opened: Open) -> None:
    with opened(searches, viewport={"width": 1280, "height": 20_000}) as shown:
        shown.wait_for_function("() => document.querySelectorAll('.js-plotly-plot').length === 17")
        assert shown.locator("img, iframe, .plot a[href], .plot svg a").count() == 0
        lines = shown.evaluate(DRAWN, "parallel")
        assert [(line["x"], line["color"]) for line in lines] == [
            ([0, 1, 2, None], "#8b949e"),  # trial 3 has no value
            ([0, 1, 2, None], "#3178c6"),
            ([0, 1, 2, None], "#a29a7d"),
            ([0, 1, 2, None], "#cf6f0c"),
        ]
        assert [line["y"][:3] for line in lines] == [
            [1, 0.75, None],
            [1, 0.25, 1],
            [0, 0.75, 0.5],
            [0, 0.25, 0],
        ]
        [dots] = shown.evaluate(DRAWN, "against")
        assert (dots["x"], dots["y"], dots["axis"]) == ([0.001, 0.001, 0.1], [0.5, 0.25, 0.75], "log")
        done, failed, use = shown.evaluate(DRAWN, "time")
        assert (done["name"], done["x"], done["y"]) == (
            "completed",
            [0, 60, None, 0, 60, None, 60, 120, None],
            [1, 1, None, 2, 2, None, 4, 4, None],
        )
        assert (failed["name"], failed["x"], use["name"], use["x"], use["y"]) == (
            *("failed", [60, 120, None]),
            *("GPUs in use", [0, 60, 120], [4, 4, 0]),
        )
        point = shown.locator('.plot[data-search="1"][data-kind="parallel"] .point').first
        box = point.bounding_box() or {"x": 0, "y": 0, "width": 0, "height": 0}
        shown.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        shown.wait_for_selector('.plot[data-search="1"] .hoverlayer text')
        assert shown.locator("img, iframe, .plot a[href], .plot svg a").count() == 0


DRAWN: Final = """kind => {
    const div = document.querySelector(`.plot[data-search="0"][data-kind="${kind}"]`);
    return div.data.map(one => ({
        name: one.name, x: [...one.x], y: [...one.y], color: one.line?.color, axis: div.layout.xaxis.type
    }));
}"""
"""What a plot of the first search has drawn."""


def test_a_search_is_printed(searches: Path, opened: Open) -> None:
    with opened(searches, viewport={"width": 800, "height": 300}) as shown:
        shown.evaluate("""addEventListener("beforeprint", () => { window.printed = [
            document.querySelectorAll(".js-plotly-plot[data-search]").length,
            Math.max(...[...document.querySelectorAll(".main-svg")].map(svg => svg.clientWidth)),
        ] })""")
        assert shown.pdf(format="A4").startswith(b"%PDF-")
        assert shown.evaluate("window.printed") == [15, 640]


def test_a_name_of_a_run_in_a_plot_is_text(tmp_path: Path, opened: Open) -> None:
    """Plotly reads tags and links in names, which a run's own name cannot have, but a rank's label might."""
    runs = [made.run(tmp_path, "a", {"m": values}) for values in ([1.0, 2.0], [2.0, 1.0])]
    content = report_content(runs, NOW)
    [plot] = content.plots.items
    text = "<a href='http://e.invalid'>x</a><b>y</b>&amp;"
    traces = [{**trace, "label": text} for trace in plot.traces]
    file = tmp_path / "page.html"
    shares = replace(content.plots, items=[plot._replace(traces=traces)])
    file.write_text(report_page.html(content._replace(plots=shares), report_page.library()))
    with opened(file) as shown:
        assert shown.locator(".legendtext").first.text_content() == text
        assert shown.locator(".plot svg a").count() == 0


def test_the_page_may_ask_for_nothing(harmless: Path, browser: Browser) -> None:
    """Even what was injected into it, if anything could be, would not run and reach no server."""
    context = browser.new_context()
    shown = context.new_page()
    shown.goto(harmless.as_uri())
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/"
        bound = "{mode: 'no-cors', signal: AbortSignal.timeout(5000)}"
        fetched = f"fetch('{address}', {bound}).then(() => 'sent', error => error.name)"
        assert shown.evaluate(fetched) == "TypeError"
        for name, attribute in (("img", "src"), ("script", "src"), ("link", "href")):
            shown.evaluate(
                f"""new Promise(resolve => {{
                    const made = document.createElement("{name}");
                    made.onload = made.onerror = resolve;
                    made.rel = "stylesheet";
                    made.{attribute} = "{address}";
                    document.body.append(made);
                }})"""
            )
        shown.evaluate("document.body.innerHTML += '<p onclick=\"window.ran = 1\" id=hurt>x</p>'")
        shown.locator("#hurt").click()
        assert shown.evaluate("typeof window.ran") == "undefined"
        with pytest.raises(BlockingIOError):
            server.accept()
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("which", ["harmless", "hostile", "searches", "study"])
def test_accessible_in_both_schemes(
    which: str, scheme: str, opened: Open, request: pytest.FixtureRequest
) -> None:
    """By the rules of axe: roles, names, order of headings, contrast, and what scrolls can be reached."""
    from axe_playwright_python.sync_playwright import Axe

    file: Path = request.getfixturevalue(which)
    with opened(file, color_scheme=scheme, viewport={"width": 1280, "height": 3000}) as shown:
        dark = shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 19, 23)"
        assert dark == (scheme == "dark")
        shown.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        found = Axe().run(shown).response["violations"]
        assert [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in found] == []


def test_the_plots_follow_the_scheme(harmless: Path, opened: Open) -> None:
    fill = "getComputedStyle(document.querySelector('.plot .xtick text')).fill"
    with opened(harmless, color_scheme="light") as shown:
        light = shown.evaluate(fill)
        shown.emulate_media(color_scheme="dark")
        assert (light, shown.evaluate(fill)) == ("rgb(27, 32, 39)", "rgb(230, 234, 239)")


@pytest.mark.parametrize("width", [390, 768, 1280])
@pytest.mark.parametrize("which", ["hostile", "searches", "study"])
def test_nothing_is_wider_than_the_window(
    which: str, width: int, opened: Open, request: pytest.FixtureRequest
) -> None:
    file: Path = request.getfixturevalue(which)
    with opened(file, viewport={"width": width, "height": 900}) as shown:
        shown.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert shown.evaluate("document.documentElement.scrollWidth") <= width


def test_everything_is_printed(harmless: Path, opened: Open) -> None:
    """All plots are drawn, also those that were never seen, and all details are open while it is printed."""
    with opened(harmless, color_scheme="dark", viewport={"width": 800, "height": 300}) as shown:
        shown.evaluate("""addEventListener("beforeprint", () => { window.printed = {
            closed: document.querySelectorAll("details:not([open])").length,
            plots: document.querySelectorAll(".js-plotly-plot .scatterlayer").length,
            widest: Math.max(...[...document.querySelectorAll(".main-svg")].map(svg => svg.clientWidth)),
        } })""")
        closed = shown.locator("details:not([open])").count()
        assert shown.pdf(format="A4").startswith(b"%PDF-")
        assert shown.evaluate("window.printed") == {"closed": 0, "plots": 2, "widest": 640}
        assert shown.locator("details:not([open])").count() == closed > 0
        shown.emulate_media(media="print")
        assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not shown.locator("#controls").is_visible()


def test_without_scripts_everything_but_the_plots_is_there(harmless: Path, opened: Open) -> None:
    with opened(harmless, java_script_enabled=False) as shown:
        assert shown.get_by_text("The plots need JavaScript").is_visible()
        assert not shown.locator("#controls").is_visible()
        rows = shown.locator("article").nth(1).locator("tbody tr").all_inner_texts()
        assert [row.split() for row in rows] == [
            ["train-1", "0.75", "2", "0.5", "0", "0.75", "2", "3"],
            ["train-2", "0.7", "1", "0.6", "0", "0.7", "1", "2"],
        ]
        shown.locator("summary", has_text="train-3").click()
        assert shown.locator("#run-2 dl").first.is_visible()


def test_a_link_to_a_run_opens_it(harmless: Path, opened: Open) -> None:
    with opened(harmless) as shown:
        shown.get_by_role("link", name="train-2").click()
        shown.wait_for_selector("#run-1 > details[open]", state="attached")  # after the event of the link
