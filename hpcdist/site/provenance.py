"""Provenance: which source a value of a site file comes from.

A source names keys (``of``), each with all keys below it; the source that names the longest key applies.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Final

from hpcdist.base.errors import Problem
from hpcdist.site.model import Site, Source
from hpcdist.site.published import Published

NEED_NO_SOURCE: Final = frozenset(
    (
        "name", "description", "status", "scheduler", "sources", "notes", "published", "unpublished",
        "fabric.known", "measured",
    )
)  # fmt: skip
"""Keys that need no source, because hpcdist itself defines them."""


_OWN_DAY: Final = re.compile(r"\((\d{4}-\d{2}-\d{2})\b")
"""The day of a page, a commit or a copy, in its address."""


def source_of(site: Site, key: str) -> Source | None:
    """Return the source of a key of the site's file; of several that name the same key, the first applies."""
    found = [(len(name), -number) for number, source in enumerate(site.sources) for name in source.of
             if _covers(name, key)]  # fmt: skip
    return site.sources[-max(found)[1]] if found else None


def keys_without_source(site: Site, data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of a site's file, as it was read, that have no source."""
    named = [name for source in site.sources for name in source.of]
    for key in keys(data):
        if not any(_covers(name, key) for name in (*NEED_NO_SOURCE, *named)):
            yield key


def missing_keys(site: Site, data: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the keys that a source names and that the file does not have."""
    existing = list(keys(data))
    for index, source in enumerate(site.sources):
        for at, name in enumerate(source.of):
            if not any(_covers(name, key) for key in existing):
                path = ("sources", index, "of", at)
                yield Problem(f"this file has no key {name!r}", path, "correct it, or remove it")


def read_on(source: Source | Published) -> date | None:
    """Return the day on which a page was read, the first of the month if it has none; None if no date."""
    return _day(source.read if source.read.count("-") > 1 else f"{source.read}-01")


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def as_of(source: Source | Published) -> date | None:
    """Return the day of which a page says what is so: that on which it was read, or its own, if older."""
    read = read_on(source)
    own = map(_day, _OWN_DAY.findall(source.where))
    return read and min((read, *filter(None, own)))


def read_before(site: Site, day: date) -> Iterator[Source | Published]:
    """Yield the sources and examples as of a time before a day, or read at a time that is no date."""
    pages: tuple[Source | Published, ...] = (*site.sources, *site.published)
    return (page for page in pages if (read := as_of(page)) is None or read < day)


def read_after(site: Site, day: date) -> Iterator[Problem]:
    """Yield a problem for each page that would have been read after a day, that of today."""
    lists: dict[str, Sequence[Source | Published]] = {"sources": site.sources, "published": site.published}
    for key, pages in lists.items():
        for index, page in enumerate(pages):
            if (read := read_on(page)) and read > day:
                yield Problem(
                    f"{page.read} is in the future", (key, index, "read"), "write the day of reading"
                )


def months_before(day: date, months: int) -> date:
    """Return the day so many calendar months earlier, the last of the month where it has no such day."""
    year, month = divmod(day.year * 12 + day.month - 1 - months, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return date(year, month + 1, min(day.day, last))


def keys(data: Any, above: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the dotted key of every value, with numbers for the items of lists of sections."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from keys(value, (*above, str(key)))
    elif isinstance(data, Sequence) and any(isinstance(item, Mapping) for item in data):
        for index, item in enumerate(data):
            yield from keys(item, (*above, str(index)))
    else:
        yield ".".join(above)


def _covers(name: str, key: str) -> bool:
    return key == name or key.startswith(f"{name}.")
