"""Findings on a login node: a healthy one, and one with every problem."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from hpcdist.base.command import Command, Completed
from hpcdist.base.shell import Shell
from hpcdist.checks.finding import CheckFinding, HostRecord, Port
from hpcdist.checks.host import inspect_folder, limit_findings, network_findings
from hpcdist.checks.login import (
    ChosenSite,
    HostProbe,
    TimeoutGuard,
    login_findings,
    site_commands,
    site_findings,
)
from hpcdist.schedulers.base import LibraryStatus
from hpcdist.schedulers.slurm.survey import MPI
from hpcdist.schedulers.surveyors import SurveyAnswers
from hpcdist.site.fabric import Fabric, Network, Setting
from hpcdist.site.model import LauncherOptions, Site
from hpcdist.site.settings import Runtime
from hpcdist.site.survey import FailedCommand, NodeKind, Survey
from hpcdist.testing import TIMED_OUT, Answer, FakeShell, failed
from tests.checks.hosts import GOOD, host
from tests.plans import LOCAL, TESTBED, changed
from tests.plug_in import plugged_in

RUNS: Final = Path("/home/hu1/runs")
MPI_LIST: Final = (
    "MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\nspecific pmix plugin versions available: pmix_v4\n"
)
SEEN: Final = Survey("slurm", "Slurm 22.05.8, cluster c", kinds=(NodeKind("a100", ("n1",)),))
ANSWERS: Final[Mapping[str, Answer]] = {
    "srun --version": "slurm-wlm 22.05.8\n",
    "srun --mpi=list": MPI_LIST,
    "mpirun --version": "mpirun (Open MPI) 4.1.4\n\nReport bugs\n",
    "nvidia-smi --list-gpus": "GPU 0: A100 (UUID: GPU-1)\nGPU 1: A100 (UUID: GPU-2)\n",
    "bash -c": f"writable\n{RUNS}\nlustre\n",
    "timedatectl": "yes\n",
}


def host_probe(
    answers: Mapping[str, Answer], own: HostRecord = GOOD, missing: tuple[str, ...] = ()
) -> HostProbe:
    """Return a probe of a host on which all programs of these answers, and python, are installed."""
    python = json.dumps({"host": msgspec.to_builtins(own)})
    rules = [*answers.items(), *ANSWERS.items(), ("python -c", python)]
    there = {words.split()[0] for words, _ in rules} - {*missing}
    shell = FakeShell([(tuple(words.split()), answer) for words, answer in rules])
    library = LibraryStatus("pyslurm", "pyslurm 22.5.3 reads Slurm 22.05.8")
    which = lambda name: f"/usr/bin/{name}" if name in there else None  # noqa: E731
    return HostProbe(shell, which, lambda scheduler, _: library if scheduler.name == "slurm" else None)


def found(place: HostProbe, site: Site = TESTBED, survey: Survey | None = SEEN) -> list[CheckFinding]:
    chosen = ChosenSite(site, "--site", f"/etc/{site.name}.yaml")
    return [*login_findings(chosen, survey, RUNS, place)]


def group(
    name: str, place: HostProbe, site: Site = TESTBED, survey: Survey | None = SEEN
) -> list[CheckFinding]:
    return [item for item in found(place, site, survey) if item.group == name]


def test_healthy_login_node() -> None:
    assert found(host_probe({})) == [
        CheckFinding("site", "site", "ok", "testbed (--site), /etc/testbed.yaml"),
        CheckFinding("site", "scheduler", "ok", "Slurm 22.05.8, cluster c"),
        CheckFinding("site", "pyslurm", "ok", "pyslurm 22.5.3 reads Slurm 22.05.8"),
        CheckFinding("launchers", "srun", "ok", "/usr/bin/srun: slurm-wlm 22.05.8"),
        CheckFinding("launchers", "mpirun", "ok", "/usr/bin/mpirun: mpirun (Open MPI) 4.1.4"),
        CheckFinding("launchers", "srun --mpi", "ok", "pmix, of none, pmi2, pmix, pmix_v4"),
        CheckFinding("python", "python", "ok", "3.11.2, /usr/bin/python"),
        CheckFinding("python", "torch", "ok", "2.3.0"),
        CheckFinding("python", "horovod", "ok", "0.28.1, built with pytorch 2.3.0, mpi, gloo, nccl"),
        CheckFinding("python", "mpi4py", "ok", "4.0.0"),
        CheckFinding("limits", "shared memory", "ok", "64 GiB, 60 GiB free"),
        CheckFinding("limits", "memlock", "ok", "unlimited"),
        CheckFinding("limits", "nofile", "ok", "65536"),
        CheckFinding("limits", "stack", "ok", "8 MiB"),
        CheckFinding("limits", "nproc", "ok", "100000"),
        CheckFinding("fabric", "fabric.interface", "ok", "eth0"),
        CheckFinding("gpus", "gpus", "ok", "2 on this host, according to nvidia-smi"),
        CheckFinding("runs", "folder", "ok", "/home/hu1/runs"),
        CheckFinding("runs", "file system", "ok", "lustre"),
        CheckFinding("clock", "clock", "ok", "it is synchronized by NTP"),
    ]


BAD: Final[Mapping[str, Answer]] = {
    "srun --version": TIMED_OUT,
    "srun --mpi=list": MPI_LIST,
    "nvidia-smi": failed(9, "NVIDIA-SMI has failed because it could not talk to the driver.\nMake sure.\n"),
    "bash -c": "closed\n/home\ntmpfs\n",
    "timedatectl": "no\n",
    "python -c": failed(1, '  File "<stdin>", line 7\nSyntaxError: future feature annotations\n'),
}
BAD_HOST: Final = host(
    packages={"torch": "2.4.0", "horovod": "0.28.1", "mxnet": ""},
    built={"pytorch": "2.3.0", "gloo": ""},
    shm=(64 << 20, 63 << 20),
    limits={
        "nofile": (1024, 1024),
        "memlock": (65536, 65536),
        "stack": (8192, 8192),
        "nproc": (100, 5000),
    },
    interfaces={"eth0": "up", "ib0": "down", "lo": "unknown"},
    ports=(Port("mlx5_0:1", "INIT", "10 Gb/sec (4X SDR)", "InfiniBand"),),
)


def test_login_node_with_every_problem() -> None:
    site = changed(
        TESTBED,
        launchers={"srun": LauncherOptions(mpi="cray_shasta")},
        fabric=Fabric(
            network="infiniband",
            interface="ib0",
            env={"NCCL_SOCKET_IFNAME": Setting(value="ib", when="multi_node"), "NCCL_IB_HCA": "=mlx5_7"},
        ),
        container=Runtime(runtime="apptainer"),
    )
    survey = SEEN._replace(failures=(FailedCommand("sacctmgr show assoc", "sacctmgr: error: denied"),))
    python = json.dumps({"host": msgspec.to_builtins(BAD_HOST)})
    place = host_probe({**BAD, "python3 -c": python}, missing=("mpirun",))
    place = place._replace(
        library=lambda _, __: LibraryStatus("pyslurm", "it does not fit", "install another")
    )
    assert found(place, site, survey) == [
        CheckFinding("site", "site", "ok", "testbed (--site), /etc/testbed.yaml"),
        CheckFinding("site", "scheduler", "ok", "Slurm 22.05.8, cluster c"),
        CheckFinding(
            "site",
            "sacctmgr show assoc",
            "unknown",
            "sacctmgr: error: denied",
            "run `sacctmgr show assoc` yourself; if it fails too, ask the centre",
        ),
        CheckFinding(
            "site",
            "pyslurm",
            "note",
            "it does not fit",
            "install another",
        ),
        CheckFinding(
            "launchers",
            "srun",
            "unknown",
            "/usr/bin/srun; srun failed: it did not end within 20 s",
            "run `srun --version` yourself; if it fails too, ask the centre",
        ),
        CheckFinding(
            "launchers",
            "srun --mpi",
            "error",
            "the site sets cray_shasta, but srun has none, pmi2, pmix, pmix_v4",
            "write one of those as `launchers: {srun: {mpi: pmix}}` in the site file",
        ),
        CheckFinding(
            "containers",
            "apptainer",
            "note",
            "there is no apptainer on PATH here; the nodes may have it",
            "check for its module, or ask the centre",
        ),
        CheckFinding(
            "python",
            "python",
            "error",
            "python cannot be run: SyntaxError: future feature annotations",
            "reinstall it, or load another one",
        ),
        CheckFinding("python", "python", "ok", "3.11.2, /usr/bin/python"),
        CheckFinding("python", "torch", "ok", "2.4.0"),
        CheckFinding(
            "python",
            "horovod",
            "warning",
            "0.28.1, built with pytorch 2.3.0, gloo; installed is pytorch 2.4.0",
            ("build Horovod again: `pip install --no-cache-dir --force-reinstall --no-deps horovod`"),
        ),
        CheckFinding("python", "mxnet", "ok", "it is installed, without version metadata"),
        CheckFinding(
            "limits",
            "shared memory",
            "warning",
            "64 MiB, 63 MiB free",
            (
                "NCCL and PyTorch's DataLoader pass data through it and end with a bus error where it "
                "is full: remove old files there, or start the container with a larger one "
                "(`--shm-size`)"
            ),
        ),
        CheckFinding(
            "limits",
            "memlock",
            "warning",
            "64 KiB: infiniband needs pinned memory, which NCCL and MPI then fail to register",
            (
                "ask the centre for unlimited memlock in batch jobs: in /etc/security/limits.conf, "
                "and by `LimitMEMLOCK=` in the unit of the batch system's daemon"
            ),
        ),
        CheckFinding(
            "limits",
            "nofile",
            "warning",
            "1024, less than 4096: each connection of NCCL, gloo and Open MPI is an open file",
            (
                "ask the centre for a larger nofile in batch jobs: in /etc/security/limits.conf, and by "
                "`LimitNOFILE=` in the unit of the batch system's daemon"
            ),
        ),
        CheckFinding(
            "limits",
            "stack",
            "warning",
            "8 KiB, less than 1 MiB: threads get no larger stack",
            (
                "ask the centre for a larger stack in batch jobs: in /etc/security/limits.conf, and by "
                "`LimitSTACK=` in the unit of the batch system's daemon"
            ),
        ),
        CheckFinding(
            "limits",
            "nproc",
            "warning",
            "100, less than 4096: each thread counts as a process",
            (
                "ask the centre for a larger nproc in batch jobs: in /etc/security/limits.conf, and by "
                "`LimitNPROC=` in the unit of the batch system's daemon"
            ),
        ),
        CheckFinding(
            "fabric",
            "fabric.interface",
            "note",
            "ib0 is down; there is eth0, ib0, lo; the nodes may have it",
            "`hpcdist doctor --job` checks the nodes",
        ),
        CheckFinding(
            "fabric",
            "fabric.env.NCCL_SOCKET_IFNAME",
            "note",
            "ib is down; there is eth0, ib0, lo; the nodes may have it",
            "`hpcdist doctor --job` checks the nodes",
        ),
        CheckFinding(
            "fabric",
            "fabric.env.NCCL_IB_HCA",
            "note",
            "mlx5_7 is not there; there is mlx5_0:1; the nodes may have it",
            "`hpcdist doctor --job` checks the nodes",
        ),
        CheckFinding("fabric", "ports", "note", "mlx5_0:1 INIT", "`hpcdist doctor --job` checks the nodes"),
        CheckFinding(
            "gpus",
            "gpus",
            "note",
            ("nvidia-smi failed: NVIDIA-SMI has failed because it could not talk to the driver."),
            "`hpcdist doctor --job` checks the nodes",
        ),
        CheckFinding(
            "runs",
            "folder",
            "error",
            "/home is not writable",
            "choose another directory with --runs-dir, or by $HPCDIST_RUNS_DIR",
        ),
        CheckFinding(
            "runs",
            "file system",
            "warning",
            "tmpfs, which is usually local to one host; nodes must reach /home/hu1/runs too",
            ("choose a folder on a file system that all nodes share; `hpcdist doctor --job` tests this one"),
        ),
        CheckFinding(
            "clock",
            "clock",
            "warning",
            "it is not synchronized by NTP",
            "report it to the centre: tickets of munge and Kerberos are refused where clocks differ",
        ),
    ]


def test_host_on_which_every_command_times_out() -> None:
    shell = FakeShell([((), TIMED_OUT)])
    place = HostProbe(
        shell, lambda name: f"/usr/bin/{name}", lambda _, __: LibraryStatus("pyslurm", "it is not there")
    )
    silent = Survey(
        "slurm", "Slurm", failures=(FailedCommand("scontrol show config", "it did not end within 60 s"),)
    )
    odd = [item for item in found(place, survey=silent) if item.status not in ("ok", "note")]
    assert {item.name: item.status for item in odd} == {
        "scheduler": "error",
        "srun": "unknown",
        "mpirun": "unknown",
        "horovodrun": "unknown",
        "mpiexec": "unknown",
        "srun --mpi": "unknown",
        "python": "error",
        "python3": "error",
        sys.executable: "error",
        "folder": "error",
        "clock": "unknown",
    }
    assert odd[0].detail == "slurm does not answer: it did not end within 60 s"
    assert [item for item in odd if not item.hint] == []
    assert {command.timeout for command in shell.commands} <= {10, 20, 60}


def test_program_that_timed_out_is_not_run_again() -> None:
    shell = FakeShell([(("scontrol",), TIMED_OUT), (("srun",), "slurm-wlm 22.05.8\n")])
    runner = TimeoutGuard(shell)
    asked = [Command(words) for words in (("scontrol", "ping"), ("srun",), ("scontrol", "show"), ("srun",))]
    assert [runner.run(command).timed_out for command in asked] == [True, False, True, False]
    assert shell.commands == [asked[0], asked[1], asked[3]]


PLAUNCH = """\
from hpcdist.layers.launchers.mpi import Mpirun

