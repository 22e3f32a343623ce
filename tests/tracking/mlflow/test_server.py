"""Runs are exported to a real server of MLflow, and read back whole through its REST API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hpcdist.base.errors import warning
from hpcdist.runs.job_states import Report
from hpcdist.runs.rundir import Run
from hpcdist.schedulers.job import JobState, Status
from hpcdist.tracking import export, mlflow
from hpcdist.tracking.mlflow import Sent
from hpcdist.tracking.mlflow import Server as Destination
from tests.tracking.made import AT, COMPLETED, kept, logged, made
from tests.tracking.mlflow.servers import Server
from tests.tracking.test_polyaxon import client_models

pytestmark = [pytest.mark.real, pytest.mark.extended]


def send(server: Server, run: Run, status: Status = COMPLETED) -> tuple[list[Sent], list[str]]:
    """Export a run with a client of its own; return what was new, and the warnings."""
    found, _ = export.read(Report(run, status), AT + 100.0)
    results = [*Destination(server.uri).send(found)]
    assert [item for item, _, _ in results] == found
    return [sent for _, sent, _ in results], [
        problem.message for _, _, problems in results for problem in problems
    ]


def counts(sent: Sent) -> tuple[int, int, int, int]:
    return sent[1:]


def pairs(listed: list[dict[str, str]]) -> dict[str, str]:
    return {each["key"]: each["value"] for each in listed}


def shown(server: Server, run: dict[str, Any]) -> dict[str, Any]:
    """Return all that the server has of a run."""
    info, data = run["info"], run["data"]
    return {
        "name": info["run_name"],
        "status": info["status"],
        "user": info["user_id"],
        "times": (int(info["start_time"]), int(info.get("end_time", 0))),
        "params": pairs(data.get("params", [])),
        "metrics": {
            each["key"]: server.history(info["run_id"], each["key"]) for each in data.get("metrics", [])
        },
        "files": server.files(run),
    }


def test_a_run_is_there_whole_and_exported_again_nothing_is_doubled(
    server: Server, experiment: str, tmp_path: Path
) -> None:
    name = f"{experiment}-1"
    identity = {"params": {"lr": 0.1, "layers": [1, 2]}, "tags": ["base"], "description": "why"}
    run = made(tmp_path, f"started 7 {AT + 5} 0", f"ended 7 {AT + 9} 0", name=name, identity=identity)
    code = {"commit": "c" * 40, "branch": "main", "remote": None}
    (run.directory.path / "code.json").write_text(json.dumps(code))
    (run.directory.path / "job.sh").write_text("export API_KEY=sesame-open\n")
    logged(
        run,
        "7/0.0/rank-0",
        {"params": {"batch": 4}},
        {"step": 1, "metrics": {"loss": 0.5, "acc@1": 0.1}},
        {"step": 2, "metrics": {"loss": "nan"}},
        {"step": 3, "metrics": {"loss": "-inf"}},
        kept(run, "m.pt", "weights", "model", acc=0.7),
        kept(run, "sub/notes.txt", "notes"),
    )
    logged(run, "7/0.0/rank-1", {"step": 1, "metrics": {"loss": 0.75}})
    [sent], warnings = send(server, run)
    assert counts(sent) == (5, 3, 5, 1)
    assert [text.partition(":")[0] for text in warnings] == ["MLflow does not take these names of metrics"]
    for _ in range(2):
        [there] = server.runs(experiment)
        assert there["info"]["run_id"] == sent.run_id
        whole = shown(server, there)
        [odd] = [key for key in whole["metrics"] if key.startswith("acc_1-")]
        files = whole.pop("files")
        assert whole == {
            "name": name,
            "status": "FINISHED",
            "user": run.directory.path.owner(),
            "times": ((AT + 5) * 1000, (AT + 9) * 1000),
            "params": {"lr": "0.1", "layers": "[1, 2]", "batch": "4"},
            "metrics": {
                "loss": [
                    (1, (AT + 2) * 1000, 0.5),
                    (2, (AT + 3) * 1000, "NaN"),
                    (3, (AT + 4) * 1000, -1.7976931348623157e308),
                ],
                odd: [(1, (AT + 2) * 1000, 0.1)],
                "rank-1/loss": [(1, (AT + 1) * 1000, 0.75)],
            },
        }
        assert {*files} == {
            *("m.pt", "sub/notes.txt", "hpcdist/sent.json"),
            *("hpcdist/code.json", "hpcdist/job.sh", "hpcdist/plan.json"),
        }
        assert (files["m.pt"], files["hpcdist/job.sh"]) == (b"weights", b"export API_KEY=********\n")
        tags = pairs(there["data"]["tags"])
        own = {
            *{"base": "true", "hpcdist.job": "7", "hpcdist.state": "completed"}.items(),
            *{"mlflow.source.git.commit": "c" * 40, "mlflow.note.content": "why"}.items(),
        }
        assert own <= {*tags.items()}
        [again], repeated = send(server, run)
        assert (again.run_id, counts(again), repeated) == (sent.run_id, (0, 0, 0, 0), warnings)
    [version] = server.get("mlflow/model-versions/search", filter=f"run_id = '{sent.run_id}'")[
        "model_versions"
    ]
    assert (version["name"], version["version"], pairs(version["tags"])["acc"]) == (
        f"{experiment}-m.pt",
        "1",
        "0.7",
    )
    assert version["source"].endswith("/m.pt")


def test_only_new_points_go_and_what_a_restart_repeats_goes_too(
    server: Server, experiment: str, tmp_path: Path
) -> None:
    run = made(tmp_path, f"started 7 {AT} 0", name=f"{experiment}-1")
    entries = [{"step": step, "metrics": {"m": step}} for step in range(2500)]
    logged(run, "7/0.0/rank-0", *entries[:1200])
    [sent], _ = send(server, run, Status(JobState.RUNNING))
    assert (sent.points, server.runs(experiment)[0]["info"]["status"]) == (1200, "RUNNING")
    logged(run, "7/0.0/rank-0", *entries)
    [more], _ = send(server, run, Status(JobState.RUNNING))
    assert more.points == 1300
    (run.directory.path / "events").write_text(
        f"started 7 {AT} 0\nstarted 7 {AT + 9} 1\nended 7 {AT + 20} 0\n"
    )
    logged(run, "7/1.0/rank-0", {"step": 2499, "at": AT + 9000, "metrics": {"m": -1}})
    [last], _ = send(server, run)
    assert (last.points, last.run_id) == (1, sent.run_id)
    [there] = server.runs(experiment)
    points = server.history(sent.run_id, "m")
    assert sorted(points) == sorted(
        [*((step, (AT + step + 1) * 1000, step) for step in range(2500)), (2499, (AT + 9000) * 1000, -1)]
    )
    assert (there["info"]["status"], there["info"]["end_time"]) == ("FINISHED", (AT + 20) * 1000)


def test_elements_of_an_array_are_nested_runs(server: Server, experiment: str, tmp_path: Path) -> None:
    events = (f"started 7_{n} {AT + n} 0" for n in (0, 1))
    array: dict[str, Any] = {"request": {"array": "0-1"}}
    run = made(tmp_path, *events, f"ended 7_0 {AT + 9} 0", name=f"{experiment}-1", **array)
    for n in (0, 1):
        model = kept(run, f"{n}/m.pt", f"weights {n}", "model")
        logged(run, f"7_{n}/0.0/rank-0", {"step": 1, "metrics": {"m": n}}, model)
    for _ in range(2):
        send(server, run, Status(JobState.FAILED))
        parent, *elements = server.runs(experiment)
        assert [each["info"]["run_name"] for each in elements] == [f"{experiment}-1/0", f"{experiment}-1/1"]
        assert {pairs(each["data"]["tags"])["mlflow.parentRunId"] for each in elements} == {
            parent["info"]["run_id"]
        }
        assert [each["info"]["status"] for each in (parent, *elements)] == ["FAILED", "FINISHED", "RUNNING"]
        assert [server.files(each)["m.pt"] for each in elements] == [b"weights 0", b"weights 1"]
        versions = server.get("mlflow/model-versions/search", filter=f"name = '{experiment}-0.m.pt'")
        assert len(versions["model_versions"]) == 1


def test_a_param_that_changed_is_said_and_a_long_one_is_cut(
    server: Server, experiment: str, tmp_path: Path
) -> None:
    run = made(tmp_path, name=f"{experiment}-1")
    params = {f"p{n}": "x" * 7000 for n in range(50)}
    logged(run, "7/0.0/rank-0", {"params": {"lr": 0.1, **params}})
    [sent], warnings = send(server, run)
    assert (sent.params, [*map(len, warnings)]) == (51, [len(warnings[0])])
    logged(run, "7/0.0/rank-0", {"params": {"lr": 0.2, **params}})
    [again], changed = send(server, run)
    assert (again.params, changed[0]) == (
        0,
        "MLflow keeps the first value of a param; these have another one now: lr",
    )
    [there] = server.runs(experiment)
    found = pairs(there["data"]["params"])
    assert (found["lr"], {len(found[name]) for name in params}) == ("0.1", {6000})


def test_an_artifact_that_is_gone_is_a_warning_each_time_until_it_is_there(
    server: Server, experiment: str, tmp_path: Path
) -> None:
    run = made(tmp_path, name=f"{experiment}-1")
    logged(run, "7/0.0/rank-0", kept(run, "m.pt", "weights", "model"))
    (run.directory.outputs / "m.pt").rename(tmp_path / "m.pt")
    for _ in range(2):
        [sent], warnings = send(server, run)
        assert warnings == [f"{experiment}-1: outputs/m.pt is no longer there"]
        assert sent.models == 0
    (tmp_path / "m.pt").rename(run.directory.outputs / "m.pt")
    [sent], warnings = send(server, run)
    assert (counts(sent), warnings) == ((0, 0, 1, 1), [])


def test_odd_names_of_files(server: Server, experiment: str, tmp_path: Path) -> None:
    """Of the URL of a# only an a is left."""
    run = made(tmp_path, name=f"{experiment}-1")
    names = ["a#b", "a", "a?b", "a%20b", "a b", ".hidden/x", "x\ny", "d%2f..%2fx", "e&f=1"]
    logged(run, "7/0.0/rank-0", *(kept(run, name, f"of {name}", "model") for name in names))
    [sent], [warning] = send(server, run)
    assert counts(sent)[2:] == (len(names) + 1, len(names))
    assert warning.startswith("MLflow does not take these names of files: 'a#b' is 'a_b-")
    [there] = server.runs(experiment)
    files = server.files(there)
    assert {name: files[mlflow.file_path(name)].decode() for name in names} == {
        name: f"of {name}" for name in names
    }
    assert counts(send(server, run)[0][0]) == (0, 0, 0, 0)


