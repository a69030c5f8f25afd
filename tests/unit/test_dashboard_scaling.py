"""The pages of scaling and of the roofline: numbers by hand and from the command, and what is said where there is nothing to draw."""

import json
import re

import msgspec
import pytest
from support.cases import CATALOG
from support.pages import HOSTILE, assert_inert, grid, page, text
from support.records import HOST, make_cell, make_run, timed

from metalbench.results.dashboard.source import cell_path, run_path
from metalbench.results.dashboard.view import NoPageError
from metalbench.results.formats import native
from metalbench.results.record import Host, Measurement, Record

MS = 1e6


def sized(workload="w", backend="torch-cpu", variant="fused", **case):
    return make_cell(backend, variant, workload=workload, case=case)


def launches(cell, ns, **changes):
    return [timed(cell, launch, [ns * (1 + 0.01 * launch)], **changes) for launch in range(3)]


def measured(records, name="r", started=1.0, **changes):
    cells = list({record.cell.key(): record.cell for record in records}.values())
    return msgspec.structs.replace(make_run(cells, name=name, started=started), **changes), records


def failed(cell):
    return [Record(cell=cell, launch=0, started=1.0, measurement=Measurement(status="crashed", reason="killed"))]


def figures(root):
    return {figure.get("id"): json.loads(figure.find("script").text) for figure in root.iter("figure")}


# Scaling


def test_times_by_size_are_those_of_the_command(tmp_path):
    cells = [sized(backend=backend, n=n, dtype="float32", causal=True) for n in (64, 128, 16777216) for backend in ("torch-cpu", "mlx-cpu")]
    records = [record for place, cell in enumerate(cells) for record in launches(cell, (place + 1) * MS)]
    run, records = measured(records + launches(sized(n=256, dtype="float32", causal=True), 9 * MS, status="wrong"))
    root = page(tmp_path, run_path("r", "scaling"), (run, records))
    printed = json.loads(native.export(run, records))["cells"]
    wanted = sorted(([cell["backend"], cell["case"]["n"], cell["status"]] for cell in printed), key=lambda row: row[:2])
    rows = grid(root, "sizes")
    assert [[row[3][0], row[2][1], row[8][0]] for row in rows] == wanted
    times = {(cell["backend"], cell["case"]["n"]): [cell[name] for name in ("median_ns", "low_ns", "high_ns")] for cell in printed}
    for row in rows:
        assert [field[1] for field in row[5:8]] == times[row[3][0], row[2][1]]
    assert {row[1][0] for row in rows} == {"n"}
    assert {row[9][0] for row in rows} == {"dtype=float32, causal=true"}
    assert [row[2][0] for row in rows][:3] == ["64", "128", "16777216"]
    keys = {(cell.backend, cell.case["n"]): cell for cell in run.cells()}
    assert [row[0][2] for row in rows] == [f"../{cell_path('r', keys[row[3][0], row[2][1]])}" for row in rows]
    ((_, spec),) = figures(root).items()
    drawn = {(row["column"], row["size"]): row["time"] for kind in ("right", "doubtful") for row in spec["datasets"][kind]}
    assert drawn == {place: pytest.approx(time[0], rel=1e-4) for place, time in times.items()}


def test_work_that_differs_in_more_than_its_sizes_has_a_chart_of_its_own(tmp_path):
    kinds = [("w", "float32"), ("w", "float16"), ("fft", "float32")]
    records = [record for workload, dtype in kinds for n in (8, 16) for record in launches(sized(workload, n=n, dtype=dtype), n * MS)]
    root = page(tmp_path, run_path("r", "scaling"), measured(records + launches(sized("single", n=8, dtype="float32"), MS)))
    assert len(figures(root)) == 3
    assert {row[0][0].split()[0] for row in grid(root, "sizes")} == {"w", "fft"}


def command(root):
    (line,) = [text(line) for line in root.iter("code") if text(line).startswith("bench run")]
    return dict(re.findall(r"--(\w+) (\S+)", line))


def test_without_two_sizes_the_page_says_which_suite_has_some(tmp_path):
    root = page(tmp_path, run_path("r", "scaling"), measured(launches(sized(n=8), MS) + launches(sized(backend="mlx-cpu", n=16), MS)))
    assert list(root.iter("table")) == []
    cases = list(CATALOG.workload("attention").cases(command(root)["suite"]))
    assert len({case.queries for case in cases}) > 2


def test_where_nothing_was_timed_the_page_says_so(tmp_path):
    root = page(tmp_path, run_path("r", "scaling"), measured(failed(sized(n=8)) + failed(sized(n=16))))
    assert "Nothing was timed" in text(root)


@pytest.mark.parametrize("kind", ["scaling", "roofline"])
def test_a_run_that_is_not_there_has_no_page(tmp_path, kind):
    with pytest.raises(NoPageError, match="There is no run x"):
        page(tmp_path, run_path("x", kind))


# Roofline: a copy of 10⁶ bytes and a product of 10⁶ FLOPs take 1 ms each, so that the peaks are 10⁹ a second and the ridge is at 1


COPY, PRODUCT = ({"kind": kind, "dtype": "float32", "size": 64} for kind in ("copy", "matmul"))


def roofs(ns=MS, **changes):
    copy, product = (make_cell(workload="roofline", variant="native", case=case, **changes) for case in (COPY, PRODUCT))
    return [timed(copy, 0, [ns], flops=0, bytes=10**6), timed(product, 0, [ns], flops=10**6, bytes=10**3)]


HEAVY, LIGHT = sized(dtype="float32", n=1), sized(dtype="float32", n=2)
WORK = [timed(HEAVY, 0, [4 * MS], flops=2 * 10**6, bytes=10**5), timed(LIGHT, 0, [2 * MS], flops=10**5, bytes=10**6)]


