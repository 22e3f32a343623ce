"""What the cluster is made of, and the text of its configuration files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

CLUSTER_NAME = "hpcdist"
HEAD_ADDRESS = "10.77.0.1"
USERS: Mapping[str, int] = {"hu1": 21001, "hu2": 21002}


@dataclass(frozen=True)
class Node:
    """One compute node; its CPUs, memory and GPUs are what Slurm is told, not what the machine has."""

    name: str
    cpus: int = 16
    memory_mb: int = 64000
    features: tuple[str, ...] = ()
    gpu_type: str = ""
    gpus: int = 0

    def line(self, address: str) -> str:
        shape = f"CPUs={self.cpus} Sockets=2 CoresPerSocket={self.cpus // 2} ThreadsPerCore=1"
        features = f" Feature={','.join(self.features)}" if self.features else ""
        gres = f" Gres=gpu:{self.gpu_type}:{self.gpus}" if self.gpus else ""
        return f"NodeName={self.name} NodeAddr={address} {shape} RealMemory={self.memory_mb}{features}{gres}"


DEFAULT_NODES = (
    *(Node(name, features=("a100", "nvlink"), gpu_type="a100", gpus=4) for name in ("n1", "n2")),
    *(Node(name, features=("v100",), gpu_type="v100", gpus=2) for name in ("n3", "n4")),
    Node("c1", cpus=32, memory_mb=128000, features=("cpuonly",)),
)


@dataclass(frozen=True)
class Settings:
    """Everything the processes inside the cluster need to know; written to a file in its directory."""

    FILE: ClassVar = "cluster.json"

    directory: Path
    shared: tuple[Path, ...]
    nodes: tuple[Node, ...] = DEFAULT_NODES
    accounting: bool = False
    proctrack: str = "linuxproc"
    """How slurmd finds a job's processes: "cgroup", as almost every centre has it, or "linuxproc"."""
    root: Path = Path("/")
    """The folder with the system that runs the cluster: this machine's, or another release's."""
    topology: str = ""
    """The plug-in that knows how nodes are connected: "flat", "tree" or "block"; Slurm's default if empty."""
    kill_wait: int = 5
    """How many seconds after TERM Slurm kills; it is 30 by default."""
    constrains_memory: bool = False
    """Whether the kernel kills in a step, or in a job's script, what uses more memory than it has."""

    @property
    def database(self) -> Path:
        return self.directory / "mariadb.tar"

    def ready(self, name: str) -> Path:
        """Exists once the daemons of a node, or of the head, are up."""
        return self.directory / "ready" / name

    def log(self, name: str) -> Path:
        return self.directory / "log" / f"{name}.log"

    def save(self) -> None:
        (self.directory / self.FILE).write_text(json.dumps(asdict(self), default=str, indent=1))

    @classmethod
    def load(cls, directory: Path) -> Settings:
        raw = json.loads((directory / cls.FILE).read_text())
        nodes = tuple(Node(**{**node, "features": tuple(node["features"])}) for node in raw["nodes"])
        shared = tuple(map(Path, raw["shared"]))
        return cls(
            **{**raw, "directory": directory, "shared": shared, "nodes": nodes, "root": Path(raw["root"])}
        )

    def address(self, name: str) -> str:
        return f"10.77.0.{[node.name for node in self.nodes].index(name) + 11}"

    def node(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def home(self, user: str) -> Path:
        return self.directory / "home" / user


def hosts(settings: Settings) -> str:
    names = {"127.0.0.1": "localhost", HEAD_ADDRESS: "head"}
    names |= {settings.address(node.name): node.name for node in settings.nodes}
    return "".join(f"{address} {name}\n" for address, name in names.items())


def partitions(nodes: Sequence[Node]) -> Iterable[str]:
    """One line for each partition: gpu, one for each GPU type, cpu, all; the first is the default."""
    groups = {"gpu": [node for node in nodes if node.gpus]}
    for node in groups["gpu"]:
        groups.setdefault(node.gpu_type, []).append(node)
    groups |= {"cpu": [node for node in nodes if not node.gpus], "all": list(nodes)}
    default = " Default=YES"
    for name, members in groups.items():
        if members:
            yield f"PartitionName={name} Nodes={','.join(node.name for node in members)}{default}"
            default = ""


def slurm_conf(settings: Settings) -> str:
    directory = settings.directory
    accounting = "slurmdbd" if settings.accounting else "none"
    lines = [
        f"ClusterName={CLUSTER_NAME}",
        f"SlurmctldHost=head({HEAD_ADDRESS})",
        "SlurmUser=slurm",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        # A requeued job is held until its credential expires: 120 s unless told.
        "AuthInfo=cred_expire=5",
        f"StateSaveLocation={directory}/state",
        f"SlurmdSpoolDir={directory}/spool/%n",
        "SlurmctldPidFile=/run/slurm/slurmctld.pid",
        "SlurmdPidFile=/run/slurm/slurmd.pid",
        f"SlurmctldLogFile={directory}/log/slurm/slurmctld.log",
        f"SlurmdLogFile={directory}/log/slurm/slurmd.%n.log",
        f"ProctrackType=proctrack/{settings.proctrack}",
        f"TaskPlugin=task/{'cgroup' if settings.constrains_memory else 'none'}",
        "JobAcctGatherType=jobacct_gather/linux",
        "JobAcctGatherFrequency=task=1",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "DefMemPerCPU=1000",
        # Nodes may claim more CPUs and memory than the machine has.
        "SlurmdParameters=config_overrides",
        "MailProg=/usr/bin/true",
        "MpiDefault=none",
        "SchedulerType=sched/backfill",
        # Heterogeneous jobs are started by the backfill scheduler, every 30 s unless told.
        "SchedulerParameters=bf_interval=1,sched_interval=5,sched_min_interval=0,batch_sched_delay=0",
        "SlurmctldTimeout=30",
        # A silent node is down after 20 s; with the default MessageTimeout of 10 s it took 32 s.
        "SlurmdTimeout=10",
        "MessageTimeout=5",
        "InactiveLimit=0",
        f"KillWait={settings.kill_wait}",
        "MinJobAge=300",
        "JobRequeue=1",
        # Only jobs of partitions of a lower tier, which a test makes.
        "PreemptType=preempt/partition_prio",
        "PreemptMode=REQUEUE",
        "ReturnToService=2",
        f"AccountingStorageType=accounting_storage/{accounting}",
        "JobCompType=jobcomp/none",
        "GresTypes=gpu",
        "PartitionName=DEFAULT State=UP MaxTime=INFINITE",
    ]
    if settings.accounting:
        lines += [
            "AccountingStorageHost=head",
            "AccountingStorageTRES=gres/gpu",
            "AccountingStoreFlags=job_comment",
        ]
    if settings.topology in {"tree", "block"}:  # flat is the default, and has another name before 25.05
        lines.append(f"TopologyPlugin=topology/{settings.topology}")
    lines += [node.line(settings.address(node.name)) for node in settings.nodes]
    return "\n".join([*lines, *partitions(settings.nodes), ""])


def topology_conf(settings: Settings) -> str:
    """Each second node is of the same switch or block, so that the order of their names is not theirs."""
    halves = [",".join(node.name for node in settings.nodes[first::2]) for first in (0, 1)]
    if settings.topology == "tree":
        switches = (f"SwitchName=s{number} Nodes={half}\n" for number, half in enumerate(halves, 1))
        return "".join((*switches, "SwitchName=s0 Switches=s[1-2]\n"))
    if settings.topology == "block":
        blocks = (f"BlockName=b{number} Nodes={half}\n" for number, half in enumerate(halves, 1))
        return "".join((*blocks, "BlockSizes=2,4\n"))
    return ""


def gres_conf(settings: Settings) -> str:
    return "".join(
        f"NodeName={node.name} Name=gpu Type={node.gpu_type} File=/dev/nvidia[0-{node.gpus - 1}]\n"
        for node in settings.nodes
        if node.gpus
    )


def slurmdbd_conf(settings: Settings) -> str:
    return f"""\
DbdHost=head
DbdAddr={HEAD_ADDRESS}
SlurmUser=slurm
AuthType=auth/munge
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=unused
StorageLoc=slurm_acct_db
LogFile={settings.directory}/log/slurm/slurmdbd.log
PidFile=/run/slurm/slurmdbd.pid
"""


def cgroup_conf(settings: Settings) -> str:
    """slurmd looks for a cgroup file system even where no plugin uses one, and stops if there is none."""
    if settings.root != Path("/"):
        return "CgroupPlugin=disabled\n"  # which Slurm 23.11 and later know
    memory = "ConstrainRAMSpace=yes\n" if settings.constrains_memory else ""
    return f"CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n{memory}"  # naming the plugin ends the search


# Each node has its own /run, so the steps of two nodes cannot meet in one directory.
MPI_CONF = "PMIxCliTmpDirBase=/run/slurm\n"

# Nodes claim 16 CPUs; the machine has fewer, which ranks that wait would keep from those that compute.
OPEN_MPI_CONF = "mpi_yield_when_idle = 1\n"

SSHD_CONFIG = """\
HostKey /etc/ssh/ssh_host_ed25519_key
UsePAM no
PasswordAuthentication no
PidFile none
UseDNS no
MaxStartups 100
Subsystem sftp /usr/lib/openssh/sftp-server
"""

SSH_CONFIG = """\
Host *
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""
