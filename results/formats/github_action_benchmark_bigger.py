"""For github-action-benchmark with ``tool: customBiggerIsBetter``: calls per second, and FLOP/s where the work is counted in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from metalbench.results.formats.base import Recorded, cell_name, right_cells
from metalbench.results.formats.github_action_benchmark_smaller import Entry, about
from metalbench.results.summary import Summary


def write(runs: Iterable[Recorded]) -> Iterator[bytes]:
    """One run: two entries a right cell."""
    _, summaries = right_cells(runs, "github-action-benchmark-bigger")
    entries = [entry for summary in summaries for entry in _entries(summary)]
    yield msgspec.json.format(msgspec.json.encode(entries), indent=1) + b"\n"


def _entries(summary: Summary) -> Iterator[Entry]:
    if summary.time is None:
        return
    median, low, high = summary.time
    for what, unit, work in (("calls", "calls/s", 1), ("work", "FLOP/s", summary.flops)):
        if work:
            scatter = f"{work * 1e9 / high:.6g} … {work * 1e9 / low:.6g}" if low and high else ""
            name = f"{cell_name(summary.cell)}/{what}"
            yield Entry(name=name, unit=unit, value=work * 1e9 / median, range=scatter, extra=about(summary))
