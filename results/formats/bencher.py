"""Bencher Metric Format, for ``bencher run --adapter json``: benchmark → measure → value with its bounds.

``latency`` in ns and ``throughput`` in calls per second are Bencher's own measures with its own units; memory is in bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from metalbench.results.formats.base import Recorded, cell_name, right_cells
from metalbench.results.summary import Summary


class Metric(msgspec.Struct, frozen=True, omit_defaults=True):
    value: float
    lower_value: float | None = None
    upper_value: float | None = None


def write(runs: Iterable[Recorded]) -> Iterator[bytes]:
    """One run; the bounds are those of the 95 % interval over launches."""
    _, summaries = right_cells(runs, "bencher")
    document = {cell_name(summary.cell): dict(_metrics(summary)) for summary in summaries}
    yield msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def _metrics(summary: Summary) -> Iterator[tuple[str, Metric]]:
    if summary.time is not None:
        median, low, high = summary.time
        yield "latency", Metric(median, low, high)
        yield "throughput", Metric(1e9 / median, 1e9 / high if high else None, 1e9 / low if low else None)
    if summary.device_peak is not None:
        yield "device-peak-memory", Metric(summary.device_peak)
    if summary.memory is not None and summary.memory.process_peak is not None:
        yield "process-peak-memory", Metric(summary.memory.process_peak)
