"""The page on published examples has a table of each, made from the site files and our scripts of today."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from hpcdist.site.published import Published
from tests.docs.pages import keeps_table, table
from tests.published import FOLDER, NO_MACHINE, Line, examples_of, lines, uncompared
from tests.sites import SHIPPED, shipped_site

HEADS = ("setting", "theirs", "ours", "same, or why not")
SITES = tuple(site for site in map(shipped_site, SHIPPED) if site.published)


@cache
def compared() -> dict[str, list[tuple[Published, list[Line]]]]:
    """Return the settings of each example, by the name of its site."""
    return {site.name: [(entry, lines(site, entry)) for entry in site.published] for site in SITES}


def counts(found: list[Line]) -> tuple[str, str, str]:
    """Return the number of settings, of those that are the same, and of those that have a reason."""
    same = sum(line.same for line in found)
    return str(len(found)), str(same), str(len(found) - same)


def totals() -> str:
    """Return the counts of each site, and of all of them."""
    of_sites = {name: [line for _, found in each for line in found] for name, each in compared().items()}
    rows = [(f"[`{name}`](#{name})", *counts(found)) for name, found in of_sites.items()]
    everything = [line for found in of_sites.values() for line in found]
    heads = ("site", "settings", "ours are the same", "ours another way, with a reason")
    return table(heads, [*rows, (f"all {len(rows)}", *counts(everything))])


def sections() -> Iterator[str]:
    for name, examples in compared().items():
        yield f"## {name}\n"
        for entry, found in examples:
            yield f"{title(entry)}\n\n{table(HEADS, map(row, found))}"


def title(entry: Published) -> str:
    launch = f", `launch: {entry.launch}`" if entry.launch else ""
    return f"`{entry.example}`{launch}: {entry.where}, read {entry.read}"


def row(line: Line) -> tuple[str, str, str, str]:
    ours = ", ".join(f"`{each}`" for each in line.ours)
    same = f"same, {line.condition}" if line.condition else "same"
    return f"`{line.name}`", f"`{line.theirs}`", ours, line.reason or same


def test_each_site_has_a_section() -> None:
    keeps_table("published examples", "\n" + "\n".join(sections()) + "\n")


def test_the_counts_of_all_sites() -> None:
    keeps_table("counts of published examples", f"\n{totals()}\n")


def test_what_is_not_compared() -> None:
    machines = [site for site in map(shipped_site, SHIPPED) if site.name not in NO_MACHINE]
    reasons = [(site.name, uncompared(site)) for site in machines]
    rows = [
        (f"`{name}`", ", ".join(f"`{example}`" for example in found if found[example] == reason), reason)
        for name, found in reasons
        for reason in dict.fromkeys(found.values())
    ]
    pairs = sum(len(examples_of(site)) for site in machines)
    left = sum(len(found) for _, found in reasons)
    text = (
        f"Of {pairs} pairs of a machine and an experiment that it can run, {pairs - left} are compared.\n\n"
    )
    keeps_table("examples that are not compared", f"\n{text}{table(('site', 'experiments', 'why'), rows)}\n")


def test_the_experiments() -> None:
    shown = (
        f"```yaml\n{(FOLDER / f'{name}.yml').read_text()}```\n" for name in ("horovod", "pytorch", "mpi")
    )
    keeps_table("experiments of published examples", "\n" + "\n".join(shown) + "\n")
