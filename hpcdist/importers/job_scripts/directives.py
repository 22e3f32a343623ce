"""The directives of job scripts as a table: which key of an experiment, or part of its size, each is.

Sources: sbatch(1) 24.05; qsub(1B) and pbs_resources(7B) of OpenPBS 23.06 and Torque 6.1; bsub(1) of LSF
10.1; flux-batch(1) 0.88; submit(1) of Grid Engine 8.1.9. What has no row stays in `batch.directives`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hpcdist.base.units import Walltime
from hpcdist.importers.job import ForeignJob, Sourced, put_name
from hpcdist.importers.reading import Reading
from hpcdist.schedulers import flags
from hpcdist.schedulers.hostlist import expand

# --- The table: a key, `size NAME`, `raw`, or `- why it has no effect`, and the options of each batch system
#
# Blanks separate names of one option, commas options; ``!``: without a value, ``?``: with or without.

_TABLE: Final = """
name                    | --job-name -J    | -N             | -J     | --job-name          | -N
batch.account           | --account -A     | -A, -P         | -P, -G | --bank -B           | -P
batch.partition         | --partition -p   | -q             | -q     | --queue -q          | -q
batch.qos               | --qos -q
batch.walltime          | --time -t        | -l walltime    | -W     | --time-limit -t     | -l h_rt
batch.constraint        | --constraint -C  |                |        | --requires
batch.array             | --array -a       | -J, -t         |        |                     | -t
batch.dependency        | --dependency -d  | -W depend      | -w     | --dependency        | -hold_jid
batch.signal            | --signal         |                |        | --signal
batch.exclude_nodes     | --exclude -x
batch.exclusive         | --exclusive?     |                | -x!    | --exclusive! -x
batch.requeue           | --requeue!       | -r             | -r!    |                     | -r
batch.requeue no        | --no-requeue!    |                | -rn!
batch.output            | --output -o      | -o             | -o, -oo | --output           | -o
batch.error             | --error -e       | -e             | -e, -eo | --error            | -e
size mail_user          | --mail-user      | -M             | -u     |                     | -M
size mail_type          | --mail-type      | -m             |        |                     | -m
size mail_begin         |                  |                | -B!
size mail_end           |                  |                | -N!
size nodes              | --nodes -N       |                | -nnodes | --nodes -N
size tasks              | --ntasks -n      |                | -n     | --nslots -n
size tasks_per_node     | --ntasks-per-node, --tasks-per-node | -l mpiprocs
size tasks_per_gpu      | --ntasks-per-gpu
size cpus               |                  | -l ncpus
size cpus_per_task      | --cpus-per-task -c |              |        | --cores-per-slot -c
size cpus_per_gpu       | --cpus-per-gpu
size gpus               | --gpus -G
size gpus_per_node      | --gpus-per-node  | -l ngpus       |        | --gpus-per-node \
                          | -l gpu, -l gpus, -l ngpus
size gpus_per_task      | --gpus-per-task  |                |        | --gpus-per-slot -g
size memory             | --mem
size memory_of_job      |                  | -l mem
size memory_per_cpu     | --mem-per-cpu
size memory_per_gpu     | --mem-per-gpu
size memory_per_task    |                  | -l pmem        | -M     | | -l h_vmem, -l mem_free
size at_once            |                  |                |        |                     | -tc
gres                    | --gres
gpu                     |                  |                | -gpu
gpu_bind                | --gpu-bind
select                  |                  | -l select, -l nodes
place                   |                  | -l place
rusage                  |                  |                | -R
slots                   |                  |                |        |                     | -pe
folder                  | --chdir -D       | -d, -w         | -cwd   | --cwd               | -wd
export                  | --export         | -v             | -env   | --env               | -v
raw                     | --overcommit! -O, --oversubscribe? -s, --hold! -H, --contiguous!, --spread-job!, \
    --use-min-nodes!, --reboot!, --ignore-pbs!, --get-user-env?, --nice?, --distribution -m, --nodelist -w, \
    --licenses -L, --clusters -M, --extra-node-info -B, --core-spec -S, --begin -b | -h! | -H! | | -notify!
