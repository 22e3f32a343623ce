"""Describes a machine of Slurm: scontrol, sacctmgr and ``srun --mpi=list``.

Sources: scontrol(1), slurm.conf(5), sacctmgr(1) and srun(1) of 22.05, their answers tried on 22.05.8.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hpcdist.base.command import Command
from hpcdist.schedulers import hostlist
from hpcdist.schedulers.slurm.queries import command
from hpcdist.schedulers.surveyors import SurveyAnswers, Surveyor, partition_fact, walltime
from hpcdist.site.survey import Fact, Node, NodeKind, PartitionInfo, Survey, counts, kinds_of

CONFIG: Final = command("scontrol", "show", "config")
NODES: Final = command("scontrol", "--oneliner", "show", "node")
PARTITIONS: Final = command("scontrol", "--oneliner", "show", "partition")
MPI: Final = command("srun", "--mpi=list")

Fields = Mapping[str, str]

_FIELD: Final = re.compile(r"([A-Za-z][\w/:]*)=(\S*)")
_GPU: Final = re.compile(r"(?:^|,)gpu(?::([\w.+-]+))?:(\d+)(?=[,(]|$)")
"""Types may begin with a digit, or be numbers: ``gpu:4090:2``, ``gpu:1g.5gb:7(S:0)``."""
_SLICE: Final = re.compile(r"(?:.*_)?\d+g\.\d+gb.*")
"""The type of a part of a GPU (MIG)."""
_LIST: Final = re.compile(r"^(?:srun: |\s+)(\w+)$", re.MULTILINE)
_NOTHING: Final = ("", "(null)", "N/A", "NONE", "UNLIMITED", "INFINITE")
_COMMON_PMI: Final = ("pmix", "cray_shasta", "pmi2")
_REMARKED: Final = {"AllowGroups": "ALL", "AllowAccounts": "ALL", "AllowQos": "ALL", "State": "UP"}
"""Fields of a partition, and their usual values; the survey reports any other value."""


def associations(user: str) -> Command:
    """Return the command that lists the accounts that a user may charge."""
    return command("sacctmgr", "-n", "-P", "show", "assoc", f"user={user}", "format=account,qos")


class SlurmSurveyor(Surveyor):
    """Describes a Slurm cluster."""

    commands = (CONFIG, PARTITIONS, NODES, MPI)

    def ask(self, user: str, answers: SurveyAnswers) -> Sequence[Command]:
        """Return all commands; sacctmgr is asked only where scontrol says that there is accounting."""
        if first := super().ask(user, answers):
            return first
        accounting = _config(answers.text(CONFIG)).get("AccountingStorageType", "")
        return [*answers.unasked(associations(user))] if accounting.endswith("/slurmdbd") else []

    def read(self, user: str, answers: SurveyAnswers) -> Survey:
        """Return the survey."""
        config = _config(answers.text(CONFIG))
        partitions = [_fields(line) for line in answers.text(PARTITIONS).splitlines()]
        partitions = [fields for fields in partitions if "PartitionName" in fields]
        kinds = kinds_of(_nodes(answers.text(NODES)), constraints=True)
        whole_nodes = _whole_nodes(config, partitions)
        parts = tuple(_part(fields, kinds, everywhere=bool(whole_nodes.value)) for fields in partitions)
        version, cluster = config.get("SLURM_VERSION", ""), config.get("ClusterName", "")
        return Survey(
            scheduler="slurm",
            title=f"Slurm {version}, cluster {cluster}" if config else "Slurm",
            kinds=kinds,
            partitions=tuple(part for part in parts if part.nodes),
            facts=(
                Fact("launcher", "srun"),
                _mpi(answers.text(MPI), config.get("MpiDefault", "")),
                _default_partition(partitions),
                whole_nodes,
                _memory(config, whole=bool(whole_nodes.value)),
                _walltime_of_silent(partitions),
                _how_gpus(kinds, answers.text(NODES)),
                _account(config, answers.text(associations(user)), user),
            ),
            sources=(str(NODES), str(PARTITIONS)),
            failures=answers.failures,
            memory="job_memory",
        )


def _config(text: str) -> Fields:
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs if value}


def _fields(line: str) -> Fields:
    return dict(_FIELD.findall(line))


def _nodes(text: str) -> Iterator[Node]:
    for fields in map(_fields, text.splitlines()):
        if "NodeName" in fields:
            gpus, gpu_type = _gpus(fields.get("Gres", ""))
            yield Node(
                name=fields["NodeName"],
                cpus=_number(fields.get("CPUTot", "")),
                memory=_memory_of_jobs(fields),
                gpus=gpus,
                gpu_type=gpu_type,
                features=_words(fields.get("AvailableFeatures", "")),
            )


def _memory_of_jobs(fields: Fields) -> int | None:
    """Return the MiB of a node that jobs can request: MemSpecLimit is the system's (slurm.conf(5))."""
    memory = _number(fields.get("RealMemory", ""))
    return memory and memory - (_number(fields.get("MemSpecLimit", "")) or 0)


