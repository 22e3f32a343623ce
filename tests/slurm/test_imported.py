"""Job files of other tools, and job scripts, submitted as they stand on the real Slurm.

The two that say how processes are started: by an mpirun of the file's own, and by torchrun. What becomes of
the others is compared in ``tests/cli/test_import_job_files.py``.
"""

from __future__ import annotations

import pytest

from tests.importers.job_files import FILES
from tests.slurm.process import until
from tests.slurm.test_containers import user as boxed  # noqa: F401 - the fixture of a user with Apptainer
from tests.slurm.test_containers import write_runscript
from tests.slurm.users import User

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("examples")]

WORLDS: dict[str, tuple[str, ...]] = {
    "gradient": ("2 tasks by the command, 2 nodes: n1 n2 ", "hosts: 2\n", " on 2 ranks"),
    "kubeflow_pytorch": ("2 tasks by srun, 2 nodes, 2 GPUs: n1 n2 ", " on 2 cpu processes"),
}
"""What the log of each must tell: how the job was laid out, and how many its program knew of."""


def written(user: User, name: str) -> str:
    """Write a foreign file where the user is, and return its name."""
    (user.directory / f"{name}.yml").write_text(FILES[name].lstrip())
    return f"{name}.yml"


def trained(user: User, file: str, *options: str) -> str:
    """Submit a file, and return the log of its job, which ends well; --follow sees that at once."""
    done = user.hpcdist("submit", file, "--follow", *options)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.mark.extended
@pytest.mark.parametrize("name", WORLDS)
def test_a_foreign_file_is_submitted_as_it_stands(user: User, name: str) -> None:
    log = trained(user, written(user, name), "--no-container")
    assert [told for told in WORLDS[name] if told not in log] == [], log


@pytest.mark.extended
def test_a_foreign_file_is_run_in_its_image(boxed: User) -> None:  # noqa: F811 - the fixture
    options = ("--site=./boxed.yaml", "--set=build.image=./image")
    log = trained(boxed, written(boxed, "polyaxon_v1"), *options)
    assert "2 tasks by srun, 2 nodes, 2 GPUs: n1 n2 " in log
    assert " on 2 ranks" in log


AZURE = """\
type: command
name: kept
code: src
command: >-
  printf '%s %s\\n' "$(cat note)" "$(basename $PWD)" && touch outputs/$HPCDIST_RANK logs/$HPCDIST_RANK own
distribution: {type: mpi, process_count_per_instance: 2}
resources: {instance_count: 2}
"""


@pytest.mark.extended
def test_outputs_of_an_azure_job_are_those_of_its_run(user: User) -> None:
    (user.directory / "src/outputs").mkdir(parents=True)
    (user.directory / "src/note").write_text("code of node")
    (user.directory / "kept.yml").write_text(AZURE)
    lines = sorted(trained(user, "kept.yml").splitlines())
    assert [line for line in lines if "code of node" in line] == [
        f"{rank}: code of node {rank // 2}" for rank in range(4)
    ]
    outputs = user.directory / "runs/kept-1/outputs"
    found = sorted(str(path.relative_to(outputs)) for path in outputs.rglob("*"))
    assert found == ["0", "1", "2", "3", "logs", *(f"logs/{rank}" for rank in range(4))]
    assert sorted(path.name for path in (user.directory / "src").rglob("*")) == ["note", "outputs"]


NO_COMMAND = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: ddp}
spec:
  pytorchReplicaSpecs:
    Master: {template: &pod {spec: {containers: [{image: ./image, args: ["--steps=$(STEPS)"],
      env: [{name: STEPS, value: "20"}], resources: {limits: {cpu: 12}}}]}}}
    Worker: {replicas: 1, template: *pod}
"""


@pytest.mark.extended
def test_a_file_without_a_command_runs_the_program_of_its_image(boxed: User) -> None:  # noqa: F811 - the fixture
    write_runscript(
        boxed, '#!/bin/sh\necho "rank $RANK of $WORLD_SIZE, $(test -e /inside && echo inside):" "$@"\n'
    )
    (boxed.directory / "ddp.yml").write_text(NO_COMMAND.lstrip())
    log = trained(boxed, "ddp.yml", "--site=./boxed.yaml")
    assert "2 tasks by srun, 2 nodes: n1 n2 " in log
    assert [f"{rank}: rank {rank} of 2, inside: --steps=20" in log for rank in range(2)] == [True, True]


OWN = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --time=5 --comment=mine
#SBATCH --output=mine-%j.txt
srun bash -c 'echo "$SLURM_PROCID of $SLURM_NTASKS"' | sort
exit 3
"""


def test_a_script_that_is_submitted_as_it_is_has_a_run(user: User) -> None:
    script = user.directory / "own.sh"
    script.write_text(OWN)
    done = user.hpcdist("submit", "own.sh", "--as-is", "--wait")
    [record] = user.json("status", "own-1")
    assert (done.returncode, record["state"], record["exit_code"]) == (3, "failed", 3), done.stderr
    assert user.hpcdist("logs", "own-1").stdout == "0 of 2\n1 of 2\n"
    assert (user.directory / "runs" / "own-1" / "job.sh").read_text() == OWN
    assert not [*user.directory.glob("mine-*")]


def test_a_script_that_is_submitted_as_it_is_can_be_cancelled(user: User) -> None:
    script = user.directory / "long.sh"
    script.write_text("#!/bin/bash\n#SBATCH --time=5\necho begins\nsleep 300\n")
    assert user.hpcdist("submit", "long.sh", "--as-is").returncode == 0
    until(lambda: user.json("status", "long-1")[0]["state"] == "running", "the job to run")
    assert user.hpcdist("cancel", "long-1").returncode == 0
    assert user.hpcdist("wait", "long-1").returncode != 0
    assert user.json("status", "long-1")[0]["state"] == "cancelled"