- the output of each run of the job is kept   | --open-mode
- `hpcdist submit --wait` waits               | --wait! -W | -W block | -K! | | -sync
- hpcdist submits the job itself              | --parsable!, --quiet! -Q, --verbose! -v | -z! | | | -terse!
- hpcdist submits batch jobs                  | | -I!, -X! | -I!
- it carries the token by which hpcdist finds the job again | --comment | | -Jd
- the job ends when it loses a node           | --no-kill? -k
- the CPUs of a task are requested            | --mincpus
- the script has a body                       | --wrap | | | | -b
- a task reads no standard input              | --input -i
- standard output and error are one file      | | -j | | | -j
- the site file says where output is kept     | | -k
- the script is bash                          | | -S | -L | | -S, -shell
- the memory of a node is requested by `mem`  | | -l vmem
- the job runs where it is submitted          | | -W sandbox
- output is not buffered, and has no labels   | | | | --unbuffered! -u, --label-io! -l
- `flux batch` has no such option             | | | | --gpus-per-task, --tasks-per-node, --priority
-                                             | | -V! | | | -V!, -cwd!
"""


class OptionRow(NamedTuple):
    """What an option is; ``flag``: its long form, ``value``: it has one, may have one (None), or has none."""

    flag: str
    value: bool | None
    target: str


def _rows(column: int) -> dict[str, OptionRow]:
    """Return what each option of a batch system is, by all of its names."""
    found: dict[str, OptionRow] = {}
    for line in _TABLE.replace("\\\n", "").strip().splitlines():
        target, *cells = (part.strip() for part in line.split("|"))
        for names in filter(None, (cells + [""] * 5)[column].split(", ")):
            one = [names] if names.startswith(("-l ", "-W ")) else names.split()
            flag = one[0].rstrip("!?")
            row = OptionRow(flag, {"!": False, "?": None}.get(one[0][-1], True), target)
            found |= dict.fromkeys([flag, *one[1:]], row)
    return found


class System(NamedTuple):
    """A batch system: how its directives begin, and what each of its options is."""

    name: str
    title: str
    prefix: str
    """A regular expression for the beginning of a directive."""
    rows: Mapping[str, OptionRow]
    folder: str
    """The variable that holds the folder where the job was submitted."""


_SYSTEMS: Final = (
    System("slurm", "Slurm", r"#SBATCH(?=\s)", _rows(0), "SLURM_SUBMIT_DIR"),
    System("pbs", "PBS", r"#PBS(?=\s)", _rows(1), "PBS_O_WORKDIR"),
    System("lsf", "LSF", r"#BSUB(?=\s)", _rows(2), "LS_SUBCWD"),
    System("flux", "Flux", r"# ?(?:flux|FLUX):", _rows(3), "FLUX_JOB_CWD"),
    System("sge", "Grid Engine", r"#\$(?=\s+-)", _rows(4), "SGE_O_WORKDIR"),
)
SYSTEMS: Final = {system.name: system for system in _SYSTEMS}


class ScriptOption(NamedTuple):
    """One option of a line: ``flag`` in its long form, ``written`` as in the script."""

    flag: str
    value: str | None
    written: str
    row: OptionRow | None


def options_in(system: System, text: str) -> list[ScriptOption]:
    """Return the options of a directive's text, without its comment.

    Raises:
        ValueError: when its quotes do not match.
    """
    if system.name == "slurm":
        text = text.rstrip("\\")  # escapes nothing at the end of a line
    left = shlex.split(text, comments=system.name != "sge")
    found: list[ScriptOption] = []
    while left:
        word = left.pop(0)
        if not word.startswith("-") or len(word) == 1:
            found.append(ScriptOption("", word, word, None))
            continue
        found += _option(system, word, left)
    return found


def _option(system: System, word: str, left: list[str]) -> Iterator[ScriptOption]:
    name, equals, glued = word.partition("=")
    is_long = word.startswith("--")
    row = system.rows.get(name) or (_abbreviated(system, name) if is_long else None)
    if row is None and not is_long and system.name in ("slurm", "pbs", "flux") and len(word) > 2:  # noqa: PLR2004
        row, name, equals, glued = system.rows.get(word[:2]), word[:2], "=", word[2:].removeprefix("=")
    value: str | None = glued if equals else None
    if name == "-l" or (name == "-W" and system.name == "pbs"):
        yield from _resources(system, name, value or (left.pop(0) if left else ""))
        return
    wants = row.value if row else not left or not left[0].startswith("-")
    if value is None and wants and left:
        value = left.pop(0)
    while name == "-pe" and left and not left[0].startswith("-"):
        value = f"{value} {left.pop(0)}"
    flag = row.flag if row else name
    written = f"{flag}={value}" if is_long or flag.startswith("--") else f"{flag} {quoted(value or '')}"
    yield ScriptOption(flag, value, flag if value is None else written.strip(), row)


def quoted(value: str) -> str:
    """Return a value as a directive has it."""
    return shlex.quote(value) if re.search(r"\s", value) else value


def _abbreviated(system: System, name: str) -> OptionRow | None:
    rows = {row for flag, row in system.rows.items() if flag.startswith(name) and flag.startswith("--")}
    return rows.pop() if len(rows) == 1 else None


def _resources(system: System, flag: str, value: str) -> Iterator[ScriptOption]:
    """Yield a directive for each resource of a list: ``-l walltime=1:00:00,mem=4gb``."""
    for item in re.split(r",(?=[A-Za-z_]\w*(?:=|,|$))", value):
        name, equals, amount = item.partition("=")
        row = system.rows.get(f"{flag} {name}")
        yield ScriptOption(f"{flag} {name}", amount if equals else None, f"{flag} {item}", row)


# --- What the directives of a script ask for


_HETEROGENEOUS: Final = frozenset({"hetjob", "packjob"})


@dataclass
class Header:
    """Reads the directives of a script into a job, and into its ``size``, each with the path of its line."""

    system: System
    read: Reading
    job: ForeignJob
    size: dict[str, Sourced] = field(default_factory=dict)
    """The amounts that together are the job's size: ``nodes``, ``tasks_per_node``, ``gpus`` and others."""
    raw: list[Sourced] = field(default_factory=list)
    """Directives that have no key."""
    folder: str = ""
    """Where the body begins."""
    _last: dict[str, tuple[int, str]] = field(default_factory=dict)

    @property
    def is_heterogeneous(self) -> bool:
        """Whether the job has several components."""
        return any(str(text).strip() in _HETEROGENEOUS for text in self.read.peek("directives") or ())

    def take(self) -> None:
        """Read all directives."""
        if not self.read.peek("directives"):
            self.read.get("directives")
        found = [pair for index, text in self.read.items("directives") for pair in self._options(index, text)]
        self._last = {one.flag: (index, one.written) for index, one in found}
        for index, one in found:
            last, written = self._last[one.flag]
            if last != index and one.flag != "-R" and not self.is_heterogeneous:
                place = self.read.place("directives", last)
                why = (
                    f"{one.written} has no effect: {written} in line {place.line if place else 0} replaces it"
                )
                self.read.warn("directives", index, why=why)
            else:
                self._take(one, "directives", index)
        self._mail()
        joined = self._last.get("-j", (0, ""))[1]
        if "batch.error" in self.job.settings and joined.endswith((" y", " yes", " oe", " eo")):
            error = self.job.settings.pop("batch.error")
            self.read.warn(
                *error.source, why=f"{error.value} is not written: `{joined}` puts both in one file"
            )
        array, at_once = self.job.settings.get("batch.array"), self.size.pop("at_once", None)
        if array and at_once:
            self.job.set("batch.array", f"{array.value}%{at_once.value}", *array.source)
        if self.raw:
            texts, source = [one.value for one in self.raw], self.raw[0].source
            self.job.set("batch.directives", texts, *source)

    def _options(self, index: int, text: str) -> Iterator[tuple[int, ScriptOption]]:
        self.read.get("directives", index)
        try:
            found = options_in(self.system, str(text))
        except ValueError:
            self.read.refuse("directives", index, why=f"the quotes of {text!r} do not match", hint="add one")
            return
        for one in found:
            if one.flag:
                yield index, one
            elif one.written in _HETEROGENEOUS:
                why = "a heterogeneous job has nodes of several kinds"
                hint = "write an experiment with `replicas`, each with its `resources`"
                self.read.refuse("directives", index, why=why, hint=hint)
            else:
                why = f"{one.written!r} is not an option of {self.system.title}, which ignores or refuses it"
                self.read.warn("directives", index, why=why)

    def _take(self, one: ScriptOption, *path: str | int) -> None:
        target, _, rest = (one.row.target if one.row else "raw").partition(" ")
        if one.value == "" and one.row and one.row.value and target != "-":
            self.read.warn(*path, why=f"{one.written} is not kept: it has no value")
        elif target == "size":
            self.size[rest] = Sourced(one.value if one.value is not None else "", path)
        elif target == "-":
            if rest:
                self.read.warn(*path, why=f"{one.written} has no effect: {rest}")
        elif handler := _HANDLERS.get(target):
            try:
                handler(self, one, *path)
            except ValueError as error:
                self.read.warn(*path, why=f"{one.written} is not kept: {error}")
        elif target == "raw":
            self._keep(one, *path)
        else:
            self.job.set(target, one.value or "", *path)

    def _keep(self, one: ScriptOption, *path: str | int) -> None:
        fields = flags.by_flag(flags.KEYS, self.system.name) | flags.by_flag(flags.RESERVED, self.system.name)
        if one.flag in fields:
            self.read.warn(*path, why=f"{one.written} is not kept: `{fields[one.flag]}` has its place")
        elif re.search(r"[$~]", one.value or ""):
            self.read.warn(*path, why=f"{one.written} is not kept: {self.system.title} expands no variables")
        else:
            self.raw.append(Sourced(one.written, path))

    def _mail(self) -> None:
        """Put the mail, which needs an address."""
        user, kinds = self.size.pop("mail_user", None), self.size.pop("mail_type", None)
        extra = [name for name in ("begin", "end") if self.size.pop(f"mail_{name}", None)]
        letters = {"b": "begin", "e": "end", "a": "fail"}
        if kinds and self.system.name in ("pbs", "sge"):
            extra += [letters[letter] for letter in kinds.value if letter in letters]
        elif kinds:
            extra += [word.strip().lower() for word in kinds.value.split(",")]
        elif user and self.system.name == "pbs":
            extra = ["fail"]  # qsub(1B), -m: a
        if user and extra:
            self.job.set("batch.mail", {"user": user.value, "events": extra}, *user.source)
        elif user or (extra and extra != ["none"]):
            why = "the script names no address for mail" if extra else "the script asks for no mail"
            hint = "write `batch: {mail: ADDRESS}`"
            self.read.warn(*(user or kinds or Sourced("", ())).source, why=f"{why}: none is sent", hint=hint)

    def number(self, name: str) -> int | None:
        """Return an amount of the size; None, with a remark, if it is no whole number."""
        found = self.size.get(name)
        if found is None:
            return None
        match = re.fullmatch(r"(?:.*[:=])?(\d+)(-\d+)?(?::\w.*)?", str(found.value))
        if not match:
            self.read.refuse(
                *found.source, why=f"{found.value!r} is not a number", hint="write one such as 4"
            )
            return None
        if match[2]:
            self.read.warn(*found.source, why=f"of {found.value} nodes the fewest are requested")
        return int(match[1])


