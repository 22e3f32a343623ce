"""The renderer: writes a plan as a script of two parts; every value is quoted unless it is shell code.

The first part is the job's own, made by a template; the second is the runtime, the same in every job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Final

import jinja2

from hpcdist import __version__
from hpcdist.errors import RenderError
from hpcdist.host.resources import template_folders
from hpcdist.plan.model import Plan
from hpcdist.script import settings
from hpcdist.script.bytecode import kept
from hpcdist.script.lines import Lines, on_few_lines, only_comments
from hpcdist.words import Raw, quote

RUNTIME: Final = (
    "main", "shell", "allocation", "begin", "logs", "trials", "pack", "files", "setup", "batch_systems",
    "launchers", "elastic", "steps", "run", "restarts", "rehearsal", "progress", "clock", "bad_nodes",
    "queue", "task", "gpu_usage", "node_faults",
)  # fmt: skip
"""The pieces of the runtime, ``templates/runtime/NAME.sh``, in their order."""

MODULES: Final = (
    "hpcdist_tracking",
    "hpcdist_pruning",
    "polyaxon_client",
    "azureml",
    "gradient_utils",
    "hpcdist_ray",
    "hpcdist_service",
)
"""What programs of jobs may import beside their own: ``templates/python/NAME.py``."""

_END: Final = (
    "main",
    'eval "$hpcdist_setup"',
    "hpcdist_finish_main",
    "",
)
"""What is called at last; the lines of setup in no function, as what they declare would be local to it."""


def render(
    plan: Plan, *, run_dir: str | None = None, annotate: bool = False, folders: Iterable[Path] | None = None
) -> str:
    """Write the plan as a script, which is complete in itself.

    ``run_dir`` is the absolute path of the run directory; without one the script makes its own where it is
    submitted. ``annotate`` adds each line's origin as a comment.

    Raises:
        RenderError: when a template uses a value that the plan does not have.
    """
    places = tuple(folders or template_folders())
    return f"{render_job(plan, run_dir=run_dir, annotate=annotate, folders=places)}\n{runtime(places)}"


def render_job(
    plan: Plan, *, run_dir: str | None = None, annotate: bool = False, folders: Iterable[Path] | None = None
) -> str:
    """Write the first part of the script, the job's own; without the runtime it runs nothing.

    Raises:
        RenderError: as `render`.
    """
    templates = environment(tuple(folders or template_folders()))
    name = f"{plan.identity.scheduler}.sh.j2"
    try:
        context = _context(plan, run_dir, annotate=annotate)
        template = templates.select_template((name, "job.sh.j2"))
        name = str(template.name)
        return template.render(context)
    except (jinja2.TemplateError, ValueError) as error:
        raise RenderError(f"template {name}: {error}") from error


def runtime(folders: Iterable[Path]) -> str:
    """Return the second part of the script, each piece from the first of these folders that has it.

    Raises:
        RenderError: when none has.
    """
    places = tuple(folders)
    head = f"# --- The runtime of hpcdist {__version__}: the same in every job, with nothing of this one\n"
    pieces = (_shipped(f"runtime/{name}.sh", places) for name in RUNTIME)
    return "\n".join((head, *pieces, *_modules(places), *_END))


def _modules(folders: Sequence[Path]) -> Iterator[str]:
    """Yield the function that writes the modules of Python which programs of jobs may import."""
    yield "# --- Modules for programs in Python, each one word: bash reads a here-document byte by byte\n"
    yield "hpcdist_write_modules() {"
    for name in MODULES:
        yield f"  hpcdist_write_module {name}.py {quote(_shipped(f'python/{name}.py', folders))}"
    yield "}"


def _shipped(name: str, folders: Iterable[Path]) -> str:
    for folder in folders:
        file = folder / name
        if file.exists():
            return file.read_text(encoding="utf-8")
    raise RenderError(f"there is no template {name}")


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


def _context(plan: Plan, run_dir: str | None, *, annotate: bool) -> dict[str, Any]:
    """Return what templates may use: the plan, and its parts as lines of shell."""
    lines = Lines(plan, annotate=annotate)
    command = plan.identity.command
    return {
        "plan": plan,
        "version": Raw(__version__),
        "raw": Raw,
        "header": lines.header(run_dir),
        "settings": [*settings.entries(plan, run_dir)],
        "tasks": [*settings.table(plan)],
        "steps": lines.steps(),
        "command": on_few_lines(command) if plan.launch.components else Raw(command),
        "command_end": Raw(end_of(command)),
        "annotate": annotate,
        "annotated": lines.annotated,
        "exported": lines.exported,
        "only_comments": only_comments,
        "launch_line": lines.launch_line(),
        "trial_line": lines.trial_line(),
        "shell_line": lines.shell_line(),
        "launch_origins": lines.launch_origins(),
    }


def end_of(text: str) -> str:
    """Return a here-document delimiter that is no line of this text."""
    lines = text.split("\n")
    return next(end for number in count() if (end := f"COMMAND{number or ''}") not in lines)


def _finalized(value: object) -> Raw:
    if value is None:
        raise ValueError("a value is None; the plan left it undecided")
    return quote(value)
