"""Slurm read by its commands and through pyslurm: the same of the same cluster, whoever was asked.

The commands' answers are recorded; a stand-in for pyslurm has the same cluster's jobs, nodes and partitions.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from hpcdist.base.command import Command, Completed, Runner
from hpcdist.base.errors import ConfigError
from hpcdist.base.shell import Shell
from hpcdist.base.units import Walltime
from hpcdist.cli.jobs import runs
from hpcdist.cli.site.sites_init import LoginNode, host_facts, run_survey, site_text
from hpcdist.schedulers.job import Status
from hpcdist.schedulers.slurm import SLURM, pyslurm_answers, reader, survey
from hpcdist.schedulers.slurm.pyslurm_answers import User
from hpcdist.schedulers.slurm.reader import Probe, Reader
from hpcdist.site.survey import PartitionInfo
from hpcdist.testing import MISSING, Answer, FakeShell, failed
from tests.standins import pyslurm as standin

from .slurm_transcripts import PLACE, answers, by_token, jobs

STANDINS: Final = Path(__file__).parents[1] / "standins"
LIMITED: Final = PLACE / "partitions_limited.22.05.8.txt"
SURVEYED: Final = {
    survey.CONFIG: "config.22.05.8.txt",
    survey.NODES: "nodes.22.05.8.txt",
    survey.PARTITIONS: "partitions.22.05.8.txt",
    survey.MPI: "mpi.22.05.8.txt",
}
LATER: Final = ("refused", "lost")
"""Jobs that were submitted after the others had been asked for."""


class Way(NamedTuple):
    """How Slurm is read, the version that squeue tells, and whose transcripts: there are none of 25.11."""

    pyslurm: str
    slurm: str
    transcripts: str


WAYS: Final = {
    "commands": Way("", "22.05.8", "22.05.8"),
    "pyslurm 22.5": Way("22.5.3", "22.05.8", "22.05.8"),
    "pyslurm 25.11": Way("25.11.2", "25.11.2", "24.11.5"),
}


def recorded(name: str) -> str:
    return (PLACE / name).read_text()


def machine(way: Way, **standin: str) -> FakeShell:
    """Return a host whose commands answer as recorded, and whose Python finds the stand-in.

    Those that a pyslurm can answer for are missing where there is one.
    """
    files = {
        "STANDIN_JOBS": PLACE / way.transcripts / "living.txt",
        "STANDIN_NODES": PLACE / SURVEYED[survey.NODES],
        "STANDIN_PARTITIONS": PLACE / SURVEYED[survey.PARTITIONS],
    }
    wishes = {"PYTHONPATH": str(STANDINS), "STANDIN_VERSION": way.pyslurm, **standin}
    python = Shell({**os.environ, **{name: str(file) for name, file in files.items()}, **wishes})
    rules: list[tuple[tuple[str, ...], Answer]] = [
        *((words, MISSING) for words in pyslurm_answers.ANSWERS if words and way.pyslurm),
        (("squeue", "--version"), f"slurm-wlm {way.slurm}\n"),
        ((sys.executable,), python.run),
        *((command.argv, recorded(name)) for command, name in SURVEYED.items()),
        *((done.command.argv, done) for done in answers(way.transcripts, "living")),
    ]
    return FakeShell(rules)


def asked(shell: FakeShell) -> list[str]:
    """Return the commands that were asked, ``pyslurm`` for a Python."""
    words = [command.argv for command in shell.commands if command.argv != ("squeue", "--version")]
    return ["pyslurm" if argv[0] == sys.executable else " ".join(argv[:3]) for argv in words]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    return WAYS[request.param]


def over(shell: FakeShell, way: Way) -> Runner:
    return reader.with_pyslurm(shell, {}, installed=lambda: bool(way.pyslurm))


def living(runner: Runner, version: str) -> Mapping[str, Status]:
    """Return what the first query reads of the jobs that were recorded, by token."""
    known = list(jobs(version).values())
    query = SLURM.queries()[0]
    (command,) = query.commands(known)
    return by_token(query.read(runner.run(command), known), known)


def test_states(way: Way) -> None:
    shell = machine(way)
    lines = []
    for token, status in living(over(shell, way), way.transcripts).items():
        told = f"{status.state.value} | {status.native} | - | {status.reason}"
        lines.append(f"living {status.source} {token}: {told}")
    expected = recorded(f"{way.transcripts}/read").splitlines()
    assert sorted(lines) == [line for line in expected if line.startswith("living squeue ")]
    assert asked(shell) == ["squeue --me -h", *(["pyslurm"] if way.pyslurm else [])]


def test_tokens(way: Way) -> None:
    shell = machine(way)
    listing, _ = SLURM.find()
    found = SLURM.read_find(over(shell, way).run(listing))
    known = {token: job.id for token, job in jobs(way.transcripts).items()}
    assert found == {token: number for token, number in known.items() if token not in LATER}
    assert asked(shell) == ["squeue --me -h", *(["pyslurm"] if way.pyslurm else [])]


def test_the_site_file(way: Way, tmp_path: Path) -> None:
    shell = machine(way)
    around = LoginNode(
        over(shell, way), lambda: 1795003200.0, lambda: "login2.example.org", lambda: "hu1", {}, tmp_path
    )
    assert site_text("here", run_survey("slurm", around), host_facts(around)) == recorded("survey.yaml")
    told = ["scontrol --oneliner show", *(["pyslurm"] if way.pyslurm else [])] * 2
    assert asked(shell) == ["scontrol show config", *told, "srun --mpi=list"]


def hidden(command: Command) -> Completed:
    """Answer as scontrol does to hu1: the recorded answer is what root is shown."""
    lines = LIMITED.read_text().splitlines(keepends=True)
    closed = ("PartitionName=secret ", "PartitionName=closed ")
    return Completed(command, 0, "".join(line for line in lines if not line.startswith(closed)))


def through_pyslurm(user: User) -> Callable[[Command], Completed]:
    def answer(command: Command) -> Completed:
        lines = pyslurm_answers.ANSWERS[command.argv](standin, user)
        return Completed(command, 0, "".join(f"{line}\n" for line in lines))

    return answer


HU1: Final = User(21001, frozenset({"hu1"}))
PARTS: Final = (
    PartitionInfo("short", {"a100": 2}, max_nodes=1, max_walltime=Walltime(9000)),
    PartitionInfo(
        "long", {"v100": 2}, max_walltime=Walltime(648000), remarks=("State=DRAIN",), whole_nodes=True
    ),
    PartitionInfo("own", {"a100": 1}, remarks=("AllowGroups=hu1",)),
    PartitionInfo("accounts", {"a100": 1}, remarks=("AllowAccounts=a,b", "AllowQos=high")),
    PartitionInfo("denied", {"a100": 1}),
    PartitionInfo("forced", {"a100": 1}),
)


@pytest.mark.parametrize("answer", [hidden, through_pyslurm(HU1)])
def test_limits_of_partitions(answer: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_PARTITIONS", str(LIMITED))
    told = ((command.argv, recorded(name)) for command, name in SURVEYED.items())
    shell = FakeShell([(survey.PARTITIONS.argv, answer), *told])
    found = run_survey("slurm", LoginNode(shell, time.time, user=lambda: "hu1", devices=tmp_path))
    facts = {fact.key: fact.remarks for fact in found.facts}
    assert found.partitions[5:] == PARTS
    assert facts["walltime"] == ("what experiments get that say none", "DefaultTime=00:30:00 in short")
    assert facts["whole_nodes"] == ("OverSubscribe=EXCLUSIVE in long",)


@pytest.mark.parametrize(
    ("user", "names"),
    [
        (HU1, ["short", "long", "own", "accounts", "denied", "forced"]),
        (User(21002, frozenset({"hu2"})), ["short", "long", "accounts", "denied", "forced"]),
        (User(0, frozenset()), ["short", "long", "secret", "closed", "own", "accounts", "denied", "forced"]),
    ],
)
def test_partitions_by_user_and_group(user: User, names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_PARTITIONS", str(LIMITED))
    lines = through_pyslurm(user)(survey.PARTITIONS).stdout.splitlines()
    assert [line.split()[0].partition("=")[2] for line in lines][5:] == names


def test_nodes_of_closed_partitions_alone_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = recorded(SURVEYED[survey.NODES]).replace("Partitions=cpu,all", "Partitions=closed")
    (tmp_path / "nodes").write_text(lines.replace("Partitions=gpu,v100,all", "Partitions=(null)"))
    monkeypatch.setenv("STANDIN_NODES", str(tmp_path / "nodes"))
    monkeypatch.setenv("STANDIN_PARTITIONS", str(LIMITED))
    shown = through_pyslurm(HU1)(survey.NODES).stdout.splitlines()
    assert [line.split()[0] for line in shown] == [f"NodeName=n{number}" for number in (1, 2, 3, 4)]


DIED: Final = {
    "fatal": "python: fatal: Could not establish a configuration source",
    "killed": "it was killed by signal 9",
    "library": "ImportError: libslurmfull.so: cannot open shared object file: No such file or directory",
    "old": "pyslurm 22.5.3 has no Jobs, Nodes, Partitions",
    "hang": "it did not end within 1 s",
}
HINT: Final = (
    "install pyslurm 22.5.* (https://github.com/PySlurm/pyslurm/releases), or do without: Slurm's commands "
    "print the same"
)


@pytest.mark.parametrize("fault", DIED)
def test_a_pyslurm_that_fails_costs_nothing_but_time(fault: str) -> None:
    way = WAYS["pyslurm 22.5"]
    shell = machine(way, STANDIN_FAULT=fault)
    own = Reader(shell, limit=1.0)
    assert reader.check(own) == Probe(works=False, why=f"pyslurm cannot be used: {DIED[fault]}", hint=HINT)
    shell.commands.clear()
    assert living(own, "22.05.8") == {}
    assert asked(shell) == ["squeue --me -h", "pyslurm"]


def test_a_controller_that_does_not_answer_pyslurm() -> None:
    way = WAYS["pyslurm 22.5"]
    shell = machine(way, STANDIN_FAULT="rpc")
    assert living(over(shell, way), "22.05.8") == {}
    assert asked(shell) == ["squeue --me -h", "pyslurm"]


def test_a_pyslurm_of_another_release() -> None:
    way = WAYS["pyslurm 22.5"]
    shell = machine(way, STANDIN_VERSION="25.11.2")
    why = "pyslurm cannot be used: pyslurm 25.11.2 is made for Slurm 25.11, and this one is 22.5"
    assert reader.probe(shell, {}, installed=lambda: True) == Probe(works=False, why=why, hint=HINT)
    assert living(over(shell, way), "22.05.8") == {}


def test_pyslurm_is_not_used_where_commands_exist() -> None:
    shell = machine(WAYS["commands"])
    assert living(Reader(shell), "22.05.8")
    assert asked(shell) == ["squeue --me -h"]


@pytest.mark.parametrize("name", ["pyslurm 22.5", "pyslurm 25.11"])
def test_a_pyslurm_that_works(name: str) -> None:
    way = WAYS[name]
    why = f"pyslurm {way.pyslurm} fits Slurm {way.slurm}; the commands are there, and quicker"
    assert reader.probe(machine(way), {}, installed=lambda: True) == Probe(works=True, why=why)


def test_pyslurm_disabled_or_not_installed() -> None:
    shell = FakeShell()
    why = "pyslurm is not installed with hpcdist"
    assert reader.probe(shell, {}, installed=lambda: False) == Probe(works=False, why=why)
    unwanted = {"HPCDIST_SLURM_READER": "commands"}
    why = "HPCDIST_SLURM_READER=commands: pyslurm is not asked"
    assert reader.probe(shell, unwanted, installed=lambda: True) == Probe(works=False, why=why)
    assert reader.with_pyslurm(shell, unwanted, installed=lambda: True) is shell
    assert reader.with_pyslurm(shell, {}, installed=lambda: False) is shell
    with pytest.raises(ConfigError) as error:
        reader.with_pyslurm(shell, {"HPCDIST_SLURM_READER": "fast"})
    said = "HPCDIST_SLURM_READER=fast is no way to read Slurm; set it to auto or commands, or not at all"
    assert str(error.value) == said


def test_without_any_command_of_slurm() -> None:
    way = WAYS["pyslurm 22.5"]
    shell = FakeShell([(("squeue", "--version"), MISSING), *machine(way).rules])
    why = "pyslurm 22.5.3 reads Slurm, since there is no squeue"
    assert reader.probe(shell, {}, installed=lambda: True) == Probe(works=True, why=why)
    assert living(over(shell, way), "22.05.8") == living(over(machine(way), way), "22.05.8")


def test_a_squeue_that_fails() -> None:
    shell = FakeShell([(("squeue",), failed(1, "slurm_load_jobs error"))])
    why = "squeue does not print the version of Slurm: slurm_load_jobs error"
    assert reader.probe(shell, {}, installed=lambda: True) == Probe(works=False, why=why)
    assert not living(Reader(shell), "22.05.8")
    assert sys.executable not in shell.programs


def test_unsupported_commands_do_not_use_pyslurm() -> None:
    shell = FakeShell([(("squeue",), ""), (("sacct",), ""), (("scontrol",), "")])
    job = jobs("22.05.8")["failed"]
    elsewhere = job._replace(id="5;east")
    squeue, sacct, scontrol = SLURM.queries()
    asking = [(squeue, elsewhere), (sacct, elsewhere), (scontrol, elsewhere), (sacct, job), (scontrol, job)]
    for query, one in asking:
        (command,) = query.commands([one])
        Reader(shell).run(command)
    other_cluster = ["squeue -M east", "sacct -M east", "scontrol -M east"]
    assert asked(shell) == [*other_cluster, "sacct -n -P", "scontrol show job"]


def test_the_verbs_read_through_pyslurm_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(reader.VARIABLE, raising=False)
    monkeypatch.syspath_prepend(STANDINS)
    assert runs.services().runner == Reader(Shell())


def test_the_program_that_asks_pyslurm_needs_nothing_else(tmp_path: Path) -> None:
    """The Python that has pyslurm may have no hpcdist."""
    (tmp_path / "pyslurm.py").write_text("__version__ = '25.11.2'\nJobs = Nodes = Partitions = None\n")
    words = [sys.executable, "-S", pyslurm_answers.__file__, "25.11"]
    environment = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "25.11.2\n", "")
