"""Site files made of what batch systems have answered, and the checks of site files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from hpcdist.base import resources
from hpcdist.base.command import Command, Completed
from hpcdist.base.errors import SchedulerError
from hpcdist.cli.site.sites_init import LoginNode, host_facts, init, run_survey, site_text
from hpcdist.loading.sites import load_site
from hpcdist.schedulers.sge import survey as sge
from hpcdist.schedulers.slurm import survey as slurm
from hpcdist.site.model import Site
from hpcdist.site.survey import FailedCommand, Node, NodeKind, PartitionInfo, counts, kinds_of
from hpcdist.testing import MISSING, Answer, FakeShell, failed
from tests.experiments import environment as environment_of
from tests.experiments import resources as resources_of
from tests.plans import planned
from tests.wording import Wording

from .conftest import Hpcdist

TRANSCRIPTS: Final = Path(__file__).parents[1] / "transcripts"
NOON: Final = 1795003200.0
RULES: Final = {"smp": "$pe_slots", "fill": "$fill_up", "robin": "$round_robin"}


def environment(command: Command) -> Completed:
    """Answer for any parallel environment as the recorded one does, but for its name and rule."""
    name = command.argv[2]
    text = (TRANSCRIPTS / "sge" / "survey_environment.8.1.9.txt").read_text()
    rule = RULES.get(name, name.removeprefix("mpi-"))
    return Completed(command, 0, text.replace("smp", name).replace("$pe_slots", rule))


ANSWERS: Final[Mapping[str, Mapping[str, str]]] = {
    "slurm": {
        "scontrol show config": "config.22.05.8.txt",
        "scontrol --oneliner show node": "nodes.22.05.8.txt",
        "scontrol --oneliner show partition": "partitions.22.05.8.txt",
        "srun --mpi=list": "mpi.22.05.8.txt",
    },
    "pbs": {
        "pbsnodes -a": "survey_nodes.json",
        "qstat -Q": "survey_queues.json",
        "qstat -B": "survey_server.json",
    },
    "lsf": {
        "lshosts -w": "survey_hosts.10.1.txt",
        "lshosts -gpu": "survey_gpus.10.1.txt",
        "bqueues -l": "survey_queues.10.1.txt",
        "bmgroup -r": "survey_groups.10.1.txt",
        "lsid": "survey_version.10.1.txt",
    },
    "flux": {
        "flux resource R": "survey_resources.json",
        "flux config get": "survey_config.json",
        "flux version": "survey_version.txt",
    },
    "sge": {
        "qhost -F -q": "survey_hosts.8.1.9.txt",
        "qconf -sq *": "survey_queues.8.1.9.txt",
        "qconf -sc": "survey_complexes.8.1.9.txt",
        "qconf -spl": "survey_environments.8.1.9.txt",
    },
}


def login_node(
    tmp_path: Path, scheduler: str, others: Mapping[tuple[str, ...], Answer] | None = None
) -> LoginNode:
    rules: list[tuple[tuple[str, ...], Answer]] = [*(others or {}).items()]
    for words, file in ANSWERS[scheduler].items():
        rules.append((tuple(words.split()), (TRANSCRIPTS / scheduler / file).read_text()))
    rules.append((("qconf", "-sp"), environment))
    return LoginNode(
        FakeShell(rules), lambda: NOON, lambda: "login2.example.org", lambda: "hu1", {}, tmp_path
    )


@pytest.mark.parametrize("scheduler", sorted(ANSWERS))
def test_the_whole_file(scheduler: str, tmp_path: Path, hpcdist: Hpcdist) -> None:
    machine = login_node(tmp_path, scheduler)
    text = site_text("here", run_survey(scheduler, machine), host_facts(machine))
    assert text == (TRANSCRIPTS / scheduler / "survey.yaml").read_text()
    (tmp_path / "here.yaml").write_text(text)
    result = hpcdist("sites", "check", str(tmp_path / "here.yaml"))
    assert (result.code, result.out, result.err) == (0, f"ok: {tmp_path}/here.yaml\n", "")


def test_what_slurm_shows_of_nodes_and_partitions(tmp_path: Path) -> None:
    found = run_survey("slurm", login_node(tmp_path, "slurm"))
    assert found.kinds == (
        NodeKind("a100", ("n1", "n2"), 16, 64000, 4, "a100", ("a100", "nvlink"), "a100"),
        NodeKind("v100", ("n3", "n4"), 16, 64000, 2, "v100", ("v100",), "v100"),
        NodeKind("cpu", ("c1",), 32, 128000, 0, None, ("cpuonly",), "cpuonly"),
    )
    assert found.partitions == (
        PartitionInfo("gpu", {"a100": 2, "v100": 2}),
        PartitionInfo("a100", {"a100": 2}),
        PartitionInfo("v100", {"v100": 2}),
        PartitionInfo("cpu", {"cpu": 1}),
        PartitionInfo("all", {"a100": 2, "v100": 2, "cpu": 1}),
    )
    assert found.failures == ()


def generated(scheduler: str, folder: Path) -> Site:
    machine = login_node(folder, scheduler)
    (folder / "here.yaml").write_text(site_text("here", run_survey(scheduler, machine), host_facts(machine)))
    return load_site(folder / "here.yaml")


@pytest.mark.parametrize(
    ("scheduler", "replicas", "asked"),
    [
        ("slurm", environment_of(each=resources_of(gpu=1)), (1, 4, 1, 16000)),
        ("slurm", environment_of(1, each=resources_of(gpu=4)), (2, 16, 4, 64000)),
        ("slurm", environment_of(each=resources_of(gpu=1, cpu=2, memory=500)), (1, 2, 1, 500)),
        ("slurm", environment_of(each=resources_of(cpu=8)), (1, 8, 0, 32000)),
        ("slurm", environment_of(), (1, 1, 0, 4000)),
        ("pbs", environment_of(each=resources_of(gpu=1)), (1, 2, 1, 4096)),
        ("pbs", environment_of(1, each=resources_of(gpu=4)), (2, 8, 4, 16384)),
        ("pbs", environment_of(), (1, 1, 0, 2048)),
        ("lsf", environment_of(each=resources_of(gpu=1)), (1, 20, 1, None)),
    ],
)
def test_jobs_that_ask_for_no_more_get_their_gpus_share_of_a_node(
    scheduler: str, replicas: Any, asked: tuple[object, ...], tmp_path: Path
) -> None:
    (group,) = planned(generated(scheduler, tmp_path), environment=replicas).placement.groups
    assert (group.nodes, group.cpus, group.gpus, group.memory) == asked


@pytest.mark.parametrize(
    ("partition", "nodes", "part"),
    [
        ("gpu", 2, "of each node: 16 of 16 CPUs, 4 of 4 GPUs, 64000 of 64000 MiB of memory"),
        ("cpu", 1, "of each node: 32 of 32 CPUs, 128000 of 128000 MiB of memory"),
    ],
)
def test_whole_nodes_of_init_are_whole(
    partition: str, nodes: int, part: str, tmp_path: Path, hpcdist: Hpcdist
) -> None:
    generated("slurm", tmp_path)
    site = ("--site", str(tmp_path / "here.yaml"))
    size = ("--nodes", str(nodes), "--partition", partition, "--framework", "mpi")
    made = hpcdist("init", "-y", *site, *size, "-o", "x.yml")
    assert (made.code, made.err) == (0, "")
    shown = hpcdist("plan", "x.yml", *site)
    assert (shown.err, part in shown.out.splitlines()) == ("", True)


@pytest.mark.parametrize(
    ("words", "old", "new"),
    [
        (("scontrol", "show", "config"), "select/cons_tres", "select/linear"),
        (("scontrol", "--oneliner", "show", "partition"), "OverSubscribe=NO", "OverSubscribe=EXCLUSIVE"),
    ],
)
def test_jobs_with_whole_nodes_of_slurm_have_all_their_memory(
    words: tuple[str, ...], old: str, new: str, tmp_path: Path
) -> None:
    file = ANSWERS["slurm"][" ".join(words)]
    text = (TRANSCRIPTS / "slurm" / file).read_text().replace(old, new, 1 if "partition" in words else -1)
    machine = login_node(tmp_path, "slurm", {words: text})
    (tmp_path / "here.yaml").write_text(site_text("here", run_survey("slurm", machine), host_facts(machine)))
    plan = planned(load_site(tmp_path / "here.yaml"), environment=environment_of(each=resources_of(gpu=1)))
    assert {line.flag: line.value for line in plan.directives}["--mem"] == "0"


def test_memory_that_slurm_keeps_for_the_system_is_not_requested(tmp_path: Path) -> None:
    nodes = (TRANSCRIPTS / "slurm" / "nodes.22.05.8.txt").read_text()
    kept = nodes.replace("RealMemory=64000", "RealMemory=64000 MemSpecLimit=4000")
    survey = run_survey(
        "slurm", login_node(tmp_path, "slurm", {("scontrol", "--oneliner", "show", "node"): kept})
    )
    assert [kind.memory for kind in survey.kinds] == [60000, 60000, 128000]


@pytest.mark.parametrize(
    ("gres", "gpus", "kind"),
    [
        ("gpu:4090:2", 2, "4090"),
        ("gpu:2080ti:2(S:0-1)", 2, "2080ti"),
        ("gpu:1g.5gb:7", 7, "1g.5gb"),
        ("gpu:nvidia_a100_1g.5gb:7", 7, "nvidia_a100_1g.5gb"),
        ("gpu:2", 2, None),
        ("gpu:2(S:0)", 2, None),
        ("gpu:h100-80gb:8,nvme:1600", 8, "h100-80gb"),
        ("gpu:a100:2,gpu:v100:4", 4, "v100"),
        ("gpu:a100:1,gpu:1g.5gb:7", 1, "a100"),
        ("gpu:a100:2(S:0),gpu:a100:2(S:1)", 4, "a100"),
        ("nogpu:3:2", 0, None),
    ],
)
def test_types_of_gpus_in_slurm(
    gres: str, gpus: int, kind: str | None, tmp_path: Path, hpcdist: Hpcdist
) -> None:
    nodes = (TRANSCRIPTS / "slurm" / "nodes.22.05.8.txt").read_text()
    changed = re.sub(r"Gres=gpu:\S+", f"Gres={gres}", nodes)
    machine = login_node(tmp_path, "slurm", {("scontrol", "--oneliner", "show", "node"): changed})
    survey = run_survey("slurm", machine)
    assert {(one.gpus, one.gpu_type) for one in survey.kinds if "n1" in one.nodes} == {(gpus, kind)}
    several = [remark for fact in survey.facts for remark in fact.remarks if "several types" in remark]
    assert len(several) == (gres.count("gpu:") > 1 and "a100:2(S:1)" not in gres)
    (tmp_path / "here.yaml").write_text(site_text("here", survey, host_facts(machine)))
    assert hpcdist("sites", "check", str(tmp_path / "here.yaml")).code == 0
    site = load_site(tmp_path / "here.yaml")
    assert (gpus, kind) in {(one.gpus, one.gpu_type) for one in site.node_types.values()}


@pytest.mark.parametrize("scheduler", sorted(ANSWERS))
def test_failed_commands_are_noted_in_a_valid_file(scheduler: str, tmp_path: Path, hpcdist: Hpcdist) -> None:
    shell = FakeShell([(lambda command: bool(command.argv), MISSING)])
    machine = LoginNode(shell, lambda: NOON, lambda: "head", lambda: "hu1", {}, tmp_path)
    survey = run_survey(scheduler, machine)
    assert {item.command for item in survey.failures} == {str(command) for command in shell.commands}
    (tmp_path / "bare.yaml").write_text(site_text("bare", survey, host_facts(machine)))
    result = hpcdist("sites", "check", str(tmp_path / "bare.yaml"), "--json")
    assert result.code == 0
    assert {problem["severity"] for problem in json.loads(result.out)} <= {"warning"}


def test_keys_without_an_answer_stay_comments(tmp_path: Path) -> None:
    shell = FakeShell([(lambda command: bool(command.argv), MISSING)])
    machine = LoginNode(shell, lambda: NOON, lambda: "head", lambda: "hu1", {}, tmp_path)
    lines = site_text("bare", run_survey("slurm", machine), host_facts(machine)).splitlines()
    begin = lines.index("launcher: srun")
    assert lines[begin : lines.index("# account: {required: true}") + 1] == [
        "launcher: srun",
        "# `srun --mpi=list` gave no answer",
        "# pmix suits Open MPI; pmi2 MPICH and Intel MPI; cray_shasta Cray MPICH",
        "# launchers: {srun: {mpi: pmix}}",
        "# no nodes were reported: each replica gets its own node",
        "# node_types: {NAME: {cpus: 64, memory: 256G, gpus: 4}}",
        "# no partitions were reported",
        "# partitions: {NAME: {nodes: {NODE_TYPE: NUMBER}}}",
        "# `scontrol --oneliner show partition` gave no answer",
        "# default_partition: NAME",
        "# `scontrol --oneliner show partition` gave no answer",
        "# whole_nodes: true",
        "# `scontrol show config` gave no answer",
        "# request_memory: false",
        "# what experiments get that say none",
        "# walltime: 01:00:00",
        "# `scontrol --oneliner show node` gave no answer",
        "# gpus: {request: gres}",
        "# `scontrol show config` gave no answer",
        "# account: {required: true}",
    ]


def test_failed_commands_are_reported(tmp_path: Path) -> None:
    broken = {
        ("srun",): MISSING,
        ("scontrol", "show", "config"): failed(1, "slurm_load_ctl_conf error:\n down\n"),
    }
    found = run_survey("slurm", login_node(tmp_path, "slurm", broken))
    assert found.failures == (
        FailedCommand(str(slurm.CONFIG), "slurm_load_ctl_conf error: down"),
        FailedCommand(str(slurm.MPI), "there is no srun here"),
    )


def test_accounts_are_queried_if_slurm_has_accounting(tmp_path: Path) -> None:
    config = "AccountingStorageEnforce = associations\nAccountingStorageType = accounting_storage/slurmdbd\n"
    others: Mapping[tuple[str, ...], Answer] = {
        ("scontrol", "show", "config"): config, ("sacctmgr",): "m1|normal,high\nm2|normal\n",
    }  # fmt: skip
    facts = {fact.key: fact for fact in run_survey("slurm", login_node(tmp_path, "slurm", others)).facts}
    assert facts["account"].remarks == (
        "AccountingStorageEnforce=associations",
        "accounts of hu1: m1, m2",
        "QOS of hu1: normal, high",
    )


def test_parallel_environments_are_queried_one_by_one(tmp_path: Path) -> None:
    machine = login_node(tmp_path, "sge")
    run_survey("sge", machine)
    assert isinstance(machine.runner, FakeShell)
    assert [command for command in machine.runner.commands if command.argv[1] != "-sp"] == [
        sge.HOSTS, sge.QUEUES, sge.COMPLEXES, sge.ENVIRONMENTS,
    ]  # fmt: skip
    assert len(machine.runner.commands) == 4 + 8


def test_slightly_different_nodes_are_one_type() -> None:
    nodes = [Node("n1", 8, 1000), Node("n2", 8, 1020), Node("n3", 8, 2000), Node("n4", 8, 2000, 2)]
    kinds = kinds_of(nodes)
    assert [(kind.name, kind.nodes, kind.memory) for kind in kinds] == [
        ("gpu", ("n4",), 2000),
        ("cpu-8c-1g", ("n1", "n2"), 1000),
        ("cpu-8c-2g", ("n3",), 2000),
    ]
    assert counts(kinds, ["n2", "n4"]) == {"gpu": 1, "cpu-8c-1g": 1}


def test_rack_features_make_no_node_types() -> None:
    racks = [Node(f"n{rack}", 8, features=("x86", f"rack{rack}")) for rack in range(9)]
    (kind,) = kinds_of(racks, constraints=True)
    assert (kind.features, kind.constraint) == (("x86",), "x86")


@pytest.mark.parametrize(
    ("files", "network"),
    [
        ({"cxi/cxi0/x": ""}, "slingshot"),
        ({"infiniband/mlx5_0/ports/1/link_layer": "InfiniBand\n"}, "infiniband"),
        ({"infiniband/mlx5_0/ports/1/link_layer": "Ethernet\n"}, "roce"),
        ({"infiniband/efa_0/x": ""}, "efa"),
        ({"infiniband/hfi1_0/x": ""}, "omni-path"),
        ({"net/eth0/x": ""}, None),
    ],
)
def test_the_network_is_guessed_from_devices(
    tmp_path: Path, files: Mapping[str, str], network: str | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    assert host_facts(LoginNode(FakeShell(), lambda: NOON, devices=tmp_path)).network == network


def flux_on_path(folder: Path) -> None:
    """Make a flux that answers as recorded, but for its version."""
    told = "".join(
        f"'{words}') exec cat {TRANSCRIPTS / 'flux' / file};;\n"
        for words, file in (
            ("resource R", "survey_resources.json"),
            ("config get", "survey_config.json"),
        )
    )
    (folder / "flux").write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\ncase $* in\n{told}esac\nexit 1\n")
    (folder / "flux").chmod(0o755)


def test_init_writes_where_sites_are_found(
    hpcdist: Hpcdist, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    flux_on_path(tmp_path)
    result = hpcdist("sites", "init", "mine", "--scheduler", "flux")
    file = resources.site_folders()[0] / "mine.yaml"
    assert result.code == 0, result.err
    assert result.out == (
        f"wrote {file}\ncheck and complete it, then run:\n"
        "  hpcdist sites check mine\n  hpcdist render EXP --site mine\n"
    )
    assert result.err == "note: not available: flux version: exit code 1 without a message\n"
    assert file.parent.stat().st_mode & 0o777 == 0o700
    again = hpcdist("sites", "init", "mine", "--scheduler", "flux")
    hint = "remove it, or choose another file with -o"
    assert (again.code, again.err) == (
        2,
        f"error: {file} already exists; {hint}\n",
    )


@pytest.mark.parametrize("scheduler", sorted(ANSWERS))
@pytest.mark.parametrize("down", [MISSING, failed(1, "it is down"), ""])
def test_an_empty_survey_writes_no_file(scheduler: str, down: Answer, tmp_path: Path) -> None:
    shell = FakeShell([(lambda command: bool(command.argv), down)])
    machine = LoginNode(shell, lambda: NOON, lambda: "head", lambda: "hu1", {}, tmp_path)
    file = tmp_path / "mine.yaml"
    with pytest.raises(
        SchedulerError, match="reports neither nodes nor queues, so no file was written"
    ) as error:
        init("mine", scheduler, str(file), (), machine)
    seen = [problem.message.partition(": ")[0] for problem in error.value.problems[:-1]]
    assert seen == ["not available"] * (len(shell.commands) if down else 0)
    assert not file.exists()


@pytest.mark.parametrize("words", [("../x",), ("x", "--scheduler", "slrum")], ids=" ".join)
def test_init_with_invalid_arguments(hpcdist: Hpcdist, words: tuple[str, ...], wording: Wording) -> None:
    result = hpcdist("sites", "init", *words)
    assert (result.code, result.out) == (2, "")
    wording(result.err)


def test_check_prints_all_problems(hpcdist: Hpcdist, folder: Path, wording: Wording) -> None:
    (folder / "odd.yaml").write_text(
        "name: other\ndescription: x\nscheduler: slurm\nlauncher: flux\nwalltime: 60\n"
        "partitions: {p: {nodes: {big: 1}}}\ndetect: {fqdn: ['login.*']}\n"
    )
    result = hpcdist("sites", "check", "./odd.yaml")
    assert (result.code, result.out) == (2, "")
    wording(result.err)


def test_check_warns_of_values_without_a_source(hpcdist: Hpcdist, folder: Path, wording: Wording) -> None:
    (folder / "odd.yaml").write_text(
        "name: odd\ndescription: x\nscheduler: slurm\nlauncher: srun\nmodules: [a]\n"
        "sources: [{where: x, read: 2026-11, of: [launcher, walltime]}]\n"
    )
    result = hpcdist("sites", "check", "./odd.yaml")
    assert (result.code, result.out) == (0, "ok: odd.yaml\n")
    wording(result.err)
