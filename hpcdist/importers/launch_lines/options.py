"""The options of mpirun, horovodrun and torchrun, and their conversion.

The meaning of each option, with its source: ``hpcdist.experiment.launch.options``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hpcdist.experiment.launch.options import COUNTS, MPI, TORCH
from hpcdist.importers.launch_lines.shell_words import UnsupportedLaunch, value_of, variable
from hpcdist.words import quote

_RENDEZVOUS: Final = frozenset(
    {"rdzv-backend", "rdzv-endpoint", "rdzv-id", "node-rank", "master-addr", "master-port"}
)
"""Options of torchrun's rendezvous, which hpcdist sets itself."""
_DEFAULT_RANKING: Final = ("rank-by", "slot")
"""The ranking that hpcdist's launch uses with every launcher; the site configures binding."""
_PROGRAMS: Final = frozenset({"-m", "--module", "--no-python", "--no_python"})
"""Options of torchrun that belong to what it starts."""
_SYSTEM_HOSTFILES: Final = ("/etc/mpi/", "/job/hostfile", "/generated/hostfile")
"""Where Kubeflow, AWS and Gradient write the hosts of the job, which hpcdist's launch replaces."""
_CONNECTION_PARAMETERS: Final = re.compile(
    r"(?:plm|ras|oob_tcp|orte_keep_fqdn|orte_default_hostfile|orte_set_default_slots)"
)
_NUMBER: Final = re.compile(r"-\d+|-\d*\.\d+")
"""What Python's argparse takes for a value although it begins as an option does."""


