"""Code as it was submitted, on the real Slurm: a file that is edited while the job is queued."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.test_shapes import needs, shape
from tests.slurm.users import User

pytestmark = pytest.mark.real

COMMIT = "git init -q . && git add -A && git -c user.name=a -c user.email=a@b.org commit -qm first"


def test_a_file_that_is_edited_while_the_job_is_queued(cluster: Cluster, workdir: Path) -> None:
    cluster.run(["mkdir", "sub"], cwd=workdir, check=True)
    user = User(cluster, workdir / "sub")
    program = workdir / "version.sh"
    program.write_text("echo version committed in $PWD\n")
    keys = {"framework": "mpi", "environment": shape(needs(cpu=9), 1), "run": {"cmd": "bash ../version.sh"}}
    user.write("held", keys | {"batch": {"directives": ["--hold"]}})
    cluster.run(["bash", "-c", COMMIT], cwd=workdir, check=True)
    program.write_text("echo version submitted in $PWD\n")
    for source in ("here", "snapshot", "git"):
        done = user.hpcdist("submit", "held.yml", "--set", f"batch.code={source}")
        assert done.returncode == 0, done.stderr
    program.write_text("echo version edited in $PWD\n")
    runs = ("held-1", "held-2", "held-3")
    records = [user.json("describe", run) for run in runs]
    cluster.run(["scontrol", "release", ",".join(one["job_id"] for one in records)], check=True)
    done = user.hpcdist("wait", *runs)
    assert done.returncode == 0, done.stdout + done.stderr
    folders = [user.directory, *(Path(one["directory"]) / "code" / "sub" for one in records[1:])]
    said = {
        run: {line.partition(": ")[2] for line in user.log(run).splitlines() if "version" in line}
        for run in runs
    }
    assert said == {
        "held-1": {f"version edited in {folders[0]}"},
        "held-2": {f"version submitted in {folders[1]}"},
        "held-3": {f"version committed in {folders[2]}"},
    }
    assert [(one["code"], one["dirty"]) for one in records] == [
        ("here", True),
        ("snapshot", True),
        ("git", False),
    ]
