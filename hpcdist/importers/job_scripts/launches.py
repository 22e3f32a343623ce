"""The one launch line of a job script: what starts how many processes on each node, and their program.

``srun``, ``mpirun`` and their like are replaced by hpcdist's own launch where that starts the same processes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from hpcdist.experiment.launch_line import UserLaunch
from hpcdist.experiment.launch_options import MPI_LAUNCHERS, ONCE, VARIABLES, Option, by_kind
from hpcdist.experiment.shell_words import unquoted
from hpcdist.importers.job_scripts.body import Statement, statements, text_of, without_redirections
from hpcdist.importers.job_scripts.lines import (
    Around,
    ScriptLaunch,
    differing,
    has_quotes_inside,
    inlined_text,
    inlined_words,
    launches_in,
    unescaped,
    user_launches,
    with_meeting,
)
from hpcdist.importers.launch_lines import Line, UnsupportedLaunch, parse_launch_line

_WRAPPERS: Final = frozenset({"time", "exec", "nohup", "command", "eval"})


_SRUN: Final = by_kind(
    shape="n ntasks N nodes ntasks-per-node",
    cpus="c cpus-per-task cores-per-task",
    gpus="gres gpus-per-node",
    own_gpus="gpus-per-task",
    folder="chdir D",
    export="export",
    mpi="mpi",
    image="container-image",
    binds="container-mounts",
    workdir="container-workdir",
    kept="cpu-bind cpu_bind gpu-bind mem-bind hint network cpu-freq accel-bind",
    dropped="""l label u unbuffered K kill-on-bad-exit W wait exact overlap exclusive v verbose Q quiet
        jobid w nodelist J job-name A account p partition t time m distribution mem mem-per-cpu mem-per-gpu
        no-kill k O overcommit s oversubscribe o output e error i input propagate pty E preserve-env qos q
        constraint C comment reservation gpus G F nodefile threads-per-core auto-resume resv-ports
        container-remap-root container-mount-home container-name container-writable container-readonly g
        label-io no-container-mount-home no-container-remap-root no-container-entrypoint""",
)
"""What becomes of each option of srun; ``dropped``: hpcdist's own launch replaces it, or the job has it."""


def read_launch(statement: Statement, around: Around) -> ScriptLaunch:
    """Return what a statement launches.

    Raises:
        UnsupportedLaunch: when hpcdist's own launch is not the same; the message continues `a command`.
    """
    if statement.compound:
        return _of_loop(statement, around)
    chain = [part for part in statement.parts if part.operator != "|"]
    tees = [part for part in statement.parts if part.operator == "|"]
    if any(part.words[0].text != "tee" for part in tees):
        raise UnsupportedLaunch("whose output another program reads")
    if len(chain) > 1 and not (
        chain[1].operator == "||" and chain[1].words[0].text in ("exit", "{", "echo", "true")
    ):
        raise UnsupportedLaunch("that is one of several in a chain")
    words, redirected = without_redirections(chain[0].words)
    launch = _of_words(inlined_words(words, around), around)
    launch.output = [*redirected, *(f"| {' '.join(word.text for word in part.words)}" for part in tees)]
    return launch


def _of_loop(statement: Statement, around: Around) -> ScriptLaunch:
    """Return the launch of a loop over the nodes, which starts one launcher on each."""
    if statement.compound != "for":
        raise UnsupportedLaunch(f"inside of `{statement.compound}`")
    text = re.split(r"\bdo\b", statement.text, maxsplit=1)[1].rsplit("done", 1)[0]
    found = statements(text)
    lines = [one for one in found if user_launches(one, around.values) or _by_ssh(one)]
    others = [name for one in found if one not in lines for name in one.programs]
    if len(lines) != 1 or not {*others} <= {"echo", "sleep", "export", "let", "wait", "((", "mkdir"}:
        raise UnsupportedLaunch("inside of a loop")
    text = _by_ssh(lines[0]) or lines[0].text
    [one, *more] = statements(text)
    if more:
        raise UnsupportedLaunch("inside of a loop that starts several commands on each node")
    on_each = _on_one_node(one, around) or bool(_by_ssh(lines[0]))
    launch = read_launch(
        one._replace(background=False), around._replace(size=around.size._replace(tasks=1), on_all=True)
    )
    if not on_each or launch.settings.get("pytorch.launch") != "torchrun":
        raise UnsupportedLaunch("inside of a loop")
    return launch


