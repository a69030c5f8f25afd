"""How far a run is: counted while it is measured, by who measures it or by who reads the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from metalbench.results.record import TIMED, Cell, Status


class Tally:
    """What of a run's launches is done and what is left. A cell that got a status other than a time is done for all its launches."""

    def __init__(self, cells: Iterable[Cell], launches: int) -> None:
        self._launches = range(launches)
        self._left = {(cell.key(), launch) for cell in cells for launch in self._launches}
        self.total = len(self._left)
        self.counts: Counter[Status] = Counter()

    @property
    def left(self) -> int:
        return len(self._left)

    @property
    def done(self) -> int:
        return self.total - self.left

    def finished(self, cell: str, launch: int, status: Status) -> None:
        """Count a record of the cell with this key."""
        self._left.discard((cell, launch))
        if status not in TIMED:
            self._left.difference_update((cell, launch) for launch in self._launches)
        self.counts[status] += 1
