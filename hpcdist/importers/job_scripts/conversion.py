"""The body of a job script becomes the command of an experiment, with what comes before and after it.

What cannot be converted stays as it is: the body runs once, on the first node, as under the batch system.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final

from hpcdist.base.errors import Path
from hpcdist.base.tree import Map
from hpcdist.experiment.shell_words import START
from hpcdist.importers.job import ForeignJob, Role, Sourced
from hpcdist.importers.job_scripts.body import (
    ACTIVATES,
    OF_ENVIRONMENTS,
    OF_PATH,
    SETTERS,
    Statement,
    exported_names,
    is_opaque,
    modules_of,
    names_in,
    sets_any,
    statements,
    stops,
    texts_in,
)
from hpcdist.importers.job_scripts.directives import Header
from hpcdist.importers.job_scripts.launches import launched_in, read_launch
from hpcdist.importers.job_scripts.lines import (
    COPIES,
    PRINTS,
    Around,
    ScriptLaunch,
    computed,
    differing,
    meeting_kind,
    user_launches,
    with_meeting,
    word_set,
)
from hpcdist.importers.job_scripts.size import JobSize
from hpcdist.importers.launch_lines import UnsupportedLaunch, put_unchanged
from hpcdist.importers.reading import Reading, placed

_SETS_UP: Final = word_set("""
    source . export declare typeset readonly unset set shopt ulimit read mapfile readarray umask cd pushd popd
    alias eval conda mamba micromamba pyenv spack module ml [ [[ test exit return hash type let unalias ((
""")  # fmt: skip
_SAYS: Final = PRINTS - word_set("ls cat head tail tree du which env printenv pwd ldd")
"""Programs whose output is the same in any folder, and without the lines that set the shell up."""
_OF_NODES: Final = ("SLURM_NNODES", "SLURM_JOB_NUM_NODES", "PBS_NUM_NODES", "NHOSTS")
_OF_ALL_TASKS: Final = word_set("SLURM_NTASKS SLURM_NPROCS PBS_NP LSB_DJOB_NUMPROC NSLOTS FLUX_JOB_SIZE")
_OF_TASKS: Final = ("SLURM_NTASKS_PER_NODE", "PBS_NUM_PPN")
_OF_GPUS: Final = ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE")
"""Variables of the batch systems with the numbers of nodes, of all tasks, and of a node's tasks and GPUs."""
_MPI: Final = re.compile(r"mpi|mvapich|hpcx|horovod", re.IGNORECASE)


_LOGIN: Final = (
    "[[ -r /etc/profile ]] && source /etc/profile\n"
    "[[ -r ~/.bash_profile ]] && source ~/.bash_profile || source ~/.profile\n"
)
"""What `bash -l` reads, where conda and modules are often defined."""


def _raw(text: str) -> str:
    """Return a text in which nothing is a template."""
    return f"{{% raw %}}{text}{{% endraw %}}" if "{{" in text or "{%" in text else text


@dataclass
class Body:
    """Takes a body apart: ``lines`` set the shell of each task up, ``prepare`` runs once before them."""

    read: Reading
    header: Header
    job: ForeignJob
    found: list[Statement]
    text: str
    size: JobSize
    is_login: bool
    """Whether bash reads the files of a login shell first: ``#!/bin/bash -l``."""
    values: dict[str, str] = field(default_factory=dict)
    """The texts of variables that have one."""
    once: set[str] = field(default_factory=set)
    """The variables that the script sets once."""
    lines: list[Statement] = field(default_factory=list)
    """What each task does before the program."""
    prepare: list[Statement] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    env: dict[str, Sourced] = field(default_factory=dict)
    remarks: list[tuple[Statement, str]] = field(default_factory=list)
    """What is dropped, and why."""
    inlined: set[str] = field(default_factory=set)
    """Variables whose text stands in the launch line now."""
    texts: dict[int, str] = field(default_factory=dict)
    """The text of each line that was rewritten."""
    handled: set[str] = field(default_factory=set)
    """Variables that hpcdist sets itself."""

    @property
    def reads_profile(self) -> bool:
        """Whether each task reads the profile, which may set PATH, so that modules come after it."""
        return self.is_login and bool(re.search(r"\b(?:conda|mamba)\s+activate\b", self.text))

    def path(self, statement: Statement) -> Path:
        """Return the path of a statement in the data."""
        return "body", statement.line

    # --- the cases

    def convert(self) -> None:
        """Put the command, converted if that is possible."""
        nodes, tasks, gpus = self.size.nodes, self.size.tasks, self.size.gpus or 1
        numbers = dict.fromkeys(_OF_NODES, nodes) | dict.fromkeys(_OF_ALL_TASKS, nodes * tasks)
        numbers |= dict.fromkeys(_OF_TASKS, tasks) | dict.fromkeys(_OF_GPUS, gpus)
        numbers |= {"SLURM_GPUS": nodes * gpus} if "gpus" in self.header.size else {}
        numbers |= {"SLURM_CPUS_PER_TASK": self.size.cpus // tasks} if self.size.cpus else {}
        known = {name: str(number) for name, number in numbers.items()}
        texts = texts_in(self.found)
        self.values = known | {name: one[0] for name, one in texts.items() if len(one) == 1}
        self.once = {*self.values}
        for name in self._doubtful():
            self.values.pop(name, None)
        for name, value in self.values.items():
            if re.search(r"\bwc\b", value) and re.search("NODE(?:FILE|LIST)|scontrol", value):
                self.values[name] = str(self.size.nodes)
        self._warn_of_arguments()
        try:
            self._convert()
        except UnsupportedLaunch as why:
            if self.size.nodes * self.size.tasks == 1 and not self._runs_once():
                self._single()
            else:
                self.keep(str(why))

    def _runs_once(self) -> bool:
        """Whether a launcher of the script starts the processes of all nodes."""
        launches = (launch for one in self.found for launch in user_launches(one, self.values))
        return any(launch.runs == "once" for launch in launches)

    def _doubtful(self) -> set[str]:
        """Return the variables that a file which is sourced behind them may set again."""
        sources = [
            at
            for at, one in enumerate(self.found)
            if {*one.programs} & {"source", "."} and not ACTIVATES.match(one.text)
        ]
        before = self.found[: sources[-1]] if sources else []
        return {name for one in before for name, _ in one.assigned}

    def _warn_of_arguments(self) -> None:
        """Warn that a script which takes arguments gets none."""
        for statement in self.found:
            text = "" if statement.is_comment or statement.compound == "function" else statement.text
            if match := re.search(r"\$(?:[1-9@*]|\{[1-9@*])", re.sub(r"'[^']*'|\\.", "", text)):
                argument = match[0].replace("{", "")
                why = f"{argument} is empty: hpcdist passes no arguments to the script"
                self.read.warn(*self.path(statement), why=why)
                return

    def _convert(self) -> None:
        if not all(one.is_clear for one in self.found):
            raise UnsupportedLaunch("in a script whose quotes are not clear")
        at = [*launched_in(self.found, self.values)]
        if not at and self.size.nodes > 1:
            raise UnsupportedLaunch("in which no known launcher starts processes on the nodes")
        if not at and self.size.tasks > 1 and any(map(is_opaque, self.found)):
            raise UnsupportedLaunch("which starts a script that may start the tasks itself")
        if not at or (len(at) > 1 and self.size.nodes == 1 and not self._runs_once()):
            self._single()
            return
        if len(at) > 1:
            raise UnsupportedLaunch(f"with {len(at)} launch lines")
        line = self.found[at[0]]
        launch = read_launch(line, Around(self.size, self.values, texts_in(self.found), self.inlined))
        after = self.found[at[0] + 1 :]
        self._check_after(line, after)
        self._choose(launch)
        for statement in self.found[: at[0]]:
            self._before(statement, launch)
        lines = self._live(launch)
        if launch.own_ranks:
            lines = [one._replace(text=with_meeting(one.text)) for one in lines]
        if launch.framework == "horovod" and any(ACTIVATES.match(one.text) for one in lines):
            raise UnsupportedLaunch("whose horovodrun is in an environment which the script activates")
        self._check_same(lines, launch)
        self._take_output(launch, after)
        if not all(one.is_clear for one in statements(launch.program)):
            raise UnsupportedLaunch("whose quotes are not clear")
        self._put(launch, line, lines, after)

    def _single(self) -> None:
        """Put the body of a job of one task as its command, without the modules that it loads first."""
        text = self.text
        found = () if self.reads_profile else self.found
        leading = [*takewhile(lambda one: one.is_comment or modules_of(one), found)]
        self.modules = [name for one in leading for name in modules_of(one)]
        for one in reversed(leading):
            if not one.is_comment:
                text = text[: one.at] + text[one.at + len(one.text) :].lstrip(" ;\n")
        exclusive = self.job.settings.get("batch.exclusive")
        if exclusive and exclusive.value is True and self.size.cpus is None and self.size.tasks == 1:
            why = "the job has whole nodes, and requests no CPUs: the program gets the site's share, or one"
            self.read.warn(*exclusive.source, why=why, hint="write the CPUs of a task into the script")
        self.job.roles["master"] = self._role(None)
        self._put_modules()
        lines = [*self._counts(text), *self._counts_of_tasks(text)]
        self._put_command("\n".join([*lines, text.strip()]), self._first())

    def _first(self) -> Statement:
        return next((one for one in self.found if not one.is_comment), Statement("", 0))

    def keep(self, why: str) -> None:
        """Put the body as it is, to run once with the job's hosts."""
        first = self._first()
        put_unchanged(self.read, self.job, why, self._role(self.size.nodes), self.path(first))
        self.job.set("framework", "mpi", *self.path(first))
        if self.size.tasks != max(self.size.gpus, 1):
            self.job.slots = Sourced(self.size.tasks, self.size.source or self.path(first))
        self._put_nodes()
        for line in self._counts(self.text):
            name, _, value = line.partition("=")
            self.job.env[name] = Sourced(value, self.size.source)
        self._put_command(self.text.strip(), first)

    def _role(self, count: int | None, launch: ScriptLaunch | None = None) -> Role:
        size = self.size
        if launch and launch.gpus:
            size = size._replace(gpus=launch.gpus)
        if launch and launch.cpus and size.cpus is None:
            size = size._replace(cpus=launch.cpus * launch.each)
        elif size.cpus is None and size.tasks > 1 and (launch is None or launch.framework == ""):
            size = size._replace(cpus=size.tasks)  # one program has the CPUs of all tasks
        selector = {"gpu_type": size.gpu_type} if size.gpu_type else None
        resources = Map(place=self.read.place(*size.source))
        for name, amount in size.resources.items():
            place = self.read.place(*size.sources.get(name, size.source))
            resources.put(name, placed(amount, place), place)
        return Role(count, size.source, resources, size.source, selector, size.source)

    def _put_nodes(self) -> None:
        if self.size.nodes > 1:
            self.job.nodes = Sourced(self.size.nodes, self.size.source)

    def _put_modules(self) -> None:
        if self.modules:
            first = next(one for one in self.found if modules_of(one))
            self.job.set("batch.modules", self.modules, *self.path(first))

    def _put_command(self, text: str, source: Statement) -> None:
        folder = f"cd {self.header.folder} || exit\n" if self.header.folder else ""
        login = _LOGIN if self.reads_profile else ""
        self.job.command = Sourced(_raw(login + folder + text), self.path(source))

    # --- one launch line

    def _check_after(self, line: Statement, after: Sequence[Statement]) -> None:
        programs = [{*one.programs} for one in after if not one.is_comment]
        until = programs.index({"wait"}) if {"wait"} in programs else None
        if line.background and (until is None or any(programs[:until])):
            raise UnsupportedLaunch("in the background, for whose end the script does not just wait")
        if any(one.background for one in after):
            raise UnsupportedLaunch("before a program in the background")
        for statement in self.found:
            if statement.compound == "function":
                raise UnsupportedLaunch("in a script with functions")
            names = {*statement.programs} if not statement.is_comment else set()
            if wrong := names & {"trap", "sbatch", "qsub", "bsub"}:
                raise UnsupportedLaunch(f"in a script with {min(wrong)}")

    def _choose(self, launch: ScriptLaunch) -> None:
        """Choose the framework of a program that srun starts."""
        exported = any(name.startswith("MASTER_") for one in self.found for name, _ in one.assigned)
        total = self.size.nodes * launch.each
        if launch.framework == "mpi" and exported:
            return
        if launch.framework or (total == 1 and not launch.own_ranks):
            return
        is_python = re.search(r"\bpython|\.py\b|accelerate|torchrun", launch.program)
        loads = any(
            _MPI.search(one.text) for one in self.found if "module" in one.programs or "ml" in one.programs
        )
        if not exported and not launch.own_ranks and (launch.by_mpi or loads or not is_python):
            launch.framework = "mpi"
            return
        launch.framework = "pytorch"
        if launch.each > 1:
            launch.settings["pytorch.launch"] = "env"

    def _before(self, statement: Statement, launch: ScriptLaunch) -> None:
        """Sort a statement before the launch line: a key, for each task, once before them, or dropped."""
        if statement.background:
            raise UnsupportedLaunch("after a program in the background")
        modules = modules_of(statement)
        is_first = not (
            self.reads_profile or any(map(sets_any, self.lines)) or any(map(OF_PATH.search, self.env))
        )
        if statement.is_comment or (modules and not is_first):
            self.lines.append(statement)
        elif modules:
            self.modules += modules
        elif self._is_idiom(statement, launch):
            return
        elif self._is_literal(statement):
            for name, value in statement.assigned:
                self.env[name] = Sourced(_raw(value), self.path(statement))
        else:
            self._sort(statement, launch)

    def _sort(self, statement: Statement, launch: ScriptLaunch) -> None:
        names = {*statement.programs}
        others = names - _SETS_UP - PRINTS - COPIES
        is_setup = ":=" in statement.text or statement.assigned
        if launch.hostfile and launch.hostfile in statement.text and ">" in statement.text:
            self.remarks.append((statement, "is dropped: the launcher gets the job's hosts from hpcdist"))
        elif statement.compound and others:
            raise UnsupportedLaunch(f"after a `{statement.compound}` with {min(others)}")
        elif names and names <= PRINTS | COPIES and not is_setup:
            self._print(statement)
        elif names & _SETS_UP or is_setup:
            self._set_up(statement)
        else:
            self.prepare.append(statement)

    def _set_up(self, statement: Statement) -> None:
        """Keep a line for each task; a change to the folder of the submission is hpcdist's own."""
        if re.fullmatch(
            rf"cd\s+[\"']?\$\{{?{self.header.system.folder}\}}?/?[\"']?\s*(?:#.*)?", statement.text
        ):
            self.remarks.append((statement, "is dropped: the job runs where it is submitted"))
        else:
            self.lines.append(statement)

    def _print(self, statement: Statement) -> None:
        names = {*statement.names}
        for _ in range(3):
            names |= {used for name in names for used in names_in(self.values.get(name, ""))}
        if names & self.handled:
            self.remarks.append((statement, "is dropped: it prints what hpcdist sets"))
        else:
            self.prepare.append(statement)

    def _is_literal(self, statement: Statement) -> bool:
        """Whether it exports variables, each once, to texts in which bash expands nothing."""
        words = [word.text for part in statement.parts for word in part.words]
        if statement.compound or len(statement.parts) > 1 or words[:1] != ["export"]:
            return False
        plain = all(re.fullmatch(r"\w+=(?:[^$`\\~*?]|'[^']*')*", word, re.DOTALL) for word in words[1:])
        once = all(name in self.once for name, _ in statement.assigned)
        return plain and once and len(words) > 1 and not self._is_behind_others(statement)

    def _is_behind_others(self, statement: Statement) -> bool:
        """Whether lines before it may set its variables, too, so that it must stay behind them."""
        names = [name for name, _ in statement.assigned]
        of_path, of_environment = (any(map(pattern.search, names)) for pattern in (OF_PATH, OF_ENVIRONMENTS))
        others = [*filter(sets_any, self.lines)]
        unknown = [one for one in others if not ACTIVATES.match(one.text)]
        return "MODULEPATH" in names or bool(unknown) or (bool(others) and (of_path or of_environment))

    def _is_idiom(self, statement: Statement, launch: ScriptLaunch) -> bool:
        """Take an assignment that finds where the tasks meet: dropped, or rewritten where it is used."""
        assigned = statement.assigned
        if not assigned or launch.framework == "" or not {*statement.programs} <= SETTERS:
            return False
        if not all(meeting_kind(*pair) for pair in assigned):
            return False
        for name, value in assigned:
            self.handled.add(name)
            kind = meeting_kind(name, value)
            ours = {"address": "$HPCDIST_HEAD_ADDRESS", "port": "$HPCDIST_PORT"}.get(kind, "")
            sets = launch.framework in ("pytorch", "deepspeed") and name.startswith("MASTER_")
            is_fixed = kind == "port" and value.isdecimal() and not sets
            own_ranks = launch.own_ranks or launch.framework in ("mpi", "horovod")
            if is_fixed or (kind == "rank" and own_ranks):
                self.handled.discard(name)
                self.lines += [statement] if statement not in self.lines else []
            elif sets or kind == "rank":
                self.remarks.append((statement, f"is dropped: hpcdist sets {name}"))
            else:
                export = "export " if statement.programs else ""
                text = f'{export}{name}="{ours}"'
                new = Statement(text, statement.line, statements(text)[0].parts)
                self.texts[statement.line] = statement.text
                self.lines.append(new)
        return True

    def _live(self, launch: ScriptLaunch) -> list[Statement]:
        """Return the lines for each task without variables that nothing uses any more."""
        used = {name for one in launch.before for name in names_in(one.text)} | names_in(launch.program)
        sourced = False
        exported = {name for one in self.lines if "export" in one.programs for name in exported_names(one)}
        kept: list[Statement] = []
        for statement in reversed(self.lines):
            own = {name for name, _ in statement.assigned}
            sourced = sourced or bool({"source", "."} & {*statement.programs})  # it may read any of them
            pure = not sourced and own and {*statement.programs} <= SETTERS
            gone = own <= self.inlined or (statement.programs != ["export"] and not own & exported)
            if pure and gone and not own & used:
                name = min(own)
                if "export" in statement.programs or not any(name in one.names for one in self.prepare):
                    self.remarks.append((statement, f"is dropped: nothing uses {name} any more"))
                continue
            used |= statement.names
            kept.append(statement)
            if statement.line in self.texts:
                self.remarks.append((statement, f"becomes `{statement.text}`"))
        return _with_comments(kept[::-1])

    def _check_same(self, lines: Sequence[Statement], launch: ScriptLaunch) -> None:
        """Refuse lines whose values would differ by task, where the script computes them once."""
        if self.size.nodes * launch.each == 1:
            return
        for statement in lines:
            text = "" if statement.is_comment else statement.text
            wrong = differing(text) or ("$(srun" if re.search(r"\$\(\s*srun", text) else computed(text))
            if wrong:
                raise UnsupportedLaunch(f"for which the job script expands {wrong} once, for all tasks")

    def _take_output(self, launch: ScriptLaunch, after: Sequence[Statement]) -> None:
        """Keep where the output of one task goes; the output of several is in the run."""
        if self.size.nodes * launch.each == 1 and not launch.framework:
            launch.program = " ".join([launch.program, *launch.output])
            return
        files = [text.split()[-1] for text in launch.output if re.search(r"[A-Za-z]", text)]
        if any(file in one.text for file in files for one in after):
            raise UnsupportedLaunch("whose output later lines read")
        launch.dropped += launch.output

    def _put(
        self, launch: ScriptLaunch, line: Statement, lines: list[Statement], after: Sequence[Statement]
    ) -> None:
        path = self.path(line)
        if launch.framework:
            self.job.set("framework", launch.framework, *path)
        for key, value in launch.settings.items():
            self.job.set(key, value, *path)
        self.job.roles["master"] = self._role(None, launch)
        if self.size.nodes > 1:
            self.job.roles["worker"] = self._role(self.size.nodes - 1, launch)
        gpus = launch.gpus or self.size.gpus
        by_gpu = launch.framework in ("mpi", "horovod", "deepspeed") or "pytorch.launch" in launch.settings
        if launch.framework and launch.each != (max(gpus, 1) if by_gpu else 1) and not launch.own_ranks:
            self.job.slots = Sourced(launch.each, path)
        self._put_nodes()
        self._put_modules()
        self.job.env |= self.env
        for name, value in launch.variables.items():
            self.job.env[name] = Sourced(_raw(value), path)
        texts = [one.text for one in (*lines, *launch.before)]
        texts = [*self._counts("\n".join([*texts, launch.program])), *texts]
        is_torchrun = launch.settings.get("pytorch.launch") == "torchrun"
        odd = [one for one in lines if "=(" in one.text or one.compound not in {"", "if"}]
        if is_torchrun and odd:  # where torchrun starts is not found behind these
            texts.append(START)
        command = "\n".join([*texts, launch.program])
        self._put_command(command, line)
        self._put_steps(lines, after)
        self._say(launch, path)

    def _counts(self, text: str) -> Iterator[str]:
        """Yield a line for the number of GPUs if a text uses it: hpcdist may request them in another way."""
        given = any("gpus-per-node" in directive for _, directive in self.read.items("directives"))
        if given and "SLURM_GPUS_PER_NODE" in names_in(text):
            yield f"SLURM_GPUS_PER_NODE={self.size.gpus}"

    def _counts_of_tasks(self, text: str) -> Iterator[str]:
        """Yield lines for the numbers of a job of several tasks whose body is one program here."""
        tasks = self.size.tasks if self.header.system.name == "slurm" else 1
        counts = dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE"), tasks)
        counts |= {"SLURM_CPUS_PER_TASK": self.size.cpus // tasks} if self.size.cpus else {}
        names = names_in(text) if tasks > 1 else set()
        yield from (f"{name}={count}" for name, count in counts.items() if name in names)

    def _put_steps(self, lines: Sequence[Statement], after: Sequence[Statement]) -> None:
        """Put what runs once, before and after the tasks."""
        if self.prepare:
            steps = [*self._with_setup(self.prepare, lines)]
            text = "\n".join(one.text for one in steps) + ("" if any(map(stops, steps)) else "\n:")
            self.job.set("run.prepare.cmd", _raw(text), *self.path(self.prepare[0]))
        rest = [
            one
            for one in after
            if one.is_comment or not {*one.programs} <= {"wait", "exit", "true", ":"} or one.assigned
        ]
        if any(not one.is_comment for one in rest):
            rest = [rest[0]._replace(text=rest[0].text.replace("$?", "$HPCDIST_EXIT_CODE")), *rest[1:]]
            text = "\n".join(one.text for one in self._with_setup(rest, lines))
            self.job.set("run.finish.cmd", _raw(text), *self.path(rest[0]))

    def _with_setup(self, steps: Sequence[Statement], lines: Sequence[Statement]) -> list[Statement]:
        """Return steps behind the lines that set their shell up, if they need them."""
        programs = {name for one in steps if not one.is_comment for name in one.programs}
        needed = not programs <= _SAYS or any(
            re.search(r">|<|\$\(|`", one.text) for one in steps if not one.is_comment
        )
        names = {name for one in steps for name in one.names}
        kept: list[Statement] = []
        for statement in reversed(self.found):
            is_line = any(statement.text == one.text and statement.line == one.line for one in lines)
            own = {name for name, _ in statement.assigned}
            if statement in steps or statement.is_comment:
                continue
            if (is_line and needed) or stops(statement) or (own & names and {*statement.programs} <= SETTERS):
                kept.append(statement)
                names |= statement.names
        return sorted([*kept, *steps], key=lambda one: one.at)

    def _say(self, launch: ScriptLaunch, path: Path) -> None:
        """Add the remarks."""
        for statement, why in self.remarks:
            first = self.texts.get(statement.line, statement.text).splitlines()[0]
            self.read.warn(*self.path(statement), why=f"`{first}` {why}")
        for text in launch.defaults:
            self.read.warn(
                *path, why=f"{text}, whatever the shell that submits sets: it is the script's default"
            )
        if launch.dropped:
            words = ", ".join(launch.dropped)
            why = f"hpcdist starts the processes itself, so these words have no effect: {words}"
            self.read.warn(*path, why=why)


def _with_comments(found: list[Statement]) -> list[Statement]:
    """Return the lines, each comment only where a line follows it."""
    kept: list[Statement] = []
    for statement in reversed(found):
        follows = kept and kept[-1].line - statement.line <= 1 + statement.text.count("\n")
        if not statement.is_comment or follows:
            kept.append(statement)
    return kept[::-1]