Handler = Callable[..., None]


def _name(header: Header, one: ScriptOption, *path: str | int) -> None:
    """Put the name of the job; LSF has its array behind it: ``-J name[1-10]%4``."""
    name, bracket, rest = (one.value or "").partition("[")
    if bracket and header.system.name == "lsf":
        header.job.set("batch.array", rest.replace("]", ""), *path)
    if "$" in name or not name.strip():
        raise ValueError("it names no variable of the job")
    put_name(header.read, name, *path)


def _walltime(header: Header, one: ScriptOption, *path: str | int) -> None:
    header.job.set("batch.walltime", str(Walltime(_seconds(header.system.name, one.value or ""))), *path)


def _seconds(system: str, text: str) -> int:
    """Return the seconds of a time limit: a bare number is minutes or seconds, ``1:30`` depends too.

    Raises:
        ValueError: for one without an end, or in another form.
    """
    text = text.split("/", maxsplit=1)[0]
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?(?:\.\d+)?", text)
    if match is None and system == "flux":
        return Walltime.parse(text).seconds
    if match is None:
        raise ValueError(f"{text!r} is no time limit, so the partition's applies")
    days, *parts = (None if part is None else int(part) for part in match.groups())
    first, second, third = parts
    total = (days or 0) * 86400
    if days is not None or third is not None:
        total += (first or 0) * 3600 + (second or 0) * 60 + (third or 0)
    elif second is not None:
        total += (first or 0) * (3600 if system == "lsf" else 60) + second * (60 if system == "lsf" else 1)
    else:
        total += (first or 0) * (1 if system in ("pbs", "sge") else 60)
    if not total:
        raise ValueError("0 is no time limit, so the partition's applies")
    return total


