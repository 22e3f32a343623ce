"""A stand-in for pyslurm: what hpcdist reads of it, made of what a real Slurm has answered to scontrol.

Attributes, their types and their oddities are those of core/job/job.pyx, core/node.pyx and core/partition.pyx
of pyslurm 25.11.2 (on PyPI), which by its CHANGELOG.md are those of 22.5.3: what is 0, empty or the word None
in Slurm is None; a time is in minutes, memory in MiB; what has no end is the word UNLIMITED.

It is imported by the program that asks it, so its wishes come by the environment: ``STANDIN_VERSION``,
``STANDIN_JOBS``, ``STANDIN_NODES`` and ``STANDIN_PARTITIONS`` (files), ``STANDIN_FAULT``.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Generic, TypeVar

__version__ = os.environ.get("STANDIN_VERSION", "25.11.2")

_FAULT = os.environ.get("STANDIN_FAULT", "")

if _FAULT == "fatal":  # libslurm, where it finds no slurm.conf
    sys.stderr.write("python: error: fetch_config: DNS SRV lookup failed\n")
    sys.stderr.write("python: fatal: Could not establish a configuration source\n")
    sys.stderr.flush()
    os._exit(1)
if _FAULT == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if _FAULT == "library":
    raise ImportError("libslurmfull.so: cannot open shared object file: No such file or directory")
if _FAULT == "hang":
    time.sleep(60)


class PyslurmError(Exception):
    """The base of its errors."""


class RPCError(PyslurmError):
    """The controller did not answer."""


class Job:
    """A record of ``scontrol show job``."""

    def __init__(self, record: str) -> None:
        fields = _fields(record)
        self.id = int(fields["JobId"])
        self.array_id = _number(fields.get("ArrayJobId", ""))
        self.heterogeneous_id = _number(fields.get("HetJobId", ""))
        # Whoever asks is hu1, who had submitted them.
        self.user_id = os.getuid() if fields["UserId"] == "hu1(21001)" else 4242
        self.priority = int(fields["Priority"])
        self.partition = _text(fields["Partition"])
        self.state = fields["JobState"]
        # scontrol alone writes the controller's words with underscores.
        self.state_reason = _text(fields["Reason"].replace("_", " "))
        comment = re.search(r"(?m)^ +Comment=(.*?) ?$", record)
        self.comment = _text(comment[1]) if comment else None


class Node:
    """A line of ``scontrol --oneliner show node``."""

    def __init__(self, line: str) -> None:
        fields = _fields(line)
        self.name = fields["NodeName"]
        self.total_cpus = int(fields["CPUTot"])
        self.real_memory = _number(fields["RealMemory"])
        self.available_features = _list(fields["AvailableFeatures"], [])
        self.configured_gres = {
            gres.rpartition(":")[0]: int(gres.rpartition(":")[2]) for gres in _list(fields["Gres"], [])
        }
        self.partitions = _list(fields["Partitions"], [])


class Partition:
    """A line of ``scontrol --oneliner show partition``."""

    def __init__(self, line: str) -> None:
        fields = _fields(line)
        self.name = fields["PartitionName"]
        self.allowed_groups = _list(fields["AllowGroups"], ["ALL"])
        self.allowed_accounts = _list(fields.get("AllowAccounts", ""), ["ALL"])
        self.allowed_qos = _list(fields["AllowQos"], ["ALL"])
        self.is_default = fields["Default"] == "YES"
        self.is_hidden = fields["Hidden"] == "YES"
        self.qos = _text(fields["QoS"].replace("N/A", ""))
        self.default_time = _minutes(fields["DefaultTime"])
        self.max_time = _minutes(fields["MaxTime"])
        self.max_nodes = _number(fields["MaxNodes"]) or "UNLIMITED"
        self.nodes = _text(fields["Nodes"])
        self.oversubscribe = fields["OverSubscribe"]
        self.state = fields["State"]


Item = TypeVar("Item")


class MultiClusterMap(Generic[Item]):
    """Items by cluster and key; one goes through those of all clusters at once."""

    def __init__(self, items: Mapping[int | str, Item]) -> None:
        self.data = {"testbed": items}

    def values(self) -> Iterator[Item]:
        return (item for items in self.data.values() for item in items.values())


class Jobs(MultiClusterMap[Job]):
    """All jobs of all users."""

    @staticmethod
    def load() -> Jobs:
        blocks = re.split(r"(?m)^(?=JobId=|\$ )", _answer("STANDIN_JOBS"))
        found = [Job(block) for block in blocks if block.startswith("JobId=")]
        return Jobs({job.id: job for job in found})


class Nodes(MultiClusterMap[Node]):
    """All nodes."""

    @staticmethod
    def load() -> Nodes:
        return Nodes({node.name: node for node in map(Node, _answer("STANDIN_NODES").splitlines())})


class Partitions(MultiClusterMap[Partition]):
    """All partitions, those that are hidden or closed too."""

    @staticmethod
    def load() -> Partitions:
        found = map(Partition, _answer("STANDIN_PARTITIONS").splitlines())
        return Partitions({partition.name: partition for partition in found})


if _FAULT == "old":  # pyslurm before 22.5.2 has pyslurm.job() and its like alone
    del Jobs, Nodes, Partitions


def _answer(name: str) -> str:
    if _FAULT == "rpc":
        raise RPCError("Unable to contact slurm controller (connect failure)")
    return Path(os.environ[name]).read_text()


def _fields(text: str) -> dict[str, str]:
    return dict(re.findall(r"(?:^|\s)([A-Za-z][\w/:]*)=(\S*)", text))


def _text(text: str) -> str | None:
    return None if text in ("", "None", "(null)") else text


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and int(text) else None


def _list(text: str, default: list[str]) -> list[str]:
    return text.split(",") if _text(text) else default


def _minutes(text: str) -> int | str | None:
    """Read ``7-12:00:00``."""
    if text in ("NONE", "UNLIMITED"):
        return text if text == "UNLIMITED" else None
    days, _, clock = text.rpartition("-")
    hours, minutes, _ = clock.split(":")
    return int(days or 0) * 1440 + int(hours) * 60 + int(minutes)
