"""`hpcdist doctor --job LIST`: what is read, and how each batch system is asked for the nodes."""

from __future__ import annotations

from typing import Final

import pytest

from hpcdist.base import resources
from hpcdist.base.errors import ConfigError
from hpcdist.cli.site.doctor_job import CheckJobOptions, WantedNodes, settings, wanted_nodes
from hpcdist.loading.planning import ExperimentOptions, plan_experiment
from hpcdist.schedulers import schedulers
from tests.plans import LOCAL, TESTBED
from tests.sites import shipped_site
from tests.wording import Wording

from .conftest import Hpcdist


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("4", WantedNodes(4)),
        ("n4", WantedNodes(1, ("n4",))),
        ("n[1-2,07],gpu3.cluster", WantedNodes(4, ("n1", "n2", "n07", "gpu3.cluster"))),
    ],
)
def test_a_number_or_names(text: str, wanted: WantedNodes) -> None:
    assert wanted_nodes(text) == wanted


CHUNK: Final = "1:ncpus=1:mpiprocs=1:host="


@pytest.mark.parametrize(
    "text",
    ["0", "", "n[3-1]", "n[1-3],n2", "-n1,$(id)"],
)
def test_what_is_neither_is_an_error_at_its_place(text: str, wording: Wording) -> None:
    with pytest.raises(ConfigError) as caught:
        wanted_nodes(text)
    wording(map(str, caught.value.problems))


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("slurm", ['#SBATCH --nodelist="n[1-2,4]"']),
        ("pbs", [f"#PBS -l select={CHUNK}n1+{CHUNK}n2+{CHUNK}n4"]),
        ("lsf", ["#BSUB -n 3", '#BSUB -R "span[ptile=1]"', '#BSUB -m "n1 n2 n4"']),
        ("flux", ["#flux: --requires=host:n1,n2,n4", "#flux: --nodes=3"]),
        ("sge", ["#$ -pe mpi 3", '#$ -l "hostname=n1|n2|n4"']),
    ],
)
def test_the_batch_system_is_asked_for_them(name: str, lines: list[str]) -> None:
    wanted = CheckJobOptions(name, (), 3, None, None, (), 60, names=("n1", "n2", "n4"))
    file = str(resources.shipped("templates") / "doctor.yml")
    own = (*settings(shipped_site(name), wanted), ("batch.walltime", "00:05:00"))
    plan = plan_experiment(ExperimentOptions(file, name, settings=own), {}).plan
    written = [line for line, _ in schedulers.get(name).header(plan, None)]
    assert (plan.placement.nodes, [line for line in written if line in lines]) == (3, lines)


def test_where_they_cannot_be_asked_for_is_an_error(hpcdist: Hpcdist, wording: Wording) -> None:
    result = hpcdist("doctor", "--job", "n[1-2]", "--site", "local")
    assert (result.code, result.out) == (2, "")
    wording(result.err)


def test_a_setting_that_replaces_the_request_is_an_error(wording: Wording) -> None:
    own = (("batch.account", "x"), ("batch.directives", "[--mem=0]"))
    wanted = CheckJobOptions(None, (), 1, None, None, own, 60, names=("n1",))
    with pytest.raises(ConfigError) as caught:
        [*settings(TESTBED, wanted)]
    wording(map(str, caught.value.problems))
    assert [*settings(LOCAL, wanted._replace(names=()))][:1] == [("environment.replicas.n_workers", "0")]