def _flag(header: Header, one: ScriptOption, *path: str | int) -> None:
    """Put a key that is true or false; ``--exclusive=user`` stays as it is."""
    target = one.row.target if one.row else ""
    if target == "batch.exclusive" and one.value:
        raise ValueError("write `batch: {exclusive: true}`, or the site's own directive")
    is_off = target.endswith(" no") or (one.value or "").lower() in ("n", "no")
    header.job.set(target.split()[0], not is_off, *path)


def _array(header: Header, one: ScriptOption, *path: str | int) -> None:
    header.job.set("batch.array", one.value or "", *path)


def _output(header: Header, one: ScriptOption, *path: str | int) -> None:
    """Put a file of output, in Slurm's pattern.

    Raises:
        ValueError: for a pattern that an experiment does not have.
    """
    text, system = one.value or "", header.system.name
    if system == "slurm":
        text = re.sub(r"%\d+([jAax])", r"%\1", text).replace("%J", "%j")
    elif system == "lsf":
        text = text.replace("%J", "%j").replace("%I", "%a")
    elif system == "flux":
        text = text.replace("{{id}}", "%j")
    is_array = any(flag in header._last for flag in ("--array", "-J", "-t"))  # noqa: SLF001
    unknown = re.search(r"%(?![jAaxu])|[$~{]", text) or not text or text.endswith("/")
    if unknown or ("%a" in text and not is_array) or (is_array and not re.search("%[aj]", text)):
        raise ValueError("the output is in the folder of the run, where `hpcdist logs` finds it")
    key = one.row.target if one.row else "batch.output"
    other = "batch.error" if key == "batch.output" else "batch.output"
    if header.job.settings.get(other, Sourced("", ())).value == text:  # both streams in one file
        del header.job.settings[other]
        key = "batch.output"
    header.job.set(key, text, *path)


