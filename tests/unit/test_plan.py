"""Options → cells and their order; inputs made once and alike for all."""

import io
import os
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from metalbench.harness.capability import Capability
from metalbench.harness.catalog import Catalog
from metalbench.harness.cli.context import Context
from metalbench.harness.cli.options import Given, make_options
from metalbench.harness.cli.progress import Display
from metalbench.harness.config import Config
from metalbench.harness.environments import Column, current
from metalbench.harness.errors import PluginError, UsageError
from metalbench.harness.inputs import WORKLOADS, load, prepare, trim
from metalbench.harness.plan import Options, make_plan
from metalbench.harness.protocol import Offer
from metalbench.results.record import Measurement, Record

CATALOG = Catalog()
BACKENDS = ["torch-cpu", "jax-cpu", "mlx-cpu"]
OFFERS = {
    name: Offer(list(CATALOG.workload(name).variants), next(iter(CATALOG.workload(name).variants))) for name in CATALOG.workload_files
}
COLUMNS = [Column(name, current()) for name in BACKENDS]
ABLE = {column.key: Capability(status="ok", offers=OFFERS) for column in COLUMNS}


def options(**changes):
    fields = {"columns": COLUMNS, "workloads": list(OFFERS), "launches": 3, "budget": 0.25, "timeout": 60, "seed": 1}
    return Options(**(fields | changes))


@given(seed=st.integers(0, 2**32), launches=st.integers(1, 6), suite=st.sampled_from(["quick", "standard", "large"]))
def test_every_cell_is_measured_once_a_launch_in_an_order_the_seed_decides(seed, launches, suite):
    chosen = options(seed=seed, launches=launches, suite=suite)
    plan, again = make_plan(chosen, CATALOG, ABLE), make_plan(chosen, CATALOG, ABLE)
    assert plan == again
    measured = Counter((place, block.launch) for block in plan.blocks for place in block.cells)
    assert measured == Counter({(place, launch): 1 for place in range(len(plan.cells)) for launch in range(launches)})
    assert [block.launch for block in plan.blocks] == sorted(block.launch for block in plan.blocks)
    for block in plan.blocks:
        assert {plan.cells[place].column for place in block.cells} == {COLUMNS[block.column].key}


def test_rounds_differ_in_their_order():
    plan = make_plan(options(), CATALOG, ABLE)
    orders = [[place for block in plan.blocks if block.launch == launch for place in block.cells] for launch in range(3)]
    assert orders[0] != orders[1] != orders[2]


def test_quick_has_about_ten_cells_a_backend_and_the_others_every_variant():
    quick = Counter(cell.backend for cell in make_plan(options(), CATALOG, ABLE).cells)
    assert all(8 <= count <= 12 for count in quick.values())
    standard = make_plan(options(suite="standard"), CATALOG, ABLE)
    for name, offer in OFFERS.items():
        assert {cell.variant for cell in standard.cells if cell.workload == name} == set(offer.variants)


def test_the_matrix_of_operators_is_measured_only_where_it_is_named():
    ctx = Context(Config(), [], CATALOG)

    def cells(suite, **given):
        return make_plan(make_options(Given(suite=suite, **given), COLUMNS[:1], ctx), CATALOG, ABLE).cells

    assert {cell.workload for cell in cells("standard")} == {*CATALOG.workload_files} - {"operators"}
    assert {cell.workload for cell in cells("standard", workload=["operators"])} == {"operators"}
    with pytest.raises(UsageError, match=r"Suite quick has no case of operators; give --suite standard or large\."):
        cells("quick", workload=["operators"])


def test_no_backend_is_asked_for_a_variant_that_means_nothing_for_a_case():
    """A transform as a product of two dimensions, or 8-bit codes in a type of 4 bits."""
    cells = make_plan(options(suite="standard", workloads=["fft", "quantized_matmul"]), CATALOG, ABLE).cells
    assert {cell.case["rows"] for cell in cells if cell.variant == "naive"} == {1}
    assert {cell.case["direction"] for cell in cells if cell.variant == "naive"} == {"forward"}
    assert {cell.case["scheme"] for cell in cells if cell.variant == "uint4"} == {"int4"}
    asked = make_plan(options(suite="standard", workloads=["fft"], variants=["naive"]), CATALOG, ABLE).cells
    assert {cell.key() for cell in asked} == {cell.key() for cell in cells if cell.variant == "naive"}


def test_a_backend_that_cannot_be_asked_keeps_its_rows():
    plan = make_plan(options(), CATALOG, ABLE | {("mlx-cpu", "current"): Capability(status="unavailable", reason="not installed")})
    count = Counter(cell.backend for cell in plan.cells)
    assert count["mlx-cpu"] == count["torch-cpu"]
    assert {cell.variant for cell in plan.cells if cell.backend == "mlx-cpu"} == {"default"}


def test_filters_of_one_key_are_alternatives_and_of_two_conditions():
    cases = [("dtype", "float32"), ("dtype", "bfloat16"), ("causal", "True")]
    plan = make_plan(options(suite="standard", workloads=["attention"], cases=cases), CATALOG, ABLE)
    assert {(cell.case["dtype"], cell.case["causal"]) for cell in plan.cells} == {("float32", True), ("bfloat16", True)}
    with pytest.raises(UsageError, match="at once"):
        make_plan(options(workloads=["attention"], cases=[("dtype", "bfloat16"), ("queries", "1")]), CATALOG, ABLE)


