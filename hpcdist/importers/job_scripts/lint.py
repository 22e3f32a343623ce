"""What is wrong with a job script as it stands, and its mended copy; the texts are those of `rules`.

A check is silent wherever a variable, a file or the machine may make the script right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from hpcdist.base.errors import Place, Problem
from hpcdist.base.tree import Document
from hpcdist.experiment.launch_line import UserLaunch
from hpcdist.experiment.launch_options import MPI_LAUNCHERS, hosts_in, is_local
from hpcdist.experiment.shell_variables import OF_FIRST_TASK
from hpcdist.experiment.shell_words import filled, unquoted
from hpcdist.importers.job import ForeignJob
from hpcdist.importers.job_scripts.body import Statement, number_of, statements, texts_in
from hpcdist.importers.job_scripts.directives import SYSTEMS, Header, ScriptOption, System, options_in
from hpcdist.importers.job_scripts.lines import COPIES, PRINTS, user_launches
from hpcdist.importers.job_scripts.rules import RULES
from hpcdist.importers.job_scripts.size import JobSize, size_of
from hpcdist.importers.reading import Reading

Edit = tuple[int, int, str]
"""Where a text begins and ends, and what replaces it."""
Missing = Callable[[str], bool]
"""Whether a folder certainly does not exist."""


class Finding(NamedTuple):
    """A rule, where it is broken, the values of its texts, and the edits that mend it if that is certain."""

    rule: str
    at: int
    values: Mapping[str, object]
    edits: tuple[Edit, ...] = ()


class PlacedOption(NamedTuple):
    """An option of a directive, and the place and text of its line."""

    option: ScriptOption
    at: int
    line: str

    def replaced(self, value: str, new: str) -> tuple[Edit, ...]:
        """Return the edit that replaces a value; none if it is quoted in another way."""
        begin = self.at + self.line.rfind(value)
        return ((begin, begin + len(value), new),) if value in self.line else ()


class PlacedLaunch(NamedTuple):
    """A launch of a program, and the tasks that it starts on each node and in all; None: not known."""

    launch: UserLaunch
    statement: Statement
    each: int | None
    total: int | None

    @property
    def inner(self) -> UserLaunch:
        """The launch that counts the processes: the one that srun starts, or itself."""
        return self.launch.starts or self.launch


_FRAME: Final = re.compile(
    r"(?:^|(?<=[;\n&|({]))[ \t]*(?:(?:then|do|else|done|fi|esac|if|elif|while|until|[(){}])(?=[\s;]|$)"
    r"|(?:for|select|case)\s[^\n;]*|(?:function\s+)?[\w-]+\s*\(\)\s*\{?|function\s+[\w-]+\s*\{?"
    r"|[\w*|\"-]+\)(?=\s))"
)
"""The keywords of compound commands, and the heads of loops and functions."""
_DEEPEST: Final = 8


def _simple(text: str, base: int = 0, depth: int = 0) -> Iterator[Statement]:
    """Yield the simple statements of a text in their order, those of compound commands too."""
    for one in statements(text):
        inner = _FRAME.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), one.text)
        inner = re.sub(r"^\((.*)\)$", r" \1 ", inner, flags=re.DOTALL)
        if not one.compound or inner == one.text or depth > _DEEPEST:
            yield one._replace(at=base + one.at)
        else:
            yield from _simple(inner, base + one.at, depth + 1)


def _expanded_early(text: str) -> str:
    """Return a text without what is in single quotes, or behind a backslash: another shell expands that."""
    parts = re.compile(r"""\\.|"(?:[^"\\]|\\.)*"|'[^']*'""", re.DOTALL)
    return parts.sub(lambda one: re.sub(r"\\.", "", one[0]) if one[0][0] == '"' else "", text)


