"""Pid 1 of a cluster: the login node, which is also where the controller runs."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from pathlib import Path

from tests.slurm import accounting, cgroups, config, release
from tests.slurm.config import Settings
from tests.slurm.mounts import SHM, TMP, cover, mount, open_up
from tests.slurm.process import become, call, reap_forever


def private_filesystems(settings: Settings) -> None:
    """Give the cluster its own /etc, /run, /tmp, /dev/shm and /sys; what is shared stays where it was."""
    etc = os.open("/etc", os.O_PATH)
    cover(Path("/etc"))
    call("cp", "-a", f"/proc/self/fd/{etc}/.", "/etc", pass_fds=[etc])
    cover(Path("/run"), settings.shared)
    for point in (TMP, SHM):
        cover(point, settings.shared, mode=0o1777)
    for path in settings.shared:
        open_up(path, settings.shared)
    if settings.proctrack == "cgroup":
        cgroups.keep_for_nodes()
    # A fresh sysfs shows the network devices of this namespace only.
    mount("sysfs", Path("/sys"), "sysfs")


def network(settings: Settings) -> None:
    """A bridge, and for each node a network namespace whose eth0 hangs on it."""
    lines = [
        "link set lo up",
        "link add br0 type bridge forward_delay 0",
        f"addr add {config.HEAD_ADDRESS}/24 dev br0",
        "link set br0 up",
    ]
    for node in settings.nodes:
        lines += [
            f"netns add {node.name}",
            f"link add {node.name} type veth peer name eth0 netns {node.name}",
            f"link set {node.name} master br0 up",
        ]
    call("ip", "-batch", "-", stdin="\n".join(lines) + "\n")


def owned(path: Path, user: str, mode: int = 0o755) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)
    shutil.chown(path, user, user)
    return path


def users(settings: Settings) -> None:
    for user, number in config.USERS.items():
        entries = {
            "passwd": f"{user}:x:{number}:{number}::{settings.home(user)}:/bin/bash\n",
            "shadow": f"{user}:*:19000:0:99999:7:::\n",
            "group": f"{user}:x:{number}:\n",
        }
        for name, line in entries.items():
            with Path("/etc", name).open("a") as file:
                file.write(line)
        owned(settings.home(user), user, 0o700)


def ssh(settings: Settings) -> None:
    """One host key for all nodes, and for each user a key that opens every node."""
    etc = Path("/etc/ssh")
    (etc / "sshd_config").write_text(config.SSHD_CONFIG)
    (etc / "ssh_config").write_text(config.SSH_CONFIG)
    for key in etc.glob("ssh_host_*"):
        key.unlink()
    Path("/run/sshd").mkdir()
    keygen = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f")
    call(*keygen, "/etc/ssh/ssh_host_ed25519_key")
    for user in config.USERS:
        folder = owned(settings.home(user) / ".ssh", user, 0o700)
        call(*become(user), *keygen, f"{folder}/id_ed25519")
        shutil.copy2(folder / "id_ed25519.pub", folder / "authorized_keys")
        shutil.chown(folder / "authorized_keys", user, user)
    call("/usr/sbin/sshd")


def munge(settings: Settings) -> None:
    """One munged for all nodes: its socket is a file, which network namespaces do not separate."""
    owned(Path("/run/munge"), "munge")
    owned(Path("/etc/munge"), "munge", 0o700)
    log = owned(settings.directory / "log" / "munge", "munge")
    key = Path("/etc/munge/munge.key")
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    shutil.chown(key, "munge", "munge")
    files = (
        "--pid-file=/run/munge/munged.pid",
        "--seed-file=/run/munge/seed",
        f"--log-file={log}/munged.log",
    )
    call(*become("munge"), "munged", "--force", *files)


def controller(settings: Settings) -> None:
    etc = Path("/etc/slurm")
    etc.mkdir(exist_ok=True)
    (etc / "slurm.conf").write_text(config.slurm_conf(settings))
    (etc / "gres.conf").write_text(config.gres_conf(settings))
    (etc / "cgroup.conf").write_text(config.cgroup_conf(settings))
    if topology := config.topology_conf(settings):
        (etc / "topology.conf").write_text(topology)
    (etc / "mpi.conf").write_text(config.MPI_CONF)
    for path in (Path("/run/slurm"), settings.directory / "state", settings.directory / "log" / "slurm"):
        owned(path, "slurm")
    if settings.accounting:
        accounting.slurmdbd(settings)
    call("slurmctld")


def open_mpi() -> None:
    with Path("/etc/openmpi/openmpi-mca-params.conf").open("a") as file:
        file.write(config.OPEN_MPI_CONF)


def main(directory: Path) -> None:
    os.umask(0o022)
    settings = Settings.load(directory)
    socket.sethostname("head")
    if settings.root != Path("/"):
        release.become(settings)
    private_filesystems(settings)
    if settings.accounting:
        accounting.mariadb(settings)
    network(settings)
    Path("/etc/hostname").write_text("head\n")
    Path("/etc/hosts").write_text(config.hosts(settings))
    users(settings)
    ssh(settings)
    munge(settings)
    controller(settings)
    if settings.root == Path("/"):
        open_mpi()
    settings.ready("head").touch()
    reap_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