class Plaunch(Mpirun):
    name = program = "plaunch"
    version_words = ("-V",)
    mpi_flavours = ("mpich",)

PLAUNCH = Plaunch()
"""


def test_launcher_of_a_plug_in_defines_its_version_command(tmp_path: Path) -> None:
    chosen = ChosenSite(changed(LOCAL, launcher="plaunch"), "--site", "here.yaml")
    asked = Command(("plaunch", "-V"), timeout=20)
    answer = Completed(asked, 0, "mpirun (Open MPI) 4.1.4\n")
    with plugged_in(tmp_path, "launcher", "plaunch", PLAUNCH):
        assert [*site_commands(chosen.site, {"plaunch": "/opt/plaunch"}.get)] == [asked]
        found = [
            *site_findings(chosen, None, None, {"plaunch": "/opt/plaunch"}.get, SurveyAnswers((answer,)))
        ]
    detail = "/opt/plaunch: mpirun (Open MPI) 4.1.4"
    hint = "launcher plaunch is for mpich: load such a module, or write `launcher: mpirun` in the site file"
    expected = CheckFinding("launchers", "plaunch", "error", detail, hint)
    assert [item for item in found if item.group == "launchers"] == [expected]


QUEUE = """\
from hpcdist.schedulers.local import Local

class Queue(Local):
    name = "plain_queue"
    is_batch_system = True