@dataclass(frozen=True)
class Script:
    """A job script as the checks see it."""

    document: Document
    missing: Missing

    @cached_property
    def text(self) -> str:
        """The script, with the line ends of Unix."""
        return self.document.text.replace("\r\n", "\n")

    @cached_property
    def system(self) -> System:
        """Its batch system."""
        return SYSTEMS[str(self.document.data["job_script"])]

    @cached_property
    def header(self) -> Header:
        """What its directives request."""
        header = Header(self.system, Reading(self.document.data), ForeignJob())
        header.take()
        return header

    @cached_property
    def size(self) -> JobSize:
        """The size of its job."""
        return size_of(self.header)

    @cached_property
    def statements(self) -> list[Statement]:
        """The simple statements and comments, those of loops and conditions too."""
        return [*_simple(self.text)]

    @cached_property
    def commands(self) -> list[Statement]:
        """The statements that are not comments."""
        return [one for one in self.statements if not one.is_comment]

    @cached_property
    def code(self) -> str:
        """The script without comments."""
        return "\n".join(one.text.replace("\\\n", " ") for one in self.commands)

    @cached_property
    def values(self) -> dict[str, str]:
        """The variables that have one value."""
        size, total = self.size, str(self.size.nodes * self.size.tasks)
        known = dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), str(size.nodes))
        known |= {"SLURM_NTASKS": total, "SLURM_NPROCS": total, "SLURM_GPUS_ON_NODE": str(size.gpus)}
        return known | {name: one[0] for name, one in texts_in(self.commands).items() if len(one) == 1}

    @cached_property
    def options(self) -> list[PlacedOption]:
        """The options of the directives that Slurm reads."""
        found: list[PlacedOption] = []
        for number, text in enumerate(self.document.data["directives"]):
            place = self.document.place(("directives", number))
            line = place.line if place else 1
            at, whole = self.start(line), self.text.split("\n")[line - 1]
            found += [PlacedOption(one, at, whole) for one in _options(self.system, str(text))]
        return found

    @cached_property
    def launches(self) -> list[PlacedLaunch]:
        """The launches of programs."""
        return [
            self._placed(launch, one)
            for one in self.commands
            if not one.compound
            for launch in user_launches(one, self.values)
        ]

    def _placed(self, launch: UserLaunch, statement: Statement) -> PlacedLaunch:
        counts = [launch.options_of(kind) for kind in ("nodes", "per_node", "np")]
        nodes, each, total = (number_of(one[-1].value, self.values) if one else 0 for one in counts)
        is_open = launch.is_open or re.search(r"\bsrun\s+[\"']?\$", statement.text)
        if None in (nodes, each, total) or is_open or (launch.options_of("hosts") and not nodes):
            return PlacedLaunch(launch, statement, None, None)
        nodes = nodes or self.size.nodes
        total = total or nodes * (each or self.size.tasks)
        return PlacedLaunch(launch, statement, -(-total // nodes), total)

    def named(self, *flags: str) -> list[PlacedOption]:
        """Return the options of these names."""
        return [one for one in self.options if one.option.flag in flags]

    def start(self, line: int) -> int:
        """Return where a line begins."""
        return sum(len(text) + 1 for text in self.text.split("\n")[: line - 1])

    def place(self, at: int) -> Place:
        """Return the line and column there."""
        return Place(self.document.file, self.text.count("\n", 0, at) + 1, len(self.before(at)) + 1)

    def before(self, at: int) -> str:
        """Return what stands before a place in its line."""
        return self.text[self.text.rfind("\n", 0, at) + 1 : at]


def _options(system: System, text: str) -> list[ScriptOption]:
    try:
        return options_in(system, text)
    except ValueError:
        return []  # the importer refuses it


# --- Directives


def _late(script: Script) -> Iterator[Finding]:
    """Check where the directives stand."""
    first = min((one.at for one in script.commands), default=len(script.text))
    above, last = {one.option.flag for one in script.options}, max([one.at for one in script.options] or [0])
    to = script.text.find("\n", last) + 1
    for one in script.statements:
        match = re.match(script.system.prefix, one.text) if one.is_comment else None
        blank, end = script.before(one.at), one.at + len(one.text)
        if match and one.at < first and blank and not blank.strip():
            values = {"text": one.text.strip(), "prefix": match[0]}
            yield Finding("indented-directive", one.at, values, ((one.at - len(blank), one.at, ""),))
        elif match and one.at > first:
            rest = one.text[match.end() :].strip()
            flags = {option.flag for option in _options(script.system, rest)}
            values = {"text": rest, "system": script.system.title, "line": str(script.place(first).line)}
            edits = ((to, to, f"{one.text}\n"), (one.at, end + 1, ""))
            is_new = not blank and flags and not flags & above and script.text[end : end + 1] == "\n"
            yield Finding("late-directive", one.at, values, edits if is_new else ())


_IN_NAMES: Final = {"SLURM_JOB_ID": "%j", "SLURM_JOBID": "%j", "SLURM_ARRAY_JOB_ID": "%A",
                    "SLURM_ARRAY_TASK_ID": "%a", "USER": "%u", "SLURM_JOB_NAME": "%x"}  # fmt: skip
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))|^~(?=/)")
_OUTPUTS: Final = ("--output", "--error")