def _exclude(header: Header, one: ScriptOption, *path: str | int) -> None:
    header.job.set("batch.exclude_nodes", expand(one.value or ""), *path)


def _gres(header: Header, one: ScriptOption, *path: str | int) -> None:
    """Take the GPUs of a list such as ``gpu:a100:4,nvme:1``; others stay as they are."""
    items = (one.value or "").split(",")
    others = [item for item in items if not re.match(r"(?:gres[:/])?(?:gpu|mps|shard)\b", item)]
    for item in items:
        if item not in others:
            header.size["gpus_per_node"] = Sourced(item if re.search(r":\d+$", item) else f"{item}:1", path)
    if others:
        raise ValueError(f"add `batch: {{directives: ['--gres={','.join(others)}']}}` on a site without GPUs")


def _gpu_bind(header: Header, one: ScriptOption, *path: str | int) -> None:
    visibility = "node" if one.value == "none" else "task"
    header.job.set("batch.gpu_visibility", visibility, *path)


def _folder(header: Header, one: ScriptOption, *path: str | int) -> None:
    del path
    if one.value not in ("", ".", "$PWD", None):
        header.folder = one.value or ""


def _export(header: Header, one: ScriptOption, *path: str | int) -> None:
    """Take variables: ``ALL,A=b``.

    Raises:
        ValueError: for names without a value, and for an empty environment.
    """
    left = []
    for item in re.split(r",(?=\s*\w+(?:=|,|$))", (one.value or "").strip("\"'")):
        name, equals, value = item.strip().partition("=")
        if equals:
            header.job.env[name] = Sourced(value.strip("'\""), path)
        elif name.upper() not in ("ALL", "NIL", ""):
            left.append(name)
    if left:
        raise ValueError("the site file decides whether the job inherits the variables of the shell")


