"""What is known of a launch line before it is read: its words, with the texts of variables in their place.

Words that the job script expands once must not differ by task when each task's shell expands them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hpcdist.experiment.launch_line import UserLaunch, launches_of
from hpcdist.experiment.shell_variables import DRAWN, OWN_HOST, SCOPES
from hpcdist.experiment.shell_words import expanded, unquoted
from hpcdist.importers.job_scripts.body import PlacedWord, Statement, number_of, statements
from hpcdist.importers.job_scripts.size import JobSize
from hpcdist.importers.launch_lines import UnsupportedLaunch


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


PRINTS: Final = word_set("""
    echo printf date hostname nvidia-smi rocm-smi which pwd env printenv free df lscpu lsb_release uname
    squeue ls scontrol sacct cat whoami id nproc numactl ldd top uptime tree head tail true : sleep sstat seff
""")  # fmt: skip
"""Programs that only print, or wait."""
COPIES: Final = word_set("mkdir cp mv rm rsync tar touch chmod ln unzip find gzip scp wget curl git")
"""Programs that move files."""
_ALL_GPUS: Final = re.compile(
    r"\$\([^()]*(?:nvidia-smi|CUDA_VISIBLE_DEVICES|device_count)[^()]*(?:\([^()]*\)[^()]*)*\)|gpu|auto"
)
_DIFFERS: Final = re.compile(
    rf"(?:\$\(|`)\s*date\b|\$\{{?(?:{'|'.join(name for name, scope in SCOPES.items() if scope != 'login')})\b"
    rf"|{OWN_HOST.pattern}|{DRAWN.pattern}"
)
"""Expansions whose value is another one in each task, or at each time."""


def differing(text: str) -> str:
    """Return an expansion of a text that each task would expand differently, or nothing."""
    expanded_now = _QUOTED.sub(lambda match: match["double"] or "", text)
    match = _DIFFERS.search(re.sub(r"\\.", "", expanded_now, flags=re.DOTALL))
    return match[0].strip("$({` ") if match else ""


_QUOTED: Final = re.compile(r"""(?P<double>"(?:[^"\\]|\\.)*")|'[^']*'|\\.""", re.DOTALL)


_SYSTEM: Final = ("SLURM_", "PBS_", "LSB_", "FLUX_")
_OPTIONS: Final = re.compile(
    r"-(?:nproc|nnodes|rdzv|master|node[-_]rank|num[-_](?:machines|processes|nodes|gpus)|main[-_]process"
    r"|machine[-_]rank|hostfile|np\b|-container-|-mpi\b|-cpu-bind)"
)
"""Options of launchers in the text of a variable."""
_ARRAY: Final = re.compile(r'"?\$\{(\w+)\[[@*]\]\}"?')
_OUTPUT: Final = re.compile(r"\$\(.*\)|`[^`]*`|\(.*\)", re.DOTALL)
_COMPUTED: Final = re.compile(r"(?<!\\)\$\(|(?<!\\)`|^\(")
"""The text of a variable that is the output of a command, or an array."""


@dataclass
class ScriptLaunch:
    """What a launch line starts on the nodes of the job."""

    each: int
    """The tasks on each node."""
    program: str = ""
    """The program with its arguments, as each task's shell runs it."""
    framework: str = ""
    before: list[Statement] = field(default_factory=list)
    """What each task does first: the lines of ``bash -c``."""
    settings: dict[str, object] = field(default_factory=dict)
    """Native keys."""
    variables: dict[str, str] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    """Words that have no effect here."""
    output: list[str] = field(default_factory=list)
    """Where its output goes: redirections, and ``| tee log.txt``."""
    gpus: int | None = None
    """The GPUs of a node, if the line requests them."""
    cpus: int | None = None
    """The CPUs of a task, if the line requests them."""
    own_ranks: bool = False
    """Whether the program is a launcher itself, which counts its own processes."""
    hostfile: str = ""
    """The file of hosts that the line names."""
    defaults: list[str] = field(default_factory=list)
    """Values that the shell which submits may change."""
    by_mpi: bool = False
    """Whether the line says which MPI the tasks use."""