def _gpus(gres: str) -> tuple[int, str | None]:
    """Return the number of GPUs and their type, None if they have none.

    Of several types it is the one with the most whole GPUs: a request for more would get a mix.
    """
    types = _types(gres)
    name = max(types, key=lambda name: (not _SLICE.fullmatch(name), types[name]), default="")
    return types.get(name, 0), name or None


def _types(gres: str) -> Counter[str]:
    """Return the number of GPUs of each type; a type may be listed for each socket."""
    types: Counter[str] = Counter()
    for name, number in _GPU.findall(gres):
        types[name] += int(number)
    return types


def _part(fields: Fields, kinds: Sequence[NodeKind], *, everywhere: bool) -> PartitionInfo:
    members = _members(fields.get("Nodes", ""))
    limit = _number(fields.get("MaxNodes", ""))
    odd = [name for name, usual in _REMARKED.items() if fields.get(name, usual) != usual]
    odd += ["QoS"] if _is_set(fields, "QoS") else []
    return PartitionInfo(
        name=fields.get("PartitionName", ""),
        nodes=counts(kinds, members),
        max_nodes=limit if limit is not None and limit < len(members) else None,
        max_walltime=walltime(fields.get("MaxTime", "")),
        remarks=tuple(f"{name}={fields[name]}" for name in odd),
        whole_nodes=not everywhere and fields.get("OverSubscribe") == "EXCLUSIVE",
    )


def pmi_types(text: str) -> tuple[str, ...]:
    """Return what ``srun --mpi=list`` lists; up to Slurm 20.11 each has ``srun: `` in front, on stderr."""
    found = [*_LIST.findall(text), *re.findall(r"\b(pmix_\w+)", text)]
    return tuple(dict.fromkeys((*(name for name in _COMMON_PMI if name in found), *found)))


def _mpi(text: str, default: str) -> Fact:
    types = [word for word in _LIST.findall(text) if word != "none"]
    known = [name for name in (default, *_COMMON_PMI) if name in types]
    remarks = ["pmix suits Open MPI; pmi2 MPICH and Intel MPI; cray_shasta Cray MPICH"]
    if types:
        remarks.insert(0, f"listed: {', '.join(sorted(types))}")
    value = {"srun": {"mpi": known[0]}} if known else None
    return Fact("launchers", value, str(MPI), tuple(remarks), "{srun: {mpi: pmix}}")


def _default_partition(partitions: Sequence[Fields]) -> Fact:
    names = [fields["PartitionName"] for fields in partitions]
    default = [fields["PartitionName"] for fields in partitions if fields.get("Default") == "YES"]
    return partition_fact(default[0] if default else None, names, PARTITIONS)


