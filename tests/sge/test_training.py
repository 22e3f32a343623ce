"""The main job: real training on a real Grid Engine, from `hpcdist submit` alone."""

from __future__ import annotations

import json
import re

import pytest

from tests.sge.users import SITE, GridUser
from tests.slurm.cluster import CHECKOUT

pytestmark = [pytest.mark.real, pytest.mark.extended]

SIXTEEN_CPUS = (
    "--set=environment.resources.cpu.requests=8",
    "--set=environment.replicas.default_worker.resources.cpu.requests=8",
)


def accuracy(log: str) -> float:
    found = re.search(r"test accuracy ([\d.]+)", log)
    assert found, log
    return float(found[1])


def trains(user: GridUser, example: str, *options: str) -> str:
    done = user.hpcdist("submit", f"examples/{example}.yml", "--wait", *options)
    (run,) = (path.name for path in (user.directory / "runs").iterdir() if path.is_dir())
    log = user.log(run)
    assert done.returncode == 0, done.stderr + log
    assert accuracy(log) > 0.9
    return run


def test_quickstart(user: GridUser) -> None:
    run = trains(user, "quickstart")
    assert re.search(r"2 tasks by mpirun, 1 node: n\d \(job ", user.log(run))
    metrics = json.loads((user.directory / "runs" / run / "outputs" / "metrics.json").read_text())
    assert metrics["ranks"] == 2


@pytest.mark.parametrize("launcher", ["mpirun", "horovodrun"])
def test_horovod_on_two_hosts(user: GridUser, launcher: str) -> None:
    run = trains(user, "horovod_digits", f"--set=batch.launcher={launcher}", *SIXTEEN_CPUS)
    assert re.search(rf"4 tasks by {launcher}, 2 nodes: n\d n\d \(job ", user.log(run))
    assert " on 4 ranks" in user.log(run)


def test_two_hosts_over_qrsh(user: GridUser) -> None:
    (user.directory / "qrsh.yaml").write_text(SITE.read_text().replace("sge:\n", "sge:\n  remote: qrsh\n"))
    a_node = "resources={cpu: {requests: 16}}"
    sizes = [f"--set=environment.{where}{a_node}" for where in ("", "replicas.default_worker.")]
    run = trains(user, "quickstart", "--site=./qrsh.yaml", *sizes)
    assert re.search(r"2 tasks by mpirun, 2 nodes: n\d n\d \(job ", user.log(run))
    records = user.grid.run("qacct", "-j", user.job(run)).stdout
    assert records.count("jobnumber") == 2, records  # what qrsh starts has a record of its own


def test_the_rendered_script_runs_by_hand_without_hpcdist(user: GridUser) -> None:
    rendered = user.hpcdist("render", "examples/quickstart.yml")
    assert rendered.returncode == 0, rendered.stderr
    (user.directory / "job.sh").write_text(rendered.stdout)
    path = f"{CHECKOUT}/.venv/bin:/usr/bin:/bin"
    done = user.cluster.run(["qsub", "-sync", "y", "job.sh"], cwd=user.directory, env={"PATH": path})
    (log,) = user.directory.glob("quickstart-*.out")
    assert done.returncode == 0, done.stdout + done.stderr + log.read_text()
    assert accuracy(log.read_text()) > 0.9


def test_a_program_beside_the_tasks_has_a_host_of_its_own(user: GridUser) -> None:
    ready = "for _ in {1..100}; do [[ ! -e ready ]] || break; sleep 0.2; done"
    keys = {
        "framework": "mpi",
        "environment": {"resources": {"cpu": {"requests": 16}}},
        "run": {
            "cmd": f'{ready}; echo "task 0 of $HPCDIST_SIZE on $HOSTNAME beside $HPCDIST_BESIDE_NODE"',
            "beside": [
                {"cmd": 'echo "serving on $HOSTNAME"; touch ready; exec sleep 1000', "on": "own_node"}
            ],
        },
        "batch": {"walltime": "5m"},
    }
    done = user.hpcdist("submit", user.write("own", keys), "--wait")
    log = user.log("own-1")
    assert done.returncode == 0, done.stderr + log
    [where] = re.findall(r"task 0 of 1 on (n\d) beside (n\d)", log)
    [served] = (user.directory / "runs" / "own-1" / "logs").glob("job.beside-*.out")
    assert where[0] != where[1]
    assert f"serving on {where[1]}" in served.read_text()


BY_TYPE = """\
name: by-type
description: hosts that are requested as TSUBAME4's are
scheduler: sge
launcher: mpirun
sge: {account: -g}
directives: {size: ["-l {node_type}={nodes}"]}
node_types: {node_h: {cpus: 8}}
partitions: {node_h: {nodes: {node_h: 2}, submit_as: ""}}
replica: {cpus: 1}
walltime: 00:10:00
"""
QSUB = r"""
echo "$*" >>asked
while (($# > 1)); do
  if [[ $1 == -g ]]; then shift 2; else words+=("$1"); shift; fi
done
sed 's/^#\$ -l node_h=2$/#$ -pe mpi-8 16/' "$1" >job-of-the-site.sh
exec /usr/bin/qsub "${words[@]}" job-of-the-site.sh
"""
"""What a site's qsub makes of a resource type: a parallel environment and its slots."""


def test_two_hosts_by_a_resource_type(user: GridUser) -> None:
    (user.directory / "by-type.yaml").write_text(BY_TYPE)
    sizes = [
        f"--set=environment.{where}resources={{cpu: {{requests: 8}}}}"
        for where in ("", "replicas.default_worker.")
    ]
    words = (
        "submit",
        "examples/quickstart.yml",
        "--wait",
        "--site=./by-type.yaml",
        "--set=batch.account=tga-x",
        *sizes,
    )
    done = user.hpcdist(*words, env=user.with_command("qsub", QSUB))
    (run,) = (path.name for path in (user.directory / "runs").iterdir() if path.is_dir())
    assert done.returncode == 0, done.stderr + user.log(run)
    assert re.search(r"2 tasks by mpirun, 2 nodes: n\d n\d \(job ", user.log(run))
    assert " -g tga-x " in (user.directory / "asked").read_text()
