"""For github-action-benchmark with ``tool: customSmallerIsBetter``: times and memory. The other direction has a file of its own.

Units never change with the value, since the action compares numbers and does not look at their units.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from metalbench.results.formats.base import Recorded, cell_name, right_cells
from metalbench.results.summary import Summary


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the action's custom tools read. ``range`` and ``extra`` are shown beside the value as they are."""

    name: str
    unit: str
    value: float
    range: str = ""
    extra: str = ""


def write(runs: Iterable[Recorded]) -> Iterator[bytes]:
    """One run: of each right cell its time in ns, and its memory in bytes where that was measured."""
    _, summaries = right_cells(runs, "github-action-benchmark-smaller")
    entries = [entry for summary in summaries for entry in _entries(summary)]
    yield msgspec.json.format(msgspec.json.encode(entries), indent=1) + b"\n"


def about(summary: Summary) -> str:
    return "\n".join([f"launches: {len(summary.medians)}", *(f"{name}: {value}" for name, value in list(summary.facts.items())[:1])])


def _entries(summary: Summary) -> Iterator[Entry]:
    name, memory = cell_name(summary.cell), summary.memory
    if summary.time is not None:
        median, low, high = summary.time
        scatter = f"{low:.6g} … {high:.6g}" if low is not None and high is not None else ""
        yield Entry(name=name, unit="ns", value=median, range=scatter, extra=about(summary))
    if summary.device_peak is not None:
        yield Entry(name=f"{name}/device peak", unit="bytes", value=summary.device_peak)
    if memory is not None and memory.process_peak is not None:
        yield Entry(name=f"{name}/process peak", unit="bytes", value=memory.process_peak)
