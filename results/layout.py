"""What a table is made of, for those who fill it and those who print it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from metalbench.results.quantities import Quantity
from metalbench.results.record import Cell

Field = list[list[Quantity]]  #: the lines of one field, each of some quantities
Naming = Callable[[Cell], str]  #: a case in its workload's notation


class Table(NamedTuple):
    """``header`` names the columns; a row has a field for each."""

    title: str
    header: list[str]
    rows: list[list[Field]]


class Report(NamedTuple):
    """A run as it is shown: ``facts`` about it, ``legend`` on how to read it, tables."""

    title: str
    facts: list[tuple[str, str]]
    legend: str
    tables: list[Table]


def full_name(cell: Cell, naming: Naming) -> str:
    """All that tells a cell from others of a run, but for the protocol: ``fft 16×1009 complex · torch-cpu · native``."""
    return f"{cell.workload} {naming(cell)} · {cell.column_name} · {cell.variant}"


def text(words: str) -> Field:
    """A field of one line of words."""
    return [[Quantity(words)]]
