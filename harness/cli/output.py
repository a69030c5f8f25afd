"""What commands print of plans and runs."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from metalbench.harness.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from metalbench.harness.catalog import Catalog
    from metalbench.harness.plan import Plan
    from metalbench.results.record import Cell, Record, Run


def case_name(cell: Cell, catalog: Catalog) -> str:
    """The case in its workload's customary notation, such as ``1×8×512×64 causal float32``."""
    import msgspec

    if cell.workload in catalog.workload_files:
        workload = catalog.workload(cell.workload)
        with contextlib.suppress(msgspec.ValidationError):  # recorded by another version
            return msgspec.convert(cell.case, workload.case_type).label()
    return " ".join(f"{key}={value}" for key, value in cell.case.items())  # or of a plug-in that isn't loaded


def cell_name(cell: Cell, catalog: Catalog) -> str:
    return f"{cell.workload} {case_name(cell, catalog)}"


def duration(seconds: float) -> str:
    """Rough, for people who wait: ``40 s``, ``3 min``, ``1 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def print_plan(plan: Plan, catalog: Catalog) -> None:
    """The cells in the order of the first round, and the time expected."""
    for block in plan.blocks:
        if block.launch == 0:
            for place in block.cells:
                cell = plan.cells[place]
                print(f"{cell_name(cell, catalog)} · {cell.column_name} · {cell.variant} · {cell.protocol}")
    options = plan.options
    print(
        f"\n{len(plan.cells)} cells, {options.launches} launches each, in {len(plan.blocks)} worker processes; "
        f"about {duration(plan.expected_seconds())}. Seed {options.seed}."
    )


def print_run(run: Run, records: Sequence[Record], catalog: Catalog, format: str = "text", relative_to: str | None = None) -> None:  # noqa: A002
    """A run's tables on standard output in one of the formats of ``bench show``."""
    from metalbench.results import printers
    from metalbench.results.formats import native
    from metalbench.results.summary import summarise
    from metalbench.results.tables import report

    def naming(cell: Cell) -> str:
        return case_name(cell, catalog)

    if format == "json":
        sys.stdout.buffer.write(native.export(run, records))
    elif format == "csv":
        printers.print_csv(summarise(run, records), naming, sys.stdout)
    else:
        shown = report(run, records, naming, relative_to)
        {"text": printers.print_text, "markdown": printers.print_markdown, "html": printers.print_html}[format](shown, sys.stdout)


def write_json(run: Run, records: Sequence[Record], file: Path) -> None:
    """The native document, whole or not at all."""
    from metalbench.results.formats import native

    write_whole(file, [native.export(run, records)], "the results are in the store, and `bench show --format json` prints them")


def write_whole(file: Path, content: Iterable[bytes], remedy: str) -> None:
    """Write a file whole or not at all. UsageError where that can't be done."""
    import tempfile

    try:
        with tempfile.TemporaryDirectory(prefix=".writing-", dir=file.absolute().parent) as folder:
            scratch = Path(folder) / "whole"
            with scratch.open("wb") as out:
                out.writelines(content)
            scratch.replace(file)
    except OSError as error:
        raise UsageError(f"{file} can't be written: {error.strerror}; {remedy}.") from error
