"""The test cluster itself: a real Slurm, several hosts, and nothing left of it afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.slurm.cluster import CHECKOUT, Cluster
from tests.slurm.config import DEFAULT_NODES, Node, Settings, slurm_conf
from tests.slurm.jobs import submit, wait_end, wait_state
from tests.slurm.mounts import SHM, TMP
from tests.slurm.process import ClusterError, until
from tests.slurm.requirements import ACCOUNTING_PACKAGES, PACKAGES, missing

pytestmark = pytest.mark.real

ONE_NODE = (Node("n1", gpu_type="a100", gpus=4),)
KINDS = ("ipc", "mnt", "net", "pid", "uts")


def namespaces(*pids: int | str) -> set[str]:
    """The namespaces of processes, such as `net:[4026531840]`, of those that still exist."""
    found = set()
    for pid in pids:
        for kind in KINDS:
            try:
                found.add(str(Path(f"/proc/{pid}/ns/{kind}").readlink()))
            except OSError:
                continue
    return found


def living() -> set[str]:
    return namespaces(*(path.name for path in Path("/proc").glob("[0-9]*")))


def host_state() -> tuple[str, ...]:
    """What a cluster must not change on the machine it runs on; other clusters run beside it."""
    patterns = {"/sys/class/net": "*", "/sys/fs/cgroup": "*/[!h]*/", "/dev": "*", "/run": "*"}
    listings = [sorted(map(str, Path(folder).glob(pattern))) for folder, pattern in patterns.items()]
    files = ("/etc/passwd", "/etc/shadow", "/etc/group", "/etc/hosts")
    return (os.uname().nodename, *map(str, listings), *(Path(file).read_text() for file in files))


def mounts(pid: int | str = "self") -> set[str]:
    """What is mounted where, as this process sees it."""
    return set(Path(f"/proc/{pid}/mounts").read_text().splitlines())


@pytest.fixture(scope="module")
def hello(cluster: Cluster) -> Path:
    """An MPI program on the shared file system."""
    program = cluster.home() / "hello"
    cluster.run(["mpicc", "-o", program, Path(__file__).with_name("hello.c")], check=True)
    return program


def test_five_nodes_are_idle(cluster: Cluster) -> None:
    assert cluster.states() == dict.fromkeys(["n1", "n2", "n3", "n4", "c1"], "idle")


@pytest.mark.extended
def test_partitions_and_gpus_are_those_of_the_nodes(cluster: Cluster) -> None:
    shown = cluster.run(["sinfo", "-h", "-o", "%P %N %c %m %G %f"], check=True).stdout.split("\n")
    assert set(filter(None, shown)) >= {
        "a100 n[1-2] 16 64000 gpu:a100:4 a100,nvlink",
        "v100 n[3-4] 16 64000 gpu:v100:2 v100",
        "cpu c1 32 128000 (null) cpuonly",
    }
    assert any(line.startswith("gpu* ") for line in shown)


@pytest.mark.extended
def test_batch_job_over_two_nodes(cluster: Cluster, workdir: Path) -> None:
    job = submit(cluster, "#!/bin/bash\nhostname\nsrun hostname | sort\n", "-N2", "-n2", cwd=workdir)
    assert wait_end(cluster, job) == "COMPLETED"
    assert (workdir / "output").read_text().split() == ["n1", "n1", "n2"]


@pytest.mark.extended
def test_srun_with_pmix_makes_one_world(cluster: Cluster, hello: Path) -> None:
    said = cluster.run(["srun", "-N2", "-n2", "--mpi=pmix", hello], check=True).stdout
    assert sorted(said.splitlines()) == ["0 of 2 on n1", "1 of 2 on n2"]


@pytest.mark.extended
def test_mpirun_in_a_batch_job(cluster: Cluster, hello: Path, workdir: Path) -> None:
    script = f"#!/bin/bash\nmpirun {hello}\n"
    job = submit(cluster, script, "-N2", "--ntasks-per-node=2", cwd=workdir)
    assert wait_end(cluster, job) == "COMPLETED"
    said = sorted((workdir / "output").read_text().splitlines())
    assert said == ["0 of 4 on n1", "1 of 4 on n1", "2 of 4 on n2", "3 of 4 on n2"]


@pytest.mark.extended
@pytest.mark.parametrize(
    ("gres", "devices"), [("gpu:2", "0,1"), ("gpu:a100:3", "0,1,2"), ("gpu:v100:1", "0")]
)
def test_a_job_sees_the_gpus_it_got(cluster: Cluster, gres: str, devices: str) -> None:
    said = cluster.run(["srun", f"--gres={gres}", "printenv", "CUDA_VISIBLE_DEVICES"], check=True).stdout
    assert said == f"{devices}\n"


@pytest.mark.extended
def test_more_gpus_than_a_node_has_are_refused(cluster: Cluster) -> None:
    refused = cluster.run(["srun", "--gres=gpu:5", "true"])
    assert refused.returncode == 1
    assert "Requested node configuration is not available" in refused.stderr


@pytest.mark.extended
def test_ssh_between_nodes(cluster: Cluster) -> None:
    for user in ("hu1", "hu2"):
        said = cluster.run(
            ["ssh", "n3", "ssh c1 'hostname; whoami'"], user=user, node="n1", check=True
        ).stdout
        assert said.split() == ["c1", user]


@pytest.mark.extended
def test_users_are_shut_out_of_each_others_homes(cluster: Cluster) -> None:
    assert cluster.run(["ls", cluster.home("hu1")], user="hu2").returncode == 2


def test_environment_is_the_one_promised(cluster: Cluster) -> None:
    said = cluster.run(["env"], env={"EXTRA": "a b"}, check=True).stdout
    home = cluster.home()
    assert dict(line.split("=", 1) for line in said.splitlines()) == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(home),
        "USER": "hu1",
        "LANG": "C.UTF-8",
        "EXTRA": "a b",
    }


@pytest.mark.extended
def test_run_takes_input_and_a_directory(cluster: Cluster, workdir: Path) -> None:
    assert cluster.run(["sh", "-c", "pwd; cat"], cwd=workdir, input="words").stdout == f"{workdir}\nwords"


@pytest.mark.extended
def test_run_with_check_raises(cluster: Cluster) -> None:
    with pytest.raises(subprocess.CalledProcessError, match="exit status 3"):
        cluster.run(["sh", "-c", "exit 3"], check=True)


@pytest.mark.extended
def test_run_past_its_time_is_killed(cluster: Cluster) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        cluster.run(["sh", "-c", "sleep 61.5 & sleep 61.5"], timeout=0.5)
    until(lambda: cluster.run(["pgrep", "-f", "sleep 61.[5]"]).returncode == 1, "the sleepers to be gone", 50)


@pytest.mark.extended
def test_signal_reaches_the_program(cluster: Cluster) -> None:
    process = cluster.popen(
        ["sh", "-c", "trap 'echo caught; exit 7' INT; echo set; while :; do sleep 0.1; done"]
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "set\n"
    cluster.signal(process, signal.SIGINT)
    assert process.communicate(timeout=120) == ("caught\n", "")
    assert process.returncode == 7


@pytest.mark.extended
def test_tmp_is_private_and_home_is_shared(cluster: Cluster, workdir: Path) -> None:
    cluster.run(["sh", "-c", f"hostname > {TMP}/mark; hostname > {workdir}/mark"], node="n1", check=True)
    assert cluster.run(["cat", TMP / "mark"], node="n2").returncode == 1
    assert cluster.run(["cat", workdir / "mark"], node="n2").stdout == "n1\n"
    assert (workdir / "mark").read_text() == "n1\n"


@pytest.mark.extended
def test_the_checkout_is_on_every_node(cluster: Cluster) -> None:
    for node in ("head", "n1", "c1"):
        assert cluster.run(["cat", __file__], node=node).stdout == Path(__file__).read_text()


@pytest.mark.extended
def test_a_crashed_node_fails_its_job_and_comes_back(cluster: Cluster, workdir: Path) -> None:
    job = submit(cluster, "#!/bin/bash\nsleep 300\n", "--no-requeue", "-w", "n2", cwd=workdir)
    wait_state(cluster, job, "RUNNING")
    cluster.crash("n2", noticed=False)
    silent = cluster.run(["ssh", "-oConnectTimeout=1", "n2", "true"])
    assert (silent.returncode, silent.stderr.strip()) == (
        255,
        "ssh: connect to host n2 port 22: Connection timed out",
    )
    until(lambda: cluster.states()["n2"] == "down*", "Slurm to notice", 60)
    assert wait_end(cluster, job) == "NODE_FAIL"
    cluster.restore("n2")
    assert cluster.states()["n2"] == "idle"
    assert cluster.run(["srun", "-w", "n2", "hostname"], check=True).stdout == "n2\n"


def test_heal_mends_whatever_a_test_left(cluster: Cluster, workdir: Path) -> None:
    for _ in range(2):
        submit(cluster, "#!/bin/bash\nsleep 300\n", "-w", "n1", "--exclusive", cwd=workdir)
    cluster.crash("n3")
    cluster.run(["scontrol", "update", "nodename=n4", "state=drain", "reason=test"], user="root", check=True)
    cluster.run(["scontrol", "update", "nodename=c1", "state=down", "reason=test"], user="root", check=True)
    cluster.heal()
    assert cluster.states() == dict.fromkeys(cluster.nodes, "idle")
    assert cluster.run(["squeue", "-h"]).stdout == ""
    assert len(cluster.run(["srun", "-N5", "-p", "all", "hostname"], check=True).stdout.split()) == 5


@pytest.mark.extended
def test_sacct_remembers_a_job_and_its_comment(accounting_cluster: Cluster, workdir: Path) -> None:
    job = submit(accounting_cluster, "#!/bin/bash\nexit 5\n", "--comment=a comment", cwd=workdir)
    query = ["sacct", "-n", "-P", "-X", "-j", job, "-o", "jobid,user,state,exitcode,comment"]
    expected = f"{job}|hu1|FAILED|5:0|a comment\n"
    until(lambda: accounting_cluster.run(query, check=True).stdout == expected, "sacct to know the job")


@pytest.mark.extended
def test_the_next_cluster_gets_the_empty_database_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with Cluster.boot(tmp_path / "cluster", nodes=ONE_NODE, accounting=True) as cluster:
        assert cluster.run(["sacct"]).returncode == 0
    (kept,) = (tmp_path / ".cache" / "hpcdist").iterdir()
    assert kept.name.startswith("mariadb-")
    assert not (tmp_path / "cluster" / "mariadb.tar").exists()


@pytest.mark.extended
def test_without_accounting_sacct_says_so(cluster: Cluster) -> None:
    refused = cluster.run(["sacct"])
    assert (refused.returncode, refused.stderr) == (1, "Slurm accounting storage is disabled\n")


@pytest.mark.extended
def test_two_clusters_side_by_side(cluster: Cluster, tmp_path: Path) -> None:
    with Cluster.boot(tmp_path / "second", nodes=ONE_NODE) as second:
        assert second.run(["srun", "hostname"], check=True).stdout == "n1\n"
        second.crash("n1")
        assert cluster.run(["srun", "-w", "n1", "hostname"], check=True).stdout == "n1\n"
    assert cluster.states()["n1"] == "idle"


@pytest.mark.extended
def test_killing_its_pid_leaves_nothing(tmp_path: Path) -> None:
    before, mounted = host_state(), mounts()
    cluster = Cluster.boot(tmp_path / "doomed", accounting=True)
    own = set[str]().union(*map(mounts, cluster.pids.values())) - mounted
    assert {mount.split()[1] for mount in own} >= {str(SHM), str(TMP), "/etc", "/run"}
    submit(cluster, "#!/bin/bash\nsleep 300\n", "-N4", cwd=cluster.home())
    inside = namespaces(*cluster.pids.values()) - namespaces("self")
    assert len(inside) == len(KINDS) * 6
    assert host_state() == before
    assert not own & mounts()  # others may mount something meanwhile
    os.kill(cluster.pid, signal.SIGKILL)
    until(lambda: not inside & living(), "the cluster to be gone", 10, every=0.01)
    cluster.stop()
    assert host_state() == before
    assert not own & mounts()
    shutil.rmtree(tmp_path / "doomed")


@pytest.mark.extended
def test_stop_leaves_nothing_and_may_be_repeated(tmp_path: Path) -> None:
    with Cluster.boot(tmp_path / "short", nodes=ONE_NODE) as cluster:
        inside = namespaces(*cluster.pids.values()) - namespaces("self")
        cluster.stop()
        assert not inside & living()


BOOTER = """
import sys, time
from pathlib import Path
from tests.slurm.cluster import Cluster
cluster = Cluster.boot(Path(sys.argv[1]))
print(*cluster.pids.values(), flush=True)
time.sleep(60)
"""


@pytest.mark.extended
def test_it_dies_with_its_booter(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", BOOTER, str(tmp_path / "orphan")]
    with subprocess.Popen(argv, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as booter:
        assert booter.stdout is not None
        inside = namespaces(*booter.stdout.readline().split()) - namespaces("self")
        booter.kill()
    assert len(inside) == len(KINDS) * 6
    until(lambda: not inside & living(), "the cluster to die with its booter", 10, every=0.01)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("inside", "visible"),
    [("clone", {"clone", "cluster"}), (".", {"cluster", "secret", "program"})],
    ids=["below a closed directory", "closed itself"],
)
def test_closed_directories_are_open_inside(tmp_path: Path, inside: str, visible: set[str]) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / inside).mkdir(exist_ok=True)
    shared = closed / inside
    (shared / "program").write_text("#!/bin/sh\necho from $(hostname)\n")
    (shared / "program").chmod(0o755)
    (closed / "secret").write_text("not shared")
    with Cluster.boot(closed / "cluster", nodes=ONE_NODE, share=[shared]) as cluster:
        assert cluster.run([shared / "program"], check=True).stdout == "from head\n"
        assert cluster.run(["srun", shared / "program"], check=True).stdout == "from n1\n"
        assert cluster.run(["ls", closed], check=True).stdout.split() == sorted(visible)
    assert closed.stat().st_mode & 0o777 == 0o700


@pytest.mark.extended
def test_a_head_that_dies_says_why(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"head did not come up:(.|\n)*CalledProcessError"):
        Cluster.boot(tmp_path / "bad", nodes=[Node("a name with spaces")])


def test_missing_programs_are_named_with_their_packages() -> None:
    sentence = missing(accounting=True, path="/nowhere")
    listed = Path(__file__).with_name("packages.txt").read_text().split()
    assert all(package in listed for package in (PACKAGES | ACCOUNTING_PACKAGES).values())
    assert "slurmctld, slurmd, " in sentence
    assert sentence.endswith(" ".join(sorted({*PACKAGES.values(), *ACCOUNTING_PACKAGES.values()})))
    assert missing(accounting=True) == ""


@pytest.mark.extended
def test_only_nodes_without_gpus_still_have_a_default_partition(tmp_path: Path) -> None:
    text = slurm_conf(Settings(tmp_path, (), DEFAULT_NODES[-1:]))
    assert "PartitionName=cpu Nodes=c1 Default=YES\nPartitionName=all Nodes=c1\n" in text
