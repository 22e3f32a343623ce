"""Real jobs on this machine, from submit to the end."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Final

import pytest

from hpcdist.runs import rundir
from hpcdist.runs.rundir import Phase, Record
from tests.wording import Wording

from .conftest import RANKS, Hpcdist

SLEEPING: Final = ("--set", "run.cmd=echo $RANK; exec sleep 60")


def test_submit_prints_the_job_and_the_next_command(real: Hpcdist, folder: Path) -> None:
    result = real("submit", "ranks.yml")
    assert (result.code, result.err) == (0, "")
    job = json.loads((folder / "runs" / "ranks-1" / "record.json").read_text())["job_id"]
    assert result.out == (
        f"ranks-1: job {job} on site local, 3 tasks by processes, 1 node\n"
        f"directory  {folder}/runs/ranks-1\n"
        "next       hpcdist logs ranks-1 -f\n"
    )
    assert real("wait", job).code == 0


def test_files_of_the_run_directory(real: Hpcdist, folder: Path) -> None:
    assert real("submit", "-", "--set", "name=mine", "--wait", stdin=RANKS).code == 0
    run = folder / "runs" / "mine-1"
    assert sorted(path.name for path in run.iterdir()) == [
        *(
            "attempts",
            "checkpoints",
            "code.json",
            "events",
            "experiment.yml",
            "job.sh",
            "job.sum",
            "jobs",
            "logs",
            "options.json",
        ),
        *("outputs", "plan.json", "record.json", "runtime"),
    ]
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    assert (run / "experiment.yml").read_text() == RANKS
    assert json.loads((run / "options.json").read_text()) == ["--set", "name=mine"]
    assert json.loads((run / "plan.json").read_text())["identity"]["name"] == "mine"


def test_follow_prints_the_output_and_ends_as_the_job_does(real: Hpcdist) -> None:
    result = real(
        "submit", "ranks.yml", "--follow", "--set", "run.cmd=echo rank $RANK; exit $((RANK ? 0 : 3))"
    )
    assert result.code == 3
    assert {"0: rank 0"} <= set(result.out.splitlines())
    assert result.err == "note: ranks-1 failed with exit code 3\n"


def test_wait_as_json_is_one_document(real: Hpcdist, folder: Path) -> None:
    result = real("submit", "ranks.yml", "--wait", "--json")
    found = json.loads(result.out)
    assert (result.code, result.err) == (0, f"note: ranks-1 is submitted as job {found['job_id']}\n")
    assert (found["name"], found["state"], found["exit_code"]) == ("ranks-1", "completed", 0)
    assert found["directory"] == str(folder / "runs" / "ranks-1")


def test_submit_as_json(real: Hpcdist) -> None:
    found = json.loads(real("submit", "ranks.yml", "--json").out)
    assert (found["name"], found["phase"], found["scheduler"]) == ("ranks-1", "submitted", "local")
    assert found["cost"] is None  # nothing is charged on this machine
    assert real("wait", "ranks-1").code == 0


FILES = ("experiment.yml", "options.json", "plan.json", "job.sh", "job.sum", "code.json")


def test_a_dry_run_touches_nothing(real: Hpcdist, folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    result = real(
        "submit",
        "ranks.yml",
        "--dry-run",
        "--site",
        "toy",
        "--site-path",
        "sites",
        "--set",
        "batch={site: toy, launcher: srun, walltime: 1h}",
    )
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    run = f"{folder}/runs/ranks-1"
    files = [f"write {run}/{name}" for name in (*FILES, "runtime")]
    assert [line.split("  ")[0] for line in lines[:7]] == files
    assert lines[7].startswith("run sbatch --parsable ")
    assert lines[7].endswith(f" {run}/job.sh")
    assert lines[9:11] == [f"==> {run}/job.sh <==", "#!/bin/bash"]
    assert sorted(folder.rglob("*")) == before


def test_a_dry_run_as_json(real: Hpcdist) -> None:
    found = json.loads(real("submit", "ranks.yml", "--dry-run", "--json").out)
    own = {name for name in found["files"] if not name.startswith("runtime/")}
    assert (own, "runtime/supervise.sh" in found["files"]) == ({*FILES}, True)
    assert found["command"][0] == "bash"


def test_the_life_of_a_job(real: Hpcdist) -> None:
    assert real("submit", "ranks.yml", *SLEEPING).code == 0
    assert real("wait", "ranks-1", "--timeout", "0.5").code == 124
    assert real("status", "ranks-1").out.split()[5:8] == ["ranks-1", *_row(real)]
    assert _row(real)[1] == "running"
    assert real("cancel", "ranks-1").code == 0
    result = real("wait", "ranks-1")
    assert result.code == 143
    assert _row(real)[1] == "cancelled"
    assert real("logs", "ranks-1", "-f").code == 143


def _row(real: Hpcdist) -> list[str]:
    """Return job and state of the last run."""
    return real("status").out.splitlines()[-1].split()[1:3]


def test_status_of_several_and_of_all(real: Hpcdist) -> None:
    for code in ("0", "4"):
        real("submit", "ranks.yml", "--wait", "--set", f"run.cmd=exit {code}")
    found = json.loads(real("status", "--json").out)
    assert [(one["name"], one["state"], one["exit_code"]) for one in found] == [
        ("ranks-1", "completed", 0),
        ("ranks-2", "failed", 4),
    ]
    again = json.loads(real("status", "ranks-2", "ranks-1", "runs/ranks-2", "--json").out)
    assert [one["name"] for one in again] == ["ranks-2", "ranks-1"]
    result = real("wait", "ranks-1", "ranks-2")
    assert result.code == 4
    assert [line.split()[2] for line in result.out.splitlines()] == ["state", "completed", "failed"]
    listed = real("status", "--offline").out.splitlines()
    assert [line.split()[0] for line in listed] == ["run", "ranks-1", "ranks-2"]
    assert [one["phase"] for one in json.loads(real("status", "--offline", "--json").out)] == [
        "submitted",
        "submitted",
    ]


def test_logs_of_all_of_one_rank_and_from_the_end(real: Hpcdist) -> None:
    real("submit", "ranks.yml", "--wait")
    everything = real("logs", "ranks-1").out.splitlines()
    assert {f"{rank}: rank {rank} of 3" for rank in range(3)} <= set(everything)
    assert real("logs", "ranks-1", "--rank", "2").out == "rank 2 of 3\n"
    assert real("logs", "ranks-1", "--rank", "2", "-f").out == "rank 2 of 3\n"
    assert real("logs", "ranks-1", "-n", "2").out.splitlines() == everything[-2:]
    result = real("logs", "ranks-1", "--rank", "1", "-n", "0")
    assert (result.code, result.out, result.err) == (0, "", "")
    result = real("logs", "ranks-1", "--rank", "3")
    assert (result.code, result.out, result.err) == (
        2,
        "",
        "error: ranks-1 has no rank 3; it has ranks 0 to 2\n",
    )
    [file] = json.loads(real("logs", "ranks-1", "--json").out)
    assert file == {"file": "job.out", "lines": everything}


def test_empty_logs_are_explained(real: Hpcdist, folder: Path, wording: Wording) -> None:
    real("submit", "ranks.yml", "--wait", "--set", "run.cmd=((RANK == 1)) || echo hello")
    result = real("logs", "ranks-1", "--rank", "1")
    assert (result.code, result.out) == (0, "")
    wording(result.err)
    logs = folder / "runs" / "ranks-1" / "logs"
    (logs / "job.out").write_text("")
    wording(real("logs", "ranks-1").err)
    (logs / "job.out").unlink()
    result = real("logs", "ranks-1")
    assert (result.code, result.out) == (0, "")
    wording(result.err.replace(str(folder), "FOLDER"))


def test_describe(real: Hpcdist, folder: Path) -> None:
    real("submit", "ranks.yml", "--wait")
    found = json.loads(real("describe", "ranks-1", "--json").out)
    assert found["logs"] == [f"{folder}/runs/ranks-1/logs/job.out"]
    assert [event["event"] for event in found["events"]] == ["submitted", "started", "ended"]
    result = real("describe", "ranks-1").out
    assert "state         completed\n" in result
    assert f"directory     {folder}/runs/ranks-1\n" in result


def test_describe_shows_each_attempt(real: Hpcdist) -> None:
    real("submit", "ranks.yml", "--wait", "--set", "run.cmd=exit 3", "--set", "environment.max_restarts=1")
    [first, last] = json.loads(real("describe", "ranks-1", "--json").out)["attempts"]
    assert (first["attempt"], last["attempt"]) == ("0.0", "0.1")
    assert (first["ended_at"], first["queue_seconds"] < 60) == (last["started_at"], True)
    for each in (first, last):
        assert each["elapsed_seconds"] >= 0
        assert {key: each[key] for key in ("state", "exit_code", "hosts", "gpu_hours", "max_memory")} == {
            "state": "failed", "exit_code": 3, "hosts": ["localhost"], "gpu_hours": 0.0, "max_memory": None
        }  # fmt: skip
    shown = real("describe", "ranks-1").out.split("\n\n")[1].splitlines()
    heads = [
        "attempt",
        "job",
        "state",
        "exit",
        "why",
        "started",
        "ended",
        "queued",
        "elapsed",
        "GPU-hours",
        "memory",
        "hosts",
    ]
    assert [line.split()[:1] for line in shown] == [["attempt"], ["0"], ["1"]]
    assert shown[0].split() == heads
    assert shown[1].split()[3:5] == ["3", "failure"]
    assert shown[1].split()[-3:] == ["0.00", "-", "localhost"]


def test_describe_shows_description_tags_and_params(real: Hpcdist) -> None:
    text = f"description: a first try\ntags: [one, two]\nparams: {{lr: 0.1, model: 'a b'}}\n{RANKS}"
    real("submit", "-", "--wait", "--set", "name=try", stdin=text)
    result = real("describe", "try-1").out
    assert "description   a first try\n" in result
    assert "tags          one, two\n" in result
    assert "params        lr=0.1 model=a b\n" in result
    found = json.loads(real("describe", "try-1", "--json").out)
    assert (found["description"], found["tags"]) == ("a first try", ["one", "two"])
    assert found["params"] == {"lr": 0.1, "model": "a b"}


def test_options_are_kept_as_they_were_given(real: Hpcdist, folder: Path) -> None:
    real("submit", "-", "--set", "run.cmd=echo a\r\u2028b", "--set", "name=odd", "--wait", stdin=RANKS)
    text = (folder / "runs" / "odd-1" / "options.json").read_text()
    assert json.loads(text) == ["--set", "run.cmd=echo a\r\u2028b", "--set", "name=odd"]


def test_runs_in_another_directory(real: Hpcdist, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = real("submit", "ranks.yml", "--wait", "--runs-dir", "else where")
    assert f"next       hpcdist logs '{folder}/else where/ranks-1' -f\n" in result.out
    assert real("logs", f"{folder}/else where/ranks-1").code == 0
    assert real("status").err == f"note: no runs in {folder}/runs\n"
    monkeypatch.setenv("HPCDIST_RUNS_DIR", "else where")
    assert "ranks-1" in real("status").out


def test_a_table_shows_the_first_line_of_the_reason(hpcdist: Hpcdist, folder: Path) -> None:
    directory = rundir.create(folder / "runs", "ranks")
    message = "sbatch: error: no\nsbatch: error: \x1b[31mnever"
    record = Record(
        "ranks", "t", "slurm", "slurm", "d", "2026-01-01T00:00:00+00:00", Phase.REFUSED, message=message
    )
    rundir.save(directory, record)
    row = hpcdist("status").out.splitlines()[1:]
    assert row == ["ranks-1  -    unsubmitted  -     sbatch: error: no"]
    assert "message  " in (told := hpcdist("describe", "ranks-1").out)
    assert "  sbatch: error: no | sbatch: error: \\x1b[31mnever\n" in told
    assert json.loads(hpcdist("describe", "ranks-1", "--json").out)["message"] == message


def test_wait_prints_at_once_why_a_state_is_unknown(hpcdist: Hpcdist, folder: Path, wording: Wording) -> None:
    directory = rundir.create(folder / "runs", "ranks")
    record = Record("ranks", "t", "pbs", "pbs", "d", "2026-01-01T00:00:00+00:00", Phase.SUBMITTING)
    rundir.save(directory, record)
    result = hpcdist("wait", "ranks-1", "--timeout", "0")
    assert (result.code, result.out) == (124, "")
    wording(result.err.replace(str(folder), "FOLDER"))


def test_no_runs_at_all(real: Hpcdist) -> None:
    for words in (("status",), ("status", "--offline")):
        assert (real(*words).code, real(*words).out) == (0, "")
        assert json.loads(real(*words, "--json").out) == []


@pytest.mark.parametrize("command", ["/nonexistent/program", "exit 86", "kill -9 $$"])
def test_a_failed_program_sets_the_exit_code(command: str, real: Hpcdist) -> None:
    code = {"/nonexistent/program": 127, "exit 86": 86, "kill -9 $$": 137}[command]
    result = real("submit", "ranks.yml", "--wait", "--set", f"run.cmd={command}", "--json")
    assert result.code == code
    assert json.loads(result.out)["exit_code"] == code


def test_a_broken_run_is_reported_and_the_others_are_shown(real: Hpcdist, folder: Path) -> None:
    for _ in range(2):
        real("submit", "ranks.yml", "--wait", "--set", "run.cmd=exit 3")
    record = folder / "runs" / "ranks-1" / "record.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"scheduler": "nosuch"}))
    wrong = f"{record}:1:1: invalid record: unknown scheduler 'nosuch'"
    for verb, code in (("status", 2), ("wait", 3), ("cancel", 2)):
        result = real(verb, "ranks-1", "ranks-2")
        assert (result.code, "ranks-2" in result.out + result.err) == (code, True), verb
        assert f"error: {wrong}" in result.err
    for words in (("status",), ("status", "--offline")):
        result = real(*words)
        assert (result.code, "ranks-2" in result.out) == (0, True)
        assert f"warning: {wrong}" in result.err
    assert real("submit", "ranks.yml", "--wait").code == 0


def test_runs_are_refused_where_others_may_write(
    real: Hpcdist, folder: Path, tmp_path: Path, wording: Wording
) -> None:
    runs = folder / "runs"
    runs.mkdir()
    runs.chmod(0o2770)
    for dry in ([], ["--dry-run"]):
        result = real("submit", "ranks.yml", *dry)
        assert (result.code, result.out, [*runs.iterdir()]) == (2, "", [])
        wording(result.err.replace(str(folder), "FOLDER"))
    (tmp_path / "config" / "hpcdist").mkdir(parents=True)
    (tmp_path / "config" / "hpcdist" / "config.yml").write_text(f"trusted_runs: [{runs}]\n")
    assert real("submit", "ranks.yml", "--wait").code == 0


def test_a_runs_directory_that_is_not_utf_8(
    real: Hpcdist, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = folder / "x\udcff"
    odd.mkdir()
    (odd / "\udcfe.yml").write_text(RANKS)
    for dry in ([], ["--dry-run"]):
        result = real("submit", "ranks.yml", "--runs-dir", str(odd / "runs"), *dry)
        assert (result.code, result.out) == (2, "")
        assert "is not valid UTF-8; choose another directory with --runs-dir" in result.err
    monkeypatch.chdir(odd)
    assert real("submit", "\udcfe.yml", "--wait", "--runs-dir", str(folder / "runs")).code == 0
    assert real("status", "--json").code == 0