def _variables(script: Script) -> Iterator[Finding]:
    """Check that the directives have no variables."""
    for one in script.options:
        flag, value = one.option.flag, one.option.value or ""
        match = _VARIABLE.search(value)
        if match and flag not in ("--comment", "--wrap"):
            new = _VARIABLE.sub(lambda name: _IN_NAMES.get(name[1] or name[2], name[0]), value)
            edits = one.replaced(value, new) if flag in _OUTPUTS and not _VARIABLE.search(new) else ()
            write = f"write `{flag}={new}`" if edits else f"write it out, or give `{flag}` to sbatch itself"
            values = {"written": one.option.written, "text": match[0], "instead": write}
            yield Finding("directive-variable", one.at, values, edits)


def _files(script: Script) -> Iterator[Finding]:
    """Check the files of the output, and their folders."""
    is_array = any(not (one.option.value or "").isdecimal() for one in script.named("--array"))
    for one in script.named(*_OUTPUTS):
        value, flag = one.option.value or "", one.option.flag
        path = PurePosixPath(value)
        folder = str(path.parent)
        of_job = re.search(r"%\d*[jJA]", folder)
        if of_job or not (re.search(r"[%$~]", folder) or script.header.folder or not script.missing(folder)):
            write = f"{flag}={value.replace('/', '_')}" if of_job else f"mkdir -p {folder}` before `sbatch"
            values = {"written": one.option.written, "folder": folder, "instead": write}
            yield Finding("output-folder", one.at, values)
        if is_array and value not in ("", "/dev/null") and not re.search(r"%\d*[jJaN]|\$", value):
            new = f"{value.removesuffix(path.suffix)}_%a{path.suffix}"
            values = {"written": one.option.written, "instead": f"{flag}={new}"}
            yield Finding("shared-output", one.at, values, one.replaced(value, new))


# --- GPUs and CPUs


