"""Describes a machine of LSF: lshosts and bqueues. A slot is a CPU.

Sources: lshosts(1), bqueues(1), lsid(1) and bmgroup(1) of LSF 10.1. Not tried on a real one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hpcdist.base.command import Command
from hpcdist.base.units import Walltime
from hpcdist.schedulers.surveyors import SurveyAnswers, Surveyor, memory, partition_fact, walltime_fact
from hpcdist.site.survey import Fact, Node, NodeKind, PartitionInfo, Survey, counts, kinds_of

HOSTS: Final = Command(("lshosts", "-w"))
GPUS: Final = Command(("lshosts", "-gpu", "-w"))
QUEUES: Final = Command(("bqueues", "-l"))
GROUPS: Final = Command(("bmgroup", "-r", "-w"))
VERSION: Final = Command(("lsid",))

_SERVERS: Final = ("Yes", "Dyn")
"""Types of hosts that run jobs; ``Dyn`` has joined by itself (lshosts(1)), ``No`` only submits."""

_QUEUE: Final = re.compile(r"^QUEUE:\s*(\S+)", re.MULTILINE)
_LIMIT: Final = re.compile(r"^\s*RUNLIMIT\b.*\n\s*(\d+(?:\.\d+)?) min", re.MULTILINE)
_HOST_LIST: Final = re.compile(r"^HOSTS:(.*(?:\n[ \t]+\S.*)*)", re.MULTILINE)


class LsfSurveyor(Surveyor):
    """Describes an LSF cluster."""

    commands = (HOSTS, GPUS, QUEUES, GROUPS, VERSION)

    def read(self, user: str, answers: SurveyAnswers) -> Survey:
        """Return the survey."""
        del user
        kinds = kinds_of(_nodes(answers.text(HOSTS), answers.text(GPUS)))
        rows = [line.split() for line in answers.text(GROUPS).splitlines() if line.strip()]
        groups = {words[0].rstrip("/"): words[1:] for words in rows}
        texts = _texts(answers.text(QUEUES))
        parts = [_part(name, text, kinds, groups) for name, text in texts.items()]
        known = tuple(part for part in parts if part.nodes)
        default = [part.name for part in known if "This is the default queue" in texts[part.name]]
        version = re.search(r"LSF.*? (\d+[\d.]*)", answers.text(VERSION))
        return Survey(
            scheduler="lsf",
            title=f"LSF {version[1]}" if version else "LSF",
            kinds=kinds,
            partitions=known,
            facts=tuple(_facts(default, known, texts)),
            sources=(str(HOSTS), str(QUEUES)),
            failures=answers.failures,
        )


def _nodes(hosts: str, gpus: str) -> Iterator[Node]:
    """Yield the hosts that run jobs, with what is known: a column may be unknown (``-``)."""
    counted, models = _gpus(gpus)
    for words in map(str.split, hosts.splitlines()[1:]):
        if len(words) >= 8 and words[7] in _SERVERS:  # noqa: PLR2004 - `server`, the eighth column
            yield Node(
                name=words[0],
                cpus=int(words[4]) if words[4].isdigit() else None,
                memory=memory(words[5]),
                gpus=counted[words[0]] if gpus else None,
                gpu_type=models.get(words[0]),
            )


def _gpus(text: str) -> tuple[Counter[str], dict[str, str]]:
    """Return the number of GPUs of each host, and their model; only a host's first line has its name."""
    counted, models, host = Counter[str](), dict[str, str](), ""
    for line in text.splitlines()[1:]:
        words = line.split()
        if words and not line[0].isspace():
            host, *words = words
        if len(words) > 1 and words[0].isdigit():
            counted[host] += 1
            models[host] = words[1]
    return counted, models


def _texts(text: str) -> dict[str, str]:
    """Return the details of each queue."""
    starts = [*_QUEUE.finditer(text)]
    ends = [*(found.start() for found in starts[1:]), len(text)]
    return {found[1]: text[found.start() : end] for found, end in zip(starts, ends, strict=False)}


def _part(
    name: str, text: str, kinds: Sequence[NodeKind], groups: Mapping[str, Sequence[str]]
) -> PartitionInfo:
    listed = _HOST_LIST.search(text)
    words = listed[1].split() if listed else []
    hosts = {
        member for word in words for member in groups.get(word.rstrip("/"), [re.sub(r"\+\d+$", "", word)])
    }
    everywhere = bool({"all", "all~"} & set(words)) or words[:4] == ["all", "hosts", "used", "by"]
    members = [node for kind in kinds for node in kind.nodes if everywhere or node in hosts]
    maximum = text.partition("MAXIMUM LIMITS:")[2] or ("" if "DEFAULT LIMITS:" in text else text)
    limit = _LIMIT.search(maximum)
    closed = re.search(r"\b(?:Open|Closed):\w+", text)
    return PartitionInfo(
        name=name,
        nodes=counts(kinds, members),
        max_walltime=Walltime(int(float(limit[1]) * 60)) if limit else None,
        remarks=(closed[0],) if closed and closed[0] != "Open:Active" else (),
    )


def _defaults(parts: Sequence[PartitionInfo], texts: Mapping[str, str]) -> Iterator[tuple[str, Walltime]]:
    """Yield the time limit of each queue for jobs that set none."""
    for part in parts:
        section = texts[part.name].partition("DEFAULT LIMITS:")[2].partition("MAXIMUM LIMITS:")[0]
        if found := _LIMIT.search(section):
            yield part.name, Walltime(int(float(found[1]) * 60))


def _facts(
    default: Sequence[str], parts: Sequence[PartitionInfo], texts: Mapping[str, str]
) -> Iterator[Fact]:
    yield Fact("launcher", "mpirun", remarks=("jsrun on machines with CSM",))
    yield partition_fact(default[0] if default else None, [part.name for part in parts], QUEUES)
    remark = "whether rusage[mem=] counts by host or by slot is each site's own: see lsf.memory"
    yield Fact("request_memory", value=False, remarks=(remark,))
    yield walltime_fact(dict(_defaults(parts, texts)))
    yield Fact("gpus", {"request": "gpus_per_node"})
    yield Fact("lsf", remarks=("where jobs are asked for by nodes (CSM)",), example="{request: nodes}")


SURVEYOR: Final = LsfSurveyor()