def test_warnings_are_problems(server: Server, experiment: str, tmp_path: Path) -> None:
    run = made(tmp_path, name=f"{experiment}-1")
    logged(run, "7/0.0/rank-0", {"step": 0.5, "metrics": {"m": 1}})
    found, _ = export.read(Report(run, COMPLETED), AT)
    [(_, _, problems)] = Destination(server.uri, "another one").send(found)
    text = "MLflow takes whole steps; those of these metrics were rounded down: m"
    assert problems == [warning(text)]
    assert [each["info"]["run_name"] for each in server.runs("another one")] == [f"{experiment}-1"]


@pytest.mark.parametrize("job", ["7", "7_3"])
def test_models_without_a_recorded_hash_are_there_once(
    server: Server, experiment: str, tmp_path: Path, job: str
) -> None:
    """Polyaxon's own client leaves none, and has its files beside the outputs."""
    name = f"{experiment.replace('[', '-').rstrip(']')}-1"
    run = made(tmp_path, f"started {job} {AT} 0", f"ended {job} {AT + 1} 0", name=name)
    run.directory.outputs.mkdir(parents=True)
    client = client_models(run.directory.path, f"{job}/0.0/polyaxon-0")
    sent, _ = send(server, run)
    assert sum(each.models for each in sent) == 3
    there = {file for each in server.runs(name.removesuffix("-1")) for file in server.files(each)}
    place = client.relative_to(run.directory.path)
    assert {f"{place}/outputs/m.pt", f"{place}/outputs/dir/w"} <= there
    again, _ = send(server, run)
    assert [counts(each) for each in again] == [(0, 0, 0, 0)] * len(sent)
