"""The star stands at the same answers in the table of a run, in its heat map and on the page of a cell."""

import pytest
from support.pages import grid, naming, page
from support.records import make_cell, make_run, timed

from metalbench.results.dashboard.heatmap import heatmap
from metalbench.results.dashboard.source import cell_path
from metalbench.results.summary import summarise
from metalbench.results.tables import report


def launches(backend, ns, count, status="ok"):
    return [timed(make_cell(backend), launch, [ns * (1 + 0.002 * launch)] * 3, status=status) for launch in range(count)]


@pytest.mark.parametrize(
    ("records", "starred"),
    [
        ([*launches("a", 2e6, 5), *launches("b", 1e6, 5), *launches("c", 1.004e6, 5)], {"b", "c"}),
        ([*launches("a", 1e6, 5), *launches("b", 1.1e6, 5)], {"a"}),
        ([*launches("a", 1e6, 5), *launches("b", 5e6, 1)], {"a", "b"}),
        ([*launches("a", 1e6, 1), *launches("b", 1e6, 5)], set()),
        ([*launches("a", 1e5, 5, "wrong"), *launches("b", 1e6, 5), *launches("c", 3e6, 5, "fallback")], {"b"}),
        ([*launches("a", 1e6, 5, "wrong")], set()),
    ],
    ids=["a tie", "the fastest alone", "what a single launch can't tell apart", "a single launch leads", "not right", "nothing is right"],
)
def test_the_star_is_the_same_wherever_it_stands(tmp_path, records, starred):
    cells = list({record.cell.key(): record.cell for record in records}.values())
    run = make_run(cells)
    table, *_ = report(run, records, naming).tables
    in_table = {name for name, field in zip(table.header[1:], table.rows[0][1:], strict=True) if "★" in str(field[0][-1])}
    (row,) = heatmap([(run, summarise(run, records))], naming).groups["w"]
    in_map = {cell.backend for cell, square in zip(cells, row.squares, strict=True) if "★" in square.marks}
    entries = grid(page(tmp_path, cell_path("r", cells[0]), (run, records)), "alike")
    on_page = {row[0][0].split()[0] for row in entries if "★" in row[3][0]}
    assert in_table == in_map == on_page == starred
