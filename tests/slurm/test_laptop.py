"""A laptop that shares no file system with the cluster: it reaches the login node by ssh alone."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import block
from tests.slurm.cluster import CHECKOUT, Cluster, Completed, Process
from tests.slurm.process import UNSHARE, first_below, until
from tests.slurm.users import PYTHON, User

pytestmark = [pytest.mark.real, pytest.mark.extended, pytest.mark.long]

ADDRESS = "10.77.0.200"

# What the cluster shares is covered: the homes, and the sockets and files of Slurm.
BEGIN = """\
set -e
mount -t tmpfs tmpfs {home}
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /etc/slurm
ip addr add {address}/24 dev eth0
ip link set lo up
ip link set eth0 up
install -d -o hu1 -g hu1 -m 700 {own} {own}/.ssh
install -o hu1 -g hu1 -m 600 {key} {own}/.ssh/id_ed25519
touch /run/ready
exec sleep infinity
"""

BASHRC = """\
echo "Welcome to the cluster"
false
unset_command_of_a_module
set -u; echo "$no_such_variable"
"""


@pytest.fixture
def laptop(cluster: Cluster) -> Iterator[User]:
    """Yield somebody on a laptop, which is in the cluster's network and has nothing else of it."""
    for line in (
        "ip netns add laptop",
        "ip link add laptop type veth peer name eth0 netns laptop",
        "ip link set laptop master br0 up",
    ):
        cluster.run(line.split(), user="root", check=True)
    own, log = cluster.home(), cluster.settings.log("laptop")
    key = cluster.settings.directory / "laptop.key"
    shutil.copy(own / ".ssh" / "id_ed25519", key)
    text = BEGIN.format(home=own.parent, own=own, address=ADDRESS, key=key)
    words = ["ip", "netns", "exec", "laptop", *UNSHARE, "sh", "-c", text]
    with log.open("w") as file:
        holder = cluster.popen(words, user="root", stdout=file, stderr=file)
    cluster.pids["laptop"] = first_below(holder, log)
    ready = ["test", "-e", "/run/ready"]
    until(lambda: cluster.run(ready, user="root", node="laptop").returncode == 0, f"the laptop: {log}", 60)
    yield User(cluster, own)
    os.kill(cluster.pids.pop("laptop"), signal.SIGKILL)
    holder.wait(30)
    cluster.run(["ip", "netns", "del", "laptop"], user="root", check=True)


PATH = {"PATH": f"{PYTHON.parent}:/usr/bin:/bin"}
HPCDIST = (PYTHON, "-m", "hpcdist")
REMOTE = {"host": "head", "directory": "~/far", "site": "testbed", "python": str(PYTHON)}


def run(laptop: User, *words: str | Path) -> Completed:
    """Run a command on the laptop, which must succeed."""
    done = laptop.cluster.run(words, cwd=laptop.directory, env=PATH, node="laptop")
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def start(laptop: User, *words: str | Path) -> Process:
    """Start a command on the laptop."""
    return laptop.cluster.popen(words, cwd=laptop.directory, env=PATH, node="laptop")


def write(laptop: User, name: str, text: str) -> None:
    """Write a file on the laptop, whose file system only its own processes see."""
    script = 'mkdir -p "$(dirname "$1")" && printf %s "$2" >"$1"'
    run(laptop, "sh", "-c", script, "sh", name, text)


def test_the_horovod_example_trains_there_and_its_model_comes_back(cluster: Cluster, laptop: User) -> None:
    for name in ("horovod_digits.yml", "horovod_digits.py"):
        write(laptop, f"examples/{name}", (CHECKOUT / "examples" / name).read_text())
    write(laptop, ".config/hpcdist/config.yml", json.dumps({"remotes": {"cluster": REMOTE}}))
    (cluster.home() / ".bashrc").write_text(BASHRC)
    each = ("resources", "replicas.default_worker.resources")
    settings = [f"--set=environment.{where}.cpu.requests=8" for where in each]
    where = ("--on", "cluster", "--follow", "--set=batch.code=snapshot")
    followed = run(laptop, *HPCDIST, "submit", "examples/horovod_digits.yml", *where, *settings).stdout
    assert "2 nodes: n1 n2 (job " in followed
    assert "test accuracy 0.9" in followed
    [state] = json.loads(run(laptop, *HPCDIST, "status", "--json").stdout)
    assert (state["name"], state["state"], state["exit_code"]) == ("horovod-digits-1", "completed", 0)
    recorded = json.loads(run(laptop, *HPCDIST, "metrics", "horovod-digits-1", "--json", "accuracy").stdout)
    assert recorded[0]["last"] > 0.9
    run(laptop, *HPCDIST, "outputs", "horovod-digits-1", "--get", "*")
    there = cluster.home() / "far" / "horovod-digits-1" / "outputs"
    assert json.loads((there / "metrics.json").read_text())["ranks"] == 4
    here = run(laptop, "sha256sum", "runs/horovod-digits-1/outputs/model.pt").stdout.split()[0]
    assert here == hashlib.sha256((there / "model.pt").read_bytes()).hexdigest()
    assert not (laptop.directory / "runs").exists()  # there, where the laptop's files are not seen


SLOW_SBATCH = """\
#!/bin/sh
touch "$HOME/called"
sleep 5
exec /usr/bin/sbatch "$@"
"""


