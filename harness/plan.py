"""From options to cells, and from cells to the order in which they are measured. Pure: the same arguments give the same plan."""

from __future__ import annotations

import random
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from metalbench.backends.base import PRECISION_POLICY
from metalbench.harness.capability import Capability
from metalbench.harness.catalog import Catalog
from metalbench.harness.environments import Column
from metalbench.harness.errors import UsageError, unknown
from metalbench.harness.protocol import OwnKernel
from metalbench.results.record import Cell
from metalbench.workloads.base import Case, Suite, Workload, matches

BLOCK_SECONDS = 30.0  #: how long one worker measures before another backend has its turn
START_SECONDS = 4.0  #: to start a worker, on average over the frameworks
CELL_SECONDS = 0.6  #: to build, check and compile a cell, beside its warm-up and sampling


class Defaults(msgspec.Struct, frozen=True):
    """``quick`` measures each backend's default variant, the others every variant."""

    launches: int
    budget: float  #: seconds of sampling a cell and launch
    timeout: float  #: seconds after which a cell's worker is taken for hung
    every_variant: bool
    about: str


Capabilities = Mapping[tuple[str, str], Capability]  #: by the column's key

SUITES: Mapping[Suite, Defaults] = {
    "quick": Defaults(3, 0.2, 120, every_variant=False, about="a few telling cases of each workload, default variants: three minutes"),
    "standard": Defaults(5, 1.0, 300, every_variant=True, about="sized for a laptop's GPU, every variant and dtype"),
    "large": Defaults(5, 2.0, 600, every_variant=True, about="sized for a data-centre GPU, every variant and dtype"),
    "documents": Defaults(3, 0.2, 300, every_variant=True, about="what the source documents' claims compare: `bench claims`"),
}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure and how, with every default filled in. ``cases`` are (key, value) filters; equal keys are alternatives."""

    suite: Suite = "quick"
    columns: list[Column]
    workloads: list[str]
    cases: list[tuple[str, str]] = []
    variants: list[str] = []
    kernels: list[OwnKernel] = []
    throughput: bool = False
    cold: bool = False
    launches: int
    budget: float
    timeout: float
    seed: int
    data_seed: int = 0
    plugins: list[str] = []
    anywhere: bool = False  #: of a fleet: each cell on one machine that can, not on every one

    @property
    def protocol(self) -> str:
        return ("throughput" if self.throughput else "latency") + ("-cold" if self.cold else "")


class Block(msgspec.Struct, frozen=True):
    """What one worker process measures: some cells of one column, in this order, as one launch of each."""

    launch: int
    column: int  #: its place in the options' list of columns
    cells: list[int]  #: places in the plan's list of cells


class Plan(msgspec.Struct, frozen=True):
    options: Options
    cells: list[Cell]
    blocks: list[Block]
    memory: list[str] | None = None  #: keys of the cells whose peaks are worth a process of their own; None where the suite says

    def memory_apart(self, cell: Cell) -> bool:
        """Whether the cell's peaks are worth a process of their own. In quick none are, and its records say so."""
        return SUITES[self.options.suite].every_variant if self.memory is None else cell.key() in self.memory

    def expected_seconds(self) -> float:
        """What the run will take if nothing hangs: for planning an afternoon, not a promise."""
        per_cell = cell_seconds(self.options)
        return sum(START_SECONDS + per_cell * len(block.cells) for block in self.blocks)


def cell_seconds(options: Options) -> float:
    return CELL_SECONDS + 1.5 * options.budget


def make_plan(options: Options, catalog: Catalog, capabilities: Capabilities) -> Plan:
    """Every combination that was asked for, whether or not it can be done; what can't be is given its status when run."""
    cells = [cell for name in options.workloads for cell in _cells(catalog.workload(name), options, capabilities)]
    if not cells:
        raise UsageError(_no_cells(options, catalog))
    return Plan(options, cells, _blocks(cells, options))


def only(plan: Plan, wanted: Container[str]) -> Plan:
    """The plan's cells with these keys, in an order of their own."""
    cells = [cell for cell in plan.cells if cell.key() in wanted]
    return msgspec.structs.replace(plan, cells=cells, blocks=_blocks(cells, plan.options))


def _cells(workload: Workload[Any], options: Options, capabilities: Capabilities) -> Iterator[Cell]:
    for case in workload.cases(options.suite):
        if not matches(case.parameters(), options.cases):
            continue
        for column in options.columns:
            for variant in _variants(workload, case, options, capabilities[column.key]):
                yield Cell(
                    workload=workload.name,
                    version=workload.version,
                    case=case.parameters(),
                    backend=column.backend,
                    environment=column.environment.name,
                    variant=variant,
                    protocol=options.protocol,
                    policy=PRECISION_POLICY,
                )


def _variants(workload: Workload[Any], case: Case, options: Options, capability: Capability) -> Collection[str]:
    """The case's variants that are asked for; else the suite's. Where the backend can't be asked, its own choice is called ``default``.

    A user's own kernels are measured whatever is asked for, and beside every variant where nothing is.
    """
    there = workload.variants_of(case)
    own = [kernel.variant for kernel in options.kernels if kernel.workload == workload.name]
    if options.variants:
        return [*(name for name in options.variants if name in there), *own]
    if SUITES[options.suite].every_variant or own:
        return [*there, *own]
    offer = capability.offers.get(workload.name)
    return [offer.default if offer else "default"]


def _no_cells(options: Options, catalog: Catalog) -> str:
    """Why nothing is left, naming the filter that left nothing and what there is instead."""
    cases = [case for name in options.workloads for case in catalog.workload(name).cases(options.suite)]
    if not cases:
        suites = [name for name in SUITES if any(True for workload in options.workloads for _ in catalog.workload(workload).cases(name))]
        return f"Suite {options.suite} has no case of {', '.join(options.workloads)}; give --suite {' or '.join(suites)}."
    keys = sorted({key for case in cases for key in case.parameters()})
    for key, value in options.cases:
        if key not in keys:
            return str(unknown("case parameter", key, keys))
        if not any(matches(case.parameters(), [(key, value)]) for case in cases):
            there = sorted({str(case.parameters()[key]) for case in cases if key in case.parameters()})
            return f"No case of suite {options.suite} has {key}={value}; it has {key} = {', '.join(there)}."
    wanted = " and ".join(f"{key}={value}" for key, value in options.cases) or "these options"
    return f"No case of suite {options.suite} satisfies {wanted} at once; leave one out."


def _blocks(cells: Sequence[Cell], options: Options) -> list[Block]:
    """Rounds of fresh workers; in each, columns' blocks in random order and their cells in random order within them."""
    rng = random.Random(options.seed)  # noqa: S311 - an order that can be repeated, not a secret
    per_block = max(1, int(BLOCK_SECONDS / cell_seconds(options)))
    blocks = []
    for launch in range(options.launches):
        parts = []
        for index, column in enumerate(options.columns):
            own = [place for place, cell in enumerate(cells) if cell.column == column.key]
            rng.shuffle(own)
            parts += [Block(launch, index, own[start : start + per_block]) for start in range(0, len(own), per_block)]
        rng.shuffle(parts)
        blocks += parts
    return blocks
