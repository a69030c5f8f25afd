"""What a recorded cell is in our code: its workload and case, and the modules in which its parts stand."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from metalbench.harness.catalog import PACKAGE, Catalog
from metalbench.harness.errors import UsageError, unknown
from metalbench.harness.repro.modules import OURS, Modules
from metalbench.harness.repro.variants import named_factory
from metalbench.results.record import OWN_KERNEL, Cell
from metalbench.workloads.base import Case, Workload


class Subject(NamedTuple):
    """``workload_at``, ``device_at``, ``step_at``: the modules of the workload, the device, and the step's ``factory``."""

    workload: Workload[Any]
    case: Case
    kind: str
    workload_at: str
    device_at: str
    step_at: str
    factory: str


def subject(cell: Cell, catalog: Catalog, modules: Modules) -> Subject:
    """UsageError where the cell is of something that isn't here, or is no more as it was."""
    workload, (framework, kind) = catalog.workload(cell.workload), catalog.backend(cell.backend)
    if cell.version != workload.version:
        raise UsageError(f"{cell.workload} was at version {cell.version} then and is at {workload.version} now; measure the cell anew.")
    if cell.variant.startswith(OWN_KERNEL):
        raise UsageError(f"A hand-written kernel is not cut out of its folder; give the folder of {cell.variant} with the report.")
    if cell.variant not in workload.variants:
        raise unknown(f"variant of {cell.workload}", cell.variant, workload.variants)
    try:
        case: Case = msgspec.convert(cell.case, workload.case_type)
    except msgspec.ValidationError as error:
        raise UsageError(f"The case is not one of {cell.workload} as it is now ({error}); measure the cell anew.") from error
    plugins = catalog.plugins
    theirs = [plugin for plugin in plugins if getattr(plugin, "WORKLOAD", None) is workload]
    devices = [plugin for plugin in plugins if getattr(plugin, "FRAMEWORK", None) is framework]
    offer = (framework.name, cell.workload)
    steps = [plugin for plugin in plugins if offer in getattr(plugin, "IMPLEMENTATIONS", {})]
    step_at = steps[0].__name__ if steps else f"{OURS}backends.{framework.name}.{cell.workload}"
    if not steps and not PACKAGE.joinpath("backends", framework.name, f"{cell.workload}.py").is_file():
        raise UsageError(f"{framework.title} has no implementation of {cell.workload} here; add the plug-in that has one to bench.toml.")
    return Subject(
        workload,
        case,
        kind,
        workload_at=theirs[0].__name__ if theirs else f"{OURS}workloads.{cell.workload}",
        device_at=devices[0].__name__ if devices else f"{OURS}backends.{framework.name}.device",
        step_at=step_at,
        factory=named_factory(modules, step_at, cell.variant, offer if steps else None),
    )


def sources(catalog: Catalog) -> Modules:
    """The modules that may be taken apart: this package's and the plug-ins'."""
    return Modules({plugin.__name__: Path(str(plugin.__file__)) for plugin in catalog.plugins})
