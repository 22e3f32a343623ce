"""Which machine it is, and whether a batch system is set up here, asked of programs that only pretend."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hpcdist.base.errors import ConfigError, Place, Problem
from hpcdist.base.resources import shipped
from hpcdist.loading import machine, preferences
from hpcdist.loading.machine import Machine, SiteSearch
from hpcdist.schedulers import INSTALLATIONS
from hpcdist.schedulers.base import Installation
from hpcdist.site.detection import Clue, Detection
from tests.plug_in import plugged_in
from tests.sites import shipped_site
from tests.wording import Wording

SITES = [shipped("site_configs")]
NOT_SET_UP = "scontrol: fatal: Could not establish a configuration source"
DOWN = "Slurmctld(primary) at head is DOWN"
SLURM = INSTALLATIONS["slurm"]._replace(files=("etc/slurm.conf",))
"""Slurm, whatever this host has in /etc."""

TOY = "name: toy\ndescription: x\nscheduler: slurm\nlauncher: srun\ndetect: {env: {TOY: 'yes'}}\n"


@pytest.fixture
def sbatch(tmp_path: Path) -> Path:
    """Make an sbatch; PATH is its folder."""
    return program(tmp_path / "prefix" / "bin" / "sbatch", "")


def program(file: Path, text: str = "") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def slurm_is_set_up(sbatch: Path, known: Installation = SLURM, **environment: str) -> bool:
    return machine.is_set_up(known, {"PATH": str(sbatch.parent), **environment})


def test_a_configuration_that_is_named(sbatch: Path) -> None:
    program(sbatch.parent / "scontrol", f"echo '{NOT_SET_UP}' >&2; exit 1")
    assert slurm_is_set_up(sbatch, SLURM_CONF="/somewhere/slurm.conf")
    assert not slurm_is_set_up(sbatch)


def test_a_configuration_where_slurm_looks_for_it(sbatch: Path, tmp_path: Path) -> None:
    program(sbatch.parent / "scontrol", f"echo '{NOT_SET_UP}' >&2; exit 1")
    file = tmp_path / "slurm.conf"
    file.touch()
    assert slurm_is_set_up(sbatch, SLURM._replace(files=(str(file),)))
    beside = tmp_path / "prefix" / "etc" / "slurm.conf"
    beside.parent.mkdir()
    beside.touch()
    assert slurm_is_set_up(sbatch)


@pytest.mark.parametrize(
    ("answer", "is_set_up"),
    [
        (NOT_SET_UP, False),
        ("scontrol: fatal: Unable to process configuration file", False),
        ("scontrol: error: s_p_parse_file: /etc/slurm.conf: No such file or directory", False),
        (DOWN, True),
    ],
)
def test_what_scontrol_prints(sbatch: Path, answer: str, is_set_up: bool) -> None:  # noqa: FBT001 - a column
    program(sbatch.parent / "scontrol", f"echo '{answer}' >&2; exit 1")
    assert slurm_is_set_up(sbatch) is is_set_up


def test_name_servers_that_do_not_answer_do_not_make_a_slurm(sbatch: Path) -> None:
    """Seen with scontrol 22.05: 10 s, and 1 s with this variable of resolv.conf(5)."""
    slow = f'[ "$RES_OPTIONS" = "timeout:1 attempts:1" ] || exec sleep 30; echo "{NOT_SET_UP}" >&2; exit 1'
    program(sbatch.parent / "scontrol", slow)
    assert not slurm_is_set_up(sbatch)


def test_sbatch_alone_is_believed(sbatch: Path) -> None:
    assert slurm_is_set_up(sbatch)


def detected(environment: dict[str, str], folders: list[Path] = SITES) -> Machine:
    return machine.detected_site(machine.search(folders, environment), environment)


@pytest.mark.parametrize(
    ("command", "variable", "site"),
    [
        ("qsub", "PBS_CONF_FILE", "pbs"),
        ("qsub", "SGE_ROOT", "sge"),
        ("bsub", "LSF_ENVDIR", "lsf"),
        ("flux", "FLUX_URI", "flux"),
    ],
)
def test_other_batch_systems_that_are_set_up(command: str, variable: str, site: str, tmp_path: Path) -> None:
    environment = {"PATH": str(program(tmp_path / command).parent)}
    assert detected(environment).site.name == "local"
    found = detected(environment | {variable: "/somewhere"})
    why = f"this is no known site, but there is {command}"
    assert found == Machine(shipped_site(site), why, SITES[0] / f"{site}.yaml")


@pytest.mark.parametrize(
    ("command", "titles"), [("qsub", "PBS or Grid Engine"), ("bsub", "LSF"), ("flux", "Flux")]
)
def test_a_command_without_its_batch_system_is_noted(command: str, titles: str, tmp_path: Path) -> None:
    found = detected({"PATH": str(program(tmp_path / command).parent)})
    why = "this is no known site, and no batch system is set up here"
    text = f"there is {command}, but no {titles} is set up for it, so the site is local"
    notes = (Problem(text, severity="note"),)
    assert found == Machine(shipped_site("local"), why, SITES[0] / "local.yaml", notes)


QUEUE = """\
from hpcdist.schedulers.base import Installation
from hpcdist.schedulers.local import Local

