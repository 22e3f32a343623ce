"""The page: what it shows of runs, and that no value of theirs is markup."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from hpcdist.base.errors import ConfigError
from hpcdist.cli.jobs.report import content as report_content
from hpcdist.plan.trials import TrialTexts
from hpcdist.runs.event_states import Attempt
from hpcdist.runs.job_states import Report
from hpcdist.schedulers.job import JobState, Status
from hpcdist.script.trial_table import table
from hpcdist.tracking import report as report_page
from hpcdist.tracking import report_data
from tests.tracking import made_reports as made
from tests.tracking.made_reports import HOSTILE, NOW
from tests.wording import Wording

RUNNING: Final = Status(JobState.RUNNING, "RUNNING", source="squeue")
LIBRARY: Final = "var Plotly = {}; // </script> <!--"


class Read(HTMLParser):
    """The elements of a page by their names, all attributes, and the texts of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: dict[str, int] = {}
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] = self.elements.get(tag, 0) + 1
        self.attributes += attrs
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        del tag
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.text += data


def written(*reports: Report) -> Read:
    return Read(report_page.html(report_content(reports, NOW), LIBRARY))


def data(read: Read) -> Any:
    return json.loads(read.scripts[0])


def test_a_run_that_only_was_submitted(tmp_path: Path) -> None:
    report = made.run(tmp_path, "bare", {})
    (report.run.directory.path / "events").unlink()
    shown = report_content([report], NOW)
    [view] = shown.runs
    assert view._asdict() == {
        "name": "bare-1",
        "state": "completed",
        "description": "",
        "tags": report_data.Share([]),
        "facts": {
            "exit code": "0",
            "job": "1",
            "site": "local (local)",
            "submitted": "2026-11-20 08:00:00 UTC",
            "directory": str(tmp_path / "bare-1"),
        },
        "warnings": report_data.Share([]),
        "advice": [],
        "failure": "",
        "first_failure": "",
        "timeline": report_data.timeline([Attempt("1", (0, 0), "completed", made.AT, exit_code=0)], NOW),
        "map": None,
        "code": None,
        "plan": None,
        "outputs": report_data.Share([]),
        "logs": report_data.Share([]),
    }
    assert (shown.title, shown.plots.items, shown.same.items) == ("bare-1", [], [])
    assert "var Plotly" not in report_page.html(shown, LIBRARY)


def test_runs_beside_each_other(tmp_path: Path) -> None:
    one = made.run(tmp_path, "a", {"loss": [3, 2]}, plan=made.params(lr=0.1, seed=7))
    other = made.run(tmp_path, "b", {"loss": [4, 1], "acc": [0.5]}, plan=made.params(lr=0.2, seed=7))
    shown = report_content([one, other], NOW)
    assert (shown.title, [item.name for item in shown.tracked.items]) == ("2 runs", ["a-1", "b-1"])
    assert (shown.differing.items, shown.same.items) == (["lr"], [("seed", 7)])
    assert [(plot.name, [row.label for row in plot.rows]) for plot in shown.plots.items] == [
        ("acc", ["b-1"]),
        ("loss", ["a-1", "b-1"]),
    ]
    read = written(one, other)
    assert data(read)["items"] == 2
    assert {(trace["item"], trace["label"]) for plot in data(read)["plots"] for trace in plot["traces"]} == {
        (0, "a-1"),
        (1, "b-1"),
    }


def test_elements_and_ranks_have_names_of_their_own(tmp_path: Path) -> None:
    report = made.run(tmp_path, "a", {})
    for job in ("1_0", "1_10"):
        made.record_lines(report.run.directory.path, job, {"at": 1, "step": 1, "metrics": {"m": 1}})
    file = report.run.directory.path / "tracking" / "1_10" / "0.0" / "rank-3.n.1.jsonl"
    file.write_text('{"at":1,"step":1,"metrics":{"m":2}}\n')
    (report.run.directory.path / "tracking" / "1").rename(tmp_path / "away")
    [plot] = report_content([report], NOW).plots.items
    assert [row.label for row in plot.rows] == ["a-1/0", "a-1/10 rank 0", "a-1/10 rank 3"]


