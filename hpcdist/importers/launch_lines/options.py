"""The options of mpirun, horovodrun and torchrun, and what each becomes.

What each option says, and the sources of that: ``hpcdist.experiment.launch.options``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hpcdist.experiment.launch.options import TORCH
from hpcdist.importers.launch_lines.shell_words import Unclear, value_of, variable

_OWN: Final = frozenset(
    {"rdzv-backend", "rdzv-endpoint", "rdzv-id", "node-rank", "master-addr", "master-port"}
)
"""Options of torchrun that say where the replicas meet, which hpcdist says itself."""
_OF_ITS_OWN: Final = ("rank-by", "slot")
"""What hpcdist's own launch says too, by every launcher; to which CPUs it binds, the site says."""
_PROGRAMS: Final = frozenset({"-m", "--module", "--no-python", "--no_python"})
"""Options of torchrun that belong to what it starts."""
_WRITTEN: Final = ("/etc/mpi/", "/job/hostfile", "/generated/hostfile")
"""Where Kubeflow, AWS and Gradient write the hosts of the job, which hpcdist's launch knows by itself."""
_REACHING: Final = re.compile(
    r"(?:plm|ras|oob_tcp|orte_keep_fqdn|orte_default_hostfile|orte_set_default_slots)"
)
_COUNTS: Final = {"flag": 0, "each": 0, "controller": 0, "mca": 2}
"""How many values an option of that kind has, where it is not one."""


class Options:
    """The options of one launch line, read from left to right; ``knobs`` are horovodrun's own.

    ``said`` holds np, per_node, by_node, nodes, restarts, folder and hosts; ``before`` sets variables in
    front of the program; ``passed`` are the variables that are exported by name alone.
    """

    def __init__(self, table: Mapping[str, str], env: Mapping[str, str], knobs: frozenset[str]) -> None:
        self._table, self._env, self._names = table, env, knobs
        self.said: dict[str, str] = {}
        self.variables: dict[str, str] = {}
        self.passed: list[str] = []
        self.before: list[str] = []
        self.knobs: dict[str, str] = {}
        self.dropped: list[str] = []

    def read(self, words: list[str], at: int) -> int:
        """Return where the program begins.

        Raises:
            Unclear: where hpcdist's own launch cannot do the same.
        """
        while at < len(words) and words[at].startswith("-") and words[at] not in _PROGRAMS:
            at += self._option(words[at], words[at + 1 :])
        return at

    def assign(self, raw: str) -> None:
        """Set a variable for the program."""
        name, value, text = variable(raw, self._env)
        if text:
            self.before.append(text)
        else:
            self.variables[name] = value

    def _option(self, word: str, following: list[str]) -> int:
        """Take an option with its values; return how many words they are."""
        option, equals, glued = word, "", ""
        if option.startswith("--"):
            option, equals, glued = option.partition("=")
        name = option.lstrip("-")
        if self._table is TORCH:
            name = name.replace("_", "-")
        kind = self._kind(name)
        if not kind:
            raise Unclear(f"whose option {option} is unknown")
        count = _count(kind, name, [glued] if equals else following)
        values = [glued] if equals else following[:count]
        if len(values) < count:
            raise Unclear(f"whose option {option} has no value")
        self._take(kind, name, option, values)
        return 1 if equals else 1 + count

    def _kind(self, name: str) -> str:
        is_knob = self._names and (name in self._names or name.removeprefix("no-") in self._names)
        return self._table.get(name) or ("knob" if is_knob else "")

    def _take(self, kind: str, name: str, option: str, raw: list[str]) -> None:
        if kind == "variable" and "=" not in raw[0]:
            self.passed.append(variable(raw[0], self._env)[0])
        elif kind in ("variable", "genv"):
            self.assign("=".join(raw))
        else:
            lenient = self._table is TORCH and kind in ("value", "nodes")
            self._keep(kind, name, option, [word if lenient else value_of(word, self._env) for word in raw])

    def _keep(self, kind: str, name: str, option: str, values: list[str]) -> None:
        """Keep what an option says, in hpcdist's own words; the rest is dropped, to be told."""
        if kind in ("np", "per_node", "folder", "nodes", "restarts"):
            self.said[kind] = values[0]
        elif kind == "names":
            self.passed += values[0].split(",")
        elif kind == "mca":
            self._parameter(option, *values)
        elif kind == "map":
            self._map(option, values[0])
        elif kind == "each":
            self.said["per_node" if name == "pernode" else "by_node"] = "1"
        elif kind in ("knob", "elastic", "controller"):
            self.knobs[name] = values[0] if values else ""
        elif kind in ("hosts", "hostfile"):
            self._hosts(option, values[0])
        elif not (name in _OWN or (name, *values) == _OF_ITS_OWN):
            self.dropped.append(" ".join([option, *values]))

    def _hosts(self, option: str, value: str) -> None:
        if not value.startswith(_WRITTEN):
            self.said["hosts"] = value
            self.dropped.append(f"{option} {value}")

    def _parameter(self, option: str, key: str, value: str) -> None:
        """Make an MCA parameter the variable that Open MPI reads, but for how mpirun was to reach its hosts.

        A variable, and no word for mpirun in ``batch.launcher.args``: mpirun hands its parameters on to the
        ranks as these variables (mpirun(1), "MCA"), so a rank sees the same; they work as well where the
        site's launcher is srun, which knows no such option; and `hpcdist lint` knows them by these names.
        """
        if _REACHING.match(key):
            self.dropped.append(f"{option} {key} {value}")
        else:
            self.variables[f"OMPI_MCA_{key}"] = value

    def _map(self, option: str, value: str) -> None:
        """Take how many go to a node, or that they go to the nodes in turn; what stands behind is dropped."""
        shared = re.fullmatch(r"ppr:(\d+):node(?::(.+))?", value)
        policy, _, behind = value.partition(":")
        if shared:
            self.said["per_node"], behind = shared[1], shared[2] or ""
        elif policy == "node":
            self.said["by_node"] = "1"
        elif policy == "ppr":
            raise Unclear(f"in which {option} {value} counts by less than a node")
        elif policy != "slot":
            self.dropped.append(f"{option} {value}")
            behind = ""
        if behind:
            self.dropped.append(f"{behind} of {option}")


def _count(kind: str, name: str, following: list[str]) -> int:
    """Return how many values an option has; Hydra's ``-genv`` takes ``NAME VALUE`` or ``NAME=VALUE``."""
    if kind == "genv":
        return 1 if following and "=" in following[0] else 2
    return 0 if kind == "knob" and _is_flag(name, following) else _COUNTS.get(kind, 1)


def _is_flag(name: str, following: list[str]) -> bool:
    """Tell whether an option of Horovod's own has no value: the program follows, or another option."""
    value = r"[\d.]+|[A-Z]+|\S*\.(?:json|csv|log|txt)|/\S*"
    return name.startswith("no-") or not (following and re.fullmatch(value, following[0]))