class Queue(Local):
    name = "plain_queue"
    installation = Installation("Queue", "qq", "QQ_HOME")

PLAIN_QUEUE = Queue()
"""


def test_scheduler_of_a_plug_in_is_detected(tmp_path: Path) -> None:
    environment = {"PATH": str(program(tmp_path / "bin" / "qq").parent), "QQ_HOME": "/opt/qq"}
    sites = tmp_path / "sites"
    sites.mkdir()
    with plugged_in(tmp_path / "lib", "scheduler", "plain_queue", QUEUE):
        assert machine.batch_system(environment) == "plain_queue"
        assert machine.batch_system({"PATH": environment["PATH"]}) is None
        assert detected(environment).site.name == "local"  # there is no site file of its name
        text = "name: plain_queue\ndescription: x\nscheduler: plain_queue\nlauncher: processes\n"
        (sites / "plain_queue.yaml").write_text(text)
        found = detected(environment, [sites, *SITES])
    assert (found.site.name, found.origin) == ("plain_queue", "this is no known site, but there is qq")


def test_plug_in_without_a_site_is_not_imported(tmp_path: Path) -> None:
    with plugged_in(tmp_path / "lib", "scheduler", "plain_queue", "1 / 0"):
        assert detected({"PATH": str(tmp_path)}).site.name == "local"


def test_a_search_has_warnings_of_broken_sites_which_the_machine_keeps(tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text("detect: {env: 3}\n")
    (tmp_path / "toy.yaml").write_text(TOY)
    environment = {"TOY": "yes", "PATH": ""}
    problem = Problem("this is 3, and must be a map", ("detect", "env"), "", "warning")
    found = machine.search([tmp_path], environment)
    warning = found.problems[0]
    assert (warning.path, warning.severity, warning.place) == (
        problem.path,
        "warning",
        Place(str(tmp_path / "odd.yaml"), 1, 15),
    )
    clue = Clue("toy", "TOY=yes", "TOY=yes", matches=True)
    files = {"odd": tmp_path / "odd.yaml", "toy": tmp_path / "toy.yaml"}
    assert found == SiteSearch(files, Detection("toy", (clue,)), (warning,))
    toy = machine.detected_site(found, environment)
    assert (toy.site.name, toy.origin, toy.problems) == ("toy", "detected: TOY=yes", (warning,))
    (tmp_path / "twin.yaml").write_text(TOY)
    with pytest.raises(ConfigError) as caught:
        machine.search([tmp_path], environment)
    assert [item.severity for item in caught.value.problems] == ["warning", "error"]


def test_without_a_site_of_that_name_it_is_an_error(tmp_path: Path, wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        detected({"PATH": ""}, [tmp_path])
    wording(str(caught.value))


@pytest.mark.parametrize(
    ("option", "in_file", "environment", "origin"),
    [
        ("pbs", "lsf", {"HPCDIST_SITE": "sge"}, "pbs by --site"),
        (None, "lsf", {"HPCDIST_SITE": "sge"}, "lsf by exp.yml:3"),
        (None, None, {"HPCDIST_SITE": "sge"}, "sge by $HPCDIST_SITE"),
        (None, None, {}, "flux by config.yml:1"),
    ],
)
def test_precedence_of_site_choices(
    option: str | None, in_file: str | None, environment: dict[str, str], origin: str, tmp_path: Path
) -> None:
    config = tmp_path / "config.yml"
    config.write_text("site: flux\n")
    own = preferences.read({"HPCDIST_CONFIG": str(config)})
    where = (in_file, Place("exp.yml", 3, 9))
    found = machine.explicit_site(option, SITES, own, where, environment)
    assert found is not None
    assert f"{found.site.name} by {found.origin.rpartition('/')[2]}" == origin
    assert machine.choose(option, SITES, own, where, environment) == found


def test_no_site_is_named() -> None:
    assert machine.explicit_site(None, SITES, preferences.NONE, environment={}) is None


def test_empty_site_option_is_an_error(wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        machine.choose("", SITES, preferences.NONE, environment={})
    wording(str(caught.value))


@pytest.mark.parametrize(
    ("framework", "programs", "launcher"),
    [
        (None, [], "processes"),
        ("pytorch", ["horovodrun"], "processes"),
        ("horovod", ["horovodrun"], "horovodrun"),
        ("horovod", ["horovodrun", "mpirun"], "mpirun"),
    ],
)
def test_without_mpirun_this_machine_has_another_launcher(
    framework: str | None, programs: list[str], launcher: str, tmp_path: Path
) -> None:
    for name in programs:
        program(tmp_path / name)
    local = Machine(shipped_site("local"), "", SITES[0] / "local.yaml")
    found = machine.with_working_launcher(local, framework, {"PATH": str(tmp_path)})
    text = f"there is no mpirun on PATH, so the launcher is {launcher}"
    notes = () if launcher == "mpirun" else (Problem(text, severity="note"),)
    assert (found.site.launcher, found.problems) == (launcher, notes)


PLAUNCH = """\
from hpcdist.layers.launchers.mpi import Processes

