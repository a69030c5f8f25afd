"""The coverage matrix: what makes a row, what a field says, and where it leads."""

import msgspec
import pytest
from support.pages import HOSTILE, SHOWN, assert_inert, facts, grid, page, text
from support.records import make_cell, make_run, timed

from metalbench.harness.catalog import Catalog
from metalbench.results.dashboard.pages.operators import in_words
from metalbench.results.record import Measurement, Record


def operator(name, dtype="float32", size=8, **changes):
    return make_cell(workload="operators", variant="native", case={"dtype": dtype, "operator": name, "size": size}, **changes)


def absent(cell, status, reason=""):
    return Record(cell=cell, launch=0, started=1.0, measurement=Measurement(status=status, reason=reason))


def matrix(folder, records, **changes):
    cells = list({record.cell.key(): record.cell for record in records}.values())
    return page(folder, "operators/r.html", (msgspec.structs.replace(make_run(cells), **changes), records))


def test_an_operator_is_a_row_and_a_backend_a_column(tmp_path):
    cumsum, sort = operator("cumsum"), operator("sort", dtype="bfloat16")
    elsewhere = operator("sort", dtype="bfloat16", backend="mlx-cpu")
    root = matrix(tmp_path, [timed(cumsum, 0, [1e6]), timed(sort, 0, [1e6]), absent(elsewhere, "unsupported", "no such operator")])
    assert [text(column) for column in root.iter("th") if column.get("scope") == "col"] == [
        *("workload", "case", "variant"),
        *("torch-cpu", "mlx-cpu"),
    ]
    assert grid(root, "operators") == [
        [
            *(("operators", "operators", None), ("cumsum float32", "cumsum float32", None), ("native", "native", None)),
            *(("ok", "ok", f"../cell/r/{cumsum.key()}.html"), ("–", None, None)),
        ],
        [
            *(("operators", "operators", None), ("sort bfloat16", "sort bfloat16", None), ("native", "native", None)),
            ("ok", "ok", f"../cell/r/{sort.key()}.html"),
            ("unsupported no such operator", "unsupported", f"../cell/r/{elsewhere.key()}.html"),
        ],
    ]


def test_cells_that_differ_are_counted_and_the_gravest_is_a_link_away(tmp_path):
    cells = [operator("sort", size=size) for size in range(9)]
    records = [timed(cell, 0, [1e6]) for cell in cells[:6]]
    records += [timed(cells[6], 0, [1e6], status="wrong", reason="off"), absent(cells[7], "crashed", "killed " + "z" * 200)]
    records += [timed(cells[8], 0, [1e6], status="fallback", reason="ran on the CPU instead: sort")]
    root = matrix(tmp_path, records)
    ((*_, field),) = grid(root, "operators")
    words, value, link = field
    assert value == "6 ok, 1 fallback, 1 wrong, 1 crashed"
    assert words == f"{value} killed {'z' * 113} …"
    assert link == f"../cell/r/{cells[7].key()}.html"
    assert list(facts(root)) == ["ok", "fallback", "wrong", "crashed", "–"]


def test_the_status_of_a_cell_is_that_of_its_gravest_launch(tmp_path):
    cell = operator("sort")
    root = matrix(tmp_path, [timed(cell, 0, [1e6]), timed(cell, 1, [1e6], status="wrong", reason="off"), timed(cell, 2, [1e6])])
    assert grid(root, "operators")[0][-1][0] == "wrong off"


@pytest.mark.parametrize(
    ("workload", "rows"),
    [
        ("attention", {"causal float32", "causal bfloat16", "causal float16", "float32", "bfloat16", "float16"}),
        ("fft", {"complex forward float32", "real forward float32", "complex roundtrip float32", "real roundtrip float32"}),
        ("int4_matmul", {"float32", "float16", "bfloat16"}),
        ("amp_step", {"float32", "float16", "bfloat16"}),
    ],
)
def test_sizes_make_no_row_and_words_do(workload, rows):
    cases = list(Catalog().workload(workload).cases("standard"))
    assert {in_words(case.parameters()) for case in cases} == rows
    assert len(cases) > len(rows) or workload == "amp_step"


def test_a_backend_in_two_environments_has_two_columns(tmp_path):
    cells = [operator("sort", environment=f"torch-cpu:torch=={version}") for version in ("2.12", "2.13")]
    root = matrix(tmp_path, [timed(cells[0], 0, [1e6]), absent(cells[1], "failed", "broken")])
    (row,) = grid(root, "operators")
    assert [field[0] for field in row[3:]] == ["ok", "failed broken"]


def test_what_was_not_measured_is_counted(tmp_path):
    cells = [operator("sort", size=size) for size in range(3)]
    root = page(tmp_path, "operators/r.html", (make_run(cells), [timed(cells[0], 0, [1e6])]))
    assert "3 cells: 1 ok, 2 not measured." in text(root)


def test_a_run_without_records_has_a_page(tmp_path):
    root = page(tmp_path, "operators/r.html", (make_run([operator("sort")]), []))
    assert "1 cells: 1 not measured." in text(root)
    assert list(root.iter("table")) == []


def test_text_stays_text(tmp_path):
    words = dict.fromkeys(("backend", "variant", "environment", "workload"), HOSTILE)
    cells = [make_cell(**words, case={HOSTILE: HOSTILE, "dtype": HOSTILE}), make_cell(backend="mlx-cpu")]
    records = [absent(cells[0], "failed", HOSTILE), timed(cells[1], 0, [1e6])]
    root = matrix(tmp_path, records, label=HOSTILE)
    assert_inert(root)
    row = grid(root, "operators")[0]
    assert [field[1] for field in row[:3]] == [SHOWN, f"{SHOWN} {SHOWN}", SHOWN]
    assert row[3][2] == f"../cell/r/{cells[0].key()}.html"
    assert SHOWN in text(root.find(".//h1"))
