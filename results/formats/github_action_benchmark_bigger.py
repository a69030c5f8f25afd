"""For github-action-benchmark with ``tool: customBiggerIsBetter``: calls per second, and FLOP/s and tokens/s where they are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from metalbench.results.formats.base import Recorded, cell_name, right_cells
from metalbench.results.formats.github_action_benchmark_smaller import Entry, about
from metalbench.results.summary import Summary


def write(runs: Iterable[Recorded]) -> Iterator[bytes]:
    """One run: an entry for each rate of a right cell."""
    _, summaries = right_cells(runs, "github-action-benchmark-bigger")
    entries = [entry for summary in summaries for entry in _entries(summary)]
    yield msgspec.json.format(msgspec.json.encode(entries), indent=1) + b"\n"


def _entries(summary: Summary) -> Iterator[Entry]:
    if summary.time is None:
        return
    median, low, high = summary.time
    amounts = ((what, f"{what}/s", amount) for what, amount in summary.amounts.items())
    for what, unit, work in (("calls", "calls/s", 1), ("work", "FLOP/s", summary.flops), *amounts):
        if work:
            scatter = f"{work * 1e9 / high:.6g} … {work * 1e9 / low:.6g}" if low and high else ""
            name = f"{cell_name(summary.cell)}/{what}"
            yield Entry(name=name, unit=unit, value=work * 1e9 / median, range=scatter, extra=about(summary))
