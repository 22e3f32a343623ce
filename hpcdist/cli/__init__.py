"""The command line: one short module per verb, imported when that verb is run.

session options    shared by verbs: options, and making plans
costs    what these cost, and what is left
show messages completion    results on stdout; errors, warnings and notes on stderr; shell completion
experiment jobs site    the verbs
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from hpcdist import __version__
from hpcdist.cli.messages import error_boundary
from hpcdist.errors import did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Verb(NamedTuple):
    """The module of a verb in this package, and the first line of its help."""

    module: str
    text: str


VERBS = {
    "init": Verb("experiment.init", "Write a first experiment file for this machine."),
    "submit": Verb("jobs.submit", "Submit an experiment as a batch job."),
    "shell": Verb("jobs.shell", "Open a shell on the first node of an allocation."),
    "rehearse": Verb("jobs.rehearse", "End a small run on purpose, and check that it resumes."),
    "render": Verb("experiment.render", "Print the job script."),
    "plan": Verb("experiment.plan", "Show which tasks run on which nodes, and their variables."),
    "explain": Verb("experiment.explain", "Show where every value of the job script comes from."),
    "check": Verb("experiment.check", "Check an experiment for problems."),
    "import": Verb("experiment.import_", "Convert a job file of another tool into an experiment."),
    "doctor": Verb("site.doctor", "Check this machine for problems."),
    "nodes": Verb("site.nodes", "List the nodes that failed or were slow in your runs."),
    "lint-env": Verb("site.lint_env", "Check the NCCL and MPI variables of this shell."),
    "list": Verb("jobs.list", "List runs without querying the batch system."),
    "status": Verb("jobs.status", "Show the state of jobs."),
    "describe": Verb("jobs.describe", "Show the details of a job."),
    "logs": Verb("jobs.logs", "Print the output of a job."),
    "exec": Verb("jobs.exec_", "Run a command on a node of a running job."),
    "debug": Verb("jobs.debug", "Show where the ranks of a running job are."),
    "metrics": Verb("jobs.metrics", "Show the metrics of a run."),
    "compare": Verb("jobs.compare", "Compare the params and last metrics of runs."),
    "models": Verb("jobs.models", "List the models that runs recorded, with their metrics."),
    "outputs": Verb("jobs.outputs", "List the files of a run's outputs, with the recorded hashes."),
    "sweep": Verb("jobs.sweep", "Show a search and its best trials; stop, resume or extend it."),
    "scale": Verb("jobs.scale", "Run an experiment on several numbers of nodes, and report on it."),
    "report": Verb("jobs.report", "Write a page about runs, for a browser."),
    "export": Verb("jobs.export", "Hand on runs: MLflow, TensorBoard, CSV, or an archive."),
    "resume": Verb("jobs.resume", "Go on with a run that ended before its training was finished."),
    "restart": Verb("jobs.restart", "Submit the experiment of a run once more, as a new run."),
    "copy": Verb("jobs.copy", "Submit a new run that begins with the outputs of a run."),
    "cancel": Verb("jobs.cancel", "Cancel jobs."),
    "wait": Verb("jobs.wait", "Wait for jobs to end, and exit with their exit code."),
    "rm": Verb("jobs.rm", "Remove runs whose jobs have ended."),
    "prune": Verb("jobs.prune", "Remove all runs that are older than a time."),
    "sites": Verb("site.sites", "List, show, detect, check and create site files."),
    "schema": Verb("experiment.schema", "Print the JSON Schema of a file format, for editors."),
    "completion": Verb("completion", "Print the completion script for a shell."),
}


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
            ctx.fail(f"there is no verb {cmd_name!r}; {did_you_mean(cmd_name, VERBS)}")
        command: click.Command = importlib.import_module(f"hpcdist.cli.{VERBS[cmd_name].module}").command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the verbs and options that begin with ``incomplete``."""
        from click.shell_completion import CompletionItem

        verbs = [
            CompletionItem(name, help=verb.text)
            for name, verb in VERBS.items()
            if name.startswith(incomplete)
        ]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of verbs into the help."""
        del ctx
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.text) for name, verb in VERBS.items()])

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
