"""What commands print of plans and runs."""

from __future__ import annotations

import contextlib
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from metalbench.harness.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from metalbench.harness.catalog import Catalog
    from metalbench.harness.plan import Plan
    from metalbench.results.layout import Naming, Report
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


def naming(catalog: Catalog) -> Naming:
    """``case_name`` as printers want it."""
    return partial(case_name, catalog=catalog)


def counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def print_plan(plan: Plan, catalog: Catalog) -> None:
    """The cells in the order of the first round, and the time expected."""
    from metalbench.results.layout import full_name
    from metalbench.results.quantities import format_wait

    for block in plan.blocks:
        if block.launch == 0:
            for place in block.cells:
                cell = plan.cells[place]
                print(f"{full_name(cell, naming(catalog))} · {cell.protocol}")
    options = plan.options
    print(
        f"\n{len(plan.cells)} cells, {options.launches} launches each, in {len(plan.blocks)} worker processes; "
        f"about {format_wait(plan.expected_seconds())}. Seed {options.seed}."
    )


def print_runs(
    runs: Sequence[tuple[Run, Sequence[Record]]],
    catalog: Catalog,
    format: str = "text",  # noqa: A002 - as the option is called
    relative_to: str | None = None,
) -> None:
    """The tables of one run, or of several side by side, on standard output in one of the formats of ``bench show``.

    As ``json`` several are JSON lines: a document each, in the order given.
    """
    import msgspec

    from metalbench.results.formats import native
    from metalbench.results.printers import print_csv
    from metalbench.results.summary import summarise
    from metalbench.results.tables import side_by_side

    if format == "json":
        documents = [native.export(run, records) for run, records in runs]
        lines = documents if len(documents) == 1 else [msgspec.json.format(document, indent=0) + b"\n" for document in documents]
        sys.stdout.buffer.writelines(lines)
        return
    sides = [(run, summarise(run, records)) for run, records in runs]
    if format == "csv":
        print_csv(sides, naming(catalog), sys.stdout)
    else:
        print_report(side_by_side(sides, naming(catalog), relative_to), format)


def print_report(report: Report, format: str) -> None:  # noqa: A002 - as the option is called
    """On standard output as ``text``, ``markdown`` or ``html``."""
    from metalbench.results import printers

    {"text": printers.print_text, "markdown": printers.print_markdown, "html": printers.print_html}[format](report, sys.stdout)


def print_json(data: object) -> None:
    """On standard output, indented."""
    import msgspec

    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n")


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
