"""How an A/B comparison is going: what is measured now in a terminal, and a line after each look everywhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from metalbench.harness.cli.progress import Silent
from metalbench.results.quantities import format_wait

if TYPE_CHECKING:
    from rich.status import Status

    from metalbench.harness.environments import Column
    from metalbench.results.comparison import Comparison
    from metalbench.results.record import Cell
    from metalbench.results.sequential import Look


class Watcher(Silent):
    """Says nothing."""

    def looked(self, look: Look, found: Comparison) -> None: ...


class Lines(Watcher):
    """A line a look."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def looked(self, look: Look, found: Comparison) -> None:
        counts = Counter(change.time.verdict for change in found.changes if change.time)
        told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("slower", "faster", "same", "unsure") if counts[verdict])
        print(
            f"After {look.pairs} pairs, {format_wait(time.monotonic() - self._began)}: {told or 'nothing to compare'}",
            file=sys.stderr,
            flush=True,
        )


class Display(Lines):
    """And in a terminal what is in work."""

    def __init__(self, status: Status) -> None:
        super().__init__()
        self._status = status

    def preparing(self, cell: Cell) -> None:
        self._status.update(f"inputs and reference of {cell.workload}")

    def opening(self, column: Column) -> None:
        self._status.update(f"starting {column.backend}")

    def started(self, cell: Cell, launch: int) -> None:
        self._status.update(f"pair {launch + 1}: {cell.workload} · {cell.column_name} · {cell.variant}")


@contextmanager
def watching(*, quiet: bool) -> Iterator[Watcher]:
    """The watcher that suits where the output goes."""
    from rich.console import Console

    console = Console(stderr=True)
    if quiet:
        yield Watcher()
    elif not console.is_terminal:
        yield Lines()
    else:
        with console.status("starting") as status:
            yield Display(status)