PLAIN_QUEUE = Queue()
"""


def test_scheduler_of_a_plug_in_without_survey_is_unknown(tmp_path: Path) -> None:
    chosen = ChosenSite(changed(LOCAL, scheduler="plain_queue"), "--site", "here.yaml")
    with plugged_in(tmp_path, "scheduler", "plain_queue", QUEUE):
        found = [*site_findings(chosen, None, None, {"": ""}.get, SurveyAnswers(()))]
    detail = "plain_queue: its plug-in has no survey, so it was not checked"
    expected = CheckFinding("site", "scheduler", "unknown", detail, "test it with `hpcdist doctor --job`")
    assert [item for item in found if item.name == "scheduler"] == [expected]


def test_host_with_python3_only() -> None:
    place = host_probe({"python3 -c": json.dumps({"host": msgspec.to_builtins(GOOD)})}, missing=("python",))
    hint = (
        "write python3 in `run.cmd`; "
        "or load its module, or activate the environment with which jobs are to run"
    )
    assert group("python", place)[:2] == [
        CheckFinding("python", "python", "note", "there is no python on PATH", hint),
        CheckFinding("python", "python", "ok", "3.11.2, /usr/bin/python"),
    ]


def test_host_without_python_warns_and_uses_the_interpreter_of_hpcdist() -> None:
    python = json.dumps({"host": msgspec.to_builtins(GOOD)})
    place = host_probe({f"{sys.executable} -c": python}, missing=("python",))
    hint = "load its module, or activate the environment with which jobs are to run"
    assert group("python", place)[:3] == [
        CheckFinding("python", "python", "warning", "there is no python on PATH", hint),
        CheckFinding("python", "python3", "warning", "there is no python3 on PATH", hint),
        CheckFinding("python", "python", "ok", "3.11.2, /usr/bin/python"),
    ]


@pytest.mark.parametrize(
    ("launcher", "text", "status", "hint"),
    [
        ("mpirun", "mpirun (Open MPI) 5.0.3\n", "ok", ""),
        (
            "mpirun",
            "HYDRA build details:\n    Version: 4.0.2\n",
            "error",
            "launcher mpirun is for openmpi: load such a module, or write `launcher: hydra` in the site file",
        ),
        (
            "mpirun",
            "something else\n",
            "unknown",
            "launcher mpirun is for openmpi: test it with `hpcdist doctor --job`",
        ),
        ("srun", "HYDRA build details:\n", "ok", ""),
    ],
)
def test_mpirun_of_another_mpi_is_an_error(launcher: str, text: str, status: str, hint: str) -> None:
    place = host_probe({"mpirun --version": text})
    (detail,) = (
        item
        for item in group("launchers", place, changed(TESTBED, launcher=launcher))
        if item.name == "mpirun"
    )
    assert (detail.status, detail.hint) == (status, hint)


@pytest.mark.parametrize(("modules", "status"), [((), "error"), (("openmpi",), "note")])
def test_missing_launcher_is_an_error_unless_the_setup_may_provide_it(
    modules: tuple[str, ...], status: str
) -> None:
    site = changed(TESTBED, launcher="mpirun", modules=modules)
    assert group("launchers", host_probe({}, missing=("mpirun",)), site)[0].status == status


def test_machine_without_a_batch_system() -> None:
    here = found(host_probe({"bash -c": f"writable\n{RUNS}\ntmpfs\n"}), LOCAL, survey=None)
    shown = {item.name: item.detail for item in here}
    assert shown["scheduler"] == "none: jobs are processes of this machine"
    assert shown["file system"] == "tmpfs; jobs run on this host only"
    assert "pyslurm" not in shown
    assert {item.status for item in here} == {"ok"}


def test_site_without_nodes_is_a_note() -> None:
    bare = changed(TESTBED, partitions={}, node_types={}, default_partition=None)
    assert group("site", host_probe({}), bare)[0].status == "note"


def test_pmi_types_are_listed_only_where_the_scheduler_has_them() -> None:
    def which(name: str) -> str:
        return f"/usr/bin/{name}"

    assert MPI in [*site_commands(TESTBED, which)]
    assert MPI not in [*site_commands(changed(TESTBED, launcher="mpirun", launchers={}), which)]
    assert MPI not in [*site_commands(changed(TESTBED, scheduler="pbs"), which)]


def test_mpi_types_of_slurm_20() -> None:
    """Slurm 20.11, as centres' pages show it: on stderr, with the program in front."""
    old = Completed(MPI, 0, "", "srun: MPI types are...\nsrun: none\nsrun: pmi2\nsrun: pmix_v3\nsrun: pmix\n")
    (detail,) = (
        item for item in group("launchers", host_probe({"srun --mpi=list": old})) if item.name == "srun --mpi"
    )
    assert (detail.status, detail.detail) == ("ok", "pmix, of none, pmi2, pmix, pmix_v3")