def test_the_curve_of_a_trial_is_its_own(tmp_path: Path) -> None:
    report = made.run(tmp_path, "a", {})
    trials = [TrialTexts({}, "x", {"POLYAXON_PARAMS": f'{{"lr": {lr}}}'}, lr) for lr in (1, 2, 3)]
    report.run.directory.write("trials.tsv", table(trials))
    for job in ("1_3", "2"):
        made.record_lines(report.run.directory.path, job, {"at": 1, "step": 1, "metrics": {"m": 1}})
    [plot] = report_content([report], NOW).plots.items
    assert [(row.item, row.label) for row in plot.rows] == [(2, "a-1/3"), (3, "a-1")]


def test_an_array_ends_with_its_last_element_and_not_before(tmp_path: Path) -> None:
    report = made.run(tmp_path, "a", {})
    at = made.AT
    log = f"started 1_1 {at} 0\nstarted 1_2 {at + 60} 0\nended 1_2 {at + 120} 0\n"
    report.run.directory.write("events", log)
    live = Report(report.run._replace(record=replace(report.run.record, ended=None)), RUNNING)
    facts = report_content([live], NOW).runs[0].facts
    assert (facts.get("ended"), facts["elapsed"]) == (None, "02:00:00")
    report.run.directory.write("events", f"{log}ended 1_1 {at + 180} 0\n")
    facts = report_content([report], NOW).runs[0].facts
    assert (facts["ended"], facts["elapsed"]) == ("2026-11-20 08:03:00 UTC", "00:03:00")


def test_the_rank_that_failed_first(tmp_path: Path) -> None:
    report = made.run(tmp_path, "a", {}, status=made.FAILED)
    message = "rank 3 on n1 was the first to fail, with exit code 9"
    (report.run.directory.logs / "job.out").write_text(f"hello\nhpcdist: {message}\n")
    [view] = report_content([report], NOW).runs
    assert view.failure == message
    assert [log.name for log in view.logs.items] == ["job.out"]


def test_hostile_values_are_text(tmp_path: Path) -> None:
    """The elements are those of a harmless run, and each text stands in the page as it is."""
    read = written(made.hostile(tmp_path))
    assert read.elements["script"] == 3
    assert {*read.elements} <= {
        *(
            "html",
            "head",
            "meta",
            "title",
            "link",
            "style",
            "body",
            "a",
            "header",
            "div",
            "p",
            "h1",
            "h2",
            "h3",
        ),
        *(
            "h4",
            "span",
            "nav",
            "ul",
            "ol",
            "li",
            "main",
            "section",
            "dl",
            "dt",
            "dd",
            "table",
            "thead",
            "tbody",
        ),
        *("caption", "tr", "th", "td", "svg", "path", "rect", "pre", "code", "details", "summary", "form"),
        *(
            "fieldset",
            "legend",
            "label",
            "input",
            "button",
            "noscript",
            "article",
            "footer",
            "script",
            "strong",
        ),
    }
    links = {value for name, value in read.attributes if name in ("href", "src")}
    assert links <= {"data:,", "#main", "#runs", "#metrics", "#params", "#models", "#run-0"}
    assert not any(name.startswith("on") for name, _ in read.attributes)
    for text in HOSTILE[:-2]:
        assert text in read.text
    assert "\\u202ednammoc\\u2028\\x00" in read.text
    assert read.text.isprintable() or not re.search("[\x00-\x09\x0b-\x1f\x7f\u2028\u202e]", read.text)
    assert {plot["name"] for plot in data(read)["plots"]} >= {*HOSTILE[:-2]}


def test_what_looks_like_a_secret_is_masked_wherever_it_stands(tmp_path: Path) -> None:
    report = made.run(tmp_path, "a", {}, plan=made.params(api_key="sesame-param", lr=0.1))
    directory = report.run.directory.path
    (directory / "job.sh").write_text("export HF_TOKEN='sesame \u00e4 open'\n")
    (directory / "logs" / "job.out").write_text("logged in by sesame \u00e4 open\n")
    text = written(report).text
    assert "sesame" not in text
    assert "logged in by ********" in text
    assert "api_key********" in re.sub(r"\s", "", text)