def _by_ssh(statement: Statement) -> str:
    words = [word.text for part in statement.parts for word in part.words]
    is_launch = words[:1] == ["ssh"] and re.search(r"torchrun|torch\.distributed", words[-1])
    return unescaped(words[-1]) if is_launch else ""


def _on_one_node(statement: Statement, around: Around) -> bool:
    found = user_launches(statement, around.values)
    return bool(found) and any(option.name in ("w", "nodelist") for option in found[0].options)


def _of_words(words: list[str], around: Around) -> ScriptLaunch:
    """Return the launch of a simple command."""
    assigned = []
    while words and (
        words[0].rsplit("/", 1)[-1] in _WRAPPERS or re.fullmatch(r"[A-Za-z_]\w*=.*", words[0], re.DOTALL)
    ):
        assigned += [words[0]] if "=" in words[0] else []
        words = words[1:]
    found = launches_in(words)
    if not found:
        return ScriptLaunch(1, " ".join([*assigned, *words]))
    if found[0].before and found[0].program in {"srun", *MPI_LAUNCHERS}:  # which is not around the tasks
        wrapper, words = " ".join(found[0].before), [*found[0].words]
        launch = _of_words(words, around)
        launch.dropped.append(wrapper)
        return launch
    read = _kept if found[0].before else _OF.get(found[0].program, _kept)
    launch = read(found[0], around)
    if read is _kept or (launch.own_ranks and launch.program == " ".join(found[0].words)):
        launch.program = " ".join(words)
    launch.before = [*(Statement(f"export {text}", 0) for text in assigned), *launch.before]
    launch.hostfile = launch.hostfile or next((one.value for one in found[0].options_of("hostfile")), "")
    return launch