@pytest.mark.parametrize(("system", "status"), [("UNKNOWN (0xbd00bd0)", "unknown"), ("xfs", "warning")])
def test_file_system_that_may_not_be_shared(system: str, status: str) -> None:
    detail = group("runs", host_probe({"bash -c": f"writable\n{RUNS}\n{system}\n"}))[1]
    assert (detail.status, detail.detail.startswith(system), bool(detail.hint)) == (status, True, True)


def test_runs_folder_writable_by_others_is_a_warning() -> None:
    detail = group("runs", host_probe({"bash -c": f"shared\n{RUNS}\nlustre\n"}))[0]
    assert detail == CheckFinding(
        "runs",
        "folder",
        "warning",
        f"{RUNS} is writable by others, so submit refuses it",
        f"`chmod go-w {RUNS}` if it is yours, or choose another directory with --runs-dir",
    )


@pytest.mark.parametrize(("mode", "word"), [(0o700, "writable"), (0o2770, "shared"), (0o757, "shared")])
def test_inspect_folder_prints_who_may_write(tmp_path: Path, mode: int, word: str) -> None:
    tmp_path.chmod(mode)
    lines = Shell().run(inspect_folder(tmp_path)).stdout.splitlines()
    assert lines[:2] == [word, str(tmp_path)]
    missing = Shell().run(inspect_folder(tmp_path / "a" / "b")).stdout.splitlines()
    assert missing[:2] == ["writable", str(tmp_path)]


