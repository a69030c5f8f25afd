"""A report as text, Markdown, CSV or HTML. Printers know quantities' kinds, not what was measured; every text is escaped."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TextIO

from metalbench.results.layout import Field, Naming, Report
from metalbench.results.machines import short_names
from metalbench.results.quantities import printable
from metalbench.results.summary import Side, Summary

CSV_COLUMNS = (
    "workload", "case", "backend", "environment", "variant", "protocol", "status", "reason", "median_ns", "low_ns", "high_ns", "launches",
    "flops", "bytes", "max_error", "tolerance", "device_peak_bytes", "process_peak_bytes",
)  # fmt: skip
SIDE_COLUMNS = ("run", "machine", "version", "policy")  #: before the others, where there are several runs


def print_text(report: Report, file: TextIO) -> None:
    """For a terminal, in its width; 100 columns elsewhere at least, so that tables in logs stay whole."""
    from rich import box  # noqa: PLC0415 - only this printer needs Rich
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(file=file, highlight=False)
    if not console.is_terminal:
        console = Console(file=file, highlight=False, width=max(console.width, 40 * max((len(t.header) for t in report.tables), default=1)))
    console.print(Text(printable(report.title), "bold"))
    for name, value in report.facts:
        console.print(Text(f"{name + ':':10}{printable(value)}"))
    for table in report.tables:
        grid = Table(title=Text(printable(table.title), "bold"), title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for column in table.header:
            grid.add_column(Text(printable(column)), overflow="fold")
        for row in table.rows:
            grid.add_row(*(Text("\n".join(_lines(field))) for field in row))
        console.print(grid)
    console.print(Text(report.legend, "dim"))


def print_markdown(report: Report, file: TextIO) -> None:
    """GitHub's tables; a field's lines are broken by ``<br>``."""
    print(f"## {_escaped(report.title)}\n", file=file)
    for name, value in report.facts:
        print(f"- {name}: {_escaped(value)}", file=file)
    for table in report.tables:
        print(f"\n### {_escaped(table.title)}\n", file=file)
        print("|" + "|".join(f" {_escaped(column)} " for column in table.header) + "|", file=file)
        print("|" + " --- |" * len(table.header), file=file)
        for row in table.rows:
            print("|" + "|".join(f" {'<br>'.join(_escaped(line) for line in _lines(field))} " for field in row) + "|", file=file)
    print(f"\n{report.legend}", file=file)


def print_html(report: Report, file: TextIO) -> None:
    """One page without scripts or anything from elsewhere."""
    import jinja2  # noqa: PLC0415 - only this printer needs Jinja

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("metalbench.results", "templates"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    file.write(environment.get_template("report.html").render(report=report, lines=_lines))


def print_csv(sides: Sequence[Side], naming: Naming, file: TextIO) -> None:
    """One row a cell, numbers in plain units with a point whatever the locale, empty where there is none."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    several = len(sides) > 1
    writer.writerow([*(SIDE_COLUMNS if several else ()), *CSV_COLUMNS])
    machines = short_names([run for run, _ in sides])
    for run, summaries in sides:
        for summary in summaries:
            leading = (run.id, printable(machines[run.id]), summary.cell.version, summary.cell.policy) if several else ()
            writer.writerow([*leading, *_csv_row(summary, naming)])
    file.write(out.getvalue())


def _csv_row(summary: Summary, naming: Naming) -> list[object]:
    cell, memory = summary.cell, summary.memory
    return [
        *(cell.workload, naming(cell), cell.backend, cell.environment, cell.variant, cell.protocol),
        *(summary.status, printable(summary.reason)),
        *(summary.time or (None, None, None)),
        *(len(summary.medians), summary.flops, summary.bytes, summary.max_error, summary.tolerance),
        *(summary.device_peak, memory.process_peak if memory else None),
    ]


def _lines(field: Field) -> list[str]:
    return [" ".join(str(quantity) for quantity in line) for line in field]


def _escaped(text: str) -> str:
    """So that Markdown and the HTML inside it mean nothing."""
    plain = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{character}" if character in "\\`*_[]|~#" else character for character in plain)