def test_keys_of_cells_are_stable_and_distinct():
    cells = make_plan(options(suite="standard"), CATALOG, ABLE).cells
    assert len({cell.key() for cell in cells}) == len(cells)
    assert cells[0].key() == make_plan(options(suite="standard", seed=9), CATALOG, ABLE).cells[0].key()


def test_inputs_are_made_once_and_read_back_byte_for_byte(tmp_path):
    workload, source = CATALOG.workload("fft"), CATALOG.workload_files["fft"]
    case = next(iter(workload.cases("quick")))
    folder = prepare(workload, case, 0, source, tmp_path)
    stamp = (folder / "inputs" / "x.npy").stat().st_mtime_ns
    assert prepare(workload, case, 0, source, tmp_path) == folder
    assert (folder / "inputs" / "x.npy").stat().st_mtime_ns == stamp
    assert prepare(workload, case, 1, source, tmp_path) != folder
    other = prepare(workload, case, 0, source, tmp_path / "elsewhere")
    (inputs, reference), (theirs, _) = load(folder), load(other)
    assert inputs["x"].tobytes() == theirs["x"].tobytes()
    np.testing.assert_array_equal(reference["out"], workload.reference(case, inputs)["out"])
    with pytest.raises(ValueError, match="read-only"):
        inputs["x"][0] = 0


def test_an_edit_of_code_that_a_workload_depends_on_makes_new_inputs(tmp_path, monkeypatch):
    """quantized_matmul imports base and int4_matmul; a plug-in is a file elsewhere."""
    workload, folder, cache = CATALOG.workload("fft"), tmp_path / "workloads", tmp_path / "cache"
    case = next(iter(workload.cases("quick")))
    shutil.copytree(WORKLOADS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr("metalbench.harness.inputs.WORKLOADS", folder)
    plugin = tmp_path / "plugin.py"
    plugin.write_text("def reference():\n    from metalbench.workloads import quantized_matmul\n")

    def made():
        return [prepare(workload, case, 0, source, cache) for source in (folder / "quantized_matmul.py", plugin)]

    def edit(file):
        file.write_text(f"{file.read_text('utf-8')}# and a line more\n", "utf-8")

    seen = made()
    edit(folder / "fft.py")  # which neither imports
    assert made() == seen
    for name in ("quantized_matmul", "int4_matmul", "base"):
        edit(folder / f"{name}.py")
        again = made()
        assert not {*again} & {*seen}, name
        seen += again


def test_a_half_made_folder_never_shows(tmp_path, monkeypatch):
    workload, source = CATALOG.workload("fft"), CATALOG.workload_files["fft"]
    case = next(iter(workload.cases("quick")))

    def broken(self, case, inputs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(workload), "reference", broken)
        with pytest.raises(KeyboardInterrupt):
            prepare(workload, case, 0, source, tmp_path)
    assert list(tmp_path.iterdir()) == []
    prepare(workload, case, 0, source, tmp_path)


def test_the_least_recently_used_inputs_go_first(tmp_path):
    workload, source = CATALOG.workload("int4_matmul"), CATALOG.workload_files["int4_matmul"]
    cases = list(workload.cases("quick"))
    folders = [prepare(workload, case, 0, source, tmp_path) for case in cases]
    os.utime(folders[0], (1, 1))
    trim(tmp_path, sum(file.stat().st_size for file in folders[1].rglob("*.npy")))
    assert [folder.exists() for folder in folders] == [False, True]


def test_the_live_display_says_what_is_in_work_how_far_it_is_and_what_is_left():
    plan = make_plan(options(workloads=["fft"]), CATALOG, ABLE)
    display = Display(plan, CATALOG)
    display.opening(COLUMNS[0])

    def shown():
        console = Console(width=100, file=io.StringIO(), force_terminal=True, color_system=None)
        console.print(display)
        return console.file.getvalue().splitlines()

    assert shown()[0].startswith("starting torch-cpu")
    assert shown()[-1].startswith("0 of 27")
    display.started(plan.cells[0], 1)
    display.stage("sampling")
    display.finished(Record(cell=plan.cells[1], launch=0, started=0, measurement=Measurement(status="crashed", reason="x")))
    first, *_, last = shown()
    assert "launch 2 of 3  sampling" in first
    assert last.startswith("3 of 27   crashed 1   about")


def test_plugins_bring_workloads_backends_and_implementations():
    plugins = Path(__file__).parent.parent / "plugins"
    catalog = Catalog([plugins / "faulty.py", plugins / "steady.py"])
    assert {"faults", "steady"} <= set(catalog.workload_files)
    assert "numpy-cpu" in catalog.backends
    assert catalog.implementation("numpy", "steady").default == "native"
    assert catalog.implementation("numpy", "fft") is None
    with pytest.raises(PluginError, match="does not exist"):
        Catalog([plugins / "missing.py"])
