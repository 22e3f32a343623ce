"""Apptainer for real; the image is an empty folder, into which the site binds the machine's programs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from hpcdist.base.resources import shipped
from tests.slurm.cluster import CHECKOUT, Cluster
from tests.slurm.users import ENVIRONMENT, PYTHON, User

pytestmark = [pytest.mark.real, pytest.mark.extended]

APPTAINER = CHECKOUT / ".frameworks" / "apptainer" / "bin" / "apptainer"
LINKS = ("bin", "lib", "lib64", "sbin")
FOLDERS = ("usr", "etc", "proc", "sys", "dev", "tmp", "var/tmp", "run")


RUNSCRIPT = """#!/bin/sh
if [ -n "$SINGULARITY_NO_EVAL" ]; then
    [ $# -gt 0 ] || set -- by default
    exec /bin/echo "$@"
fi
eval "set -- $*"
exec /bin/echo "$@"
"""
"""What Apptainer writes for an image of Docker with an ENTRYPOINT and a CMD (1.4.5), shortened."""


CALL = """\
import json
import hpcdist

def place():
    import os
    return [os.path.exists("/inside"), os.environ["RANK"], os.environ["WORLD_SIZE"]]

on = hpcdist.define(name="call", framework="pytorch", nodes=2, image="./image", site="./boxed.yaml")
print(json.dumps(hpcdist.call(place, on=on)))
"""


@pytest.fixture
def user(cluster: Cluster, workdir: Path, examples: None) -> User:
    del examples  # of which it needs to be there
    image = workdir / "image"
    for folder in FOLDERS:
        (image / folder).mkdir(parents=True)
    for link in LINKS:
        (image / link).symlink_to(f"usr/{link}")
    for file in ("inside", "etc/passwd", "etc/group"):  # Apptainer adds the user, whose name MPI asks for
        (image / file).write_text("")
    site = yaml.safe_load((shipped("site_configs") / "testbed.yaml").read_text())
    spool = cluster.settings.directory / "spool"  # there, and in /run/slurm, PMIx meets the tasks
    site["setup"] = [f"export PATH={APPTAINER.parent}:$PATH"]
    site["container"] = {
        "runtime": "apptainer",
        "binds": ["/usr", str(CHECKOUT), str(spool), "/run/slurm"],
        "env": {"ONLY_INSIDE": "a b", "LEVEL": "site", "PATH": f"{PYTHON.parent}:/usr/bin"},
    }
    (workdir / "boxed.yaml").write_text(yaml.safe_dump(site | {"name": "boxed", "sources": []}))
    return User(cluster, workdir)


def test_a_shell_is_in_the_container_and_the_program_outside(user: User) -> None:
    file = user.write("boxed", {"build": {"image": "./image"}, "run": {"cmd": "true"}})
    script = "test -e /inside && echo $ONLY_INSIDE $HPCDIST_NODES $PWD; exit 4"
    done = user.hpcdist("shell", file, "--site=./boxed.yaml", "--", "sh", "-c", script)
    assert (done.returncode, done.stdout) == (4, f"a b {user.directory}\n"), done.stderr


def submitted(user: User, file: str | Path, *options: str) -> str:
    done = user.hpcdist("submit", file, "--wait", "--site=./boxed.yaml", *options)
    logs = [user.log(path.name) for path in user.directory.glob("runs/[!.]*")]
    assert (done.returncode, len(logs)) == (0, 1), done.stderr + "".join(logs)
    return logs[0]


def write_runscript(user: User, text: str) -> None:
    """Give the image the program that its ENTRYPOINT would be."""
    script = user.directory / "image" / ".singularity.d" / "runscript"
    script.parent.mkdir()
    script.write_text(text)
    script.chmod(0o755)


PROBE = (
    'echo "probe $HPCDIST_RANK $(test -e /inside && echo inside) '
    '$ONLY_INSIDE $LEVEL $OMP_NUM_THREADS $MESSAGE"'
)


def test_tasks_of_two_nodes_are_inside_and_know_their_place(user: User) -> None:
    file = user.write(
        "boxed",
        {
            "framework": "mpi",
            "build": {"image": "./image"},
            "environment": {
                "resources": {"cpu": {"requests": 12}},
                "replicas": {"n_workers": 1, "default_worker": {"resources": {"cpu": {"requests": 12}}}},
                "env_vars": {"MESSAGE": 'it\'s $HOME, "quoted"', "LEVEL": "mine"},
            },
            "run": {"cmd": PROBE},
        },
    )
    log = submitted(user, file)
    lines = sorted(line.partition(": ")[2] for line in log.splitlines() if "probe " in line)
    assert lines == [f'probe {rank} inside a b mine 12 it\'s $HOME, "quoted"' for rank in range(2)]


@pytest.mark.parametrize(("cpus", "nodes"), [(1, "1 node: n1 "), (12, "2 nodes: n1 n2 ")])
def test_training_over_mpi(user: User, cpus: int, nodes: str) -> None:
    size = f"resources={{cpu: {{requests: {cpus}}}}}"
    sizes = [f"--set=environment.{where}{size}" for where in ("", "replicas.default_worker.")]
    log = submitted(user, "examples/quickstart.yml", "--set=build.image=./image", *sizes)
    assert f"2 tasks by srun, {nodes}" in log
    assert "test accuracy" in log
    assert "on 2 ranks" in log


def test_torchrun_is_that_of_the_commands_own_environment(user: User) -> None:
    folder = user.directory / "venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "activate").write_text(f"export PATH={folder}:$PATH\n")
    (folder / "torchrun").write_text(
        '#!/bin/bash\necho "its torchrun $(test -e /inside && echo inside)"\n'
        f'exec {PYTHON.parent}/torchrun "$@"\n'
    )
    (folder / "torchrun").chmod(0o755)
    size = "resources={cpu: {requests: 12}}"
    sizes = [f"--set=environment.{where}{size}" for where in ("", "replicas.default_worker.")]
    command = "--set=run.cmd=source venv/bin/activate && python examples/pytorch_ddp.py"
    sizes.append("--set=environment.replicas.n_workers=1")
    log = submitted(user, "examples/pytorch_ddp.yml", "--set=build.image=./image", *sizes, command)
    assert log.count("its torchrun inside") == 2
    assert re.search(r"loss \S+ -> \S+ on \d+ cpu processes", log)


def test_the_first_failure_is_the_jobs(user: User) -> None:
    file = user.write("fails", {"build": {"image": "./image"}, "run": {"cmd": "exit 7"}})
    done = user.hpcdist("submit", file, "--wait", "--site=./boxed.yaml")
    log = user.log("fails-1")
    assert done.returncode == 7, done.stderr + log
    assert "rank 0 on n" in log


@pytest.mark.parametrize(
    ("args", "output"),
    [("--rank=$HPCDIST_RANK \"it's\" '$HOME  `x`'", "--rank={} it's $HOME  `x`"), (None, "by default")],
)
def test_the_images_own_entrypoint(user: User, args: str | None, output: str) -> None:
    write_runscript(user, RUNSCRIPT)
    section = {
        "resources": {"cpu": {"requests": 12}},
        "replicas": {"n_workers": 1, "default_worker": {"resources": {"cpu": {"requests": 12}}}},
    }
    run = {"entrypoint": "image"} | ({"args": args} if args else {})
    data = {"framework": "mpi", "build": {"image": "./image"}, "environment": section, "run": run}
    log = submitted(user, user.write("entrypoint", data))
    lines = sorted(line for line in log.splitlines() if line[:3] in ("0: ", "1: "))
    assert lines == [f"{rank}: {output.format(rank)}" for rank in range(2)]


def test_without_the_image(user: User) -> None:
    file = user.write(
        "outside", {"build": {"image": "./image"}, "run": {"cmd": "test ! -e /inside && echo fine"}}
    )
    log = submitted(user, file, "--no-container")
    assert "fine" in log


def test_a_function_is_called_inside(user: User) -> None:
    argv: list[str | Path] = [PYTHON, "-c", CALL]
    done = user.cluster.run(argv, user=user.name, cwd=user.directory, env=ENVIRONMENT, timeout=600)
    assert (done.returncode, done.stdout) == (0, '[true, "0", "2"]\n'), done.stderr


SAVES = """\
[ -e /inside ] || exit 9
trap 'exit 7' USR1 TERM
last=$(cd "$HPCDIST_CHECKPOINTS" && ls | sed -n 's/^step-//p' | sort -n | tail -n 1)
for ((step = ${last:-0} + 1; step < 100000; step++)); do
  sleep 1
  echo "$step" >"$HPCDIST_CHECKPOINTS/new"
  mv "$HPCDIST_CHECKPOINTS/new" "$HPCDIST_CHECKPOINTS/step-$step"
  rm -f "$HPCDIST_CHECKPOINTS/step-$((step - 2))"
done
"""


def test_a_rehearsal_finds_the_ranks_in_their_containers(user: User) -> None:
    (user.directory / "saves.sh").write_text(SAVES)
    experiment = {
        "build": {"image": "./image"},
        "environment": {"restart": {"notice": "20s"}},
        "run": {"cmd": "exec bash saves.sh"},
        "batch": {"walltime": "10m"},
    }
    words = ("--site=./boxed.yaml", "--minutes=60", "--seed=1", "--json")
    done = user.hpcdist("rehearse", user.write("boxed", experiment), *words)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert [(each["kind"], each["went_on"], each["shown_by"]) for each in found["attempts"]] == [
        ("notice", None, None),
        ("write", True, "names"),
        ("node", True, "names"),
        ("last", True, "names"),
    ]
    assert found["verdict"] == "passes"
