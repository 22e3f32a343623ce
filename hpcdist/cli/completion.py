"""``hpcdist completion``: what makes TAB complete words in a shell, and the words that it offers.

What is offered runs while somebody types: it says nothing, and whatever goes wrong is an empty offer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Offer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem[str]]"]
"""What click asks for the values of an option or argument that begin with a text."""

SHELLS: Final = ("bash", "zsh", "fish")


_EPILOG: Final = """\b
Each shell reads it where it looks for such files (zsh where fpath in ~/.zshrc has the folder); the folder
is made by `mkdir -p` where it is not there yet:
  hpcdist completion bash >~/.local/share/bash-completion/completions/hpcdist
  hpcdist completion zsh >~/.zfunc/_hpcdist
  hpcdist completion fish >~/.config/fish/completions/hpcdist.fish
"""


@click.command("completion", epilog=_EPILOG)
@click.argument("shell", metavar="|".join(SHELLS), type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print what makes TAB complete hpcdist's words in a shell."""
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)(ctx.find_root().command, {}, "hpcdist", "_HPCDIST_COMPLETE")
    click.echo(script.source(), nl=False)


def _paths(kind: Literal["file", "dir"]) -> Offer:
    def offer(ctx: click.Context, param: click.Parameter, begin: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        del ctx, param
        return [CompletionItem(begin, type=kind)]  # which the shell itself completes

    return offer


files, folders = _paths("file"), _paths("dir")


def _names(names: Callable[[click.Context], Iterable[str]], otherwise: Offer | None = None) -> Offer:
    def offer(ctx: click.Context, param: click.Parameter, begin: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        found: list[CompletionItem[str]] = []
        with suppress(Exception):
            found = [CompletionItem(name) for name in names(ctx) if name.startswith(begin)]
        return found if found or not otherwise else otherwise(ctx, param, begin)

    return offer


def _sites(ctx: click.Context) -> Iterable[str]:
    from hpcdist.host import resources

    return sorted(resources.site_files(resources.site_folders(ctx.params.get("site_path") or ())))


def _runs(ctx: click.Context) -> Iterable[str]:
    from hpcdist.runs import rundir

    runs, _ = rundir.listing(rundir.choose(ctx.params.get("runs_dir"), os.environ))
    return [run.name for run in reversed(runs)]


def _forms(_: click.Context) -> Iterable[str]:
    from hpcdist import importers

    return importers.registry.names()


sites, runs, forms = _names(_sites, files), _names(_runs, folders), _names(_forms)
