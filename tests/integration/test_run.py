"""``bench run`` over the real frameworks, and over a small one where frameworks don't matter."""

import csv
import io
import json
import os

import pytest

from metalbench.results.quantities import Quantity
from metalbench.results.store import open_store

SMALL = ("run", "--workload", "steady", "--backend", "numpy-cpu", "--launches", "2", "--budget", "0.05")
FOUR = ("torch-cpu", "jax-cpu", "mlx-cpu", "tf-cpu")


@pytest.fixture
def small(bench):
    bench.configure(plugins=["faulty.py", "steady.py"])
    return bench


def strict(text):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_four_frameworks_side_by_side(bench):
    only = ("--case", "dtype=float32", "--workload", "attention,fft,int4_matmul,amp_step")
    result = bench("run", *only, "--launches", "1", "--budget", "0.05", "--json", "out.json", "--seed", "7", timeout=280)
    assert result.returncode == 0, result.stdout + result.stderr
    document = strict((bench.folder / "out.json").read_text("utf-8"))
    assert document["format"] == "metalbench/1"
    seen = {(cell["workload"], cell["backend"]): cell for cell in document["cells"]}
    assert set(seen) == {(workload, backend) for workload in ("attention", "fft", "int4_matmul", "amp_step") for backend in FOUR}
    for cell in document["cells"]:
        assert cell["status"] == "ok", cell
        (launch,) = cell["launches"]
        assert cell["median_ns"] == pytest.approx(sorted(launch["samples_ns"])[len(launch["samples_ns"]) // 2], rel=0.5)
        assert 0 <= cell["max_error"] <= cell["tolerance"]
        assert launch["first_call_ns"] > 0
        assert launch["stop"] in {"precision", "noise", "budget"}
        assert launch["memory"]["process_peak"] > 1 << 20
        assert launch["memory"]["process_shared"]
    peak = {backend: seen["fft", backend]["device_peak_bytes"] for backend in FOUR}
    assert peak["mlx-cpu"] > 0
    assert [peak[backend] for backend in FOUR if backend != "mlx-cpu"] == [None] * 3
    for backend in FOUR:
        assert backend in result.stdout


def test_every_variant_and_its_memory_in_a_fresh_process(small):
    result = small("run", "--suite", "standard", *SMALL[1:], "--json", "out.json")
    assert result.returncode == 0, result.stderr
    cells = strict((small.folder / "out.json").read_text("utf-8"))["cells"]
    for cell in cells:
        first, second = cell["launches"]
        assert first["memory"]["process_shared"] is False
        assert second["memory"] is None


def test_where_memory_matters_little_no_process_is_started_for_it(bench):
    case = ("--case", "operator=add", "--case", "dtype=float32")
    only = ("--workload", "operators", "--backend", "mlx-cpu", "--launches", "1", "--budget", "0.05")
    result = bench("run", "--suite", "standard", *only, *case, "--json", "out.json")
    assert result.returncode == 0, result.stderr
    (cell,) = strict((bench.folder / "out.json").read_text("utf-8"))["cells"]
    assert cell["launches"][0]["memory"]["process_shared"]


@pytest.mark.parametrize("protocol", ["latency", "throughput", "latency-cold"])
def test_protocols_are_kept_apart(small, protocol):
    assert small(*SMALL, "--protocol", protocol, "--json", "out.json").returncode == 0
    cells = strict((small.folder / "out.json").read_text("utf-8"))["cells"]
    assert {cell["protocol"] for cell in cells} == {protocol}
    assert {cell["status"] for cell in cells} == {"ok"}


def test_throughput_of_a_training_step(bench):
    """Its outputs are changed or given away by the next call; it is checked all the same."""
    backends = "torch-cpu,jax-cpu,mlx-cpu,tf-cpu"
    only = ("--workload", "amp_step", "--case", "dtype=float32", "--protocol", "throughput")
    result = bench("run", *only, "--backend", backends, "--launches", "1", "--budget", "0.05", "--json", "out.json")
    assert result.returncode == 0, result.stdout
    cells = strict((bench.folder / "out.json").read_text("utf-8"))["cells"]
    assert [(cell["backend"], cell["status"], cell["reason"]) for cell in cells if cell["status"] != "ok"] == []
    assert {cell["launches"][0]["calls_per_sample"] for cell in cells} == {5}


def test_too_small_to_rotate_is_unsupported_with_the_reason(small):
    assert small(*SMALL, "--protocol", "throughput-cold", "--json", "out.json").returncode == 0
    cells = strict((small.folder / "out.json").read_text("utf-8"))["cells"]
    assert {cell["status"] for cell in cells} == {"unsupported"}
    assert "use latency-cold" in cells[0]["reason"]


def test_the_same_seed_plans_the_same_cells_in_the_same_order(small):
    plans = [small(*SMALL, "--seed", seed, "--dry-run") for seed in ("5", "5", "6")]
    assert [plan.returncode for plan in plans] == [0, 0, 0]
    assert plans[0].stdout == plans[1].stdout
    assert plans[0].stdout != plans[2].stdout
    assert not (small.folder / "results.sqlite").exists()


def test_every_format_of_show(small):
    assert small(*SMALL, "--label", "größer | *schöner* <b>", "--store", "results.sqlite").returncode == 0
    show = {
        name: small("show", "--store", "results.sqlite", "--format", name).stdout for name in ("text", "markdown", "csv", "json", "html")
    }
    assert "größer | *schöner* <b>" in show["text"]
    assert "größer \\| \\*schöner\\* &lt;b&gt;" in show["markdown"]
    assert "<b>" not in show["html"].replace("<body>", "")
    assert "größer | *schöner* &lt;b&gt;" in show["html"]
    rows = list(csv.DictReader(io.StringIO(show["csv"])))
    cells = strict(show["json"])["cells"]
    assert [float(row["median_ns"]) for row in rows] == [cell["median_ns"] for cell in cells]
    table_rows = [line for line in show["markdown"].splitlines() if line.startswith("| dtype=float32 size")]
    assert len(table_rows) == len(cells)


def test_a_run_is_found_by_label_and_by_age(small):
    for label in ("first", "second"):
        assert small(*SMALL, "--label", label, "--store", "results.sqlite", "--quiet").returncode == 0
    titles = [small("show", name, "--store", "results.sqlite").stdout.splitlines()[0] for name in ("first", "latest", "latest~1", "second")]
    assert titles[0] == titles[2] != titles[1] == titles[3]
    listed = small("list", "runs", "--store", "results.sqlite").stdout
    assert listed.index("second") < listed.index("first")


def test_ratios_relative_to_a_backend(bench):
    only = ("--workload", "fft", "--case", "kind=complex,length=1009", "--backend", "torch-cpu,mlx-cpu", "--launches", "2")
    assert bench("run", *only, "--budget", "0.05", "--store", "results.sqlite").returncode == 0
    shown = bench("show", "--store", "results.sqlite", "--relative-to", "mlx-cpu").stdout
    cells = strict(bench("show", "--store", "results.sqlite", "--format", "json").stdout)["cells"]
    time = {cell["backend"]: cell["median_ns"] for cell in cells}
    assert "1.00×" in shown
    assert str(Quantity(time["torch-cpu"] / time["mlx-cpu"], "ratio")) in shown


def test_decimal_commas_and_foreign_letters(small, tmp_path):
    folder = tmp_path / "Messung für später (½)"
    folder.mkdir()
    environment = {**os.environ, "LC_ALL": "de_DE.UTF-8", "BENCH_STORE": str(folder / "Ergebnisse 100%?#.sqlite")}
    result = small(*SMALL, "--label", "结果 نتيجة", "--json", str(folder / "aus.json"), env=environment)
    assert result.returncode == 0, result.stderr
    assert strict((folder / "aus.json").read_text("utf-8"))["cells"]
    assert (folder / "Ergebnisse 100%?#.sqlite").exists()
    assert "结果 نتيجة" in small("list", "runs", env=environment).stdout


def test_a_terminal_that_knows_only_ascii(small):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = small(*SMALL, env=environment)
    assert result.returncode == 0, result.stderr


def test_results_do_not_depend_on_who_reads_them(small):
    """Raw spans come back as they were measured."""
    assert small(*SMALL, "--store", "results.sqlite", "--json", "out.json").returncode == 0
    cells = strict((small.folder / "out.json").read_text("utf-8"))["cells"]
    with open_store(str(small.folder / "results.sqlite")) as store:
        records = store.records(store.run("latest").id)
    measured = sorted(value for record in records for value in record.measurement.samples_ns())
    assert measured == sorted(value for cell in cells for launch in cell["launches"] for value in launch["samples_ns"])
