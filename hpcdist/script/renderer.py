"""The renderer: writes a plan as a job script; every value is quoted unless it is shell code.

A script is blocks, each of a template ``templates/job/NAME.sh.j2``; one that the plan does not need is empty,
and left out.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import jinja2
import msgspec
from jinja2.bccache import Bucket, FileSystemBytecodeCache
from msgspec.structs import replace

from hpcdist import __version__
from hpcdist.base.errors import RenderError
from hpcdist.base.resources import template_folders, user_cache
from hpcdist.base.words import Raw, numbered, quote
from hpcdist.plan.model import Plan
from hpcdist.plan.placement import Placement, of_role
from hpcdist.plan.values import PROGRAM, Word
from hpcdist.script import runtime
from hpcdist.script.exports import NAME, WIDTH, Exports, header, one_line
from hpcdist.script.launch import RESOURCES, Starting, text_of
from hpcdist.script.places import Places

# --- What a job script has: what an expert would write for this job, and only what its plan needs
#
# Placeholders keep their names (``$HPCDIST_PORT``): a script defines those that it names.

_MODULES: Final = f"$HPCDIST_RUN_DIR/{runtime.FOLDER}/python"
_MODULE: Final = re.compile(r"(?:^|[;&|] *)(?:module|ml) ", re.MULTILINE)
_MAY: Final = {
    "end": re.compile(r"\b(?:exit|return)\b"),
    "set options": re.compile(r"\b(?:set [-+]|IFS=)"),
    "use arguments": re.compile(r"\$[#@*1-9]|\b(?:set|shift|source)\b|(?:^|[;&|]) *\. ", re.MULTILINE),
}
"""What a line of setup may do to the shell in which it runs."""

_OPTIONAL: Final = re.compile(r"\$\{HPCDIST_RUN_DIR:[-+][^}]*\}")
"""What a script can expand without a run directory."""

_OF_RAY: Final = ("PORT", "HEAD_ADDRESS", "ADDRESS", "JOB_ID", "JOB_DIR", "FAILURE", "CPUS", "GPUS")
_OF_TASKS: Final = ("ROLE", "INDEX", "NODES", "CPUS", "GPUS", "ADDRESS", "HEAD_ADDRESS", "PORT")
"""What Ray's processes read, and what a command may read that is not known yet."""

_IDS: Final = {
    "slurm": ("$SLURM_JOB_ID", "SLURM_JOB_ID", ""),
    "pbs": ("${PBS_JOBID%%[!0-9]*}", "${PBS_JOBID%%[!0-9]*}", "PBS_ARRAY_INDEX"),
    "lsf": ("$LSB_JOBID", "LSB_JOBID", "LSB_JOBINDEX"),
    "sge": ("$JOB_ID", "JOB_ID", "SGE_TASK_ID"),
    "flux": ("$FLUX_ENCLOSING_ID", '$(flux job id --to=dec "$FLUX_ENCLOSING_ID")', ""),
    "local": ("$$", "$$", ""),
}
"""The job id, the job number, and the index of an element where all elements have the same number."""


