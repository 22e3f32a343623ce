"""Tables of the pages that are made of click, of the code and of plans are what those have today."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from click.testing import CliRunner

import hpcdist
from hpcdist import cli
from hpcdist.base.errors import EXIT_CODES, ExitCode
from hpcdist.layers.frameworks import frameworks
from tests.docs.pages import CHECKOUT, DOCS, keeps_table, table

SOURCES = Path(hpcdist.__file__).parent
INTERNAL = {
    "HPCDIST_COMPLETE",  # click's own, for `completion`
    "HPCDIST_ENDED",
    "HPCDIST_FAILURE",
    "HPCDIST_HOSTS",
    "HPCDIST_JOB_NODES",
    "HPCDIST_KILL",
    "HPCDIST_PASS_ON",
    "HPCDIST_PEERS",
    "HPCDIST_PROCESSES",
    "HPCDIST_PROGRAM",
    "HPCDIST_START",
    "HPCDIST_START_RANK",
    "HPCDIST_START_SIZE",
    "HPCDIST_SUPERVISED",
    "HPCDIST_THREADS",
    "HPCDIST_TOKEN",
    "HPCDIST_VARIABLES",
    "HPCDIST_WORKERS",
}
"""Variables by which parts of hpcdist and its scripts find each other; nobody else is to use them."""


def test_exit_codes() -> None:
    rows = [(f"{code:d}", EXIT_CODES[code]) for code in ExitCode]
    keeps_table("exit codes", f"\n{table(('exit code', 'meaning'), rows)}\n")


def test_every_extra_of_users_is_on_the_page() -> None:
    """Those of developers are installed by `make`."""
    section = (CHECKOUT / "pyproject.toml").read_text().partition("[project.optional-dependencies]\n")[2]
    extras = re.findall(r"^(\w+) = ", section.partition("\n[")[0], re.MULTILINE)
    listed = re.findall(r"^\| `(\w+)` \|", (DOCS / "how-to" / "install.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted({*extras} - {"docs", "test"})


def test_scripts_end_with_these_codes() -> None:
    templates = "".join(
        file.read_text() for file in (CHECKOUT / "templates").rglob("*") if file.suffix in {".j2", ".sh"}
    )
    started = 186  # of what starts the task wrapper; the script makes 86 of it
    codes = {int(code) for code in re.findall(r"\bexit (\d+)\b", templates)}
    assert codes - {started} <= {*ExitCode}


def test_rooms() -> None:
    rooms = re.findall(r"^    (\S+(?: \S+)*)    (\S.*)$", hpcdist.__doc__ or "", re.MULTILINE)
    rows = [(", ".join(f"`{name}`" for name in names.split()), what) for names, what in rooms]
    keeps_table("rooms", f"\n{table(('package', 'purpose'), rows)}\n")


def test_verbs() -> None:
    found = [*commands(click.Context(cli.main, info_name="hpcdist"), cli.main)]
    counts = Counter(record for context in found for record in options(context))
    shared = {record: record[0].partition(" ")[0] for record, count in counts.items() if count >= 5}
    rows = sorted((f"`{name}`", meaning) for name, meaning in shared)
    common = f"## Options of several verbs\n\n{table(('option', 'meaning'), rows)}"
    every = (section(context, shared) for context in found)
    keeps_table("verbs", "\n" + "\n".join([common, *every]) + "\n")


def commands(above: click.Context, group: click.Group) -> Iterator[click.Context]:
    """Yield the verbs of a group that can be called, each before those below it."""
    for name in cli.VERBS if group is cli.main else sorted(group.commands):
        command = group.get_command(above, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=above)
        if isinstance(command, click.Group):
            yield from commands(context, command)
            if not command.invoke_without_command:
                continue
        yield context


def options(context: click.Context) -> Iterator[tuple[str, str]]:
    """Yield the options of a verb with their meanings."""
    found = (
        each.get_help_record(context) for each in context.command.params if isinstance(each, click.Option)
    )
    return filter(None, found)


def section(context: click.Context, shared: Mapping[tuple[str, str], str]) -> str:
    """Return what the page has of a verb; ``shared`` has the names of options that stand above all."""
    usage = " ".join(context.command.collect_usage_pieces(context))
    text = "\n".join(line.strip() for line in (context.command.help or "").splitlines())
    records = [*options(context)]
    rows = [(f"`{name}`", meaning) for name, meaning in records if (name, meaning) not in shared]
    shown = table(("option", "meaning"), rows) if rows else ""
    names = [f"`{shared[record].rstrip(',')}`" for record in records if record in shared]
    also = f"\nAlso {', '.join(names)}.\n" if names else ""
    title = context.command_path.removeprefix("hpcdist ")
    return f"## {title}\n\n`{context.command_path} {usage}`\n\n{text}\n\n{shown}{also}"


def test_variables_of_frameworks(tmp_path: Path) -> None:
    rows = [(f"`{name}`", *named_variables(name, tmp_path / "exp.yml")) for name in frameworks.names()]
    heads = ("framework", "the same for all tasks", "of each task")
    keeps_table("framework variables", f"\n{table(heads, rows)}\n")


def named_variables(framework: str, file: Path) -> tuple[str, str]:
    """Return the variables that a framework sets for a master and a worker: shared, and of each task."""
    servers = {"n_ps": 1} if "ps" in frameworks.get(framework).roles else {}
    environment = {"replicas": {"n_workers": 1} | servers}
    data = {"framework": framework, "environment": environment, "run": {"cmd": "python train.py"}}
    file.write_text(json.dumps(data))
    done = CliRunner().invoke(cli.main, ["explain", str(file), "--site", "slurm", "--json"])
    assert done.exit_code == 0, done.output
    found = [each for each in json.loads(done.stdout) if each["origin"].startswith(f"framework {framework}")]
    shared, own = (
        dict.fromkeys(each["what"].partition("=")[0] for each in found if each["section"] == section)
        for section in ("variables", "variables of each task")
    )
    return ", ".join(f"`{name}`" for name in shared), ", ".join(f"`{name}`" for name in own)


def test_the_page_has_every_variable_of_hpcdist() -> None:
    page = (DOCS / "reference/variables.md").read_text()
    code = {name for file in SOURCES.rglob("*.py") for name in _named_in(ast.parse(file.read_text()))}
    files = [file for kind in ("j2", "sh") for file in (CHECKOUT / "templates").rglob(f"*.{kind}")]
    templates = "".join(file.read_text() for file in files)
    exported = {name for line in re.findall(r"export (.*)", templates) for name in _NAME.findall(line)}
    supervisor = (CHECKOUT / "templates/runtime/supervisor").glob("*.py")
    exported |= {name for file in supervisor for name in _NAME.findall(file.read_text())}
    assert {*_NAME.findall(page)} == (code | exported) - INTERNAL


_NAME = re.compile(r"\bHPCDIST_[A-Z_]*[A-Z]\b")


def _named_in(tree: ast.Module) -> Iterator[str]:
    """Yield the variables that are whole texts in the code."""
    constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    yield from (text for text in constants if isinstance(text, str) and _NAME.fullmatch(text))