def rates(root):
    """Case → what its row says, in its order, without name, backend and variant."""
    return {row[0][0]: row[3:] for row in grid(root, "rates")}


def test_each_cell_is_held_against_the_roofs_of_its_run(tmp_path):
    others = [*roofs(MS / 100, backend="mlx-cpu"), timed(sized(backend="mlx-cpu", dtype="float32", n=3), 0, [MS], flops=10**6, bytes=10)]
    newer = measured(roofs(MS / 7), "newer", 2.0)
    root = page(tmp_path, run_path("r", "roofline"), measured([*WORK, *roofs(), *others]), newer)
    assert "newer" not in text(root)
    found = rates(root)
    numbers = [[field[1] for field in found[f"w dtype=float32 n={n}"]] for n in (1, 2, 3)]
    assert [[*row[:1], *row[2:7]] for row in numbers] == [
        pytest.approx([0.5, 5e8, 2.5e7, 20, 2e6, 1e5]),
        pytest.approx([0.5, 5e7, 5e8, 0.1, 1e5, 1e6]),
        pytest.approx([0.01, 1e9, 1e4, 1e5, 1e6, 10]),
    ]
    assert [row[1] for row in numbers] == ["arithmetic", "memory", "arithmetic"]
    assert [field[0] for field in found["w dtype=float32 n=1"]][:7] == [
        *("50 %", "arithmetic", "500 MFLOP/s", "25.0 MB/s", "20", "2.00 MFLOP", "97.7 KiB"),
    ]
    assert found["roofline kind=copy dtype=float32 size=64"][0][0] == "–"
    assert [row[0][2] for row in grid(root, "rates")][:2] == [f"../{cell_path('r', cell)}" for cell in (HEAVY, LIGHT)]
    points = figures(root)["roofline"]["datasets"]["right"]
    assert {(point["intensity"], point["speed"]) for point in points} == {(20, 5e8), (0.1, 5e7), (1e5, 1e9)}
    assert "Of the roof:" in text(root)


def test_a_run_without_roofs_has_those_of_the_machine_s_newest_run_with_some(tmp_path):
    updated = Host(key="updated", facts=HOST.facts | {"system": "25.1"})
    runs = [
        measured(roofs(MS), "old", 1.0),
        measured(roofs(2 * MS), "new", 2.0, host=updated),
        measured(roofs(MS / 50), "elsewhere", 3.0, host=Host(key="other", facts={"chip": "M9"})),
        measured(roofs(MS / 50, backend="mlx-cpu"), "another backend", 4.0),
        measured(WORK, "r", 5.0),
    ]
    root = page(tmp_path, run_path("r", "roofline"), *runs)
    assert "The roofs are those of run new" in text(root)
    assert "../run/new.html" in [link.get("href") for link in root.iter("a")]
    assert [found[0][1] for found in rates(root).values()] == pytest.approx([1.0, 1.0])
    hidden = page(tmp_path, run_path("r", "roofline"), exists=lambda path: path == run_path("r"))
    assert "The roofs are those of run new" in text(hidden)
    assert "../run/new.html" not in [link.get("href") for link in hidden.iter("a")]


def test_without_any_roofs_the_page_names_the_command_that_measures_them(tmp_path):
    root = page(tmp_path, run_path("r", "roofline"), measured(WORK))
    assert [[field[1] for field in found[:4]] for found in rates(root).values()] == [[None, None, 5e8, 2.5e7], [None, None, 5e7, 5e8]]
    asked = command(root)
    cases = CATALOG.workload(asked["workload"]).cases(asked["suite"])
    assert {case.kind for case in cases} == {"copy", "matmul"}
    assert "Of the roof:" not in text(root)


def test_a_run_of_roofs_alone_draws_them(tmp_path):
    root = page(tmp_path, run_path("r", "roofline"), measured(roofs()))
    assert len(figures(root)["roofline"]["datasets"]["roofs"]) == 3


def test_a_run_of_failures_has_a_page(tmp_path):
    root = page(tmp_path, run_path("r", "roofline"), measured(failed(HEAVY)))
    assert "No cell was timed" in text(root)
    assert figures(root) == {}


def test_what_is_wrong_is_shown_and_held_against_nothing(tmp_path):
    wrong = timed(HEAVY, 0, [4 * MS], flops=10**6, bytes=10**5, status="wrong")
    row = rates(page(tmp_path, run_path("r", "roofline"), measured([wrong, *roofs()])))["w dtype=float32 n=1"]
    assert [field[0] for field in row[:3]] == ["–", "–", "250 MFLOP/s"]
    assert row[-1][0] == "wrong"


@pytest.mark.parametrize("kind", ["scaling", "roofline"])
def test_text_stays_text(tmp_path, kind):
    words = dict.fromkeys(("backend", "variant", "environment", "workload", "protocol", "policy"), HOSTILE)
    cells = [make_cell(**words, case={HOSTILE: HOSTILE, "dtype": HOSTILE, "size": size}) for size in (1, 2)]
    records = [record for cell in cells for record in launches(cell, MS, flops=10**6, bytes=10**3)]
    product = {"kind": "matmul", "dtype": HOSTILE, "size": 8}
    peak = make_cell(HOSTILE, workload="roofline", environment=HOSTILE, case=product)
    run, records = measured(records, HOSTILE, 2.0, label=HOSTILE)
    root = page(tmp_path, run_path(HOSTILE, kind), (run, records), measured([timed(peak, 0, [MS])], f"2{HOSTILE}"))
    assert_inert(root)
    assert len(figures(root)) == 1
    assert len(grid(root, "sizes" if kind == "scaling" else "rates")) == 2
