"""What a page is made of, for the modules that fill it and the templates that show it.

A page module in ``pages/`` has functions that take the Source, and what the page's path names, and return a View. Nothing in a view is
markup: templates escape every word, since labels, logs and names of files and backends are anybody's text.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from metalbench.results.layout import Field, Table
from metalbench.results.quantities import Quantity

Value = float | int | str | None


class Entry(NamedTuple):
    """One field of a grid. ``value`` is what it sorts by and what its CSV holds, in plain units; ``href`` a path below the site's root."""

    lines: list[str]
    value: Value
    href: str = ""


class Grid(NamedTuple):
    """A table that sorts, filters and downloads. ``name``: its place in links and the name of its file, one of a kind on the page."""

    name: str
    title: str
    header: list[str]
    rows: list[list[Entry]]


class View(NamedTuple):
    """A page: ``content`` is what its template is given, beside what every template has."""

    template: str
    title: str
    content: dict[str, Any]


class NoPageError(Exception):
    """There is no page at this path; the message is one sentence that says what is missing."""


def words(text: str, href: str = "") -> Entry:
    return Entry([text], text, href)


def shown(quantity: Quantity, href: str = "") -> Entry:
    """A quantity as people read it, sorted by its value; an interval by its middle."""
    value = quantity.value
    return Entry([str(quantity)], value[0] if isinstance(value, tuple) else value if isinstance(value, float | int | str) else None, href)


def grid(name: str, table: Table) -> Grid:
    """A table of ``bench show`` as a grid."""
    return Grid(name, table.title, table.header, [[_entry(field) for field in row] for row in table.rows])


def _entry(field: Field) -> Entry:
    """Sorted by its first quantity that is a number; by its words where there is none."""
    lines = [" ".join(str(quantity) for quantity in line) for line in field]
    values = [shown(quantity).value for line in field for quantity in line]
    number = next((value for value in values if isinstance(value, float | int)), None)
    return Entry(lines, number if number is not None else " ".join(lines))
