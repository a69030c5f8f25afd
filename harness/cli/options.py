"""From what was typed to options with every default filled in; each mistake is one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from metalbench.harness.cli import context
from metalbench.harness.errors import UsageError, unknown

if TYPE_CHECKING:
    from pathlib import Path

    from metalbench.harness.catalog import Catalog
    from metalbench.harness.columns import Wanted
    from metalbench.harness.environments import Column
    from metalbench.harness.plan import Options
    from metalbench.harness.protocol import OwnKernel
    from metalbench.workloads.base import Suite


class Given(NamedTuple):
    """The options of ``bench run`` that say what to measure, as typed; None where nothing was."""

    suite: str | None = None
    env: list[str] | None = None
    backend: list[str] | None = None
    workload: list[str] | None = None
    case: list[str] | None = None
    variant: list[str] | None = None
    kernel: list[Path] | None = None
    protocol: str = "latency"
    launches: int | None = None
    budget: float | None = None
    seed: int | None = None


def make_options(given: Given, columns: list[Column], ctx: context.Context) -> Options:
    """Options from the command line, ``bench.toml`` and the suite's defaults, in this order. UsageError for unknown names."""
    import secrets

    from metalbench.harness.plan import SUITES, Options

    config, catalog = ctx.config, ctx.catalog
    kernels = _kernels(given.kernel or [], catalog)
    suite = given.suite or config.suite or ("standard" if kernels else "quick")
    if suite not in SUITES:
        raise unknown("suite", suite, SUITES)
    defaults = SUITES[cast("Suite", suite)]
    budget = given.budget or config.budget or defaults.budget
    if budget <= 0 or (given.budget is not None and given.budget <= 0):
        raise UsageError(f"--budget {given.budget} is not a time; give the seconds to sample each cell, such as 0.5.")
    workloads = context.split(given.workload) or _workloads_of(kernels) or config.workloads or catalog.usual_workloads
    if idle := next((own for own in kernels if own.workload not in workloads), None):
        raise UsageError(f"--kernel names a kernel of {idle.workload}, which --workload leaves out; add it there.")
    return Options(
        suite=cast("Suite", suite),
        columns=columns,
        workloads=[catalog.workload(name).name for name in workloads],
        cases=[case_filter(text) for text in context.split(given.case)],
        variants=_variants(context.split(given.variant), workloads, kernels, catalog),
        kernels=kernels,
        throughput=given.protocol.startswith("throughput"),
        cold=given.protocol.endswith("cold"),
        launches=given.launches or config.launches or defaults.launches,
        budget=budget,
        timeout=config.timeout or defaults.timeout,
        seed=secrets.randbelow(1 << 32) if given.seed is None else given.seed,
        data_seed=given.seed or 0,
        plugins=ctx.plugins,
    )


def chosen_columns(backends: list[str] | None, environments: list[str] | None, ctx: context.Context) -> list[Wanted]:
    """What ``--backend`` and ``--env`` say; else the backends of ``bench.toml``, else all whose device this machine has."""
    from metalbench.harness.columns import choose

    named = context.split(backends) or ([] if environments else ctx.config.backends)
    return choose(named, environments or [], ctx.catalog, ctx.recipes)


def case_filter(text: str) -> tuple[str, str]:
    """``KEY=VALUE`` as a filter of cases. UsageError for anything else."""
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise UsageError(f"--case {text!r} is not of the form key=value, such as causal=true or dtype=bfloat16.")
    return key.strip(), value.strip()


def _kernels(folders: list[Path], catalog: Catalog) -> list[OwnKernel]:
    if not folders:
        return []
    from metalbench.harness.own_kernels import taken

    return taken(folders, catalog)


def _workloads_of(kernels: list[OwnKernel]) -> list[str]:
    return list(dict.fromkeys(own.workload for own in kernels))


def _variants(names: list[str], workloads: list[str], kernels: list[OwnKernel], catalog: Catalog) -> list[str]:
    from metalbench.results.record import OWN_KERNEL

    known = list(dict.fromkeys(variant for name in workloads for variant in catalog.workload(name).variants))
    known += [own.variant for own in kernels]
    for name in names:
        if name not in known and name.startswith(OWN_KERNEL):
            raise UsageError(f"--variant {name} is a kernel of somebody's own; give --kernel and its folder instead.")
        if name not in known:
            raise unknown("variant", name, known)
    return names
