"""Pid 1 of one compute node."""

from __future__ import annotations

import os
import socket
import stat
import sys
from pathlib import Path

from tests.slurm import cgroups
from tests.slurm.config import Node, Settings
from tests.slurm.mounts import SHM, TMP, bind, cover, mount
from tests.slurm.process import call, reap_forever

MEMORY_DEVICES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}  # all of major number 1
NVIDIA_MAJOR = 195  # opening such a device without a driver gives ENXIO; Slurm only looks for the file


def devices(node: Node, settings: Settings) -> None:
    """A /dev of its own, with fake GPUs: the kernel has but one devtmpfs, so the host's is left alone."""
    dev = Path("/dev")
    cover(dev, settings.shared)
    numbers = {name: (1, minor) for name, minor in MEMORY_DEVICES.items()} | {"tty": (5, 0)}
    numbers |= {f"nvidia{index}": (NVIDIA_MAJOR, index) for index in range(node.gpus)}
    for name, number in numbers.items():
        os.mknod(dev / name, stat.S_IFCHR, os.makedev(*number))
        (dev / name).chmod(0o666)
    links = {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
    for name, target in links.items():
        (dev / name).symlink_to(f"/proc/self/{target}")
    for name in ("pts", "shm"):
        (dev / name).mkdir(exist_ok=True)
    (dev / "ptmx").symlink_to("pts/ptmx")
    mount("devpts", dev / "pts", "devpts", "newinstance,ptmxmode=0666,mode=0620,gid=5")
    cover(SHM, settings.shared, mode=0o1777)


def main(directory: Path, name: str) -> None:
    os.umask(0o022)
    settings = Settings.load(directory)
    socket.sethostname(name)
    devices(settings.node(name), settings)
    cgrouped = settings.proctrack == "cgroup"
    cover(Path("/run"), [Path("/run/munge"), *([cgroups.INSIDE] if cgrouped else []), *settings.shared])
    if cgrouped:
        cgroups.enter(settings, name)
    cover(TMP, settings.shared, mode=0o1777)
    for folder in ("sshd", "slurm"):
        Path("/run", folder).mkdir()
    Path("/run/hostname").write_text(f"{name}\n")
    bind("/run/hostname", Path("/etc/hostname"))
    address = settings.address(name)
    call("ip", "-batch", "-", stdin=f"addr replace {address}/24 dev eth0\nlink set eth0 up\nlink set lo up\n")
    (directory / "spool" / name).mkdir(parents=True, exist_ok=True)
    call("/usr/sbin/sshd")
    call("slurmd")
    settings.ready(name).touch()
    reap_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
