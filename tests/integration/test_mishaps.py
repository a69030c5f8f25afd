"""What a device does that lacks an operator, a precision or memory becomes a status that says so."""

import json

import pytest

EXPECTED = {
    "none": ("ok", ""),
    "warning": ("ok", ""),
    "fallback": ("fallback", "ran on the CPU instead: aten::linalg_eigh"),
    "printed": ("fallback", "ran on the CPU instead: aten::linalg_eigh"),
    "autocast": ("failed", "Disabling autocast"),
    "oom": ("oom", "MPS backend out of memory"),
    "abort": ("crashed", "SIGABRT"),
}


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    from support.command import Bench

    pytest.importorskip("torch")
    bench = Bench(tmp_path_factory.mktemp("mishaps"))
    bench.configure(plugins=["mishaps.py"])
    chosen = ("--workload", "mishaps", "--backend", "torch-cpu,brittle-cpu", "--launches", "1", "--budget", "0.05")
    result = bench("run", *chosen, "--json", "o.json")
    assert result.returncode == 1, result.stderr
    assert "⚠ fallback" in result.stdout
    found = json.loads((bench.folder / "o.json").read_text("utf-8"))["cells"]
    return {(cell["backend"], cell["case"]["mishap"]): cell for cell in found}


@pytest.mark.parametrize("mishap", EXPECTED)
def test_each_mishap_is_a_status_with_its_reason(cells, mishap):
    cell = cells["torch-cpu", mishap]
    status, reason = EXPECTED[mishap]
    assert cell["status"] == status, cell["reason"]
    assert reason in cell["reason"]


def test_a_fallback_has_a_time_and_a_right_answer_and_is_named_in_every_cell_of_a_process(cells):
    cell = cells["torch-cpu", "fallback"]
    assert cell["median_ns"] > 0
    assert cell["max_error"] <= cell["tolerance"]


def test_a_plug_in_that_aborts_costs_its_own_backend(cells):
    for mishap in EXPECTED:
        cell = cells["brittle-cpu", mishap]
        assert cell["status"] == "crashed"
        assert "SIGABRT" in cell["reason"]
        assert "Brittle did not open its cpu device" in cell["reason"]