def test_a_secret_is_masked_before_it_is_cut(tmp_path: Path) -> None:
    """Also in the table of params that differ, and in what the plots read."""
    runs = [
        made.run(tmp_path, "a", {f"of {key}": [1.0]}, plan=made.params(api_key=key))
        for key in ("sesame" * 50, "another-sesame")
    ]
    read = written(*runs)
    assert "sesame" not in read.text
    assert [plot["name"] for plot in data(read)["plots"]] == ["of ********", "of ********"]


def test_only_scripts_of_the_page_itself_may_run(tmp_path: Path) -> None:
    read = written(made.run(tmp_path, "a", {"loss": [1]}))
    [policy] = [value for name, value in read.attributes if name == "content" and "default-src" in str(value)]
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in read.scripts[1:]
    ]
    assert policy == (
        f"default-src 'none'; script-src {' '.join(hashes)}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def test_links_and_damaged_files_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret of another user\n")
    report = made.run(tmp_path, "a", {})
    path = report.run.directory.path
    for name in ("code.json", "code.diff", "logs/job.out", "outputs"):
        (path / name).symlink_to(tmp_path if name == "outputs" else secret)
    (path / "plan.json").unlink()
    os.mkfifo(path / "plan.json")
    read = written(report)
    assert "secret of another" not in read.text
    assert "Its plan cannot be read" in read.text


def test_damaged_records_are_counted(tmp_path: Path) -> None:
    report = made.run(tmp_path, "a", {"loss": [1]})
    [file] = report.run.directory.path.glob("tracking/*/*/*.jsonl")
    with file.open("a") as stream:
        stream.write("{]\n")
    [view] = report_content([report], NOW).runs
    assert view.warnings.items == ["1 damaged line of what it recorded was skipped"]


def test_too_many_runs_are_an_error(tmp_path: Path, wording: Wording) -> None:
    report = made.run(tmp_path, "a", {})
    with pytest.raises(ConfigError) as caught:
        report_content([report] * 501, NOW)
    wording(str(caught.value))


def large(folder: Path) -> Report:
    """Make a run of which every part is large."""
    long = "&" * 5000
    names = [f"{number}{long}" for number in range(300)]
    identity = {"tags": names, "params": dict.fromkeys(names, long), "description": long}
    report = made.run(folder, "a", {name: [1.0, 2.0] for name in names}, plan={"identity": identity})
    directory = report.run.directory
    artifacts = [{"kind": "model", "path": name, "sha256": long, "bytes": 1} for name in names]
    made.record_lines(directory.path, "1", *({"at": 1, "artifact": artifact} for artifact in artifacts))
    directory.outputs.mkdir()
    for number in range(300):
        (directory.outputs / f"{number}").write_text("")
    for number in range(6):
        text = "y" * 50_000_000 if number == 0 else f"{long}\n" * 1000
        (directory.logs / f"job-{number}.out").write_text(text)
    directory.write("code.json", json.dumps({"changed": names, "untracked": names, "commit": long}))
    directory.write("code.diff", f"{long}\n" * 1000)
    return report


@pytest.mark.extended
def test_what_is_large_is_cut(tmp_path: Path) -> None:
    """Each part of a run has a share of the page, and what is left out is counted."""
    report = large(tmp_path)
    text = report_page.html(report_content([report], NOW), "")
    assert len(text) < 6_000_000
    for more in ("params", "files", "files of output", "tags", "models", "lines"):
        assert re.search(f"[0-9]+ more {more} are not shown", text), more


@pytest.mark.extended
def test_what_is_large_is_cut_more_where_there_is_more_of_it(tmp_path: Path) -> None:
    many = report_page.html(report_content([large(tmp_path)] * 20, NOW), "")
    assert len(many) < 12_000_000