class Plaunch(Processes):
    name = program = "plaunch"
    substitutes = ("horovodrun", "processes")

PLAUNCH = Plaunch()
"""


@pytest.mark.parametrize(
    ("framework", "programs", "launcher"),
    [
        ("horovod", ["horovodrun"], "horovodrun"),
        ("mpi", ["horovodrun"], "processes"),
        ("mpi", ["plaunch"], "plaunch"),
    ],
)
def test_the_launcher_of_a_plug_in_may_have_substitutes(
    framework: str, programs: list[str], launcher: str, tmp_path: Path
) -> None:
    for name in programs:
        program(tmp_path / name)
    local = shipped_site("local")
    chosen = Machine(msgspec.structs.replace(local, launcher="plaunch"), "", SITES[0] / "local.yaml")
    with plugged_in(tmp_path / "lib", "launcher", "plaunch", PLAUNCH):
        found = machine.with_working_launcher(chosen, framework, {"PATH": str(tmp_path)})
    assert found.site.launcher == launcher


def test_a_batch_system_may_bring_its_launcher_in_the_job(tmp_path: Path) -> None:
    pbs = Machine(shipped_site("pbs"), "", SITES[0] / "pbs.yaml")
    assert machine.with_working_launcher(pbs, "horovod", {"PATH": str(tmp_path)}) == pbs
