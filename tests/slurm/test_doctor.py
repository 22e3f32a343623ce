"""`hpcdist doctor --job` on the real Slurm: a machine that is well, and two that are not."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.slurm.cluster import CHECKOUT
from tests.slurm.users import ENVIRONMENT, PYTHON, User

pytestmark = [pytest.mark.real, pytest.mark.long]

WELL: Final = {
    "job: job": "ok",
    "job: records": "ok",
    "nodes: fabric: fabric.interface": "ok",
    "nodes: gpus: gpus": "unknown",  # the cluster's GPUs are files, and have no driver
    "nodes: limits: nofile": "ok",
    "nodes: limits: shared memory": "ok",
    "nodes: python: mpi4py": "ok",
    "nodes: python: python": "ok",
    "nodes: python: torch": "ok",
    "nodes: variables: fabric": "ok",
    "network: clock": "ok",
    "network: connectivity": "ok",
    "network: names": "ok",
    "network: all-reduce by horovod": "ok",
    "network: all-reduce by mpi4py": "ok",
    "network: all-reduce by sockets": "ok",
    "network: all-reduce by torch": "ok",
    "site: pyslurm": "ok",
    "site: scheduler": "ok",
    "site: site": "ok",
    "launchers: srun": "ok",
    "launchers: srun --mpi": "ok",
}
UNRESOLVED: Final = "[Errno -3] Temporary failure in name resolution"
SPEED: Final = r"[\d.e-]+ GB/s, on the bus [\d.e-]+ GB/s; the sum is correct"


def findings(user: User, *options: str, before: Sequence[str | Path] = ()) -> list[dict[str, str]]:
    """Return what the doctor finds."""
    words: Sequence[str | Path] = (
        *before,
        PYTHON,
        "-m",
        "hpcdist",
        "doctor",
        "--job",
        "--gpus",
        "1",
        "--json",
        *options,
    )
    done = user.cluster.run(words, user=user.name, cwd=user.directory, env=ENVIRONMENT, timeout=300)
    found: list[dict[str, str]] = json.loads(done.stdout or "[]")
    odd = any(item["status"] in ("warning", "error") for item in found)
    assert (done.returncode, bool(found)) == (3 if odd else 0, True), done.stderr
    return found


def by_name(found: Sequence[Mapping[str, str]], key: str) -> dict[str, str]:
    """Return one field of each finding by group and name."""
    return {f"{item['group']}: {item['name']}": item[key] for item in found}


@pytest.mark.parametrize("launcher", ["srun", pytest.param("mpirun", marks=pytest.mark.extended)])
def test_two_nodes_that_are_well(user: User, launcher: str) -> None:
    found = findings(user, "--set", f"batch.launcher={launcher}")
    assert {name: status for name, status in by_name(found, "status").items() if name in WELL} == WELL
    assert {item["status"] for item in found} == {"ok", "note", "unknown"}
    detail = by_name(found, "detail")
    assert detail["nodes: fabric: fabric.interface"] == "n1, n2: eth0"
    for way, by in (
        ("sockets", "sockets"),
        ("torch", r"torch \S+ gloo"),
        ("mpi4py", r"mpi4py, Open MPI v[\d.]+"),
        ("horovod", "horovod mpi"),
    ):
        text = rf"{by}, \S+ [KM]iB over 2 tasks: {SPEED}"
        assert re.fullmatch(text, detail[f"network: all-reduce by {way}"])
    run = user.directory / "runs" / "doctor-1"
    assert (run / "secret").stat().st_mode & 0o777 == 0o600
    written = ["task.0.json", "task.1.json"]
    assert sorted(path.name for path in (run / "outputs").iterdir()) == written


@pytest.mark.extended
def test_a_node_that_cannot_resolve_the_other(user: User) -> None:
    known = user.cluster.run(["cat", "/etc/hosts"], check=True).stdout.splitlines(keepends=True)
    (user.directory / "hosts").write_text("".join(line for line in known if not line.endswith(" n1\n")))
    root = functools.partial(user.cluster.run, user="root", node="n2", check=True)
    root(["mount", "--bind", user.directory / "hosts", "/etc/hosts"])
    try:
        found = findings(user)
    finally:
        root(["umount", "/etc/hosts"])
    network = [item for item in found if item["group"] == "network"]
    assert [
        (item["name"], item["status"], re.sub(r"port \d+", "port P", item["detail"])) for item in network
    ] == [
        ("names", "ok", "n1: n1, n2 can be resolved"),
        ("names", "error", "n2: n1 cannot be resolved (Temporary failure in name resolution)"),
        (
            "connectivity",
            "error",
            "rank 0: not all tasks connected to n1 port P: 1 of 2 are missing, first rank 1",
        ),
        ("connectivity", "error", f"rank 1: n1 port P cannot be reached from n2: {UNRESOLVED}"),
        ("clock", "unknown", "n2 could not get the time of n1"),
        ("all-reduce", "unknown", "the tasks did not connect"),
    ]


@pytest.mark.extended
def test_a_head_node_that_has_another_name_on_another_network(user: User) -> None:
    known = user.cluster.run(["cat", "/etc/hosts"], check=True).stdout
    (user.directory / "hosts").write_text(f"{known}\n10.99.0.1 n1i\n")
    text = (CHECKOUT / "site_configs" / "testbed.yaml").read_text()
    (user.directory / "two.yaml").write_text(f"{text}\nhead_node: {{suffix: i, resolve: true}}\n")
    first, second = (
        functools.partial(user.cluster.run, user="root", node=node, check=True) for node in ("n1", "n2")
    )
    for root in (first, second):
        root(["mount", "--bind", user.directory / "hosts", "/etc/hosts"])
    first(["ip", "address", "add", "10.99.0.1/32", "dev", "lo"])
    second(["ip", "route", "add", "10.99.0.1", "via", address_of("n1", known)])
    try:
        found = findings(user, "--site", "two.yaml")
    finally:
        second(["ip", "route", "del", "10.99.0.1"])
        first(["ip", "address", "del", "10.99.0.1/32", "dev", "lo"])
        for root in (first, second):
            root(["umount", "/etc/hosts"])
    network = {name: status for name, status in by_name(found, "status").items() if "network:" in name}
    assert network == {name: status for name, status in WELL.items() if "network:" in name}


def address_of(node: str, hosts: str) -> str:
    (address,) = re.findall(rf"^(\S+)\s.*\b{node}$", hosts, re.MULTILINE)
    return str(address)


@pytest.mark.extended
def test_limits_and_interfaces_that_are_not_as_the_site_file_says(user: User) -> None:
    text = (CHECKOUT / "site_configs" / "testbed.yaml").read_text()
    fabric = "fabric: {interface: ib7, network: infiniband}"
    (user.directory / "odd.yaml").write_text(text.replace("fabric: {interface: eth0}", fabric))
    limited = ("prlimit", "--memlock=65536:65536", "--nofile=2048:2048")
    found = findings(user, "--site", "odd.yaml", before=limited)
    odd = [item for item in found if item["status"] in ("warning", "error")]
    assert [(item["group"], item["name"], item["status"]) for item in odd] == [
        ("limits", "memlock", "warning"),
        ("limits", "nofile", "warning"),
        ("nodes: limits", "memlock", "warning"),
        ("nodes: fabric", "fabric.interface", "error"),
        ("nodes: fabric", "ports", "error"),
        ("network", "all-reduce by torch", "error"),
    ]
    detail = by_name(found, "detail")
    assert detail["limits: memlock"].startswith("64 KiB: infiniband needs pinned memory")
    assert detail["nodes: fabric: fabric.interface"] == "n1, n2: ib7 is not there; there is eth0, lo"
    assert detail["network: all-reduce by torch"].endswith("Unable to find address for: ib7")