@pytest.mark.parametrize(
    ("network", "status"), [("infiniband", "warning"), ("ethernet", "ok"), (None, "note")]
)
def test_required_memlock_depends_on_the_network(network: Network | None, status: str) -> None:
    own = host(limits={**GOOD.limits, "memlock": (65536, 65536)})
    (detail,) = (item for item in limit_findings(own, network) if item.name == "memlock")
    assert (detail.status, bool(detail.hint)) == (status, status != "ok")


def test_unused_pyslurm_is_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPCDIST_SLURM_READER", "commands")
    place = host_probe({})._replace(library=HostProbe._field_defaults["library"])
    detail = "Slurm's commands are used instead: HPCDIST_SLURM_READER=commands: pyslurm is not asked"
    assert group("site", place)[-1] == CheckFinding("site", "pyslurm", "ok", detail)


def port(state: str) -> Port:
    return Port("mlx5_0:1", state, "200 Gb/sec (4X HDR)", "InfiniBand")


@pytest.mark.parametrize(
    ("fabric", "own", "expected"),
    [
        (Fabric(interface="eth0"), {}, [("fabric.interface", "ok", "eth0")]),
        (Fabric(interface="ib0"), {}, [("fabric.interface", "error", "ib0 is not there; there is eth0, lo")]),
        (Fabric(), {}, [("interface", "note", "the site file names none; this host has eth0")]),
        (
            Fabric(env={"NCCL_SOCKET_IFNAME": "^docker,lo"}),
            {},
            [("fabric.env.NCCL_SOCKET_IFNAME", "ok", "all but docker,lo")],
        ),
        (
            Fabric(env={"NCCL_SOCKET_IFNAME": "eth"}),
            {},
            [("fabric.env.NCCL_SOCKET_IFNAME", "ok", "eth0")],
        ),
        (
            Fabric(env={"NCCL_SOCKET_IFNAME": "=eth"}),
            {},
            [("fabric.env.NCCL_SOCKET_IFNAME", "error", "eth is not there; there is eth0, lo")],
        ),
        (
            Fabric(interface="eth0", network="infiniband", env={"NCCL_IB_HCA": "mlx5"}),
            {"ports": (port("ACTIVE"),)},
            [
                ("fabric.interface", "ok", "eth0"),
                ("fabric.env.NCCL_IB_HCA", "ok", "mlx5_0:1"),
                ("ports", "ok", "mlx5_0:1 200 Gb/sec (4X HDR)"),
            ],
        ),
        (
            Fabric(interface="eth0", network="infiniband"),
            {"ports": (port("DOWN"),)},
            [("fabric.interface", "ok", "eth0"), ("ports", "error", "mlx5_0:1 DOWN")],
        ),
        (
            Fabric(interface="eth0", network="infiniband"),
            {},
            [("fabric.interface", "ok", "eth0"), ("ports", "error", "there are none")],
        ),
    ],
)
def test_network_devices_of_a_node(
    fabric: Fabric, own: Mapping[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    detail = network_findings(host(**own), fabric, "node")
    assert [(item.name, item.status, item.detail) for item in detail] == expected


@pytest.mark.parametrize(
    ("missing", "answers", "detail"),
    [
        (("nvidia-smi",), {}, "neither nvidia-smi nor rocm-smi is installed here, as on most login nodes"),
        (
            ("nvidia-smi",),
            {"rocm-smi": "device,GUID\ncard0,12\ncard1,13\n"},
            "2 on this host, according to rocm-smi",
        ),
    ],
)
def test_gpus_of_a_login_node(missing: tuple[str, ...], answers: Mapping[str, Answer], detail: str) -> None:
    (gpus,) = group("gpus", host_probe(answers, missing=missing))
    assert gpus.detail == detail
