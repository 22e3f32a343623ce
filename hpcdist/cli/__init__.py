"""The command line: one short module a verb, imported when that verb is used.

session options    what the verbs share: experiment + site become a plan
show tell completion       results to stdout; problems, as sentences, to stderr; words for TAB
experiment jobs site       the verbs
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from hpcdist import __version__
from hpcdist.cli.tell import sentences
from hpcdist.errors import did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Verb(NamedTuple):
    """A verb: its module in this package, and the first line of its help."""

    module: str
    text: str


VERBS = {
    "init": Verb("experiment.init", "Write a first experiment for this machine."),
    "submit": Verb("jobs.submit", "Submit an experiment as a batch job."),
    "render": Verb("experiment.render", "Print the job script."),
    "plan": Verb("experiment.plan", "Draw which task runs where, and what it is told."),
    "explain": Verb("experiment.explain", "Tell where every value of the script comes from."),
    "check": Verb("experiment.check", "Tell everything that is wrong with an experiment."),
    "import": Verb("experiment.import_", "Write the experiment that a job file of another tool asks for."),
    "doctor": Verb("site.doctor", "Tell what could keep jobs from running well here."),
    "lint-env": Verb("site.lint_env", "Tell what NCCL and MPI do with this shell's variables."),
    "list": Verb("jobs.list", "List the runs, without asking the batch system."),
    "status": Verb("jobs.status", "Tell the state of jobs."),
    "describe": Verb("jobs.describe", "Tell everything about one job."),
    "logs": Verb("jobs.logs", "Print what a job wrote."),
    "cancel": Verb("jobs.cancel", "End jobs."),
    "wait": Verb("jobs.wait", "Wait until jobs are over; exit with their exit code."),
    "sites": Verb("site.sites", "List, show, detect, check and begin sites."),
    "schema": Verb("experiment.schema", "Print what a file may say, as JSON Schema for editors."),
    "completion": Verb("completion", "Print what makes TAB complete hpcdist's words in a shell."),
}


class Verbs(click.Group):
    """A group that knows its verbs without importing them, and tells what goes wrong in sentences."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of their use."""
        del ctx
        return [*VERBS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a verb."""
        if cmd_name not in VERBS:
            if ctx.resilient_parsing:  # somebody types, and asks what could follow
                return None
            ctx.fail(f"there is no verb {cmd_name!r}; {did_you_mean(cmd_name, VERBS)}")
        command: click.Command = importlib.import_module(f"hpcdist.cli.{VERBS[cmd_name].module}").command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Return the verbs that begin so, or the options."""
        from click.shell_completion import CompletionItem

        offered = [
            CompletionItem(name, help=verb.text)
            for name, verb in VERBS.items()
            if name.startswith(incomplete)
        ]
        return [*offered, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs into the help."""
        del ctx
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.text) for name, verb in VERBS.items()])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line; `--help` and `--version` print before any verb is there to be run."""
        try:
            with sentences(debug=False):
                return super().main(*args, **kwargs)
        except click.exceptions.Exit as end:
            sys.exit(end.exit_code)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb."""
        gc.set_threshold(100_000)  # most verbs end before there is garbage worth a search
        with sentences(debug=ctx.params["debug"]):
            return super().invoke(ctx)


@click.group(
    cls=Verbs,
    name="hpcdist",
    subcommand_metavar="VERB ...",
    context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="hpcdist")
@click.option("--debug", is_flag=True, envvar="HPCDIST_DEBUG", help="Show where in hpcdist an error arose.")
def main(debug: bool) -> None:
    """Make a batch job of one experiment file, on any supercomputer."""
    del debug  # `Verbs.invoke` takes it


def program() -> NoReturn:
    """Run the command line as a process of its own, and end it at once.

    Python would clear up for a tenth of a second, in which a `submit` that has printed its job's id could
    still be killed: whoever repeats it until it succeeds would have a second job.
    """
    code = 0
    try:
        main(prog_name="hpcdist")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    os._exit(code)