def _select(header: Header, one: ScriptOption, *path: str | int) -> None:
    """Take the chunks of PBS: ``select=2:ncpus=8:ngpus=4``, ``nodes=2:ppn=8:gpus=4``; all alike.

    Raises:
        ValueError: for a resource of a chunk that has no key.
    """
    chunks = (one.value or "").split("+")
    if len(chunks) > 1:
        hint = "write an experiment with `replicas`, each with its `resources`"
        header.read.refuse(*path, why="the nodes of this job are of several kinds", hint=hint)
        return
    first, *parts = chunks[0].split(":")
    is_torque = one.flag.endswith("nodes")
    header.size["nodes"] = Sourced(first if first.isdecimal() else "1", path)
    left = [] if first.isdecimal() else [first]
    names = {"ncpus": "cpus", "ngpus": "gpus_per_node", "gpus": "gpus_per_node", "mpiprocs": "tasks_per_node",
             "mem": "memory", "ppn": "tasks_per_node"}  # fmt: skip
    for part in parts:
        name, _, value = part.partition("=")
        if name == "ppn":
            header.size["cpus"] = Sourced(value, path)
        if name in names and not (name == "ngpus" and not value.isdecimal()):
            header.size[names[name]] = Sourced(value, path)
        elif name == "system":
            header.read.warn(*path, why=f"{part} is not kept: the site file names the system")
        elif name != "ompthreads":
            left.append(part)
    if "mpiprocs" not in one.written and not is_torque:
        header.size["tasks_per_node"] = Sourced("1", path)
    if len(left) == 1 and "=" in left[0] and not is_torque:
        header.job.set("batch.constraint", left[0], *path)
    elif left:
        raise ValueError(f"write `batch: {{constraint: ...}}` for {' '.join(left)}")


def _place(header: Header, one: ScriptOption, *path: str | int) -> None:
    """Take whole nodes.

    Raises:
        ValueError: for another arrangement of chunks.
    """
    words = {*(one.value or "").split(":")}
    if {"excl", "exclhost"} & words:
        header.job.set("batch.exclusive", words != set(), *path)
    if words - {"excl", "exclhost", "scatter", "free"}:
        raise ValueError("the replicas say how many tasks a node has")


_OF_RUSAGE: Final = {
    "tasks_per_node": r"ptile=(\d+)",
    "nodes": r"span\[hosts=(1)\]",
    "memory_per_task": r"\bmem=(\d+\w*)",
    "gpus_per_node": r"ngpus\w*=(\d+)",
}


def _rusage(header: Header, one: ScriptOption, *path: str | int) -> None:
    """Take what LSF's requirement says of size: ``span[ptile=4] rusage[mem=4G,ngpus_excl_p=1]``."""
    text = one.value or ""
    for name, pattern in _OF_RUSAGE.items():
        if match := re.search(pattern, text):
            header.size[name] = Sourced(match[1], path)
    rest = re.sub(r"(?:span|rusage)\[[^\]]*\]|affinity\[[^\]]*\]", "", text).strip()
    if rest:
        header.job.set("batch.constraint", rest, *path)


def _gpu(header: Header, one: ScriptOption, *path: str | int) -> None:
    match = re.search(r"num=(\d+)", one.value or "")
    header.size["gpus_per_node"] = Sourced(match[1] if match else "1", path)


def _slots(header: Header, one: ScriptOption, *path: str | int) -> None:
    """Take the slots of a parallel environment: tasks of one for MPI, else the CPUs of a node."""
    name, _, slots = (one.value or "").partition(" ")
    header.size["tasks" if re.search("mpi|orte", name) else "cpus"] = Sourced(slots.strip(), path)


def _dependency(header: Header, one: ScriptOption, *path: str | int) -> None:
    """Put what the job waits for; LSF has ``done(12)`` for ``afterok:12``, Grid Engine the ids alone."""
    text = one.value or ""
    if header.system.name == "sge":
        text = f"afterany:{text.replace(',', ':')}"
    for theirs, ours in (
        ("done", "afterok"),
        ("ended", "afterany"),
        ("exit", "afternotok"),
        ("started", "after"),
    ):
        text = re.sub(rf"\b{theirs}\((\d+)\)", rf"{ours}:\1", text)
    header.job.set("batch.dependency", text.replace(" && ", ","), *path)


_HANDLERS: Final[Mapping[str, Handler]] = {
    "name": _name, "batch.walltime": _walltime, "batch.exclusive": _flag, "batch.requeue": _flag,
    "batch.array": _array, "batch.output": _output, "batch.error": _output, "batch.exclude_nodes": _exclude,
    "gres": _gres, "gpu_bind": _gpu_bind, "folder": _folder, "export": _export, "select": _select,
    "place": _place, "rusage": _rusage, "gpu": _gpu, "slots": _slots, "batch.dependency": _dependency,
}  # fmt: skip
