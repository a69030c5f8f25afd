"""What commands print of plans and runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metalbench.harness.catalog import Catalog
    from metalbench.harness.plan import Plan
    from metalbench.results.record import Cell


def cell_name(cell: Cell, catalog: Catalog) -> str:
    """Such as ``attention 1×8×512×64 causal float32``: the workload and the case in its customary notation."""
    import msgspec

    workload = catalog.workload(cell.workload)
    return f"{cell.workload} {msgspec.convert(cell.case, workload.case_type).label()}"


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
                print(f"{cell_name(cell, catalog)} · {cell.backend} · {cell.variant} · {cell.protocol}")
    options = plan.options
    print(
        f"\n{len(plan.cells)} cells, {options.launches} launches each, in {len(plan.blocks)} worker processes; "
        f"about {duration(plan.expected_seconds())}. Seed {options.seed}."
    )
