"""``hpcdist schema``: the JSON Schema of a file format, for editors."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click
import msgspec

from hpcdist.cli.experiment.new_file import overwrite
from hpcdist.loading.schema import MODELS, schema


@click.command("schema")
@click.argument("kind", metavar="|".join(MODELS), type=click.Choice(list(MODELS)))
@click.option("-o", "--output", metavar="FILE", help="Write to this file.")
def command(kind: Literal["site", "experiment", "config"], output: str | None) -> None:
    """Print the JSON Schema of a file format, for editors.

    To use it, begin the YAML file with the line `# yaml-language-server: $schema=FILE`.
    """
    text = msgspec.json.format(msgspec.json.encode(schema(kind)), indent=2).decode() + "\n"
    if output:
        overwrite(Path(output), text.encode())
    else:
        click.echo(text, nl=False)
