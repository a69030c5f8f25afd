"""What all launches of a cell say together: one status, one estimate, the largest error and the largest peaks."""

from __future__ import annotations

import copy
import statistics
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from metalbench.results.machines import short_names
from metalbench.results.record import GRAVITY, TIMED, Cell, Energy, Measurement, Memory, Record, Run, Status
from metalbench.results.statistics import Estimate, estimate

DRIFT = 0.15  #: relative change of the sentinel across a cell beyond which the machine was not the same machine


class Summary:
    """One cell of a run. ``records`` are its launches, at least one, in order. ``column``: what its column is called in the run."""

    def __init__(self, records: list[Record]) -> None:
        self.records = sorted(records, key=lambda record: record.launch)
        self.cell: Cell = records[0].cell
        self.column = self.cell.column_name
        gravest = min((record.measurement for record in self.records), key=lambda found: GRAVITY.index(found.status))
        self.status: Status = gravest.status
        self.reason = gravest.reason

    @property
    def measurements(self) -> list[Measurement]:
        return [record.measurement for record in self.records]

    @cached_property
    def by_launch(self) -> dict[int, float]:
        """Launch → median ns per call, of those that were timed."""
        timed = {record.launch: record.measurement for record in self.records if record.measurement.status in TIMED}
        return {launch: statistics.median(found.samples_ns()) for launch, found in timed.items() if found.spans_ns}

    @cached_property
    def medians(self) -> list[float]:
        """ns per call, one a launch that was timed."""
        return list(self.by_launch.values())

    @property
    def median(self) -> float | None:
        """ns per call: the median over launches."""
        return statistics.median(self.medians) if self.medians else None

    @cached_property
    def time(self) -> Estimate | None:
        return estimate(self.medians) if self.medians else None

    @property
    def ranked(self) -> bool:
        """Only right answers take part in ratios."""
        return self.status == "ok" and bool(self.medians)

    @property
    def default(self) -> bool:
        return any(found.default_variant for found in self.measurements)

    @property
    def flops(self) -> int | None:
        found: int | None = self._last("flops")
        return found

    @property
    def bytes(self) -> int | None:
        found: int | None = self._last("bytes")
        return found

    @property
    def amounts(self) -> dict[str, int]:
        """What else a call gets through, by unit, such as tokens; of the last launch that has any."""
        return next((found.amounts for found in reversed(self.measurements) if found.amounts), {})

    @property
    def tolerance(self) -> float | None:
        found: float | None = self._last("tolerance")
        return found

    @property
    def max_error(self) -> float | None:
        """The largest of all launches; None where it isn't finite or nothing was checked."""
        return max((found.max_error for found in self.measurements if found.max_error is not None), default=None)

    @property
    def figures(self) -> dict[str, float]:
        """What the check found beside the error, such as what quantization costs; of the last launch that has any."""
        return next((found.figures for found in reversed(self.measurements) if found.figures), {})

    @property
    def memory(self) -> Memory | None:
        """The pass with the largest process peak."""
        passes = [found.memory for found in self.measurements if found.memory is not None]
        return max(passes, key=lambda memory: memory.process_peak or 0, default=None)

    @property
    def device_peak(self) -> int | None:
        passes = [found.memory for found in self.measurements if found.memory is not None]
        return max((memory.device_peak for memory in passes if memory.device_peak is not None), default=None)

    @property
    def device_time(self) -> float | None:
        """Median ns of a call between events on the device, over all launches."""
        spans = [span for found in self.measurements for span in found.device_spans_ns]
        return statistics.median(spans) if spans else None

    @property
    def energy(self) -> Energy | None:
        found: Energy | None = self._last("energy")
        return found

    @property
    def ran(self) -> str:
        """What the framework really ran, where it says; every answer of the launches."""
        return ", ".join(dict.fromkeys(found.ran for found in self.measurements if found.ran))

    @property
    def drifted(self) -> bool:
        """Whether the sentinel changed by more than ``DRIFT`` across the cell in most of its launches."""
        changes = [
            found.sentinel_after_ns / found.sentinel_before_ns - 1
            for found in self.measurements
            if found.sentinel_before_ns and found.sentinel_after_ns
        ]
        return 2 * sum(abs(change) > DRIFT for change in changes) > len(changes)

    @property
    def incredible(self) -> bool:
        """Whether the work seems to take less than a call that has nothing to do."""
        floors = [found.empty_call_ns for found in self.measurements if found.empty_call_ns is not None]
        return self.time is not None and bool(floors) and self.time.median < min(floors)

    @property
    def facts(self) -> dict[str, str]:
        return next((found.facts for found in reversed(self.measurements) if found.facts), {})

    @property
    def version(self) -> str:
        """The framework's, which its device names first among its facts."""
        return next(iter(self.facts.values()), "")

    def _last(self, field: str) -> Any:
        return next((getattr(found, field) for found in reversed(self.measurements) if getattr(found, field) is not None), None)


def summarise(run: Run, records: Iterable[Record]) -> list[Summary]:
    """One summary a cell that has a record, in the order of the run's plan.

    A column is called by its backend; where the run has that in several environments, by the environment and the version too.
    """
    by_cell: dict[str, list[Record]] = {}
    for record in records:
        by_cell.setdefault(record.cell.key(), []).append(record)
    summaries = [Summary(by_cell[key]) for key in dict.fromkeys(cell.key() for cell in run.cells()) if key in by_cell]
    titles = _titles(summaries)
    for summary in summaries:
        summary.column = titles[summary.cell.column]
    return summaries


Side = tuple[Run, list[Summary]]  #: a run and its cells, as ``summarise`` makes them


def named_by_machine(sides: Sequence[Side]) -> list[Side]:
    """The same cells; where there are several runs, columns are called by the machine too: ``mlx-metal · Apple M4 Pro``."""
    if len(sides) == 1:
        return list(sides)
    machines = short_names([run for run, _ in sides])
    return [(run, [_called(f"{summary.column} · {machines[run.id]}", summary) for summary in own]) for run, own in sides]


def _called(column: str, summary: Summary) -> Summary:
    """A copy, since a summary may stand on another page too."""
    found = copy.copy(summary)
    found.column = column
    return found


def _titles(summaries: Iterable[Summary]) -> dict[tuple[str, str], str]:
    """What each column is called: all differently, and no longer than that needs."""
    first: dict[tuple[str, str], Summary] = {}
    for summary in summaries:
        if summary.cell.column not in first or not first[summary.cell.column].version:
            first[summary.cell.column] = summary
    backends = [backend for backend, _ in first]
    titles: dict[tuple[str, str], str] = {}
    for (backend, environment), summary in first.items():
        name, version = summary.cell.environment_name, summary.version
        own = ", ".join(filter(None, [name, version if version not in name else ""])) or environment
        title = backend if backends.count(backend) == 1 else f"{backend} ({own})"
        titles[backend, environment] = f"{backend} ({environment}, {version})" if title in titles.values() else title
    return titles
