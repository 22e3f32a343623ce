"""``hpcdist completion``: the completion script of a shell, and the completions of options and arguments.

A completion runs while the user types: it prints nothing, and after an error it is empty.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem[str]]"]
"""Click's protocol: return the completions of an option or argument that begin with a text."""

SHELLS: Final = ("bash", "zsh", "fish")


_EPILOG: Final = """\b
Write the script where the shell looks for completions (zsh: a directory of fpath in ~/.zshrc); create the
directory with `mkdir -p` if needed:
  hpcdist completion bash >~/.local/share/bash-completion/completions/hpcdist
  hpcdist completion zsh >~/.zfunc/_hpcdist
  hpcdist completion fish >~/.config/fish/completions/hpcdist.fish
"""


@click.command("completion", epilog=_EPILOG)
@click.argument("shell", metavar="|".join(SHELLS), type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print the completion script for a shell."""
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)(ctx.find_root().command, {}, "hpcdist", "_HPCDIST_COMPLETE")
    click.echo(script.source(), nl=False)


def _paths(kind: Literal["file", "dir"]) -> Completer:
    def complete(ctx: click.Context, param: click.Parameter, begin: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        del ctx, param
        return [CompletionItem(begin, type=kind)]  # the shell completes paths itself

    return complete


files, directories = _paths("file"), _paths("dir")


def _names(names: Callable[[click.Context], Iterable[str]], fallback: Completer | None = None) -> Completer:
    def complete(ctx: click.Context, param: click.Parameter, begin: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        found: list[CompletionItem[str]] = []
        with suppress(Exception):
            found = [CompletionItem(name) for name in names(ctx) if name.startswith(begin)]
        return found if found or not fallback else fallback(ctx, param, begin)

    return complete


def _sites(ctx: click.Context) -> Iterable[str]:
    from hpcdist.base import resources

    return sorted(resources.site_files(resources.site_folders(ctx.params.get("site_path") or ())))


def _runs(ctx: click.Context) -> Iterable[str]:
    from hpcdist.runs import finding, rundir

    runs, _ = finding.list_runs(rundir.choose(ctx.params.get("runs_dir"), os.environ))
    return [run.name for run in reversed(runs)]


def _formats(_: click.Context) -> Iterable[str]:
    from hpcdist import importers

    return importers.registry.names()


sites, runs, formats = _names(_sites, files), _names(_runs, directories), _names(_formats)