class PlainJob:
    """A plan as the templates of its script ask for it: lines of shell, and which parts the script has."""

    def __init__(self, plan: Plan, *, run_dir: str | None, annotate: bool, is_setup: bool = False) -> None:
        """``is_setup``: the script is for steps, and defines what these name, too."""
        self.plan = plan
        self.is_setup = is_setup
        self.annotate = annotate
        self.run_dir = run_dir
        self.launcher = Raw(plan.launch.launcher)
        self.exports = Exports(plan, modules=_MODULES if run_dir else "", annotate=annotate)
        self.starting = Starting(plan)
        self.places = Places(plan, self.uses)
        own, number, index = map(Raw, _IDS.get(plan.identity.scheduler, _IDS["local"]))
        self.id_given = self.given(re.sub(r"[${}]|%%.*", "", own))
        self.id = Raw(f"{own}.${index}") if index and plan.request.array else own
        self.number = Raw(f"({number} + 37 * {index})" if index and plan.request.array else number)

    # --- What the script names

    @cached_property
    def names(self) -> frozenset[str]:
        """The variables of hpcdist that the command, a variable or a word of the plan names."""
        own = self.plan.environment
        tests = ("HPCDIST_ROLE" for item in self.exports.all if item.role)
        values = (text for item in self.exports.all for text in (item.value, item.otherwise or ""))
        launching = [word for one in self.plan.role_launches for word in one.words] or self.plan.words
        every = (*launching, *self.plan.task_words, *own.setup, *own.task_setup)
        words = (_OPTIONAL.sub("", text_of(word)) for word in every)
        steps = (step.command for step in self.plan.steps if self.is_setup)
        texts = (self.starting.command, *steps, *tests, *values, *words)
        named = (name for text in texts if text != PROGRAM for name in NAME.findall(text))
        return frozenset((*named, *(f"HPCDIST_{name}" for name in self._unnamed)))

    @property
    def _unnamed(self) -> Iterator[str]:
        """Variables that programs read and no word names."""
        if self.plan.identity.framework == "ray":
            yield from _OF_RAY
        if self.plan.shell:
            yield from ("JOB_DIR", *_OF_TASKS)
        if self.plan.completion.elastic:
            yield from ("JOB_ID", "JOB_DIR", "FAILURE")
        if self.starting.leaves_files:
            yield "ROLE"
        if self.starting.is_packed:
            yield from ("RUN_DIR/runtime", *(("ADDRESS",) if self.plan.placement.nodes > 1 else ()))

    def uses(self, name: str) -> bool:
        """Return whether something in the script names this variable."""
        return name in self.names

    # --- The head, and the setup

    @property
    def handover(self) -> str:
        """The digest of the run's files, this script's name, and what needs the supervisor."""
        own = numbered("job.sh", self.plan.identity.number)
        return f"{runtime.digest()} {own} {runtime.needs(self.plan)}".rstrip()

    @property
    def comments(self) -> Iterator[Raw]:
        """What the job is, and what only `hpcdist submit` does for it, as comments."""
        own = self.plan.identity
        processes = sum(row.tasks * row.processes for row in self.plan.placement.rows)
        ranks = f", {processes} processes" if processes > self.plan.placement.size else ""
        by = f"for site {own.site}. Written by hpcdist {__version__}."
        yield from _comment(f"{own.name}: {self.plan.summary}{ranks}, {by}")
        for step in self.plan.steps:
            yield from _comment(
                f"Only `hpcdist submit` also runs {one_line(step.command)} ({step.time}, {step.on})."
            )
        if option := " ".join(self.plan.request.submit_options):
            program = "qsub" if self.plan.identity.scheduler in ("pbs", "sge") else "bsub"
            yield from _comment(f"Submit it by `{program} {option} FILE`: no directive can hold this option.")
        if self.plan.completion.restarts or self.plan.completion.max_restarts:
            yield from _comment("This is one attempt: only `hpcdist submit` starts another.")

    @property
    def served(self) -> str:
        """The roles that must succeed for the job to succeed, as servers never end."""
        return " and ".join(sorted(self.plan.completion.required_roles))

    @property
    def only_index(self) -> int | None:
        """The index of the one element of an array."""
        return self.plan.request.array.only_index if self.plan.request.array else None

    @property
    def setup(self) -> Iterator[Raw]:
        """The lines of setup."""
        for word in (word for word in self.plan.environment.setup if word.origin.kind != "container"):
            if " source " in word.text:
                yield Raw("# shellcheck source=/dev/null # the site's own file")
            yield self._annotated(word)

    def lines_may(self, do: str, *, in_tasks: bool = False) -> bool:
        """Return whether a line of setup may do this to the script, or to a task."""
        own = self.plan.environment.task_setup if in_tasks else self.plan.environment.setup
        return any(_MAY[do].search(word.text) for word in own if word.origin.kind != "container")

    @property
    def container_setup(self) -> Iterator[Raw]:
        """The lines for a container, behind the variables that it may get."""
        own = (word for word in self.plan.environment.setup if word.origin.kind == "container")
        return map(self._annotated, own)

    @property
    def tells_image(self) -> bool:
        """Whether tasks need the name of an image that this script fetches."""
        return any(word.text == '"$hpcdist_image"' for word in self.plan.words)

    @property
    def modules(self) -> Raw:
        """The modules that the lines of setup load."""
        return Raw(" ".join(quote(name) for name in self.plan.environment.modules if _is_loaded(name)))

    @property
    def program(self) -> Raw | None:
        """The launcher's program, where it is not part of the batch system."""
        words = self.plan.launcher_words
        starts = self.starting.in_tasks or self.plan.completion.elastic
        part = self.launcher in ("srun", "flux", "jsrun", "ibrun", "processes") or not starts
        return None if part or not words else quote(words[0].text)

    @property
    def calls_module(self) -> bool:
        """Whether a line of setup calls ``module``."""
        return any(_MODULE.search(word.text) for word in self.plan.environment.setup)

    @property
    def records_changes(self) -> bool:
        """Whether a launcher passes to other nodes what the lines of setup change."""
        return bool(self.plan.environment.setup) and self.names_exports

    @property
    def names_exports(self) -> bool:
        """Whether a launcher passes to other nodes the variables that are named."""
        return self.launcher == "hydra" or (self.launcher == "mpirun" and self.plan.placement.nodes > 1)

    @property
    def task_setup(self) -> Iterator[Raw]:
        """The lines that each task runs first."""
        return map(self._annotated, self.plan.environment.task_setup)

    def _annotated(self, word: Word) -> Raw:
        return Raw(f"{word.text}  # {one_line(word.origin)}" if self.annotate else word.text)

    # --- Nodes

    @property
    def all_nodes(self) -> int:
        """The nodes of the job, with those that have no tasks."""
        return self.plan.placement.nodes + self.plan.own_nodes

    @property
    def names_nodes(self) -> bool:
        """Whether something in the script needs the nodes by their names."""
        files = self.hostfiles or self.lists_hosts or self.resource_file or self.peers
        by_name = self.places.tells_hosts or files or self.plan.own_nodes or self.counts
        return bool(
            by_name
            or self.uses("HPCDIST_BESIDE_NODE")
            or any("nodes[" in word.text for word in self.plan.shell)
            or (self.uses("HPCDIST_HEAD_ADDRESS") and self.plan.identity.scheduler != "local")
        )

    @property
    def resource_file(self) -> Raw:
        """The call that writes a file of each task's resources for jsrun; empty if it needs none."""
        calls = (RESOURCES.search(word.text) for word in self.plan.words)
        return Raw(next((call[1] for call in calls if call), ""))

    @property
    def several_hosts(self) -> bool:
        """Whether Grid Engine lists the hosts in a file."""
        return self.all_nodes > 1 or any(directive.flag == "-pe" for directive in self.plan.directives)

    def given(self, name: str, otherwise: str = "") -> Raw:
        """Return the value of a variable, or this text where it is not set."""
        return Raw(f"${{{name}:-{otherwise}}}")

    def host(self, name: str) -> Raw:
        """Return the name by which other nodes reach the host in this variable."""
        suffix = self.plan.rendezvous.suffix
        return Raw(f"${{{name}%%.*}}{suffix}" if suffix else f"${{{name}}}")

    @property
    def needs_folder(self) -> bool:
        """Whether the script writes files, or names the folder for them."""
        named = [
            f"HPCDIST_{name}"
            for name in ("RUN_DIR", "RUN_DIR/logs", "RUN_DIR/runtime", "JOB_DIR", "OUTPUTS", "CHECKPOINTS")
        ]
        own = self.hostfiles or self.starting.leaves_files or self.resource_file
        return bool(any(map(self.uses, named)) or own)

    @property
    def folders(self) -> Iterator[Raw]:
        """The lines that make the folders for what the program writes."""
        files = (("JOB_DIR", "$HPCDIST_RUN_DIR"), ("FAILURE", "$HPCDIST_JOB_DIR/failure.$HPCDIST_JOB_ID"))
        for name, value in (("ATTEMPT", 0), ("RESUMED", 0), *files):
            if self.uses(f"HPCDIST_{name}"):
                yield Raw(f"export HPCDIST_{name}=${{HPCDIST_{name}:-{value}}}")
        if self.uses("HPCDIST_BESIDE_NODE"):
            yield Raw(f"export HPCDIST_BESIDE_NODE={self.host('nodes[-1]')}")
        if self.starting.leaves_files:
            yield Raw(f"export HPCDIST_ENDED=${{HPCDIST_JOB_DIR:-$HPCDIST_RUN_DIR}}/ended.{self.id}.$$")
            yield Raw('mkdir -p "$HPCDIST_ENDED" || fail "cannot make $HPCDIST_ENDED; is the disk full?"')
        if self.uses("HPCDIST_RUN_DIR/logs"):
            yield Raw('mkdir -p "$HPCDIST_RUN_DIR/logs"')
        for name, folder in (("HPCDIST_OUTPUTS", "outputs"), ("HPCDIST_CHECKPOINTS", "checkpoints")):
            if self.uses(name):
                yield Raw(f"export {name}=${{{name}:-$HPCDIST_RUN_DIR/{folder}}}")
                yield Raw(f'mkdir -p "${name}" || fail "cannot make ${name}; is the disk full?"')

    @property
    def peers(self) -> list[tuple[str, Raw]]:
        """The roles whose addresses a variable has, with the calls that print them."""
        templates = [item.template for item in self.exports.all if item.template]
        roles = dict.fromkeys(role for template in templates for role in template.peers)
        return [(role, Raw(" && ".join(self._calls(role)))) for role in roles]

    def _calls(self, role: str) -> Iterator[str]:
        for row in self.plan.placement.rows:
            if row.role == role:
                step = f" {row.tasks_per_replica}" if row.tasks_per_replica > 1 else ""
                yield f"peers {row.node} {row.nodes} {row.tasks_per_node} {row.local_rank}{step}"

    @property
    def counts(self) -> list[tuple[int, int, int]]:
        """The nodes that PBS must name once for each task: where their numbers of tasks differ."""
        runs = [*self.plan.placement.crowds()]
        return runs if len(runs) > 1 and self.plan.identity.scheduler == "pbs" else []

    @property
    def hostfiles(self) -> list[tuple[Raw, Raw, list[tuple[Raw, int, int]]]]:
        """The hostfiles that something reads: their variables, their names, and their lines.

        A line is a format for the name of a host, the first node with it, and the number of such nodes.
        """
        found = []
        if self.uses("HPCDIST_HOSTFILE") or not self.starting.in_tasks:
            lines = self._lines_of(self.plan.placement)
            found.append((Raw("export HPCDIST_HOSTFILE"), Raw("hostfile"), lines))
        if self.launcher != "srun":
            for one in self.plan.role_launches:
                lines = self._lines_of(of_role(self.plan.placement, one.role))
                found.append((Raw(f"hostfile_{one.role}"), Raw(f"hostfile.{one.role}"), lines))
        return found

    def _lines_of(self, placement: Placement) -> list[tuple[Raw, int, int]]:
        line = self.plan.launch.hostfile_line.replace("%.0s", "").replace("%s", "{host}", 1)
        return [
            (Raw(line.replace("%s", str(tasks)).replace("{host}", "%s")), node, nodes)
            for node, nodes, tasks in placement.crowds()
        ]

    @property
    def lists_hosts(self) -> bool:
        """Whether srun reads the host of each rank."""
        uneven = self.plan.role_launches or not all(group.even for group in self.plan.placement.groups)
        return self.launcher == "srun" and bool(uneven)


