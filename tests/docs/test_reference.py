"""The reference is what the models and the schedulers say today."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import pytest

from hpcdist.experiment.batch import Batch
from hpcdist.experiment.model import Experiment
from hpcdist.layers.frameworks import frameworks
from hpcdist.layers.launchers import launchers
from hpcdist.loading.inputs import Input
from hpcdist.loading.preferences import Config
from hpcdist.site.model import Site
from tests.docs.honours import SCHEDULERS, asked, exceptions, supported_by
from tests.docs.keys import Entry, Reference
from tests.docs.pages import keeps_table, table
from tests.docs.site_keys import changed_by

ANSWERS = tuple(asked())
LAUNCHERS = {name: launchers.get(name) for name in launchers.names()}


def experiment() -> Iterator[Entry]:
    """Yield the keys of an experiment, of its inputs, and of the sections that frameworks have."""
    reference = Reference()
    yield from reference.entries(Experiment)
    yield from reference.entries(Input, ("inputs[]",))
    for name in frameworks.names():
        if below := [*reference.entries(frameworks.get(name).section, (name,))]:
            yield Entry((name,), None, "section", "", f"the keys of `framework: {name}`.")
            yield from below


def site() -> Iterator[Entry]:
    return Reference().entries(Site)


def config() -> Iterator[Entry]:
    """Yield the keys of the config, whose sections of ``batch`` are in the reference of an experiment."""
    reference = Reference()
    for _ in reference.entries(Batch, ("batch",)):
        pass
    return reference.entries(Config)


def passed_to(entry: Entry) -> str:
    """Return the schedulers that tell it their batch systems."""
    return supported_by(entry.path, ANSWERS)


def read_by(entry: Entry) -> str:
    """Return the launchers that declare to read an option, or the batch systems that a key is for.

    Those are asked only of which not all, nor none, make another script of some value.
    """
    section, *below = entry.path
    if section == "launchers":
        return ", ".join(
            name for name, launcher in LAUNCHERS.items() if below and below[1] in launcher.site_options
        )
    if section in SCHEDULERS or section in UNTRIED or "[]" in "".join(below):
        return section if section in SCHEDULERS and not below else ""
    found = changed_by(entry.path, entry.type)
    return ", ".join(found) if len(found) < len(SCHEDULERS) else ""


UNTRIED = frozenset(
    ("name", "description", "status", "scheduler", "launcher", "notes", "published", "sources",
     "detect", "account", "container", "fabric", "head_node", "node_selectors", "torchrun", "volumes",
     "walltime")
)  # fmt: skip
"""The keys and sections that are the same to all batch systems."""


def nobody(entry: Entry) -> str:
    del entry
    return ""


def tables(entries: Iterable[Entry], who: Callable[[Entry], str]) -> str:
    """Return the top-level keys as a table, and the keys below each of them as one more."""
    found = [*entries]
    tops = [entry for entry in found if len(entry.path) == 1]
    below = itertools.groupby((entry for entry in found if len(entry.path) > 1), lambda entry: entry.path[0])
    groups = [("", tops), *((name, [*group]) for name, group in below)]
    return "".join(_section(name, group, who) for name, group in groups)


def _section(name: str, entries: Sequence[Entry], who: Callable[[Entry], str]) -> str:
    names = [who(entry) for entry in entries]
    heads = ["key", "type and unit", "default", *([WHO[who]] if any(names) else []), "meaning"]
    rows = [
        [_key(entry, name), entry.kind, entry.default, *([found] if any(names) else []), entry.meaning]
        for entry, found in zip(entries, names, strict=True)
    ]
    title = f"## `{name}`\n\n" if name else ""
    return f"\n{title}{table(heads, rows)}"


WHO: dict[Callable[[Entry], str], str] = {passed_to: "passed to", read_by: "read by"}


def _key(entry: Entry, section: str) -> str:
    return f"`{'.'.join(entry.path[1:] if section else entry.path)}`"


def refused() -> str:
    return "\n" + table(("scheduler", "keys", "values", "why"), exceptions(ANSWERS))


TABLES: dict[str, Callable[[], str]] = {
    "experiment": lambda: tables(experiment(), passed_to),
    "site": lambda: tables(site(), read_by),
    "config": lambda: tables(config(), nobody),
    "refused keys": refused,
}


@pytest.mark.parametrize("name", TABLES)
def test_the_reference_is_that_of_the_models(name: str) -> None:
    keeps_table(name, f"{TABLES[name]()}\n")


@pytest.mark.parametrize("entries", [experiment, site, config])
def test_every_key_has_a_meaning(entries: Callable[[], Iterator[Entry]]) -> None:
    assert [".".join(entry.path) for entry in entries() if not entry.meaning] == []


def test_every_field_of_the_contract_is_a_key() -> None:
    keys = {".".join(entry.path) for entry in experiment()}
    assert {answer.field for answer in ANSWERS} <= keys
    assert {answer.scheduler for answer in ANSWERS} == {*SCHEDULERS}


def test_a_scheduler_that_refuses_some_values_stands_in_brackets() -> None:
    assert supported_by(("batch", "array"), ANSWERS) == "slurm, (pbs), (lsf), (sge)"
    assert supported_by(("batch", "qos"), ANSWERS) == "slurm"
    assert supported_by(("run", "cmd"), ANSWERS) == ""
