"""The command line: one short module per verb, imported when that verb is run.

session options    shared by verbs: options, and making plans
costs    what these cost, and what is left
show messages completion    results on stdout, times and sizes; messages on stderr; shell completion
ci_formats    problems for CI systems
experiment jobs site    the verbs
"""

from __future__ import annotations

import gc
import importlib
import itertools
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from hpcdist import __version__
from hpcdist.base.errors import did_you_mean
from hpcdist.cli.messages import error_boundary

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Verb(NamedTuple):
    """The module of a verb in this package, the first line of its help, and the group there.

    The verb is the module's ``command``, or has its name behind a colon.
    """

    module: str
    text: str
    group: str


VERBS = {
    "init": Verb("experiment.init", "Write a first experiment file for this machine.", "Write"),
    "import": Verb("experiment.import_", "Convert a job script or a job file into an experiment.", "Write"),
    "check": Verb("experiment.check", "Check an experiment for problems.", "Write"),
    "plan": Verb("experiment.plan", "Show which tasks run on which nodes, and why.", "Write"),
    "render": Verb("experiment.render", "Print the job script.", "Write"),
    "submit": Verb("jobs.submit", "Submit an experiment as a batch job.", "Run"),
    "shell": Verb("jobs.shell", "Open a shell on the first node of an allocation.", "Run"),
    "rehearse": Verb("jobs.rehearse", "End a small run on purpose, and check that it resumes.", "Run"),
    "scale": Verb("jobs.scale", "Run an experiment on several numbers of nodes, and report on it.", "Run"),
    "resume": Verb("jobs.resume", "Resume a run that ended before its training was finished.", "Run"),
    "restart": Verb("jobs.restart", "Submit the experiment of a run again, as a new run.", "Run"),
    "cancel": Verb("jobs.cancel", "Cancel jobs.", "Run"),
    "status": Verb("jobs.status", "Show the state of jobs.", "Watch"),
    "describe": Verb("jobs.describe", "Show the details of a job.", "Watch"),
    "logs": Verb("jobs.logs", "Print the output of a job.", "Watch"),
    "wait": Verb("jobs.wait", "Wait for jobs to end, and exit with their exit code.", "Watch"),
    "exec": Verb("jobs.exec_", "Run a command on a node of a running job.", "Watch"),
    "debug": Verb("jobs.debug", "Show where the ranks of a running job are.", "Watch"),
    "metrics": Verb("jobs.metrics", "Show the metrics of a run.", "Compare"),
    "compare": Verb("jobs.compare", "Compare the params and last metrics of runs.", "Compare"),
    "sweep": Verb("jobs.sweep", "Show a search and its best trials; stop it, or add trials.", "Compare"),
    "report": Verb("jobs.report", "Write a page about runs, for a browser.", "Compare"),
    "outputs": Verb("jobs.outputs", "List the files of a run's outputs, with the recorded hashes.", "Keep"),
    "export": Verb("jobs.export", "Hand on runs: MLflow, TensorBoard, CSV, or an archive.", "Keep"),
    "rm": Verb("jobs.rm", "Remove runs whose jobs have ended.", "Keep"),
    "doctor": Verb("site.doctor", "Check this machine for problems.", "Machine"),
    "sites": Verb("site.sites", "List, show, detect, check and create site files.", "Machine"),
    "explain": Verb("experiment.plan:explain", "The same as plan --explain.", ""),
    "schema": Verb("experiment.schema", "Print the JSON Schema of a file format, for editors.", ""),
    "completion": Verb("completion", "Print the completion script for a shell.", ""),
}
"""The verbs in the order of the help, which lists those without a group nowhere."""

RENAMED = {
    "list": "status --offline",
    "models": "outputs --models",
    "prune": "rm --older TIME",
    "copy": "restart --copy",
    "lint-env": "doctor --env",
    "nodes": "doctor --nodes",
}
"""Verbs that another one has taken in."""


class Verbs(click.Group):
    """The group of all verbs, each imported only when it is run; errors are printed as messages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order in which help lists them."""
        del ctx
        return [*VERBS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a verb."""
        if cmd_name not in VERBS:
            if ctx.resilient_parsing:  # shell completion of a half-typed line
                return None
            found = RENAMED.get(cmd_name)
            hint = f"use `hpcdist {found}`" if found else did_you_mean(cmd_name, VERBS)
            ctx.fail(f"there is no verb {cmd_name!r}; {hint}")
        module, _, name = VERBS[cmd_name].module.partition(":")
        command: click.Command = getattr(importlib.import_module(f"hpcdist.cli.{module}"), name or "command")
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the verbs and options that begin with ``incomplete``."""
        from click.shell_completion import CompletionItem

        verbs = [
            CompletionItem(name, help=verb.text)
            for name, verb in VERBS.items()
            if verb.group and name.startswith(incomplete)
        ]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the groups of verbs into the help."""
        del ctx
        shown = ((name, verb) for name, verb in VERBS.items() if verb.group)
        for group, verbs in itertools.groupby(shown, lambda item: item[1].group):
            with formatter.section(group):
                formatter.write_dl([(name, verb.text) for name, verb in verbs])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line; the boundary also covers `--help` and `--version`, which run no verb."""
        try:
            with error_boundary(debug=False):
                return super().main(*args, **kwargs)
        except click.exceptions.Exit as end:
            sys.exit(end.exit_code)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb."""
        gc.set_threshold(100_000)  # most verbs end before a collection would pay
        with error_boundary(debug=ctx.params["debug"]):
            return super().invoke(ctx)


@click.group(
    cls=Verbs,
    name="hpcdist",
    subcommand_metavar="VERB ...",
    context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="hpcdist")
@click.option("--debug", is_flag=True, envvar="HPCDIST_DEBUG", help="Print the Python traceback of errors.")
def main(debug: bool) -> None:
    """Run one experiment file as a batch job on any supercomputer."""
    del debug  # read by `Verbs.invoke`


def program() -> NoReturn:
    """Run the command line, then exit at once, without Python's clean-up.

    That takes a tenth of a second, in which a `submit` that has already printed its job id could be killed:
    a caller that repeats it until it succeeds would submit a second job.
    """
    code = 0
    try:
        main(prog_name="hpcdist")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    os._exit(code)