def _comment(text: str) -> Iterator[Raw]:
    return map(Raw, textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# "))


def _is_loaded(name: str) -> bool:
    return name not in ("purge", "reset") and not name.startswith("-")


# --- Compiled templates, kept from one run to the next: compiling them takes longer than all of the planning


class TemplateCache(FileSystemBytecodeCache):
    """A cache folder of compiled templates; failures to read or write it are ignored."""

    def __init__(self, folder: Path, compiler: str) -> None:
        super().__init__(str(folder), "%s")
        self._compiler = compiler

    def get_source_checksum(self, source: str) -> str:
        """Return a checksum of the text and of the compiler's version."""
        return super().get_source_checksum(source + self._compiler)

    def load_bytecode(self, bucket: Bucket) -> None:
        """Load the bucket from the cache, if it is there."""
        with suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write the bucket to the cache, if that is possible."""
        with suppress(OSError):
            super().dump_bytecode(bucket)


def kept(compiler: Path, environment: Mapping[str, str] = os.environ) -> TemplateCache | None:
    """Return the user's own compiled templates, by the file (or its archive) that sets how they are compiled.

    None where there is no folder for them in which the user alone can write.
    """
    folder = user_cache("templates", environment)
    there = next((path for path in (compiler, *compiler.parents) if path.exists()), None)
    return TemplateCache(folder, str(there.stat().st_mtime_ns)) if folder and there else None


# --- The renderer

BLOCKS: Final = (
    "head", "enter", "setup", "variables", "nodes", "container", "files", "task", "launcher", "launch",
)  # fmt: skip
"""The templates of a script, in their order."""

_SETUP: Final = ("steps", "enter", "setup", "variables", "nodes")
"""The templates that set the variables of all tasks."""


def render(
    plan: Plan, *, run_dir: str | None = None, annotate: bool = False, folders: Iterable[Path] | None = None
) -> str:
    """Write the plan as a job script.

    ``run_dir``: the absolute path of the run directory, of a script that is submitted: it hands over to the
    run's files. ``annotate`` adds each line's origin as a comment.

    Raises:
        RenderError: when a template uses a value that the plan does not have.
    """
    return _rendered(plan, BLOCKS, run_dir, annotate=annotate, folders=folders)


def files_of_job(plan: Plan, run_dir: str, own: Callable[[str], str]) -> dict[str, str]:
    """Return the texts of what a job has in its run directory: its plan, its script, and their digests.

    ``own``: names the files of one job, as a run may have several.

    Raises:
        RenderError: as `render`.
    """
    stored = msgspec.json.format(msgspec.json.encode(plan), indent=2).decode()
    found = {own("plan.json"): f"{stored}\n", own("job.sh"): render(plan, run_dir=run_dir)}
    if plan.steps:
        found[own("setup.sh")] = render_setup(plan)
    return {**found, own("job.sum"): runtime.listed(found)}


def render_setup(plan: Plan) -> str:
    """Write the lines that set the variables of all tasks, for the steps of a job.

    Raises:
        RenderError: as `render`.
    """
    return _rendered(plan, _SETUP)


def _rendered(
    plan: Plan,
    names: tuple[str, ...],
    run_dir: str | None = None,
    *,
    annotate: bool = False,
    folders: Iterable[Path] | None = None,
) -> str:
    templates = environment(tuple(folders or template_folders()))
    if plan.identity.framework == "ray":  # all nodes end with the first one
        plan = replace(plan, role_launches=(), completion=replace(plan.completion, required_roles=()))
    context: dict[str, Any] = {
        "plan": plan,
        "scheduler": plan.identity.scheduler,
        "job": PlainJob(plan, run_dir=run_dir, annotate=annotate, is_setup=names is _SETUP),
        "header": header(plan, run_dir, annotate=annotate),
        "annotate": annotate,
        "raw": Raw,
    }
    name = ""
    try:
        blocks = []
        for block in names:
            name = f"job/{block}.sh.j2"
            blocks.append(templates.get_template(name).render(context).strip("\n"))
    except (jinja2.TemplateError, ValueError) as error:
        raise RenderError(f"template {name}: {error}") from error
    return "\n\n".join(filter(None, blocks)) + "\n"


def environment(folders: tuple[Path, ...]) -> jinja2.Environment:
    """Return what finds and fills in templates: it quotes each value for bash."""
    return jinja2.Environment(  # noqa: S701 - autoescape is for HTML; `finalize` quotes for the shell
        loader=jinja2.FileSystemLoader([str(folder) for folder in folders]),
        undefined=jinja2.StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        comment_start_string="<#",  # the usual {# is bash's ${#array}
        comment_end_string="#>",
        bytecode_cache=kept(Path(__file__)),
    )


def _finalized(value: object) -> Raw:
    if value is None:
        raise ValueError("a value is None; the plan left it undecided")
    return quote(value)
