"""Which of the cells that were measured a command is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from metalbench.harness.cli import context
from metalbench.harness.cli.options import case_filter

if TYPE_CHECKING:
    from metalbench.results.record import Cell

BackendOption = Annotated[list[str] | None, typer.Option("--backend", metavar="ID", help="Only these, such as torch-mps. [repeatable]")]
WorkloadOption = Annotated[list[str] | None, typer.Option("--workload", metavar="NAME", help="Only these. [repeatable]")]
CaseOption = Annotated[list[str] | None, typer.Option("--case", metavar="KEY=VALUE", help="Only cases with this parameter. [repeatable]")]
VariantOption = Annotated[list[str] | None, typer.Option("--variant", metavar="NAME", help="Only these. [repeatable]")]


def selection(
    workload: list[str] | None, backend: list[str] | None, case: list[str] | None, variant: list[str] | None
) -> Callable[[Cell], bool]:
    """Whether a cell has one of the names wanted of each kind; names are not checked, since a store may hold what is not here."""
    from metalbench.workloads.base import matches

    workloads, backends, variants = (context.split(names) for names in (workload, backend, variant))
    cases = [case_filter(text) for text in context.split(case)]

    def wanted(cell: Cell) -> bool:
        named = ((workloads, cell.workload), (backends, cell.backend), (variants, cell.variant))
        return all(not names or name in names for names, name in named) and matches(cell.case, cases)

    return wanted
