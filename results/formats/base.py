"""What a format is, and what those that are written have in common.

A module beside this one with ``write``, ``read`` or both is the format of its name, with hyphens for underscores
(``results.interchange`` finds it; no list names it):

- ``write(runs)``: runs with their records, the oldest first → the file in pieces of UTF-8. Raises FormatError where it can't hold them.
- ``read(data)``: the file in UTF-8 without a byte order mark → Reading. What is whole is kept, what isn't is named; raises nothing.
- ``recognises(text)``: whether a file is in this format, as far as that shows; it may be damaged, and is anybody's. Goes with ``read``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from metalbench.results.quantities import printable
from metalbench.results.record import Cell, Record, Run
from metalbench.results.summary import Summary, summarise

Recorded = tuple[Run, list[Record]]


class FormatError(Exception):
    """The runs don't go into this format, or the file is of none; the message says so in one sentence."""


class Reading(NamedTuple):
    """What a file held. ``problems``: a sentence on each thing in it that is damaged, with its line, or its path in the document."""

    runs: list[Recorded]
    problems: list[str]


def work_name(cell: Cell) -> str:
    """Workload and case, such as ``fft.v1/length=1009,dtype=float32``."""
    return printable(f"{cell.workload}.v{cell.version}/{','.join(f'{key}={value}' for key, value in cell.case.items())}")


def cell_name(cell: Cell) -> str:
    """All of the cell's key in one line: ``…/torch-cpu@current/composed/latency/ieee-float32``."""
    return f"{work_name(cell)}/{printable(f'{cell.backend}@{cell.environment}/{cell.variant}/{cell.protocol}/{cell.policy}')}"


def right_cells(runs: Iterable[Recorded], format_name: str) -> tuple[Run, list[Summary]]:
    """The only run and its cells that may be shown as timings, which wrong and failed ones may not."""
    (run, records), *others = runs
    if others:
        raise FormatError(f"A file in the format {format_name} holds one run; name one.")
    summaries = [summary for summary in summarise(run, records) if summary.ranked]
    if not summaries:
        raise FormatError(f"The run {run.id} has no cell with a right answer and a time, so there is nothing to say in {format_name}.")
    return run, summaries