def _srun(found: UserLaunch, around: Around) -> ScriptLaunch:
    """Return what srun starts: ``bash -c`` and launchers of one node in it are read, too."""
    found = _with_plain_options(found, around)
    size, options = around.size, found.options
    if found.is_open:
        raise UnsupportedLaunch(f"whose options are in {found.words[found.head + found.end]}")
    counts = {kind: _count(found, kind, around) for kind in ("np", "per_node", "nodes")}
    nodes = counts["nodes"] or size.nodes
    one_each = bool(_values(options, "w", "nodelist")) and nodes == 1
    if nodes != size.nodes and not one_each:
        raise UnsupportedLaunch(f"that uses {nodes} of the {size.nodes} nodes")
    each = counts["per_node"] or size.tasks
    if counts["np"]:
        each = -(-counts["np"] // nodes)
        if counts["np"] % nodes or (counts["per_node"] and counts["per_node"] != each):
            raise UnsupportedLaunch(
                f"that starts {counts['np']} tasks on {nodes} nodes, not the same number on each"
            )
    if any(option.name == "multi-prog" for option in options):
        raise UnsupportedLaunch("that starts several programs")
    words = [*found.words[found.head + found.end :]]
    launch = _started(words, around._replace(size=size._replace(tasks=each), on_all=True))
    is_torchrun = launch.settings.get("pytorch.launch") == "torchrun"
    if (is_torchrun or launch.own_ranks) and each != 1:
        raise UnsupportedLaunch(f"in which srun starts {each} launchers on each node")
    launch.each = launch.each if is_torchrun else each
    _take_options(launch, options, around)
    return launch


def _with_plain_options(found: UserLaunch, around: Around) -> UserLaunch:
    """Return a line of srun in which each option and its value are known: ``-n$TASKS``, ``--mpi pmix``."""
    words, left = [*found.words[: found.head]], [*found.words[found.head :]]
    while left and (left[0].startswith("-") or _is_optional(left[0], around)):
        word = left.pop(0)
        name, has_value = word.lstrip("-").partition("=")[0], "=" in word
        is_flag = ONCE[found.program].get(name) == "flag" or _FLAGS.match(name)
        if word.startswith("$"):
            around.inlined.add(word.strip("${}"))
        elif not word.startswith("--") and len(name) > 1 and not is_flag:
            words += [word[:2], word[2:].removeprefix("=")]
        elif is_flag or has_value or not left or (left[0].startswith("-") and word.startswith("--")):
            words.append(word)
        else:
            words += [f"{word}={left.pop(0)}"] if word.startswith("--") else [word, left.pop(0)]
    match = re.fullmatch(r"\$\{?(\w+)\}?", left[0]) if left else None
    if match and any(not value or value[0] == "-" for value in around.choices.get(match[1], ())):
        raise UnsupportedLaunch(f"whose options are in {match[0]}")
    return launches_in([*words, *left])[0]


_FLAGS: Final = re.compile(
    r"no-|container-(?:remap-root|mount-home|writable|readonly|entrypoint$)|auto-resume"
)


def _is_optional(word: str, around: Around) -> bool:
    """Whether a word is a variable that is always empty, or has options without effect here."""
    match = re.fullmatch(r'"?\$\{?(\w+)\}?"?', word)
    values = around.choices.get(match[1], ()) if match else ()
    words = [word for value in values for word in value.split()]
    names = [word.lstrip("-").partition("=")[0] for word in words if word.startswith("-")]
    return bool(values) and len(names) == len(words) and all(_SRUN.get(name) == "dropped" for name in names)


def _values(options: tuple[Option, ...], *names: str) -> list[str]:
    return [option.value for option in options if option.name in names]


def _count(found: UserLaunch, kind: str, around: Around) -> int | None:
    """Return the number that an option has.

    Raises:
        UnsupportedLaunch: when it is not known before the job runs.
    """
    values = [option.value for option in found.options_of(kind)]
    if not values:
        return None
    number = around.number(values[-1].split("-")[0] if kind == "nodes" else values[-1])
    if number is None:
        raise UnsupportedLaunch(f"in which the number {values[-1]} is known only at run time")
    return number


def _started(words: list[str], around: Around) -> ScriptLaunch:
    """Return what the words behind srun's options start."""
    names = [unquoted(word) for word in words[:3]]
    if not words:
        raise UnsupportedLaunch("in which no program is started")
    shell = names[0].rsplit("/", 1)[-1] in ("bash", "sh")
    flag = next((n for n, word in enumerate(words[1:3], 1) if re.fullmatch(r"-[a-z]*c", word)), 0)
    if shell and flag and len(words) == flag + 2:
        return _of_shell(words[flag + 1], around)
    launch = _of_words(words, around)
    launch.program = with_meeting(launch.program) if launch.own_ranks else launch.program
    if not launch.before:
        _check_expanded(launch.program, around)
    return launch


def _check_expanded(text: str, around: Around) -> None:
    """Refuse a text that the job script expands, and each task otherwise."""
    if around.size.nodes * around.size.tasks > 1 and (wrong := differing(text)):
        raise UnsupportedLaunch(f"in which the job script expands {wrong}, once for all tasks")


def _of_shell(word: str, around: Around) -> ScriptLaunch:
    """Return what the text of ``bash -c`` starts: lines that set its shell up, and one command."""
    whole = f"bash -c {word}"
    if word[:1] == '"':
        word = with_meeting(inlined_text(word, around))
        _check_expanded(re.sub(r"\\.", "", word, flags=re.DOTALL), around)
    text = unescaped(word)
    found = [one for one in statements(text) if not one.is_comment]
    if word[:1] == '"' and has_quotes_inside(word, around):
        around.inlined.clear()
        return ScriptLaunch(1, whole, own_ranks=any(user_launches(one, around.values) for one in found))
    values = dict(around.values) | {name: value for one in found for name, value in one.assigned}
    lines = [one for one in found if user_launches(one, values)]
    if not lines:
        return ScriptLaunch(1, text.strip())
    at = found.index(lines[0])
    if len(lines) > 1 or found[at + 1 :] or any(one.compound for one in found[: at + 1]):
        return ScriptLaunch(1, text.strip(), own_ranks=True)
    line, before = lines[0], found[:at]
    if len(line.parts) > 1 and all(part.operator == "&&" for part in line.parts[1:]):
        own = text[text.rindex(line.text) :]
        head = own[: line.parts[-1].words[0].start - line.parts[0].words[0].start].rstrip().removesuffix("&&")
        before = [*before, Statement(f"{head.rstrip()} || exit", 0, line.parts[:-1])]
        line = line._replace(parts=(line.parts[-1]._replace(operator=""),))
    launch = read_launch(line, around._replace(values=values))
    launch.before = [*before, *launch.before]
    return launch


def _take_options(launch: ScriptLaunch, options: tuple[Option, ...], around: Around) -> None:
    """Take the options of srun: containers and GPUs as keys, binding as arguments of the launcher."""
    kept: list[str] = []
    for option in options:
        text = f"--{option.name}={option.value}" if option.value else f"--{option.name}"
        kind = _SRUN.get(option.name)
        number = around.number(option.value.rsplit(":", 1)[-1]) if kind in _NUMBERS else None
        if kind is None:
            raise UnsupportedLaunch(f"whose option {text} has no equivalent")
        if kind == "gpus" and around.size.gpus in (0, number):
            launch.gpus = number
        elif kind == "cpus":
            launch.cpus = number
        elif kind in ("image", "binds", "workdir"):
            _take_container(launch, option, kind, around)
        elif kind == "kept":
            kept.append(text)
        elif kind == "own_gpus" and number and number * around.size.tasks == around.size.gpus:
            launch.settings["batch.gpu_visibility"] = "task"
        elif kind in ("dropped", "gpus", "own_gpus"):
            launch.dropped.append(text)
        else:
            _take_environment(launch, option, kind)
    if kept:
        launch.settings["batch.launcher"] = {"name": "srun", "args": kept}


_NUMBERS: Final = ("cpus", "gpus", "own_gpus")


def _take_environment(launch: ScriptLaunch, option: Option, kind: str) -> None:
    """Take the folder, the variables, and the kind of MPI; the shape of the step is read already."""
    if kind == "folder":
        launch.before.insert(0, Statement(f"cd {option.value} || exit", 0))
    elif kind == "mpi":
        launch.by_mpi = option.value not in ("none", "list")
    elif kind == "export":
        pairs = [item.partition("=") for item in option.value.split(",")]
        computed = {name for name, _, value in pairs if re.search(r"[$`]", value)}
        launch.variables |= {name: value for name, equals, value in pairs if equals and name not in computed}
        exports = (Statement(f"export {name}={value}", 0) for name, _, value in pairs if name in computed)
        launch.before[:0] = exports


def _take_container(launch: ScriptLaunch, option: Option, kind: str, around: Around) -> None:
    """Take the image of enroot's plug-in, its mounts, and where the program starts in it."""
    written = unquoted(option.value)
    value = re.sub(r"^\$\{?PWD\}?/|^\$\(pwd\)/", "./", written).replace("$(pwd)", "$PWD")
    value = re.sub(r"^\$\{?PWD\}?/", "./", text_of(value, around.values))
    left = set(re.findall(r"\$\{?(\w+)", value))
    if re.search(r"\$\(|`", value) or left & around.choices.keys() or (left and kind != "binds"):
        raise UnsupportedLaunch(f"whose --{option.name}={written} is known only at run time")
    if any(":-" in around.values.get(name, "") for name in re.findall(r"\$\{?(\w+)", written)):
        launch.defaults.append(f"{written} is {value}")
    if kind == "image":
        value = re.sub(r"^([\w.-]+(?::\d+)?)#", r"\1/", value.removeprefix("docker://"))
    key = {"image": "build.image", "binds": "build.binds", "workdir": "run.workdir"}[kind]
    launch.settings[key] = value.split(",") if kind == "binds" else value


def _parsed(found: UserLaunch, around: Around) -> Line:
    """Return the line of mpirun, horovodrun or torchrun.

    Raises:
        UnsupportedLaunch: as `parse_launch_line`.
    """
    words = [*found.words]
    values: dict[int, str] = {}
    hosts = [
        one
        for one in found.options
        if (one.kind in ("hostfile", "hosts") and "$" in found.words[found.head + one.end - 1])
        or one.name in ("cpu-bind", "gpu-bind", "depth", "d", "line-buffer")
    ]
    for option in hosts:
        values |= dict.fromkeys(range(found.head + option.start, found.head + option.end), "")
    for option in found.options_of("np", "per_node", "nodes"):
        number = around.number(option.value)
        if number is not None:
            values[found.head + option.end - 1] = (
                f"{found.written(option)}={number}" if option.end == option.start + 1 else str(number)
            )
    words = [values.get(at, word) for at, word in enumerate(words)]
    text = " ".join(["torchrun", *words[found.head :]] if found.is_torch else words)
    literal = {name: value for name, value in around.values.items() if not re.search(r"[$`(]", value)}
    line = parse_launch_line(re.sub(r"`pwd`|\$\(pwd\)", "$PWD", text), literal)
    if line is None:
        raise UnsupportedLaunch(f"of {found.program}, which is not converted")
    line.dropped += [f"{found.written(one)} {one.value}" for one in hosts]
    return line


def _torchrun(found: UserLaunch, around: Around) -> ScriptLaunch:
    """Return the processes of torchrun on each node, which hpcdist's own torchrun starts."""
    _check_on_all(found, around)
    is_at_a_path = "/" in found.words[0]  # of an environment that nothing activates
    if found.program not in ("torchrun", "torch.distributed.run") or found.is_open or is_at_a_path:
        return _kept(found, around)
    try:
        line = _parsed(found, around)
    except UnsupportedLaunch:
        return _kept(found, around)
    nodes = around.number(line.nodes.split(":")[-1]) if line.nodes else 1
    alone = bool(found.options_of("alone"))
    if around.size.nodes > 1 and (alone or nodes not in (around.size.nodes, None)):
        raise UnsupportedLaunch("in which torchrun trains on one node")
    each = around.number(line.per_node or "1")
    if each is None or differing(line.command):
        return _kept(found, around)
    launch = _launch_of(line, each, "pytorch")
    launch.settings["pytorch.launch"] = "torchrun"
    if line.restarts.isdecimal() and int(line.restarts):
        launch.settings["pytorch.max_restarts"] = int(line.restarts)
    kept = _values(
        found.options, "rdzv-conf", "tee", "t", "redirects", "r", "role", "log-dir", "monitor-interval"
    )
    if any("$" in value for value in kept):
        return _kept(found, around)
    names = [option for option in found.options if option.value in kept and option.name in _OF_TORCHRUN]
    if names:
        launch.settings["pytorch.args"] = [f"--{_OF_TORCHRUN[one.name]}={one.value}" for one in names]
        launch.dropped = [
            text for text in launch.dropped if not any(one.value in text.split() for one in names)
        ]
    return launch


_OF_TORCHRUN: Final = {
    name: name for name in ("rdzv-conf", "tee", "redirects", "role", "log-dir", "monitor-interval")
} | {"t": "tee", "r": "redirects"}


def _launch_of(line: Line, each: int, framework: str) -> ScriptLaunch:
    before = [Statement(f"cd {line.folder} || exit", 0)] if line.folder else []
    launch = ScriptLaunch(each, line.command, framework, before)
    launch.variables, launch.dropped = dict(line.variables), line.dropped
    return launch


def _mpirun(found: UserLaunch, around: Around) -> ScriptLaunch:
    """Return the ranks of mpirun or horovodrun on each node."""
    size = around.size
    line = _parsed(found, around)
    per_node = around.number(line.per_node) if line.per_node else None
    each = per_node or size.tasks
    if line.np and not per_node:
        each = -(-line.np // size.nodes)
    total = line.np or each * size.nodes
    if total != each * size.nodes:
        raise UnsupportedLaunch(
            f"that starts {total} processes on {size.nodes} nodes, not the same number on each"
        )
    inner = _started_by_mpi(line.command, each, around)
    if inner:
        return inner
    launch = _launch_of(line, each, "horovod" if line.program == "horovodrun" else "mpi")
    for name, value in line.knobs.items():
        if name in ("gloo", "mpi"):
            launch.settings["horovod.controller"] = name
        elif re.match(r"m(?:in|ax)-|reset-", name):
            raise UnsupportedLaunch("whose number of processes may change")
        else:
            launch.dropped.append(f"--{name} {value or ''}".strip())
    return launch


def _started_by_mpi(command: str, each: int, around: Around) -> ScriptLaunch | None:
    """Return the launch of ``mpirun ... torchrun``, or of ``bash -c``."""
    found = [one for one in statements(command) if one.parts]
    words = [word.text for word in found[0].parts[0].words] if len(found) == 1 else []
    if words[:1] in (["bash"], ["sh"]) and words[1:2] == ["-c"] and len(words) == 3:  # noqa: PLR2004
        launch = _of_shell(words[2], around._replace(size=around.size._replace(tasks=each), on_all=True))
        if launch.framework or launch.own_ranks:
            if each != 1:
                raise UnsupportedLaunch(f"that starts {each} launchers on each node")
            return launch
    if launches_in(words):
        raise UnsupportedLaunch("that starts another launcher")
    return None


def _check_on_all(found: UserLaunch, around: Around) -> None:
    if around.size.nodes > 1 and not around.on_all:
        raise UnsupportedLaunch(f"in which {found.program} starts on the first node only")


def _deepspeed(found: UserLaunch, around: Around) -> ScriptLaunch:
    """Return the processes of ``deepspeed``, which gives each ``--local_rank``."""
    size = around.size
    if found.options_of("every", "include") or any(not one.kind for one in found.options):
        return _kept(found, around)
    nodes = _count(found, "nodes", around)
    if size.nodes > 1 and (nodes == 1 or not found.options_of("hostfile")):
        raise UnsupportedLaunch("in which deepspeed finds no other node: there is no --hostfile")
    if nodes not in (None, size.nodes):
        raise UnsupportedLaunch(f"that uses {nodes} of the {size.nodes} nodes")
    each = _count(found, "per_node", around) or size.gpus or 1
    words = [*found.words[found.head + found.end :]]
    first = unquoted(words[0]) if words else ""
    is_module, bare = first == "--module", first in ("--no_python", "--no-python")
    words = words[1:] if is_module or bare else words
    if not words or differing(" ".join(words)):
        raise UnsupportedLaunch("whose arguments the shell expands only once")
    rank = [] if any(one.name == "no-local-rank" for one in found.options) else ['--local_rank="$LOCAL_RANK"']
    program = [
        *([] if bare else ["python", "-u"]),
        *(["-m"] if is_module else []),
        words[0],
        *rank,
        *words[1:],
    ]
    launch = ScriptLaunch(each, " ".join(program), "deepspeed")
    launch.dropped = [f"--{one.name} {one.value}".strip() for one in found.options]
    return launch


def _kept(found: UserLaunch, around: Around) -> ScriptLaunch:
    """Return a launcher of one node that stays in the command, once on each node."""
    is_alone = around.size.nodes == 1 and found.program in ("deepspeed", "colossalai run")
    if found.runs == "once" and not is_alone:
        raise UnsupportedLaunch(f"by {found.program}, which hpcdist does not replace here")
    _check_on_all(found, around)
    nodes = _values(found.options, *(option.name for option in found.options_of("nodes")))
    names = [name for name, kind in VARIABLES.get(found.program, {}).items() if kind == "nodes"]
    nodes = nodes or [around.values[name] for name in names if name in around.values]
    count = around.number(nodes[-1]) if nodes else 1
    if around.size.nodes > 1 and count not in (around.size.nodes, None):
        raise UnsupportedLaunch(f"in which {found.program} trains on one node")
    return ScriptLaunch(1, " ".join(found.words), "pytorch", own_ranks=True)


_OF: Final = {
    **dict.fromkeys(("srun", "flux run", "flux mini run"), _srun),
    **dict.fromkeys(("torchrun", "torch.distributed.run"), _torchrun),
    **dict.fromkeys(("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "horovodrun"), _mpirun),
    "deepspeed": _deepspeed,
}


def launched_in(found: list[Statement], values: Mapping[str, str]) -> Iterator[int]:
    """Yield the places of the statements that launch a program."""
    for at, statement in enumerate(found):
        if user_launches(statement, values) or (statement.compound == "for" and _loop_by_ssh(statement)):
            yield at


def _loop_by_ssh(statement: Statement) -> bool:
    text = re.split(r"\bdo\b", statement.text, maxsplit=1)
    return len(text) > 1 and any(map(_by_ssh, statements(text[1].rsplit("done", 1)[0])))
