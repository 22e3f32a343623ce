"""What the script finds out from Grid Engine's files and variables, by a real bash; mpirun is a stand-in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hpcdist.runs.stored_plan import decode
from hpcdist.script.renderer import render
from tests.experiments import environment, resources
from tests.plans import planned, warnings_of
from tests.script.jobs import write
from tests.sites import site, site_named
from tests.wording import Wording

MPIRUN = """\
#!/bin/bash
echo "$OMPI_MCA_plm_rsh_disable_qrsh $HYDRA_LAUNCHER $I_MPI_HYDRA_BOOTSTRAP"
"""
TWO_HOSTS: Any = {"framework": "mpi", "environment": environment(1, each=resources(cpu=8))}


def machine(**sge: Any) -> Any:
    return site(
        scheduler="sge",
        launcher="mpirun",
        sge={"environments": {"8": "mpi-8"}} | sge,
        node_types={"node": {"cpus": 8}},
        partitions={"all.q": {"nodes": {"node": 9}}},
        default_partition="all.q",
    )


def run(folder: Path, hosts: str, on: Any = None, **sge: Any) -> subprocess.CompletedProcess[str]:
    (folder / "mpirun").write_text(MPIRUN)
    (folder / "mpirun").chmod(0o755)
    (folder / "hosts").write_text(hosts)
    write(folder / "run", planned(on or machine(**sge), **TWO_HOSTS))
    env = {
        "PATH": f"{folder}:{Path(sys.executable).parent}:/usr/bin:/bin",
        "JOB_ID": "7",
        "SGE_TASK_ID": "undefined",
        "HOSTNAME": "h1",
        "PE": "mpi-8",
        "PE_HOSTFILE": str(folder / "hosts"),
    }
    return subprocess.run(
        ["bash", "run/job.sh"], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize(("remote", "told"), [("ssh", "1 ssh ssh"), ("qrsh", "0 sge sge")])
def test_how_tasks_reach_the_other_hosts(remote: str, told: str, tmp_path: Path) -> None:
    done = run(tmp_path, "h1 8 all.q@h1 UNDEFINED\nh2 8 all.q@h2 UNDEFINED\n", remote=remote)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == told
    assert (tmp_path / "run" / "jobs" / "7" / "nodes").read_text() == "h1\nh2\n"


def test_slots_of_several_queues_on_a_host_are_added(tmp_path: Path) -> None:
    hosts = "h2 8 all.q@h2 UNDEFINED\nh1 3 all.q@h1 UNDEFINED\nh1 5 more.q@h1 UNDEFINED\n"
    assert run(tmp_path, hosts).returncode == 0
    assert (tmp_path / "run" / "jobs" / "7" / "nodes").read_text() == "h1\nh2\n"


@pytest.mark.parametrize(
    "hosts", ["h1 8 q UNDEFINED\nh2 4 q UNDEFINED\n", "h1 16 q UNDEFINED\n"], ids=["too few", "too many"]
)
def test_unexpected_slot_allocation_is_refused(hosts: str, tmp_path: Path, wording: Wording) -> None:
    done = run(tmp_path, hosts)
    assert (done.returncode, done.stdout) == (86, "")
    wording(done.stderr)


def test_unknown_pe_allocation_rule_warns() -> None:
    warned = (
        "site x does not say how parallel environment mpi allocates slots: unless its allocation_rule is 8 "
        "(`qconf -sp mpi`), the job may end at once with exit code 86; "
        'write one that has it as `sge: {environments: {"8": NAME}}` in the site file'
    )
    assert warned in warnings_of(planned(machine(environments={"*": "mpi"}), **TWO_HOSTS))
    for names in ({"8": "mpi-8", "*": "mpi"}, {"*": "mpi-{slots}"}):
        assert not any(
            "deals" in text for text in warnings_of(planned(machine(environments=names), **TWO_HOSTS))
        )


def test_single_slot_needs_no_parallel_environment() -> None:
    assert not any("deals" in text for text in warnings_of(planned(site_named("sge"))))


def by_type(**sge: Any) -> Any:
    return site(
        scheduler="sge",
        launcher="mpirun",
        sge=sge,
        directives={"size": ["-l {node_type}={nodes}"]},
        node_types={"node_f": {"cpus": 8, "gpus": 4}},
        partitions={"node_f": {"nodes": {"node_f": 9}, "submit_as": ""}},
    )


def test_account_is_an_option_of_the_submission_where_no_script_can_hold_it() -> None:
    plan = planned(by_type(account="-g"), **TWO_HOSTS, batch={"account": "tga-x"})
    assert plan.request.submit_options == ("-g", "tga-x")
    assert decode(msgspec.json.encode(plan)).submit_options == ("-g", "tga-x")
    assert "#$ -l node_f=2" in render(plan).splitlines()
    assert [line for line in render(plan).splitlines() if "tga-x" in line] == [
        "# Submit it by `qsub -g tga-x FILE`: no directive can hold this option."
    ]
    said = "the account is an option of qsub: submitted by hand, `qsub -g tga-x SCRIPT`"
    assert said in [note.message for note in plan.notes]
    assert planned(by_type(), **TWO_HOSTS, batch={"account": "tga-x"}).request.submit_options == ()


@pytest.mark.parametrize(
    ("hosts", "code", "said"),
    [
        ("h1 3 q UNDEFINED\nh2 1 q UNDEFINED\n", 0, ""),
        ("h1 16 q UNDEFINED\n", 86, "hpcdist: Grid Engine gave the job 1 hosts, the plan has 2\n"),
    ],
)
def test_hosts_of_a_resource_type_are_counted_and_not_their_slots(
    hosts: str, code: int, said: str, tmp_path: Path
) -> None:
    done = run(tmp_path, hosts, by_type())
    assert (done.returncode, done.stderr) == (code, said)