class Around(NamedTuple):
    """What is known where a launch line stands: the job's size, and the text of each variable."""

    size: JobSize
    values: Mapping[str, str]
    choices: Mapping[str, Sequence[str]]
    """All texts that the script gives each variable."""
    inlined: set[str]
    """The variables whose text takes their place in the line."""
    on_all: bool = False
    """Whether the line runs on all nodes, as srun starts it there."""

    def number(self, text: str) -> int | None:
        """Return the number that a text becomes in the job script."""
        if _ALL_GPUS.fullmatch(unquoted(text)):
            return self.size.gpus or 1
        return number_of(text, self.values)


def user_launches(statement: Statement, values: Mapping[str, str]) -> list[UserLaunch]:
    """Return the launches of a statement that start the program, and not only a tool such as ``hostname``."""
    if statement.is_comment:
        return []
    plain = {name: value for name, value in values.items() if not _COMPUTED.search(value)}
    found = (launch for _, launch in launches_of(joined(statement.text), plain) if launch)
    return [launch for launch in found if not launch.within and not _is_helper(launch)]


def launches_in(words: Sequence[str]) -> list[UserLaunch]:
    """Return the launches of a simple command, first the one that starts the others.

    Of a launcher in the text of a shell, behind a container, all words up to that text are ``before``.

    Raises:
        UnsupportedLaunch: when it would leave out words.
    """
    found = [launch for _, launch in launches_of(" ".join(words), {}) if launch]
    if found and [*found[0].before, *found[0].words] != [*words]:
        if found[0].runs == "once" or not re.fullmatch(r"-[a-z]*c", "".join(words[-2:-1])):
            raise UnsupportedLaunch("whose words are not clear")
        return [found[0]._replace(before=(*words[:-1],))]
    return found


def _is_helper(launch: UserLaunch) -> bool:
    words = [unquoted(word) for word in launch.words[launch.head + launch.end :]]
    if words[:2] in (["bash", "-c"], ["sh", "-c"]) and len(words) > 2:  # noqa: PLR2004
        programs = {name for one in statements(words[2]) if not one.is_comment for name in one.programs}
        return bool(programs) and programs <= PRINTS | COPIES
    return bool(words) and words[0].rsplit("/", 1)[-1] in PRINTS | COPIES


def joined(text: str) -> str:
    """Return a text without its joined lines."""
    return text.replace("\\\n", "")


def inlined_words(words: list[PlacedWord], around: Around) -> list[str]:
    """Return the words of a line, with the text of a variable in its place: ``$LAUNCHER train.py``."""
    found = [word.text for word in words]
    for _ in range(4):
        known = {name: value for name, value in around.values.items() if _is_inlined(value)}
        first = {name: value for name, value in around.values.items() if found[:1] and name in found[0]}
        split = [found[0].strip('"'), *found[1:]] if found else []
        texts = [*expanded(split[:1], first | known), *expanded(split[1:], known)]
        text = joined(" ".join(_array(word, around) for word in texts))
        [one] = [one for one in statements(text) if one.parts][:1] or [Statement("", 0)]
        after = [word.text for part in one.parts[:1] for word in part.words]
        if after == found:
            break
        around.inlined.update(name for name in known | first if any(name in word for word in found))
        found = after
    return found


def _is_inlined(value: str) -> bool:
    """Whether a variable holds several words, which are options of a launcher if a command computes some."""
    several = len(value.split()) > 1 and not value.startswith("(")
    return several and (not _COMPUTED.search(value) or bool(_OPTIONS.search(value)))


def _array(word: str, around: Around) -> str:
    """Return the words of an array of launcher options in place of its name."""
    match = _ARRAY.fullmatch(word)
    value = around.values.get(match[1], "") if match else ""
    if not match or not value.startswith("(") or not _OPTIONS.search(value):
        return word
    around.inlined.add(match[1])
    return " ".join(re.sub(r"(?:^|\s)#.*", "", value.strip()[1:-1]).split())


def inlined_text(word: str, around: Around) -> str:
    """Return a text in double quotes with the texts of variables that are no commands or arrays."""
    for _ in range(5):
        for name, value in around.values.items():
            if name.startswith(_SYSTEM) or _OUTPUT.fullmatch(value.strip()):
                continue
            new = re.sub(rf"(?<!\\)\$(?:\{{{name}\}}|{name}\b(?!\[))", lambda _, value=value: value, word)  # type: ignore[misc]
            around.inlined.update({name} if new != word else ())
            word = new
    return word


