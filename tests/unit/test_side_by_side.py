"""Several runs in one report: columns by machine, ratios to the best of all, rows of the same work only."""

import csv
import io

import msgspec
from support.records import make_cell, make_run, timed

from metalbench.results.printers import print_csv, print_text
from metalbench.results.record import Host
from metalbench.results.summary import named_by_machine, summarise
from metalbench.results.tables import report, side_by_side


def naming(cell):
    return f"size {cell.case['size']}"


def side(name, chip, times, memory="16", label="", **cell):
    """A run of five launches; ``times``: backend → ns a call."""
    host = Host(key=f"{chip} {memory}", facts={"chip": chip, "memory_gib": memory, "cores": "8", "system": "Darwin 25"})
    cells = [(make_cell(backend, **cell), ns) for backend, ns in times.items()]
    records = [timed(own, launch, [ns + launch]) for own, ns in cells for launch in range(5)]
    run = msgspec.structs.replace(make_run([own for own, _ in cells], name=name, label=label), host=host, state="finished")
    return run, summarise(run, records)


def lines(field):
    return [" ".join(map(str, line)) for line in field]


def test_machines_stand_beside_each_other_and_the_best_of_all_is_the_measure():
    sides = [side("a", "Apple M4", {"mlx-metal": 2000, "torch-mps": 3000}), side("b", "Apple M2", {"mlx-metal": 1000})]
    found = side_by_side(sides, naming)
    times = found.tables[0]
    assert times.header == ["case", "mlx-metal · Apple M4", "torch-mps · Apple M4", "mlx-metal · Apple M2"]
    (row,) = times.rows
    assert [lines(field)[1].split()[0] for field in row[1:]] == ["2.00×", "3.00×", "1.00×"]
    assert ["★" in lines(field)[0] for field in row[1:]] == [False, False, True]
    assert [value for name, value in found.facts if name == "machine"] == [
        "Apple M4, 8 cores, 16 GiB, Darwin 25",
        "Apple M2, 8 cores, 16 GiB, Darwin 25",
    ]
    relative = side_by_side(sides, naming, "torch-mps").tables[0].rows[0]
    assert [lines(field)[1].split()[0] for field in relative[1:]] == ["0.67×", "1.00×", "0.33×"]


def test_one_run_is_shown_as_it_always_was():
    run, summaries = side("a", "Apple M4", {"mlx-metal": 2000}, label="mine")
    records = [record for summary in summaries for record in summary.records]
    assert side_by_side([(run, summaries)], naming) == report(run, records, naming)
    found = report(run, records, naming)
    assert found.title == "Run a “mine”"
    assert found.tables[0].header == ["case", "mlx-metal"]
    assert lines(found.tables[0].rows[0][0]) == ["size 8"]


def test_other_work_never_shares_a_row():
    sides = [
        side("a", "Apple M4", {"mlx-metal": 2000}),
        side("b", "Apple M2", {"mlx-metal": 1000}, version=2),
        side("c", "Apple M1", {"mlx-metal": 4000}, policy="tf32"),
        side("d", "Apple M3", {"mlx-metal": 3000}, protocol="throughput"),
        side("e", "Apple M5", {"mlx-metal": 500}),
    ]
    rows = side_by_side(sides, naming).tables[0].rows
    assert [lines(row[0]) for row in rows] == [
        ["size 8 (version 1, policy ieee-float32, protocol latency)"],
        ["size 8 (version 2, policy ieee-float32, protocol latency)"],
        ["size 8 (version 1, policy tf32, protocol latency)"],
        ["size 8 (version 1, policy ieee-float32, protocol throughput)"],
    ]
    timed_in = [[lines(field) != ["–"] for field in row[1:]] for row in rows]
    assert timed_in == [
        [True, False, False, False, True],
        [False, True, False, False, False],
        [False, False, True, False, False],
        [False, False, False, True, False],
    ]
    assert lines(rows[0][1])[1].split()[0] == "3.99×"  # of the other machine with the same work
    errors = side_by_side(sides, naming).tables[-1]
    assert len(errors.rows) == 4


def test_a_share_of_the_peak_is_of_the_own_machine_s():
    def machine(name, copy_ns):
        case = {"kind": "copy", "size": 8, "dtype": "float32"}
        times = {"roofline": copy_ns, "w": 1000}
        records = [timed(make_cell("mlx-metal", workload=work, case=case), 0, [ns], flops=None) for work, ns in times.items()]
        run = make_run([record.cell for record in records], name=name)
        return run, summarise(run, records)

    tables = side_by_side([machine("a", 500), machine("b", 250)], naming).tables
    (row,) = next(table for table in tables if table.title == "w").rows
    assert [lines(field)[1].partition("/s ")[2] for field in row[1:]] == ["50 % of peak", "25 % of peak"]


def test_machines_of_one_chip_are_told_apart_and_summaries_stay_as_they_were():
    sides = [side("a", "Apple M4", {"mlx-metal": 2000}), side("b", "Apple M4", {"mlx-metal": 1000}, memory="32")]
    named = [summary.column for _, own in named_by_machine(sides) for summary in own]
    assert named == ["mlx-metal · Apple M4, 16 GiB", "mlx-metal · Apple M4, 32 GiB"]
    assert [summary.column for _, own in sides for summary in own] == ["mlx-metal", "mlx-metal"]
    same = [side("a", "Apple M4", {"mlx-metal": 2000}), side("b", "Apple M4", {"mlx-metal": 1000}, label="plugged in")]
    named = [summary.column for _, own in named_by_machine(same) for summary in own]
    assert len(set(named)) == 2


def test_csv_says_of_which_run_machine_and_work_a_row_is_where_there_are_several():
    sides = [side("a", "Apple M4", {"mlx-metal": 2000}), side("b", "Apple M2", {"mlx-metal": 1000}, version=2)]
    out, alone = io.StringIO(), io.StringIO()
    print_csv(sides, naming, out)
    print_csv(sides[:1], naming, alone)
    rows = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert [(row["run"], row["machine"], row["version"], row["median_ns"]) for row in rows] == [
        ("a", "Apple M4", "1", "2002.0"),
        ("b", "Apple M2", "2", "1002.0"),
    ]
    assert alone.getvalue().startswith("workload,case,backend,")


def test_a_machine_called_to_spoil_the_terminal_does_not():
    out = io.StringIO()
    sides = [side("a", "M4\x1b[2J", {"mlx-metal": 2000}, workload="w\x1b]0;x"), side("b", "M2", {"mlx-metal": 1000})]
    print_text(side_by_side(sides, naming), out)
    assert "\x1b" not in out.getvalue()
    assert "M4" in out.getvalue()
