"""`hpcdist doctor`: what it prints, its exit code, and its job on this machine."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Final

import click
import pytest

from hpcdist.base.command import Command, Completed
from hpcdist.checks.finding import CheckFinding
from hpcdist.checks.host import CHECK_NODES
from hpcdist.cli import main
from hpcdist.cli.site import doctor
from hpcdist.cli.site.doctor_job import CheckJobOptions, run_check_job, sizes
from hpcdist.runs.services import Services
from hpcdist.schedulers import local
from hpcdist.site.model import Site
from hpcdist.testing import FakeShell
from tests.plans import LOCAL, TESTBED
from tests.sites import shipped_site
from tests.wording import Wording

from .conftest import Hpcdist

ODD: Final = (
    CheckFinding("site", "scheduler", "ok", "Slurm 22.05.8, cluster c"),
    CheckFinding("site", "sacctmgr", "unknown", "it was killed by signal 9"),
    CheckFinding("limits", "memlock", "warning", "64 KiB", "ask the centre for unlimited memlock"),
    CheckFinding("runs", "file system", "warning", "tmpfs", "choose a folder that all nodes share"),
    CheckFinding("gpus", "gpus", "note", "there is no nvidia-smi", CHECK_NODES),
)
TEXT: Final = """\
site    scheduler    ok       Slurm 22.05.8, cluster c
        sacctmgr     unknown  it was killed by signal 9
limits  memlock      warning  64 KiB
runs    file system  warning  tmpfs
gpus    gpus         note     there is no nvidia-smi

