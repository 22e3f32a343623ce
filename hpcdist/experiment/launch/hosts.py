"""Hosts in a launch line: those of the job, and those of another machine or system."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpcdist.experiment.launch.bash_words import is_computed

HOSTFILE: Final = '"$HPCDIST_HOSTFILE"'
FOREIGN_HOSTFILES: Final = {
    "/generated/hostfile": "Gradient",
    "/etc/mpi/hostfile": "Kubeflow",
    "/job/hostfile": "DeepSpeed",
}
"""Where other systems write the hosts of a job: Gradient (its documentation, "Distributed Training using
Horovod"), Kubeflow's mpi-operator, and where DeepSpeed looks by itself (deepspeed/launcher/constants.py)."""
_ANY: Final = "|".join(map(re.escape, FOREIGN_HOSTFILES))
_HERE: Final = re.compile(rf"(?<![\w./-])(?:{_ANY})(?![\w.-])")
_QUOTED: Final = re.compile(
    rf"""'[^']*' | "(?:[^"\\]|\\.)*" | \\. | (?<![\w./-])(?:{_ANY})(?![\w.-])""", re.VERBOSE | re.DOTALL
)
_LOCAL: Final = re.compile(
    r"localhost(?:\.localdomain)?|ip6-localhost|127(?:\.\d+){3}|::1|\[::1\]|0\.0\.0\.0"
)
_HOSTS: Final = re.compile(r"(?:\$\((?:[^()]|\([^()]*\))*\)|\$\{[^{}]*\}|`[^`]*`|\[[^\[\]]*\]|[^,])+")
"""The parts between commas, except commas inside expansions of bash or lists such as ``node[1,3]``."""
_RELATIVE: Final = re.compile(r"\+[ne]\d*")
"""Open MPI's syntax for hosts of the job (mpirun(1), "Relative Indexing")."""


def with_hostfile(text: str) -> str:
    """Return a command with other systems' hostfiles replaced by hpcdist's, however they are quoted."""
    return _QUOTED.sub(_with_ours, text)


def foreign_hostfiles(text: str) -> list[str]:
    """Return the hostfiles of other systems that a command names, each once."""
    return list(dict.fromkeys(_HERE.findall(text)))


def _with_ours(match: re.Match[str]) -> str:
    quotation = {"'": "'\"$HPCDIST_HOSTFILE\"'", '"': "$HPCDIST_HOSTFILE"}.get(match[0][0])
    if quotation is None:
        return HOSTFILE if match[0] in FOREIGN_HOSTFILES else match[0]
    return _HERE.sub(lambda _: quotation, match[0])


def hosts_in(kind: str, value: str) -> Iterator[str]:
    """Yield the hosts that the value of an option names, without the slots of each.

    ``kind`` is one of `launch.options`: hosts, include (``host:0,1@host``), address, endpoint.
    """
    if kind == "include":
        yield from (part.partition(":")[0].strip() for part in value.split("@"))
        return
    for host in map(str.strip, _HOSTS.findall(value) if kind == "hosts" else [value]):
        yield host if _LOCAL.fullmatch(host) else re.sub(r"(?::\d*|\*\d+)$", "", host)


def is_foreign(host: str) -> bool:
    """Whether this is the name of a host that is not certainly one of the job's."""
    return bool(host) and not (is_computed(host) or is_local(host) or _RELATIVE.match(host))


def is_local(host: str) -> bool:
    """Whether this means the local host."""
    return bool(_LOCAL.fullmatch(host))
