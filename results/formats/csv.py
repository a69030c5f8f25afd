"""A history for spreadsheets and Otava: a row a run, the oldest first, and a column for each cell on each machine.

A field is the median over launches in ns, as the column's name says; it is empty where the run has no right answer and time for the
cell. Otava takes ``time`` and the columns that its configuration lists as metrics; it reads no column that has an empty field.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from metalbench.results.formats.base import Recorded, cell_name
from metalbench.results.summary import summarise

LEADING = ("time", "commit", "run")


def write(runs: Iterable[Recorded]) -> Iterator[bytes]:
    """UTF-8 with a line feed after each row, numbers with a point, times in ISO 8601 with the offset of UTC."""
    columns: dict[tuple[str, str], str] = {}
    rows: list[tuple[tuple[str, ...], dict[tuple[str, str], float]]] = []
    for run, records in runs:
        medians: dict[tuple[str, str], float] = {}
        for summary in summarise(run, records):
            if summary.ranked and summary.time is not None:
                series = (run.host.key, summary.cell.key())
                columns.setdefault(series, f"{cell_name(summary.cell)} on {run.host.key} (ns)")
                medians[series] = summary.time.median
        time = datetime.fromtimestamp(run.started, UTC).isoformat(timespec="seconds")
        rows.append(((time, run.revision, run.id), medians))
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*LEADING, *columns.values()])
    writer.writerows([*leading, *(medians.get(series, "") for series in columns)] for leading, medians in rows)
    yield out.getvalue().encode()