warning: memlock: ask the centre for unlimited memlock
warning: file system: choose a folder that all nodes share
note: gpus: `hpcdist doctor --job` checks the nodes
"""


def test_findings_are_a_table_with_remedies_below(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.print_findings(ODD)
    assert capsys.readouterr().out == TEXT


def test_no_problems_found(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.print_findings(ODD[:1])
    assert capsys.readouterr().out == (
        "site  scheduler  ok  Slurm 22.05.8, cluster c\n\nok: no problems found\n"
    )


def test_unknown_checks_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.print_findings(ODD[:2])
    assert capsys.readouterr().out.splitlines()[-1] == "ok: no problems found; not checked: sacctmgr"


def test_the_job_resolves_findings_of_the_login_node() -> None:
    shown = CheckFinding("job", "records", "ok", "2 of 2 tasks wrote into the run directory")
    failed = shown._replace(status="error")
    assert doctor.merged(ODD, [shown]) == [*ODD[:3], ODD[4]._replace(hint=""), shown]
    assert doctor.merged(ODD, [failed]) == [*ODD[:4], ODD[4]._replace(hint=""), failed]


def test_as_json_with_the_exit_code(hpcdist: Hpcdist, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_IB_RETRY_CNT", "10")
    result_of = hpcdist("doctor", "--site", "local", "--json")
    found = json.loads(result_of.out)
    assert {tuple(item) for item in found} == {("group", "name", "status", "detail", "hint", "numbers")}
    assert result_of.code == 3
    assert {
        "group": "variables",
        "name": "NCCL_IB_RETRY_CNT",
        "status": "warning",
        "detail": "NCCL_IB_RETRY_CNT=10: NCCL documents 0 to 7 and does not check it",
        "hint": "write a number that is 0 to 7 (https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/"
        "env.html#nccl-ib-retry-cnt)",
        "numbers": {},
    } in found


def test_no_such_site(hpcdist: Hpcdist, wording: Wording) -> None:
    result_of = hpcdist("doctor", "--site", "perlmuter")
    assert (result_of.code, result_of.out) == (2, "")
    wording(result_of.err)


@pytest.mark.parametrize("words", [("--job", "--nodes"), ("--env", "--nodes"), ("--job", "--env")])
def test_only_one_kind_of_check_at_a_time(hpcdist: Hpcdist, words: tuple[str, str]) -> None:
    result = hpcdist("doctor", *words)
    assert (result.code, result.out) == (2, "")
    assert f"Error: {words[0]} cannot be combined with {words[1]}.\n" in result.err


def test_job_options_need_job(hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist("doctor", "--site", "local", "--account=x", "--set", "batch.x=1", "--gpus", "2")
    assert (result.code, result.out) == (2, "")
    wording(result.err)


@pytest.mark.extended
def test_a_job_on_this_machine(
    real: Hpcdist, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A Python without packages: sums by torch and MPI, where they are installed, are the real tests'.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -E -S "$@"\n')
    (tmp_path / "bin" / "python").chmod(0o755)
    (tmp_path / "bin" / "osu_allreduce").write_text("#!/bin/sh\necho 67108864 50331.648\n")
    (tmp_path / "bin" / "osu_allreduce").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    options = ("--job", "3", "--site", "local", "--set", "batch.launcher=processes", "--json")
    result_of = real("doctor", *options)
    found = {f"{item['group']}: {item['name']}": item for item in json.loads(result_of.out)}
    shown = {
        name: found[name]["status"]
        for name in (
            "job: job",
            "job: records",
            "network: connectivity",
            "network: names",
            "network: all-reduce by sockets",
        )
    }
    assert shown == dict.fromkeys(shown, "ok")
    assert found["job: records"]["detail"] == "3 of 3 tasks wrote into the run directory"
    benchmark = "osu_allreduce of the OSU benchmarks: on the bus 1.78 GB/s over all tasks"
    assert found["bandwidth: mpi: all-reduce"]["detail"] == benchmark
    assert found["network: clock"]["detail"] == "all tasks are on localhost, with one clock"
    assert result_of.code == (
        3 if any(item["status"] in ("warning", "error") for item in found.values()) else 0
    )
    run = folder / "runs" / "doctor-1"
    assert {path.name for path in run.iterdir()} >= {
        "host_info.py",
        "connectivity.py",
        "allreduce.py",
        "secret",
        "record.json",
    }
    assert (run / "secret").stat().st_mode & 0o777 == 0o600


def test_a_job_that_does_not_fit_is_a_finding(hpcdist: Hpcdist) -> None:
    result_of = hpcdist("doctor", "--job", "--site", "toy", "--site-path", "sites", "--gpus", "9", "--json")
    assert result_of.code == 3
    assert json.loads(result_of.out)[-1] == {
        "group": "job",
        "name": "job",
        "status": "error",
        "detail": (
            "--set environment.replicas.default_worker.resources={gpu: {requests: 9}, cpu: {requests: 9}}: "
            "environment.replicas.default_worker.resources: partition gpu (big nodes) has 8 CPUs a node, 9 "
            "requested by worker 0"
        ),
        "hint": "the most is 8 CPUs a node, on gpu",
        "numbers": {},
    }


SCRIPTS: Final = {local._SUBMIT: "17\n", local._QUERY: "17 alive S\n", local._CANCEL: ""}


class Clock:
    """A clock that goes on while somebody sleeps."""

    now = 1795003200.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def answer(command: Command) -> Completed:
    return Completed(command, 0, SCRIPTS[command.argv[2]])


def test_a_job_that_takes_too_long_is_cancelled(tmp_path: Path) -> None:
    clock, shell = Clock(), FakeShell([(("bash", "-c"), answer)])
    services = Services(shell, lambda: clock.now, clock.sleep)
    wanted = CheckJobOptions("local", (), 2, None, None, (), timeout=60)
    with click.Context(main).scope():
        found = [*run_check_job(LOCAL, wanted, tmp_path, services)]
    assert found == [
        CheckFinding(
            "job",
            "job",
            "warning",
            "doctor-1 is running at the timeout, so it was cancelled",
            "increase --timeout, or choose a partition or QOS in which jobs start sooner",
        )
    ]
    assert shell.commands[-1].argv[2] == local._CANCEL
    assert 60 <= clock.now - Clock.now < 70


@pytest.mark.parametrize(
    ("site", "gpus", "partition", "resources"),
    [
        (LOCAL, None, None, "{}"),
        (LOCAL, 1, None, "{gpu: {requests: 1}}"),
        (TESTBED, None, None, "{gpu: {requests: 4}}"),
        (TESTBED, None, "v100", "{gpu: {requests: 2}}"),
        (TESTBED, 1, None, "{gpu: {requests: 1}, cpu: {requests: 9}}"),
        (TESTBED, 2, None, "{gpu: {requests: 2}, cpu: {requests: 10}}"),
        (TESTBED, 0, None, "{cpu: {requests: 9}}"),
        (TESTBED, None, "cpu", "{cpu: {requests: 17}}"),
        (shipped_site("slurm"), None, None, "{}"),
    ],
)
def test_each_task_has_a_node_of_its_own(
    site: Site, gpus: int | None, partition: str | None, resources: str
) -> None:
    wanted = CheckJobOptions(None, (), 3, gpus, partition, (), 60)
    assert [*sizes(site, wanted)] == [
        ("environment.replicas.n_workers", "2"),
        ("environment.resources", resources),
        ("environment.replicas.default_worker.resources", resources),
    ]


def test_ctrl_c_cancels_the_job(tmp_path: Path) -> None:
    def break_off(seconds: float) -> None:
        raise KeyboardInterrupt(seconds)

    shell = FakeShell([(("bash", "-c"), answer)])
    wanted = CheckJobOptions("local", (), 2, None, None, (), timeout=60)
    with click.Context(main).scope(), pytest.raises(KeyboardInterrupt):
        [*run_check_job(LOCAL, wanted, tmp_path, Services(shell, sleep=break_off))]
    assert shell.commands[-1].argv[2] == local._CANCEL


def test_an_unwritable_runs_directory_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    wanted = CheckJobOptions("local", (), 2, None, None, (), timeout=60)
    with click.Context(main).scope():
        found = [*run_check_job(LOCAL, wanted, tmp_path / "runs", Services(FakeShell()))]
    assert found == [
        CheckFinding(
            "job",
            "job",
            "error",
            f"the run cannot be written: {tmp_path}/runs: Not a directory",
            "choose another directory with --runs-dir",
        )
    ]
