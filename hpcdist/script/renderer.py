"""The renderer: a plan and a template become a script; every value is quoted unless it is shell already."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count, groupby
from pathlib import Path
from typing import Any

import jinja2

from hpcdist import __version__
from hpcdist.errors import RenderError
from hpcdist.host.resources import template_folders
from hpcdist.plan import devices
from hpcdist.plan.model import Plan
from hpcdist.plan.values import TASK_WRAPPER, Variable, Word
from hpcdist.schedulers import schedulers
from hpcdist.script.bytecode import kept
from hpcdist.site.model import RankVariables
from hpcdist.words import VARIABLE_NAME, Raw, quote


def render(
    plan: Plan, *, run_dir: str | None = None, annotate: bool = False, folders: Iterable[Path] | None = None
) -> str:
    """Write the plan as a script.

    ``run_dir`` is the absolute path of the run directory; without one the script makes its own where it is
    submitted. ``annotate`` adds each line's origin as a comment.

    Raises:
        RenderError: when a template asks for something that the plan does not have.
    """
    loader = jinja2.FileSystemLoader([str(folder) for folder in folders or template_folders()])
    writer = _Writer(plan, annotate=annotate)
    environment = jinja2.Environment(  # noqa: S701 - autoescape is for HTML; `finalize` quotes for the shell
        loader=loader,
        undefined=jinja2.StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        comment_start_string="<#",  # the usual {# is bash's ${#array}
        comment_end_string="#>",
        bytecode_cache=kept(Path(__file__)),
    )
    environment.filters |= {"plain": _plain, "bytes": _bytes}
    scheduler = schedulers.get(plan.identity.scheduler)
    try:
        context = writer.context() | {"run_dir": run_dir, "header": writer.header(run_dir)}
        for name in ("command", "task", "start") if plan.launch.rank_variables else ("command",):
            context[name] = Raw(environment.get_template(f"{name}.sh.j2").render(context))
        context["empty_line"] = Raw(_empty_line(plan, str(context["command"]) + str(context.get("task", ""))))
        environment.filters["filled"] = lambda text: _filled(text, context["empty_line"])
        context["task_start"] = str(context.get("start", "")).rstrip("\n")
        return environment.get_template(scheduler.template).render(context)
    except (jinja2.TemplateError, ValueError) as error:
        raise RenderError(f"template {scheduler.template}: {error}") from error


def _finalized(value: object) -> Raw:
    if value is None:
        raise ValueError("a value is None; the plan left it undecided")
    return quote(value)


def _plain(value: object) -> Raw:
    """Pass a value that cannot be quoted where it stands: a name, a number, a sentence of hpcdist's own.

    Raises:
        ValueError: when it holds anything that bash would read.
    """
    text = str(value)
    if any(character in text for character in "\"'`$\\\n\r!<>|;&*?~#{}"):
        raise ValueError(f"{text!r} cannot stand unquoted in a script")
    return Raw(text)


def _empty_line(plan: Plan, text: str) -> str:
    """Return a word, none of this text, that stands for an empty line where those do not reach the job.

    Those of the script of a heterogeneous job do not.
    """
    if not plan.launch.components:
        return ""
    return next(word for number in count() if (word := f"EMPTY_LINE{number or ''}") not in text)


def _filled(text: str, empty_line: str) -> Raw:
    """Return lines of which none is empty."""
    *lines, last = text.split("\n")
    return Raw("\n".join([*(line or empty_line for line in lines), last]))


def _bytes(text: str) -> int:
    """Return the size of a file with this text."""
    return len(text.encode())


_DEVICES = {
    "CUDA_VISIBLE_DEVICES": "/dev/nvidia[0-9]*",
    "ROCR_VISIBLE_DEVICES": "/dev/dri/renderD*",
    "ZE_AFFINITY_MASK": "/dev/dri/renderD*",
}
"""Where the GPUs of a node can be counted when no variable names them."""


class _Writer:
    """What templates may call: the plan's parts as lines of shell."""

    def __init__(self, plan: Plan, *, annotate: bool) -> None:
        self.plan = plan
        self.annotate = annotate

    def context(self) -> dict[str, Any]:
        plan, scheduler = self.plan, schedulers.get(self.plan.identity.scheduler)
        return {
            "plan": plan,
            "version": Raw(__version__),
            "annotate": self.annotate,
            "annotated": self.annotated,
            "exported": self.exported,
            "raw": Raw,
            "address": self.address,
            "value_of": lambda name, otherwise="": Raw(f"${{{_plain(name)}:-{_plain(otherwise)}}}"),
            "ranks": plan.launch.rank_variables or RankVariables(rank="", local_rank=""),
            "program": "" if plan.words[0].shell else _plain(plan.words[0].text),
            "command": Raw(plan.identity.command),
            "command_end": Raw(_end_of(plan.identity.command)),
            "checks_program": not plan.container and plan.words[-2:-1] != (TASK_WRAPPER,),
            "looks_for_files": any(variable.found for variable in plan.environment.variables),
            "names_variables": any("hpcdist_exports" in word.text for word in plan.words),
            "needs_peers": any(
                item.template and item.template.peers for item in plan.environment.task_variables
            ),
            "tells_failure": plan.launch.mode == "tasks" or plan.completion.elastic,
            "has_processes": any(row.processes > 1 for row in plan.placement.rows),
            "resets_threads": scheduler.sets_threads
            and not any(item.name == "OMP_NUM_THREADS" for item in plan.environment.variables),
            "gpu_hook": scheduler.gpu_hook,
            "has_gpus": any(group.gpus for group in plan.placement.groups),
            "moves_gpus": devices.moved(plan),
            "untold_gpus": devices.untold(plan),
            "hides_gpus": devices.hidden(plan),
            "uneven_groups": [
                (number, group.node + 1, group.node + group.nodes)
                for number, group in enumerate(plan.placement.groups)
                if not group.even
            ],
            "hostfile_line": plan.launch.hostfile_line + "\\n",
            "exported_names": Raw(" ".join(self.exported_names())),
            "launch_line": self.launch_line(),
            "launch_origins": self.launch_origins(),
            "gpu_devices": Raw(_DEVICES[plan.gpus.variable]),
            "summary": summary(plan),
        }

    def header(self, run_dir: str | None) -> list[Raw]:
        """Return the scheduler's directives, with their origins above them where asked."""
        lines = []
        for text, origin in schedulers.get(self.plan.identity.scheduler).header(self.plan, run_dir):
            lines += [Raw(f"# {_one_line(origin)}")] if self.annotate else []
            lines.append(Raw(text))
        return lines

    def annotated(self, word: Word) -> Raw:
        comment = f"  # {_one_line(word.origin)}" if self.annotate else ""
        return Raw(f"{word.text}{comment}")

    def exported(self, variable: Variable) -> Raw:
        """Return an export; an expression is for bash to expand, anything else is one quoted word."""
        if not VARIABLE_NAME.fullmatch(variable.name):
            raise ValueError(f"{variable.name!r} is not a valid variable name")
        value = f'"{variable.value}"' if variable.shell else _on_few_lines(variable.value)
        comment = f"  # {_one_line(variable.origin)}" if self.annotate and "\n" not in variable.value else ""
        only = f"[[ $HPCDIST_ROLE != {_plain(variable.role)} ]] || " if variable.role else ""
        if variable.found:
            only = f'! found "{variable.found}" || '
        if variable.otherwise is not None:
            otherwise = quote(variable.otherwise)
            return Raw(
                f'if found "{variable.found}"; then export {variable.name}={value}; '
                f"else export {variable.name}={otherwise}; fi{comment}"
            )
        return Raw(f"{only}export {variable.name}={value}{comment}")

    def address(self, host: str) -> Raw:
        """Return the name by which other nodes reach a host that bash knows by this variable."""
        suffix = self.plan.rendezvous.suffix
        return Raw(f"${{{host}%%.*}}{_plain(suffix)}" if suffix else f"${{{host}}}")

    def exported_names(self) -> list[str]:
        own = ["RUN_DIR", "JOB_DIR", "JOB_ID", "OUTPUTS", "HOSTFILE", "HEAD_ADDRESS", "PORT", "FAILURE"]
        own += ["ENDED"] if self.plan.completion.required_roles else []
        return [f"HPCDIST_{name}" for name in own] + [
            variable.name for variable in self.plan.environment.variables
        ]

    def launch_origins(self) -> list[Raw]:
        """Return a line for each origin of the launch line, with the words that come from there."""
        return [
            Raw(f"{_one_line(' '.join(word.text for word in words))}: {_one_line(origin)}")
            for origin, words in groupby(self.plan.words, key=lambda word: word.origin)
        ]

    def launch_line(self) -> Raw:
        """Return the launch line, broken before the task wrapper and before the user's own command.

        A first word that is shell already is a function of the script, which cannot be ``exec``'d.
        """
        words = self.plan.words
        inside = f"container {self.plan.container.runtime}" if self.plan.container else None
        text = "" if words[0].shell else "exec"
        before = None
        for word in words:
            piece = Raw(word.text) if word.shell else quote(word.text)
            starts = (word.shell and word.origin == "task wrapper") or word is words[-1]
            starts |= before == "task wrapper" and word.origin == inside
            before = word.origin
            text += f" \\\n    {piece}" if text and starts else f" {piece}" if text else piece
        return Raw(text)


def _end_of(text: str) -> str:
    """Return a word that ends a here-document, and is no line of this text."""
    lines = text.split("\n")
    return next(end for number in count() if (end := f"COMMAND{number or ''}") not in lines)


def _on_few_lines(value: str) -> Raw:
    """Return a value as one word without empty lines, which may not reach the job (see `_empty_line`)."""
    word = quote(value)
    return Raw(word.replace("\n", "'$'\\n''")) if "\n\n" in value else word


def _one_line(text: str) -> str:
    return " ".join(text.split())


def summary(plan: Plan) -> str:
    """Return in a few words what runs where: ``8 tasks on 2 nodes, 8 GPUs``."""
    placement = plan.placement
    gpus = sum(row.nodes * row.tasks_per_node * row.gpus // row.tasks_per_gpu for row in placement.rows)
    tasks, nodes = placement.size, placement.nodes
    launcher = "the command" if plan.launch.by_user else plan.launch.launcher
    text = f"{tasks} task{'s' * (tasks != 1)} by {launcher}, {nodes} node{'s' * (nodes != 1)}"
    return f"{text}, {gpus} GPU{'s' * (gpus != 1)}" if gpus else text
