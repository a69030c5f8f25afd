"""The commands that a cell's page prints, typed again."""

import shlex

import msgspec
import pytest

from metalbench.harness.catalog import Catalog
from metalbench.harness.cli.output import naming
from metalbench.harness.environments import Column, current
from metalbench.harness.plan import Options, make_plan
from metalbench.harness.probing import Prober
from metalbench.harness.recipes import Recipes
from metalbench.results.commands import repeated, with_peaks
from metalbench.results.layout import full_name
from metalbench.results.record import Host, Run

CATALOG = Catalog()
QUICK = [name for name in CATALOG.workload_files if list(CATALOG.workload(name).cases("quick"))]


@pytest.fixture(scope="module")
def run():
    """As ``bench run --backend torch-cpu`` begins it."""
    pytest.importorskip("torch")
    columns = [Column("torch-cpu", current())]
    options = Options(columns=columns, workloads=list(CATALOG.workload_files), launches=3, budget=0.2, timeout=120, seed=1)
    plan = make_plan(options, CATALOG, Prober(CATALOG, Recipes(), []).probe(columns))
    return Run(id="r", started=1.0, label="", host=Host(key="k", facts={}), plan=msgspec.Raw(msgspec.json.encode(plan)))


@pytest.mark.parametrize("workload", QUICK)
def test_the_command_plans_that_cell_alone(bench, run, workload):
    cells = [cell for cell in run.cells() if cell.workload == workload]
    cell = cells[-1]
    program, *arguments = shlex.split(shlex.join(repeated(run, cell)))
    assert program == "bench"
    result = bench(*arguments, "--dry-run")
    assert result.returncode == 0, result.stderr
    assert f"{full_name(cell, naming(CATALOG))} · {cell.protocol}" in result.stdout.splitlines()
    assert "\n1 cells, 3 launches each" in result.stdout


def test_the_command_for_peaks_plans_a_copy_and_a_product_beside_the_workload(bench, run):
    cell = next(cell for cell in run.cells() if cell.workload == "fft")
    result = bench(*with_peaks(run, cell)[1:], "--dry-run")
    assert result.returncode == 0, result.stderr
    for words in ("fft ", "roofline copy", "roofline matmul"):
        assert [line for line in result.stdout.splitlines() if line.startswith(words) and "torch-cpu" in line]
