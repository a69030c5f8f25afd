"""What the launches of two sides say of each cell's time and memory, for verdicts on all of them together."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np

from metalbench.results import shuffles
from metalbench.results.contrast import paired, steady, unpaired
from metalbench.results.record import Measurement
from metalbench.results.summary import Summary
from metalbench.results.verdicts import Evidence

MEMORY_SPREAD = 0.005  #: relative standard deviation of a process's peak between launches that do the same

Pair = tuple[Summary, Summary]  #: a cell of the base and the same of the candidate


def comparable(pair: Pair) -> bool:
    """Whether both are right, and have a launch in common: so those do that were measured in turn."""
    base, candidate = pair
    return base.ranked and candidate.ranked and not base.by_launch.keys().isdisjoint(candidate.by_launch)


def of_runs(pairs: Sequence[Pair], shifts: Mapping[tuple[str, str], float]) -> list[Evidence]:
    """From two runs that were measured one after the other, on a machine that may have changed its speed by ``shifts`` in between."""
    if not pairs:
        return []
    sides = [
        _matrix([{launch: math.log(ns) for launch, ns in side.by_launch.items()} for side in sides]) for sides in zip(*pairs, strict=True)
    ]
    shares = shuffles.of_launches(*sides)
    contrasts = [unpaired(a.medians, b.medians)._replace(doubt=abs(shifts[a.cell.column])) for a, b in pairs]
    return [Evidence(contrast, share, shares.least) for contrast, share in zip(contrasts, shares.shares, strict=True)]


def of_pairs(pairs: Sequence[Pair], first: int | None = None) -> list[Evidence]:
    """From launches that were measured in turn: those of one number are a pair. Only the ``first`` so many where that is given."""
    if not pairs:
        return []
    ratios = [dict(list(log_ratios(base, candidate).items())[:first]) for base, candidate in pairs]
    shares = shuffles.of_pairs(_matrix(ratios))
    return [Evidence(paired(list(own.values())), share, shares.least) for own, share in zip(ratios, shares.shares, strict=True)]


def log_ratios(base: Summary, candidate: Summary) -> dict[int, float]:
    """Launch → log(candidate / base), the median over turns; of all samples where they were not taken in turn.

    Each turn is held against the other side's next to it: most of what disturbed the one disturbed the other too.
    """
    sides = [
        {record.launch: record.measurement for record in side.records if record.launch in side.by_launch} for side in (base, candidate)
    ]
    found = {}
    for launch in sides[0].keys() & sides[1].keys():
        ours, theirs = (_turns(side[launch]) for side in sides)
        pairs = list(zip(ours, theirs, strict=False))
        found[launch] = statistics.median(math.log(after / before) for before, after in pairs)
    return dict(sorted(found.items()))


def _turns(measurement: Measurement) -> list[float]:
    """The median ns of a call in each turn; of all samples where there are no turns."""
    samples = measurement.samples_ns()
    ends = [end for end in itertools.accumulate(measurement.turns) if end <= len(samples)] or [len(samples)]
    return [statistics.median(samples[start:end]) for start, end in itertools.pairwise([0, *ends])]


def of_peaks(base: Summary, candidate: Summary) -> tuple[Evidence, str] | None:
    """Of the device's peaks where both have them from one source, else of those of processes that did nothing else; and which it is."""
    passes = [[found.memory for found in side.measurements if found.memory is not None] for side in (base, candidate)]
    device = [[(float(m.device_peak), m.device_source) for m in side if m.device_peak] for side in passes]
    process = [[(float(m.process_peak), m.process_source) for m in side if m.process_peak and not m.process_shared] for side in passes]
    for kind, (ours, theirs) in (("device", device), ("process", process)):
        if ours and theirs and {source for _, source in ours} == {source for _, source in theirs}:
            return Evidence(steady([peak for peak, _ in ours], [peak for peak, _ in theirs], MEMORY_SPREAD)), kind
    return None


def _matrix(rows: Sequence[dict[int, float]]) -> shuffles.Floats:
    """[cells, launches], NaN for what is not there."""
    launches = sorted({launch for row in rows for launch in row})
    return np.array([[row.get(launch, math.nan) for launch in launches] for row in rows])


def sentinel_shifts(pairs: Sequence[Pair]) -> dict[tuple[str, str], float]:
    """Column of the base → log ratio of what its fixed product took on the two sides: the machine's own change, as far as it is known.

    0 where a side has no sentinel of known size; infinite where the sizes differ: it is chosen by how fast the machine is.
    """
    shifts: dict[tuple[str, str], list[float]] = {}
    for base, candidate in pairs:
        ours, theirs = _sentinels(base), _sentinels(candidate)
        own = shifts.setdefault(base.cell.column, [])
        own += [statistics.fmean(theirs[size]) - statistics.fmean(ours[size]) for size in ours.keys() & theirs.keys()]
        if ours and theirs and ours.keys().isdisjoint(theirs):
            own.append(math.inf)
    return {column: statistics.median(own) if own else 0.0 for column, own in shifts.items()}


def _sentinels(summary: Summary) -> dict[int, list[float]]:
    """Size → logarithms of the times of the sentinel, where its size is on record."""
    found: dict[int, list[float]] = {}
    for measurement in summary.measurements:
        for ns in (measurement.sentinel_before_ns, measurement.sentinel_after_ns):
            if ns and measurement.sentinel_size:
                found.setdefault(measurement.sentinel_size, []).append(math.log(ns))
    return found