def cut(laptop: User) -> None:
    """Cut the laptop's line; its ssh gives the connection up, of which the cluster hears nothing."""
    laptop.cluster.run(["ip", "link", "set", "laptop", "down"], user="root", check=True)
    leave = 'for socket in /tmp/hpcdist-ssh-*/*; do [ ! -S "$socket" ] || ssh -S "$socket" -O exit head; done'
    run(laptop, "sh", "-c", f"{leave}; true")


def mended(laptop: User) -> None:
    """Mend the line."""
    laptop.cluster.run(["ip", "link", "set", "laptop", "up"], user="root", check=True)


def test_a_line_that_is_cut_in_the_middle_of_sbatch_makes_one_job_for_which_wait_reconnects(
    cluster: Cluster, laptop: User
) -> None:
    home = cluster.home()
    go, called, slow = home / "go", home / "called", home / "bin" / "sbatch"
    write(laptop, ".config/hpcdist/config.yml", json.dumps({"remotes": {"cluster": REMOTE}}))
    cmd = f"until [ -e {go} ]; do sleep 0.2; done; exit 4"
    write(laptop, "cut.yml", json.dumps({"version": 1, "name": "cut", "run": {"cmd": cmd}}))
    slow.parent.mkdir(exist_ok=True)
    slow.write_text(SLOW_SBATCH)
    slow.chmod(0o755)
    (home / ".bashrc").write_text(f"PATH={slow.parent}:$PATH\n")
    submit = (*HPCDIST, "submit", "cut.yml", "--on", "cluster")
    with start(laptop, *submit) as first:
        until(called.exists, "sbatch to be called")
        cut(laptop)
        assert first.wait(300) == 5
    mended(laptop)
    assert "is completed now without another job" in run(laptop, *submit).stderr
    jobs = cluster.run(["squeue", "-h", "--me", "-n", "cut", "-o", "%i"], check=True).stdout.split()
    assert len(jobs) == 1
    with start(laptop, *HPCDIST, "wait", "cut-1") as waiting:
        assert waiting.stderr
        cut(laptop)
        while "cluster cannot be reached" not in (line := waiting.stderr.readline()):
            assert line
        mended(laptop)
        go.touch()
        assert waiting.wait(300) == 4
    (home / ".bashrc").unlink()


FETCH = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"


def test_a_tensorboard_on_a_node_is_at_a_port_of_the_laptop_while_its_run_is_waited_for(
    cluster: Cluster, laptop: User
) -> None:
    write(laptop, ".config/hpcdist/config.yml", json.dumps({"remotes": {"cluster": REMOTE}}))
    write(laptop, "board.yml", json.dumps({"kind": "tensorboard", "batch": {"walltime": "5m"}}))
    with start(laptop, *HPCDIST, "submit", "board.yml", "--on", "cluster", "--wait") as waiting:
        assert waiting.stderr
        said = next(line for line in waiting.stderr if " is at http" in line)
        url = f"{said.split()[said.split().index('at') + 1]}data/environment"
        assert json.loads(run(laptop, PYTHON, "-c", FETCH, url).stdout)["data_location"] == str(
            cluster.home() / "far"
        )
        cut(laptop)
        mended(laptop)
        fetch = (PYTHON, "-c", FETCH, url)
        again = lambda: cluster.run(fetch, cwd=laptop.directory, node="laptop").returncode == 0  # noqa: E731
        until(again, "the page")
        run(laptop, *HPCDIST, "cancel", "board-1")
        assert waiting.wait(120) != 0
    assert cluster.run(fetch, cwd=laptop.directory, node="laptop").returncode != 0
    sockets = run(laptop, "sh", "-c", "find /tmp/hpcdist-ssh-* -type s").stdout.split()
    assert len(sockets) == 1  # the connection with the node has ended, that with the cluster is kept


def test_a_pipeline_there_goes_on_when_the_cause_of_its_failure_is_mended(
    cluster: Cluster, laptop: User
) -> None:
    go, mended = cluster.home() / "go-on", cluster.home() / "mended-there"
    text = block("diamond").replace("[ -e mended ]", f"[ -e {mended} ]")
    held = text.replace("'seq", f"'until [ -e {go} ]; do sleep 0.2; done; seq")  # until all are submitted
    write(laptop, ".config/hpcdist/config.yml", json.dumps({"remotes": {"cluster": REMOTE}}))
    write(laptop, "right.yml", block("right"))
    write(laptop, "diamond.yml", held)
    run(laptop, *HPCDIST, "submit", "diamond.yml", "--on", "cluster", "-p", "size=4")
    go.touch()
    waiting = (*HPCDIST, "wait", "diamond-1")
    failed = cluster.run(waiting, cwd=laptop.directory, env=PATH, node="laptop")
    assert failed.returncode == 1, failed.stderr
    shown = json.loads(run(laptop, *HPCDIST, "status", "diamond-1", "--json").stdout)["operations"]
    assert {one["operation"]: one["state"] for one in shown} == {
        "prep": "completed",
        "left": "failed",
        "right": "completed",
        "join": "cancelled",
    }
    mended.touch()
    resumed = run(laptop, *HPCDIST, "resume", "diamond-1").stdout
    assert [line.partition(":")[0] for line in resumed.splitlines()] == ["diamond-1/left", "diamond-1/join"]
    run(laptop, *waiting)
    assert (cluster.home() / "far/diamond-1-join-1/outputs/all").read_text() == "1+2+3+4\n4\n"
    run(laptop, *HPCDIST, "restart", "--copy", "diamond-1/join")
    run(laptop, *HPCDIST, "wait", "diamond-1-join-2")
    assert (cluster.home() / "far/diamond-1-join-2/outputs/all").read_text() == "1+2+3+4\n4\n"