def _whole_nodes(config: Fields, partitions: Sequence[Fields]) -> Fact:
    if config.get("SelectType") == "select/linear":
        return Fact("whole_nodes", value=True, source=str(CONFIG), remarks=("SelectType=select/linear",))
    names = [fields["PartitionName"] for fields in partitions if fields.get("OverSubscribe") == "EXCLUSIVE"]
    everywhere = len(names) == len(partitions) > 0
    where = "all partitions" if everywhere else ", ".join(names)
    remarks = (f"OverSubscribe=EXCLUSIVE in {where}",) if names else ()
    return Fact("whole_nodes", everywhere if partitions else None, str(PARTITIONS), remarks, "true")


def _memory(config: Fields, *, whole: bool) -> Fact:
    """Return whether jobs request memory: a share of the node's, unless they always get all of it."""
    parameters = config.get("SelectTypeParameters", "")
    if not parameters:
        return Fact("request_memory", None, str(CONFIG), example="false")
    remarks = [f"SelectTypeParameters={parameters}"]
    if "MEMORY" not in parameters.upper():
        remarks.append("memory is not counted, so jobs do not ask for it")
        return Fact("request_memory", value=False, source=str(CONFIG), remarks=tuple(remarks))
    defaults = [name for name in ("DefMemPerCPU", "DefMemPerNode") if _is_set(config, name)]
    remarks += [f"a job that asks for none gets {name}={config[name]} (MiB)" for name in defaults]
    return Fact(
        "request_memory", value=True if whole else "share", source=str(CONFIG), remarks=tuple(remarks)
    )


def _walltime_of_silent(partitions: Sequence[Fields]) -> Fact:
    limited = [fields for fields in partitions if _is_set(fields, "DefaultTime")]
    remarks = [f"DefaultTime={fields['DefaultTime']} in {fields['PartitionName']}" for fields in limited]
    return Fact("walltime", remarks=("what experiments get that say none", *remarks), example="01:00:00")


def _how_gpus(kinds: Sequence[NodeKind], nodes: str) -> Fact:
    with_gpus = [kind for kind in kinds if kind.gpus]
    if not with_gpus:
        remarks = ("no node has a GPU that Slurm knows of (Gres=gpu)",) if kinds else ()
        return Fact("gpus", None, str(NODES), remarks, "{request: gres}")
    typed = all(kind.gpu_type for kind in with_gpus)
    remark = "Gres=gpu:TYPE:NUMBER on all of them" if typed else "Gres=gpu:NUMBER on some, without a type"
    mixed = {fields.get("Gres", "") for fields in map(_fields, nodes.splitlines())}
    mixed = {gres for gres in mixed if len(_types(gres)) > 1}
    mixtures = (
        (f"nodes with several types have one of them here: {', '.join(sorted(mixed))}",) if mixed else ()
    )
    return Fact("gpus", {"request": "gres", "typed": typed}, str(NODES), (remark, *mixtures))


def _account(config: Fields, text: str, user: str) -> Fact:
    """Return what is known of accounts; whether one must be named depends on each user's default."""
    rows = [line.split("|") for line in text.splitlines() if line.count("|") == 1]
    names = dict.fromkeys(row[0] for row in rows if row[0])
    qos = dict.fromkeys(name for row in rows for name in row[1].split(",") if name)
    remarks = []
    if _is_set(config, "AccountingStorageEnforce") and config["AccountingStorageEnforce"] != "none":
        remarks.append(f"AccountingStorageEnforce={config['AccountingStorageEnforce']}")
    remarks += [f"accounts of {user}: {', '.join(names)}"] if names else []
    remarks += [f"QOS of {user}: {', '.join(qos)}"] if qos else []
    source = str(associations(user)) if text else str(CONFIG)
    return Fact("account", None, source, tuple(remarks), "{required: true}")


def _is_set(fields: Fields, name: str) -> bool:
    return fields.get(name, "") not in _NOTHING


def _members(text: str) -> list[str]:
    try:
        return hostlist.expand("" if text in _NOTHING else text)
    except ValueError:
        return []


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word) if text not in _NOTHING else ()


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,12}", text) else None


SURVEYOR: Final = SlurmSurveyor()
