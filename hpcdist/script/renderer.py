"""The renderer: writes a plan as a job script; every value is quoted unless it is shell code.

A script is blocks, each of a template ``templates/job/NAME.sh.j2``; one that the plan does not need is empty,
and left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import jinja2
import msgspec
from msgspec.structs import replace

from hpcdist.errors import RenderError
from hpcdist.host.resources import template_folders
from hpcdist.plan.model import Plan
from hpcdist.script import runtime
from hpcdist.script.bytecode import kept
from hpcdist.script.lines import header
from hpcdist.script.plain import PlainJob
from hpcdist.words import Raw, quote

BLOCKS: Final = (
    "head", "enter", "setup", "variables", "nodes", "container", "files", "task", "launcher", "launch",
)  # fmt: skip
"""The templates of a script, in their order."""

_SETUP: Final = ("steps", "enter", "setup", "variables", "nodes")
"""Those whose lines set the variables of all tasks."""


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

    ``own``: how it calls them, as a run may have several jobs.

    Raises:
        RenderError: as `render`.
    """
    stored = msgspec.json.format(msgspec.json.encode(plan), indent=2).decode()
    found = {own("plan.json"): f"{stored}\n", own("job.sh"): render(plan, run_dir=run_dir)}
    if plan.steps:
        found[own("setup.sh")] = render_setup(plan)
    return {**found, own("job.sum"): runtime.listed(found)}


def render_setup(plan: Plan) -> str:
    """Write the lines that set the variables of all tasks, for the steps beside the program.

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
    if plan.identity.framework == "ray":  # whose other nodes end with the first one
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
