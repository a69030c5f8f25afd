"""What a device was measured to do at most through a framework, and how near to that other work comes.

The peaks are the fastest right cells of the workload ``roofline`` in the same column of the same run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from metalbench.results.summary import Summary

WORKLOAD = "roofline"


class Peaks(NamedTuple):
    """``bandwidth``: bytes/s of a copy, None where none was measured. ``flops``: dtype → FLOP/s of a matrix product."""

    bandwidth: float | None
    flops: dict[str, float]


def peaks(summaries: Sequence[Summary]) -> dict[tuple[str, str], Peaks]:
    """By column, of those that have any."""
    bandwidths: dict[tuple[str, str], float] = {}
    products: dict[tuple[str, str], dict[str, float]] = {}
    for summary in summaries:
        column, case = summary.cell.column, summary.cell.case
        if summary.cell.workload != WORKLOAD or not summary.ranked or not summary.median:
            continue
        seconds = summary.median / 1e9
        if case.get("kind") == "copy" and summary.bytes:
            bandwidths[column] = max(bandwidths.get(column, 0.0), summary.bytes / seconds)
        elif case.get("kind") == "matmul" and summary.flops:
            own, dtype = products.setdefault(column, {}), str(case.get("dtype"))
            own[dtype] = max(own.get(dtype, 0.0), summary.flops / seconds)
    return {column: Peaks(bandwidths.get(column), products.get(column, {})) for column in bandwidths | products}


def fraction(summary: Summary, peaks: Peaks) -> float | None:
    """The least time in which the peaks allow the cell's FLOPs and bytes, over its measured median.

    Above 1 where a cache serves what the copy had to fetch from memory. None where a peak that the cell needs is missing (FLOPs want
    the product in its dtype, bytes the copy), for what isn't ranked, and for the workload of the peaks itself.
    """
    if summary.cell.workload == WORKLOAD or not summary.ranked or not summary.median:
        return None
    bounds = []
    if summary.flops:
        bounds.append((summary.flops, peaks.flops.get(str(summary.cell.case.get("dtype")))))
    if summary.bytes:
        bounds.append((summary.bytes, peaks.bandwidth))
    times = [work / rate for work, rate in bounds if rate]
    return max(times) * 1e9 / summary.median if times and len(times) == len(bounds) else None