class Options:
    """The options of one launch line, read from left to right.

    ``values`` holds np, per_node, by_node, nodes, restarts, folder and hosts; ``before`` sets variables in
    front of the program; ``passed`` are the variables that are exported by name alone; ``knobs`` are
    horovodrun's own, those without a value with None.
    """

    def __init__(self, table: Mapping[str, str], env: Mapping[str, str]) -> None:
        self._table, self._env = table, env
        self._is_argparse = table is not MPI
        self.values: dict[str, str] = {}
        self.variables: dict[str, str] = {}
        self._mca: dict[str, str] = {}
        self.passed: list[str] = []
        self.before: list[str] = []
        self.knobs: dict[str, str | None] = {}
        self.dropped: list[str] = []

    def read(self, words: list[str], at: int) -> int:
        """Return where the program begins.

        Raises:
            UnsupportedLaunch: when hpcdist's own launch has no equivalent.
        """
        while (
            at < len(words) and (word := self._unquoted(words[at])).startswith("-") and word not in _PROGRAMS
        ):
            at += self._option(word, words[at + 1 :])
        return at

    def _unquoted(self, raw: str) -> str:
        """Return an option that is in quotes together with its value as an option with a value in quotes."""
        if not raw.startswith(("'-", '"-')):
            return raw
        option, equals, value = value_of(raw, self._env).partition("=")
        return f"{option}={quote(value)}" if equals else option

    def assign(self, raw: str) -> None:
        """Set a variable for the program, in place of what was set before."""
        name, value, text = variable(raw, self._env)
        self.before = [item for item in self.before if not item.startswith(f"{name}=")]
        self.variables.pop(name, None)
        if text:
            self.before.append(text)
        else:
            self.variables[name] = value

    def _option(self, word: str, following: list[str]) -> int:
        """Take an option with its values; return how many words they are."""
        option, equals, glued = word, "", ""
        if self._is_argparse or option.startswith("--"):
            option, equals, glued = option.partition("=")
        name = self._name(option)
        kind = self._table.get(name, "")
        if not kind:
            raise UnsupportedLaunch(f"whose option {option} has no equivalent")
        count = _count(kind, [glued] if equals else following)
        values = [glued] if equals else following[:count]
        if equals and kind in ("switch", "controller"):
            raise UnsupportedLaunch(f"whose option {option} takes no value")
        if len(values) < count or (self._is_argparse and not equals and any(map(_is_option, values))):
            raise UnsupportedLaunch(f"whose option {option} has no value")
        self._take(kind, name, option, values)
        return 1 if equals else 1 + count

    def _name(self, option: str) -> str:
        """Return the name of an option, of which argparse takes an abbreviation that only one has."""
        name = option.lstrip("-")
        if self._table is TORCH:
            name = name.replace("_", "-")
        if name in self._table or not (self._is_argparse and option.startswith("--")):
            return name
        meant = [known for known in self._table if known.startswith(name)]
        if len(meant) > 1:
            raise UnsupportedLaunch(f"whose option {option} may be {' or '.join(meant)}")
        return meant[0] if meant else name

    def _take(self, kind: str, name: str, option: str, raw: list[str]) -> None:
        if kind == "variable" and "=" not in raw[0]:
            self.passed.append(variable(raw[0], self._env)[0])
        elif kind in ("variable", "genv"):
            self.assign("=".join(raw))
        else:
            lenient = self._table is TORCH and kind in ("value", "nodes")
            self._store(kind, name, option, [word if lenient else value_of(word, self._env) for word in raw])

    def _store(self, kind: str, name: str, option: str, values: list[str]) -> None:
        """Store an option in native form; list any other in ``dropped``."""
        if kind in ("np", "per_node", "folder", "nodes", "restarts"):
            self.values[kind] = values[0]
        elif kind == "names":
            self.passed += values[0].split(",")
        elif kind == "mca":
            self._parameter(option, *values)
        elif kind == "map":
            self._map(option, values[0])
        elif kind == "each":
            self.values["per_node" if name == "pernode" else "by_node"] = "1"
        elif kind in ("knob", "switch", "elastic", "controller"):
            self.knobs[name] = values[0] if values else None
        elif kind in ("hosts", "hostfile"):
            self._hosts(option, values[0])
        elif not (name in _RENDEZVOUS or (name, *values) == _DEFAULT_RANKING):
            self.dropped.append(" ".join([option, *values]))

    def _hosts(self, option: str, value: str) -> None:
        if not value.startswith(_SYSTEM_HOSTFILES):
            self.values["hosts"] = value
            self.dropped.append(f"{option} {value}")

    def _parameter(self, option: str, key: str, value: str) -> None:
        """Convert an MCA parameter to Open MPI's variable; drop those for reaching the hosts.

        A variable, and no word for mpirun in ``batch.launcher.args``: mpirun hands its parameters on to the
        ranks as these variables (mpirun(1), "MCA"), so a rank sees the same; they work as well where the
        site's launcher is srun, which has no such option; and `hpcdist lint` knows them by these names. The
        values of one that is set twice have a comma between them (mpirun(1)).
        """
        if _CONNECTION_PARAMETERS.match(key):
            self.dropped.append(f"{option} {key} {value}")
        else:
            self._mca[key] = f"{self._mca[key]},{value}" if key in self._mca else value
            self.variables[f"OMPI_MCA_{key}"] = self._mca[key]

    def _map(self, option: str, value: str) -> None:
        """Take the processes of a node, or round-robin placement; modifiers are dropped."""
        shared = re.fullmatch(r"ppr:(\d+):node(?::(.+))?", value)
        policy, _, behind = value.partition(":")
        if shared:
            self.values["per_node"], behind = shared[1], shared[2] or ""
        elif policy == "node":
            self.values["by_node"] = "1"
        elif policy == "ppr":
            raise UnsupportedLaunch(f"in which {option} {value} counts by a part of a node")
        elif policy != "slot":
            self.dropped.append(f"{option} {value}")
            behind = ""
        if behind:
            self.dropped.append(f"{behind} of {option}")


def _count(kind: str, following: list[str]) -> int:
    """Return how many values an option has; Hydra's ``-genv`` takes ``NAME VALUE`` or ``NAME=VALUE``."""
    if kind == "genv":
        return 1 if following and "=" in following[0] else 2
    return COUNTS.get(kind, 1)


def _is_option(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and not _NUMBER.fullmatch(word)
