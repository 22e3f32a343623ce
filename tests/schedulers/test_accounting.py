"""What is read of the starts of jobs, from answers of real batch systems; LSF's are those of its manual."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
import pytest

from hpcdist.base.command import Command, Completed
from hpcdist.schedulers import schedulers
from hpcdist.schedulers.job import Job, JobState, Usage, count, moment, seconds, size

from .flux_transcripts import recorded

PLACE = Path(__file__).parents[1] / "transcripts"


def read(name: str, job_id: str, answer: str) -> list[Usage]:
    """Return what a scheduler reads in the answer to its one command."""
    accounting = schedulers.get(name).accounting
    assert accounting
    job = Job(job_id, "a-1", "/runs/a-1", "token")
    [command] = accounting.commands([job])
    return [*accounting.read(Completed(command, 0, answer), job)]


def local(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def of_slurm(name: str) -> list[Usage]:
    text = (PLACE / "slurm" / f"{name}.22.05.8.txt").read_text()
    return read("slurm", text.partition("|")[0], text)


AT: Final = 1795866736


def test_slurm_shows_each_start_of_a_requeued_job() -> None:
    assert of_slurm("requeued") == [
        Usage(
            None, JobState.PENDING, AT, AT, AT + 2, None, ("n3",), 12724 << 10, (12724 + 1624) << 10, 0.005,
            1, elapsed=2,
        ),
        Usage(
            None, JobState.COMPLETED, AT + 3, AT + 9, AT + 17, 0, ("n3",), 215916 << 10,
            (12696 + 215916 + 212808) << 10, 0.359, 1, elapsed=8,
        ),
    ]  # fmt: skip


def test_slurm_shows_the_gpus_and_what_all_tasks_used() -> None:
    [found] = of_slurm("gpus")
    assert (found.max_memory, found.total_memory) == (110632 << 10, (12552 + 883996) << 10)
    assert (found.cpu_seconds, found.cpus, found.gpus, found.elapsed) == (4.991, 8, 8, 14)


def test_slurm_counts_no_time_for_which_a_job_did_not_run() -> None:
    [suspended] = of_slurm("suspended")
    assert (suspended.started, suspended.ended, suspended.elapsed) == (AT, AT + 9, 4)
    assert of_slurm("cancelled") == [
        Usage(None, JobState.CANCELLED, AT, None, AT + 9, cpus=0, gpus=0, elapsed=0)
    ]
    at_its_end = "5|CANCELLED by 0|0:0|10|19|19||None assigned|00:00:00|||0\n"  # seen at times
    assert read("slurm", "5", at_its_end) == [
        Usage(None, JobState.CANCELLED, 10, None, 19, cpus=0, gpus=0, elapsed=0)
    ]


@pytest.mark.parametrize(
    ("allocated", "gpus"),
    [("gres/gpu=3,gres/gpu:a100=1", 3), ("gres/gpu:a100=2,gres/gpu:1g.10gb=1", 3), ("cpu=2", None)],
)
def test_slurm_counts_gpus_by_their_types_where_that_is_all(allocated: str, gpus: int | None) -> None:
    [found] = read("slurm", "5", f"5|COMPLETED|0:0|10|20|30||n1|00:04.500|{allocated}||10\n")
    assert found.gpus == gpus


def test_slurm_joins_components_and_parts_elements() -> None:
    answer = (
        "24+0|FAILED|5:0|10|20|30||n[1-2]|00:04.500|billing=4,cpu=4,gres/gpu:a100=2,gres/gpu=2,node=2||10\n"
        "24+0.batch|FAILED|5:0|20|20|30|100K|n1|00:04.500|cpu=2|cpu=00:00:04,mem=100K,pages=0|10\n"
        "24+1|COMPLETED|0:0|10|20|40||n5|01:00:01|billing=4,cpu=2,node=1||20\n"
        "24+1.0|COMPLETED|0:0|20|20|40|2M|n5|01:00:01|cpu=2|cpu=01:00:01,mem=4M,pages=0|20\n"
        "24+1.1|COMPLETED|0:0|20|20|40|1M|n5|||mem=1M|20\n24+1.2|COMPLETED|0:0|20|20|40||n5||||20\n"
    )
    hosts, memory = ("n1", "n2", "n5"), (100 << 10) + (5 << 20)
    assert read("slurm", "24", answer) == [
        Usage(None, JobState.FAILED, 10, 20, 40, 5, hosts, 2 << 20, memory, 3605.5, 6, 2, 20, 20, 80)
    ]
    answer = (
        "7_0|CANCELLED by 5|0:0|10|None|15||None assigned|00:00:00|||0\n"
        "7_3|NODE_FAIL|1:0|10|20|Unknown||n1|00:00:00|cpu=1,mem=9M||8\n7_3.extern|CANCELLED|0:0|20|20|30|0|n1||||10\n"
        "7_[4-5%2]|PENDING|0:0|10|Unknown|Unknown||None assigned||||0\n"
    )
    assert read("slurm", "7;alpha", answer) == [
        Usage(0, JobState.CANCELLED, 10, None, 15, cpus=0, gpus=0, elapsed=0),
        Usage(3, JobState.NODE_FAIL, 10, 20, None, None, ("n1",), cpus=1, elapsed=8),
    ]


def test_components_that_end_apart_have_hours_of_their_own() -> None:
    """One was cancelled and the other still runs; then that failed, and they began again, a second apart."""
    gpus = "cpu={},gres/gpu={},node=1"
    running = (
        f"24+0|RUNNING|0:0|10|20|Unknown||n1|00:00:00|{gpus.format(4, 2)}||100\n"
        f"24+1|CANCELLED by 5|0:0|10|20|50||n2|00:00:00|{gpus.format(8, 4)}||30\n"
    )
    assert read("slurm", "24", running) == [
        Usage(
            None, JobState.RUNNING, 10, 20, None, None, ("n1", "n2"), cpus=12, gpus=6, elapsed=100,
            gpu_seconds=2 * 100 + 4 * 30, cpu_seconds_had=4 * 100 + 8 * 30,
        )
    ]  # fmt: skip
    again = (
        f"24+0|COMPLETED|0:0|10|20|90||n1|00:00:00|{gpus.format(4, 2)}||70\n"
        f"24+0|FAILED|3:0|99|120|130||n1|00:00:00|{gpus.format(4, 2)}||10\n"
        f"24+1|FAILED|5:0|11|20|50||n2|00:00:00|{gpus.format(8, 4)}||30\n"
        "24+1|CANCELLED by 5|0:0|100|None|110||None assigned|00:00:00|||0\n"
    )
    assert [
        (each.state, each.exit_code, each.queued, each.ended, each.gpu_seconds)
        for each in read("slurm", "24", again)
    ] == [(JobState.FAILED, 5, 10, 90, 2 * 70 + 4 * 30), (JobState.FAILED, 3, 99, 130, 2 * 10)]


def test_slurm_is_asked_for_times_in_seconds() -> None:
    accounting = schedulers.get("slurm").accounting
    assert accounting
    [command] = accounting.commands([Job("7;alpha", "a-1", "", "token")])
    assert command.argv[:3] == ("sacct", "-M", "alpha")
    assert dict(command.environment) == {"SLURM_TIME_FORMAT": "%s"}
    assert [*accounting.commands([Job("junk", "a-1", "", "token")])] == []


def test_pbs_shows_the_last_start() -> None:
    answer = (PLACE / "pbs" / "over.dsv").read_text()
    began, ended = local("2026-11-22 18:45:50"), local("2026-11-22 18:46:05")
    memory = 1232 << 10
    expected = Usage(None, JobState.TIMEOUT, None, began, ended, None, ("n1",), memory, memory, cpus=1)
    assert read("pbs", "1003.head", answer) == [expected]
    [short] = read("pbs", "1001.head", answer)
    assert (short.exit_code, short.max_memory) == (37, None)  # it writes 0kb where it measured nothing
    used = "resources_used.cput=1:02:03|resources_used.mem=5kb|resources_used.ncpus=64|Resource_List.ngpus=8"
    [large] = read("pbs", "1.head", f"Job Id: 1.head|job_state=F|Exit_status=0|{used}\n")  # of qstat(1B)
    assert (large.max_memory, large.total_memory, large.cpu_seconds) == (5 << 10, 5 << 10, 3723)
    assert (large.cpus, large.gpus) == (64, 8)
    elements = read("pbs", "35[].head", answer)
    assert [each.element for each in elements] == [0, 1, 2, 3, 4, 5]
    assert [each.started is None for each in elements] == [False, False, True, True, True, True]
    assert read("pbs", "1006.head", answer) == [Usage(None, JobState.CANCELLED)]


def test_grid_engine_shows_the_records_of_the_job_alone() -> None:
    answer = (PLACE / "sge" / "qacct.8.1.9.txt").read_text()
    began, ended = local("2026-11-21 08:17:14"), local("2026-11-21 08:17:15")
    assert read("sge", "14", answer) == [
        Usage(None, JobState.FAILED, None, began, ended, 5, (), int(4.809 * 1024) * 1024, cpus=4)
    ]
    assert (read("sge", "13", answer)[0].cpu_seconds, read("sge", "13", answer)[0].cpus) == (0.005, 1)
    assert sorted(each.element or 0 for each in read("sge", "17", answer)) == [1, 2, 3]
    tight = (PLACE / "sge" / "tight.8.1.9.txt").read_text()
    number = next(line.split()[1] for line in tight.splitlines() if line.startswith("jobnumber"))
    [first] = read("sge", number, tight)
    assert (first.cpus, first.cpu_seconds) == (32, None)
    assert tight.count("jobnumber") > 1


def test_lsf_shows_memory_and_cpu_time_alone() -> None:
    rows = [
        ("22003", "0", "DONE", "", "12 Mbytes", "0.3 second(s)", "4"),
        ("9", "0", "DONE", "", "1 Gbytes", "1.0 second(s)", "1"),
    ]
    names = ("JOBID", "JOBINDEX", "STAT", "EXIT_CODE", "MAX_MEM", "CPU_USED", "SLOTS")
    answer = json.dumps({"RECORDS": [dict(zip(names, row, strict=True)) for row in rows]})
    used = Usage(None, JobState.COMPLETED, exit_code=0, max_memory=12 << 20, total_memory=12 << 20)
    assert read("lsf", "22003", answer) == [msgspec.structs.replace(used, cpu_seconds=0.3, cpus=4)]
    for number in ("22007", "22007[3]"):
        row = dict(zip(names, (number, "3", "EXIT", "4", "-", "-", "-"), strict=True))
        answer = json.dumps({"RECORDS": [row]})
        assert read("lsf", "22007", answer) == [Usage(3, JobState.FAILED, exit_code=4)]


def test_flux_shows_times_and_hosts() -> None:
    [answer] = (
        done.stdout for done in recorded("jobs.txt") if done.command.argv[2:] == ("--json", "\u0192BSPSqQCw")
    )
    times = (1795352473.091133, 1795352473.1424487, 1795352483.2313023)
    assert read("flux", "fBSPSqQCw", answer) == [Usage(None, JobState.COMPLETED, *times, 0, ("n4",), cpus=1)]


@pytest.mark.parametrize("name", ["slurm", "pbs", "sge", "lsf", "flux"])
@pytest.mark.parametrize(
    "junk", ["", "\n|||||||\n", "{}", '{"RECORDS": [1]}', "\x00", "Job Id: \n", "1.0|a|b"]
)
def test_junk_is_nothing(name: str, junk: str) -> None:
    accounting = schedulers.get(name).accounting
    assert accounting
    job = Job("1", "a-1", "/runs/a-1", "token")
    assert [*accounting.read(Completed(Command(("x",)), 1, junk), job)] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("14568K", 14568 << 10), ("187336kb", 187336 << 10), ("1.5 Gbytes", 3 << 29), ("12", 12),
        ("0kb", None), ("0", None), ("", None), ("-", None), ("many", None),
    ],
)  # fmt: skip
def test_size(text: str, expected: int | None) -> None:
    assert size(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00:01.500", 1.5), ("01:02:03", 3723), ("1-00:00:01", 86401), ("100:00:00", 360000),
        ("0.3 second(s)", 0.3), ("0.005s", 0.005), ("12", 12), ("00:00:00", None), ("0", None), ("", None),
        ("-", None), ("1:2:3:4", None), ("many", None),
    ],
)  # fmt: skip
def test_seconds(text: str, expected: float | None) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("4", 4), ("", None), ("-", None), ("4" * 30, None), ("²", None)]
)
def test_count(text: str, expected: int | None) -> None:
    assert count(text) == expected


def test_a_time_that_is_none() -> None:
    assert moment("-/-") is None
