"""How a fleet's run is going: a line a machine in a terminal, a line a finished cell elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from metalbench.harness.cli.progress import Counting

if TYPE_CHECKING:
    from rich.console import RenderableType

    from metalbench.harness.catalog import Catalog
    from metalbench.harness.fleet.campaign import Member, Watcher
    from metalbench.results.record import Cell, Record


class Silent:
    def started(self, machine: str, cell: Cell, launch: int) -> None: ...
    def finished(self, machine: str, record: Record) -> None: ...


class Counts(Silent):
    """Counts what is done: of each machine's plan, or of one that they share where each cell is measured ``anywhere``."""

    def __init__(self, members: Sequence[Member], catalog: Catalog, *, anywhere: bool) -> None:
        from metalbench.harness.plan import Plan
        from metalbench.results.machines import short_names

        names = short_names([member.run for member in members])
        self.names = {member.machine: names[member.run.id] for member in members}
        cells = {cell.key(): cell for member in members for cell in member.plan.cells}
        shared = Counting(Plan(members[0].plan.options, list(cells.values()), []), catalog)
        self.counters = {member.machine: shared if anywhere else Counting(member.plan, catalog) for member in members}

    def finished(self, machine: str, record: Record) -> None:
        self.counters[machine].finished(record)

    def done(self, machine: str) -> str:
        tally = self.counters[machine].tally
        return f"{tally.done}/{tally.total}"


class Lines(Counts):
    def finished(self, machine: str, record: Record) -> None:
        super().finished(machine, record)
        counting = self.counters[machine]
        what = f"{counting.name(record.cell)} · launch {record.launch}: {counting.outcome(record)}"
        print(f"[{self.done(machine)}] {self.names[machine]} · {what}", flush=True)


class Display(Counts):
    def __init__(self, members: Sequence[Member], catalog: Catalog, *, anywhere: bool) -> None:
        super().__init__(members, catalog, anywhere=anywhere)
        self._now = dict.fromkeys(self.counters, "waiting")

    def started(self, machine: str, cell: Cell, launch: int) -> None:
        self._now[machine] = f"{self.counters[machine].name(cell)} · launch {launch + 1}"

    def finished(self, machine: str, record: Record) -> None:
        super().finished(machine, record)
        if self.counters[machine].tally.left == 0:
            self._now[machine] = "done"

    def __rich__(self) -> RenderableType:
        width = max(map(len, self.names.values()))
        return Group(
            *(
                Text.assemble(
                    (f"{self.names[machine]:{width}}", "bold"), f"  {self.done(machine):>9}  {now}", overflow="ellipsis", no_wrap=True
                )
                for machine, now in self._now.items()
            )
        )


@contextmanager
def progress(members: Sequence[Member], catalog: Catalog, *, anywhere: bool, quiet: bool) -> Iterator[Watcher]:
    """The watcher that suits where the output goes."""
    console = Console()
    if quiet:
        yield Silent()
    elif not console.is_terminal:
        yield Lines(members, catalog, anywhere=anywhere)
    else:
        display = Display(members, catalog, anywhere=anywhere)
        with Live(display, console=console, refresh_per_second=4, transient=True):
            yield display