def _gpus(script: Script) -> Iterator[Finding]:
    """Check that the job has GPUs, and CPUs for them; jobs that may have whole nodes are left out."""
    size, sizes = script.size, script.header.size.keys()
    if script.named("--exclusive", "--constraint") or size.memory == "all":
        return
    by_srun = re.search(r"\bsrun\b.*(?:--gres|--gpus|\s-G)", script.code)
    if not size.gpus and not by_srun and sizes & {"cpus_per_task", "memory", "memory_per_cpu"}:
        whys = [(one, f"CUDA_VISIBLE_DEVICES is {value}") for one in script.commands for name, value
                in one.assigned if name == "CUDA_VISIBLE_DEVICES" and value[:1].isdecimal()]  # fmt: skip
        whys += [(one.statement, f"{one.inner.program} starts a process for each") for one in script.launches
                 for option in one.inner.options_of("per_node") if option.value == "gpu"]  # fmt: skip
        for one, why in whys[:1]:
            yield Finding("no-gpus", one.at, {"why": why})
    if size.gpus // size.tasks > 1 and script.header.number("cpus_per_task") == 1:
        yield Finding("one-cpu", script.named("--cpus-per-task")[-1].at, {"gpus": size.gpus // size.tasks})


# --- Launch lines

_BINDING: Final = re.compile(
    r"""\s(?:-c\s*(?:[\d$]|"\$\{?SLURM_CPUS)|--(?:cpus-per-(?:task|gpu)|cores-per-task|cpu[-_]bind|hint)\b)"""
)
"""Options of srun that say which CPUs a task gets."""


def _cpus(script: Script) -> Iterator[Finding]:
    """Check that srun gets the CPUs of a task; one finding for all lines.

    It then takes these CPUs for itself, which is no mend for steps that run at the same time.
    """
    cpus = script.header.number("cpus_per_task") or 1
    edits: list[Edit] = []
    for one in script.launches if "SRUN_CPUS_PER_TASK" not in script.code and cpus > 1 else ():
        words = [word for part in one.statement.parts for word in part.words if word.text == "srun"]
        is_open = re.search(r"\bsrun\s+[\"']?\$", one.statement.text)
        if one.launch.program == "srun" and words and not _BINDING.search(one.statement.text) and not is_open:
            end = one.statement.at + words[0].end - one.statement.parts[0].words[0].start
            edits.append((end, end, ' --cpus-per-task="$SLURM_CPUS_PER_TASK"'))
    if edits:
        is_serial = not any(one.statement.background for one in script.launches)
        certain = tuple(edits) if is_serial else ()
        yield Finding("srun-cpus", edits[0][0] - len("srun"), {"cpus": cpus}, certain)


def _nested(script: Script) -> Iterator[Finding]:
    """Check launchers that srun starts, and those that nothing starts on the other nodes."""
    for one in script.launches:
        inner, at = one.launch.starts if one.launch.program == "srun" else None, one.statement.at
        if inner and inner.program in (*MPI_LAUNCHERS, "horovodrun") and (one.total or 1) > 1:
            yield Finding("mpirun-in-srun", at, {"program": inner.program, "tasks": one.total})
        own = [option.value for option in inner.options_of("per_node")] if inner else []
        if inner and inner.runs == "per_node" and (one.each or 1) > 1 and own[-1:] != ["1"]:
            values = {"program": inner.program, "tasks": one.each, "nodes": script.size.nodes}
            yield Finding("launcher-per-task", at, values)
    alone = [one for one in script.launches if one.launch.runs == "per_node" and not one.launch.is_open]
    if alone and script.size.nodes > 1 and not _ELSEWHERE.search(script.code):
        values = {"program": alone[0].launch.program, "nodes": script.size.nodes}
        yield Finding("first-node-only", alone[0].statement.at, values)


_ELSEWHERE: Final = re.compile(
    r"\b(?:srun|mpirun|mpiexec\S*|ssh|pdsh|clush|parallel|ibrun|aprun|prun|ray|dask\S*|pbsdsh|sbatch|flux)\b"
)
_TASK: Final = re.compile(rf"\$\{{?({'|'.join(OF_FIRST_TASK)})\b")
_OF_RANK: Final = frozenset(("RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "MACHINE_RANK"))


def _task_variables(script: Script) -> Iterator[Finding]:
    """Check variables of a task that the batch script expands: in exports, and in lines of srun."""
    started = [one for one in script.launches if one.launch.program == "srun" and (one.total or 0) > 1]
    inherit = started == script.launches and not any(one.launch.starts for one in started)
    early: dict[str, str] = {}
    for one in script.commands if started else ():
        match = _TASK.search(_expanded_early(one.text)) if len(one.assigned) == 1 else None
        if match and one.programs in ([], ["export"]):
            [(name, _)] = one.assigned
            early[name] = match[1]
            if inherit and name in _OF_RANK and one.programs:
                yield _expanded_once(one, match[1], f"{name}=${match[1]} ...")
    for launched in started:
        inner, text = launched.launch.starts, _expanded_early(launched.statement.text)
        names = [match[1] for match in _TASK.finditer(text)]
        names += [early[name] for name in re.findall(r"\$\{?(\w+)", text) if name in early]
        if names and not (inner and any(option.value.startswith("c10d") for option in inner.options)):
            yield _expanded_once(launched.statement, names[0], f"... ${names[0]} ...")


def _expanded_once(one: Statement, name: str, command: str) -> Finding:
    return Finding("task-variable", one.at, {"name": name, "command": command})


# --- Where the tasks meet

_FIRST: Final = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
_ALL: Final = re.compile(r"(?<!\()(?:\$\(\s*hostname\s+(?:-I|--all-ip-addresses)\s*\)|`hostname\s+-I\s*`)")
_OWN: Final = re.compile(
    r"(?:MASTER_ADDR|master[_-]addr|rdzv[_-]endpoint|main[_-]process[_-]ip)[= ]\s*\"?"
    r"(\$\(\s*hostname[^()]*\)|`hostname[^`]*`|\$\{?(?:HOSTNAME|SLURMD_NODENAME)\}?)"
)


def _addresses(script: Script) -> Iterator[Finding]:
    """Check the address at which the tasks of several nodes meet."""
    for one in script.commands:
        match = _ALL.search(one.text)
        if match and not {*one.programs} & PRINTS:
            at = one.at + match.start()
            edit = (at, at + len(match[0]), _FIRST)
            yield Finding("all-addresses", at, {"text": match[0], "instead": _FIRST}, (edit,))
    several = [one for one in script.launches if one.launch.program == "srun" and one.each != one.total]
    for launched in several:
        quoted = re.search(r"-[a-z]*c\s+'([^']*)'", launched.statement.text)
        own = [match[1] for match in _OWN.finditer(quoted[1])] if quoted else []
        options = launched.launch.starts.options_of("address", "endpoint") if launched.launch.starts else ()
        hosts = [host for one in options for host in hosts_in(one.kind, filled(one.value, script.values))]
        for text in [*own, *filter(is_local, hosts)][:1]:
            values = {"text": text, "nodes": script.size.nodes}
            yield Finding("own-address", launched.statement.at, values)


_LAST_PORT: Final = 65535


def _ports(script: Script) -> Iterator[Finding]:
    """Check ports: their numbers, and fixed ones in jobs of one or two GPUs, which share their node."""
    size = script.size
    is_part = size.nodes == 1 and size.gpus in (1, 2) and size.memory != "all"
    for one in script.launches:
        torch, at = one.inner, one.statement.at
        texts = [filled(option.value, script.values) for option in torch.options_of("port", "endpoint")]
        port = texts[-1].rpartition(":")[2] if texts else "29500"
        if port.isdecimal() and int(port) > _LAST_PORT:
            yield Finding("no-port", at, {"port": port})
        is_fixed = port.isdecimal() and port != "0" and not re.search(r"PET_|MASTER_PORT", script.code)
        meets = torch.program == "torchrun" and not (torch.is_open or torch.options_of("alone", "endpoint"))
        if is_part and is_fixed and meets and not script.named("--exclusive"):
            yield Finding("fixed-port", at, {"port": port})


# --- The shell


def _conda(script: Script) -> Iterator[Finding]:
    """Check that bash knows `conda activate`: any file that it reads, and any module, may define it."""
    is_plain = re.match(r"#!\s*\S*(?:/|env\s+)(?:ba|da)?sh\s*$", script.text.split("\n", 1)[0])
    for one in script.commands if is_plain else ():
        words = [unquoted(word.text) for part in one.parts for word in part.words]
        if {*one.programs, *words[:1]} & {"source", ".", "eval", "module", "ml", "spack"}:
            return
        if words[:1] in (["conda"], ["mamba"]) and words[1:2] == ["activate"]:
            blank = script.before(one.at)
            begin = one.at - len(blank)
            edits = () if blank.strip() else ((begin, begin, f'{blank}eval "$(conda shell.bash hook)"\n'),)
            yield Finding("conda-hook", one.at, {"text": " ".join(words[:3])}, edits)
            return


_STRICT: Final = re.compile(r"^\s*set\s+-(?:[a-z]*e[a-z]*|[a-z]*o\s+errexit)\b", re.MULTILINE)


def _exit_code(script: Script) -> Iterator[Finding]:
    """Check that `set -e` sees the end of programs."""
    if not _STRICT.search(script.code) or re.search(r"pipefail|PIPESTATUS", script.code):
        return
    launches = {one.statement.at for one in script.launches}
    for one in script.commands:
        programs = [unquoted(part.words[0].text).rsplit("/", 1)[-1] for part in one.parts if part.words]
        is_piped = [part.operator for part in one.parts[1:2]] == ["|"] and not one.compound
        if is_piped and (one.at in launches or programs[0].startswith("python")):
            yield Finding("lost-exit-code", one.at, {"program": programs[0]})


_SIGNALS: Final = dict.fromkeys(("USR1", "SIGUSR1", "10"), "USR1") | dict.fromkeys(
    ("USR2", "SIGUSR2", "12"), "USR2"
)


def _traps(script: Script) -> Iterator[Finding]:
    """Check that a signal of Slurm reaches the `trap` of the batch script, and that bash runs it then."""
    traps = [(one, _SIGNALS[word.text]) for one in script.commands if one.programs == ["trap"]
             for word in one.parts[0].words[2:] if word.text in _SIGNALS]  # fmt: skip
    directives = script.named("--signal")
    for trap, signal in traps[:1]:
        if not directives:
            yield Finding("trap-without-signal", trap.at, {"signal": signal})
            continue
        target, colon, _ = (directives[-1].option.value or "").partition(":")
        if not colon or "B" not in target:
            values = {"written": directives[-1].option.written, "value": directives[-1].option.value}
            yield Finding("signal-to-tasks", directives[-1].at, values)
            continue
        whole = {one.at for one in statements(script.text)}
        for one in script.launches:
            if one.statement.at > trap.at and not one.statement.background and one.statement.at in whole:
                yield Finding(
                    "trap-too-late", one.statement.at, {"signal": signal, "program": one.launch.program}
                )


def _background(script: Script) -> Iterator[Finding]:
    """Check that the script waits for what it starts in the background."""
    found = [one for one in script.launches if one.statement.background]
    for one in found[-1:]:
        after = {name for other in script.commands if other.at > one.statement.at for name in other.programs}
        waits = re.search(r"\bwait\b", script.text[one.statement.at :])
        if not waits and after <= (PRINTS | COPIES | {"export"}) - {"sleep", "tail"}:
            end = len(script.text)
            edit = (end, end, "wait\n" if script.text.endswith("\n") else "\nwait\n")
            yield Finding("no-wait", one.statement.at, {"program": one.launch.program}, (edit,))


_TRAINS: Final = re.compile(r"\b(?:(?:pre)?train|fine_?tun|sft)\w*\.py\b", re.IGNORECASE)
_SAVES: Final = re.compile(r"resume|checkpoint|ckpt|requeue|\btrap\b", re.IGNORECASE)


def _time(script: Script) -> Iterator[Finding]:
    """Check that a training can save a checkpoint at its time limit."""
    limits = script.named("--time")
    trains = any(_TRAINS.search(one.statement.text) for one in script.launches)
    if limits and trains and not script.named("--signal") and not _SAVES.search(script.text):
        yield Finding("no-signal", limits[-1].at, {})


# --- What is found

_CHECKS: Final = (_late, _variables, _files, _gpus, _cpus, _nested, _task_variables, _addresses, _ports,
                  _conda, _exit_code, _traps, _background, _time)  # fmt: skip


def _findings(script: Script) -> list[Finding]:
    found = (one for check in _CHECKS for one in check(script))
    return sorted(
        (one for one in found if {script.system.name, "*"} & RULES[one.rule].systems),
        key=lambda one: one.at,
    )


def problems(document: Document, missing: Missing = lambda _: False) -> list[Problem]:
    """Return what is wrong with a job script, at its places; the path of each is the name of its rule."""
    script = Script(document, missing)
    return [_problem(script, one) for one in _findings(script)]


def exported(document: Document) -> Iterator[tuple[str, str, Place]]:
    """Yield the variables that a script exports, and does not use, with values that bash does not expand."""
    script = Script(document, lambda _: False)
    for one in script.commands:
        for name, value in one.assigned if one.programs == ["export"] else ():
            if not re.search(r"[$`]", value) and not re.search(rf"\$\{{?{name}\b", script.code):
                yield name, value, script.place(one.at)


def _problem(script: Script, found: Finding) -> Problem:
    rule = RULES[found.rule]
    message, hint = rule.message.format(**found.values), rule.hint.format(**found.values)
    return Problem(message, (rule.name,), hint, rule.severity, script.place(found.at))


def mended(document: Document) -> tuple[str, int]:
    """Return a job script with all mends that are certain, and their number."""
    script = Script(document, lambda _: False)
    found = [one.edits for one in _findings(script) if one.edits]
    edits = sorted((edit for edits in found for edit in edits), key=lambda edit: edit[0])
    text = script.text
    for begin, end, new in reversed(edits):
        text = text[:begin] + new + text[end:]
    return text, len(found)