def has_quotes_inside(word: str, around: Around) -> bool:
    """Whether ``bash -c`` finds quotes or operators in a variable whose text is one of several."""
    names = re.findall(r"(?<!\\)\$\{?(\w+)", word)
    texts = (text.strip() for name in names for text in around.choices.get(name, ()))
    return any(re.search(r"['\"\\|&;<>]", text) for text in texts if not _OUTPUT.fullmatch(text))


def unescaped(word: str) -> str:
    """Return the text that ``bash -c`` gets; what the outer shell expands stays."""
    if word[:1] != '"':
        return unquoted(word)
    return re.sub(r'\\([$"`\\])', r"\1", word[1:-1]).replace("\\\n", "")


_HERE: Final = r"\$\(\s*(?:hostname|scontrol)[^()]*\)|`hostname[^`]*`|\$\{?(?:HOSTNAME|SLURMD_NODENAME)\b\}?"
_COMPUTED_PORT: Final = (
    r"\$(?:\(\([^()]*(?:RANDOM|SLURM_JOB)[^()]*\)\)|\((?:shuf|expr)[^()]*(?:\([^()]*\)[^()]*)*\)|RANDOM\b)"
)
_MEETING: Final = {
    r"(rdzv[-_]id[= ]\s*)\$(?:\{RANDOM\}|RANDOM\b|\((?:uuidgen|date)[^()]*\))": "$HPCDIST_JOB_ID",
    rf"((?:endpoint|addr|_ip|-ip)[= ]\s*)(?:{_HERE})": "$HPCDIST_HEAD_ADDRESS",
    rf"(port[= ]\s*){_COMPUTED_PORT}": "$HPCDIST_PORT",
}


def with_meeting(text: str) -> str:
    """Return a text with hpcdist's address, port and id in options that say where tasks meet."""
    for pattern, ours in _MEETING.items():
        text = re.sub(pattern, lambda match, ours=ours: f"{match[1]}{ours}", text)  # type: ignore[misc]
    return text


# --- What hpcdist finds itself, and what each task would compute again

_ADDRESS: Final = re.compile(
    r"scontrol|hostname|NODELIST|LAUNCH_NODE_IPADDR|(?:nodes?|hosts?)\w*\[0\]|PBS_NODEFILE|LSB_\w*HOST",
    re.IGNORECASE,
)
_OF_ADDRESS: Final = re.compile(
    r"addr|_ip\b|^ip|head|master|main|host|node|server|coord|rdzv|endpoint", re.IGNORECASE
)
_LIST: Final = re.compile(
    r"scontrol show hostnames?(?!.*(?:head|\[0\]|\bsed|awk|cut))|^\(", re.IGNORECASE | re.DOTALL
)
_PORT: Final = re.compile(
    r"(?:(?:master|main|rdzv|dist|head|coord\w*|ddp|torch)\w*_)?port(?:_?num(?:ber)?)?", re.IGNORECASE
)
_OF_RANKS: Final = frozenset(
    {"WORLD_SIZE", "RANK", "LOCAL_RANK", "NODE_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"}
)
_SAME_IN_TASKS: Final = PRINTS | word_set("""
    cd basename dirname realpath readlink expr seq bc tr cut sed awk grep wc sort uniq tac paste conda mamba
    brew command type module dirs getconf numfmt jq yq xargs python-config
""")  # fmt: skip


def meeting_kind(name: str, value: str) -> str:
    """Return which part of the meeting of tasks a variable is: address, port, rank, or none."""
    if name in _OF_RANKS:
        return "rank"
    if _PORT.fullmatch(name):
        return "port"
    is_address = _ADDRESS.search(value) and _OF_ADDRESS.search(name) and not _LIST.search(value)
    return "address" if name == "MASTER_ADDR" or is_address else ""


def computed(text: str) -> str:
    """Return a program whose output may be another one in each task: of Python, or of the user's own."""
    found = re.findall(r"(?<!\\)(?:\$\(|`)\s*([\w./-]+)", text)
    return next((f"$({name}" for name in found if name.rsplit("/", 1)[-1] not in _SAME_IN_TASKS), "")
