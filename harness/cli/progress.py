"""How a run is going: a live display in a terminal, plain lines elsewhere, nothing where quiet is asked for."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.text import Text

from metalbench.harness.cli.output import cell_name, naming
from metalbench.results.quantities import format_wait

if TYPE_CHECKING:
    from rich.console import RenderableType

    from metalbench.harness.catalog import Catalog
    from metalbench.harness.environments import Column
    from metalbench.harness.plan import Plan
    from metalbench.harness.scheduler import Listener
    from metalbench.results.record import Cell, Record


class Silent:
    def preparing(self, cell: Cell) -> None: ...
    def opening(self, column: Column) -> None: ...
    def started(self, cell: Cell, launch: int) -> None: ...
    def stage(self, name: str) -> None: ...
    def finished(self, record: Record) -> None: ...


class Counting(Silent):
    """Counts what is done and what is left."""

    def __init__(self, plan: Plan, catalog: Catalog) -> None:
        from metalbench.results.tally import Tally

        self._plan, self._catalog = plan, catalog
        self.tally = Tally(plan.cells, plan.options.launches)
        self._began = time.monotonic()

    def finished(self, record: Record) -> None:
        self.tally.finished(record.cell.key(), record.launch, record.measurement.status)

    def time_left(self) -> str:
        """From the pace so far, and from the plan's expectation until there is one."""
        measured = self.tally.counts.total()
        expected = self._plan.expected_seconds() / max(self.tally.total, 1)
        pace = (time.monotonic() - self._began) / measured if measured >= 5 else expected
        return format_wait(pace * self.tally.left)

    def name(self, cell: Cell) -> str:
        from metalbench.results.layout import full_name

        return full_name(cell, naming(self._catalog))

    def outcome(self, record: Record) -> str:
        from metalbench.results.quantities import format_duration, printable

        found = record.measurement
        time_taken = format_duration(statistics.median(found.samples_ns())) if found.spans_ns else ""
        reason = printable(found.reason) if found.status != "ok" else ""
        return " ".join(filter(None, [found.status if found.status != "ok" else "", time_taken, f"({reason})" if reason else ""]))


class Lines(Counting):
    """One plain line a finished cell, for logs."""

    def finished(self, record: Record) -> None:
        super().finished(record)
        done = f"[{self.tally.done}/{self.tally.total}]"
        print(f"{done} {self.name(record.cell)} · launch {record.launch}: {self.outcome(record)}", flush=True)


class Display(Counting):
    """The cell in work, a bar, counts by status and the time left, redrawn in place."""

    def __init__(self, plan: Plan, catalog: Catalog) -> None:
        super().__init__(plan, catalog)
        self._now, self._stage, self._since = "starting", "", time.monotonic()

    def preparing(self, cell: Cell) -> None:
        self._show(f"inputs and reference of {cell_name(cell, self._catalog)}", "")

    def opening(self, column: Column) -> None:
        self._show(f"starting {column.backend}", "")

    def started(self, cell: Cell, launch: int) -> None:
        self._show(f"{self.name(cell)} · launch {launch + 1} of {self._plan.options.launches}", "")

    def stage(self, name: str) -> None:
        self._show(self._now, name)

    def _show(self, now: str, stage: str) -> None:
        self._now, self._stage, self._since = now, stage, time.monotonic()

    def __rich__(self) -> RenderableType:
        counts = "  ".join(f"{status} {count}" for status, count in sorted(self.tally.counts.items()))
        waiting = f"  {time.monotonic() - self._since:.0f} s" if self._stage else ""
        return Group(
            Text.assemble((self._now, "bold"), f"  {self._stage}{waiting}", overflow="ellipsis", no_wrap=True),
            Padding(ProgressBar(total=max(self.tally.total, 1), completed=self.tally.done), 0),  # the bar by itself doesn't end its line
            Text(f"{self.tally.done} of {self.tally.total}   {counts}   about {self.time_left()} left"),
        )


@contextmanager
def progress(plan: Plan, catalog: Catalog, *, quiet: bool) -> Iterator[Listener]:
    """The listener that suits where the output goes."""
    console = Console()
    if quiet:
        yield Silent()
    elif not console.is_terminal:
        yield Lines(plan, catalog)
    else:
        display = Display(plan, catalog)
        with Live(display, console=console, refresh_per_second=4, transient=True):
            yield display
