"""The pages of comparisons: the verdicts of the command, what is refused, and which pairs of runs are offered."""

import json

import msgspec
import numpy as np
import pytest
from support.pages import HOSTILE, assert_inert, facts, grid, naming, page, parsed, text
from support.records import HOST, make_cell, make_run, timed

from metalbench.results import comparison_report
from metalbench.results.comparison import compare
from metalbench.results.dashboard.pages import compare as compare_page
from metalbench.results.dashboard.site import Site
from metalbench.results.dashboard.source import Source, cell_path, comparison_path, run_path
from metalbench.results.dashboard.view import NoPageError
from metalbench.results.record import Host, Measurement, Memory, Record
from metalbench.results.store import open_store

SLOWER, SAME, FASTER, WRONG = (make_cell(size=size) for size in (1, 2, 3, 4))


def launches(cell, ns, count=8, seed=0, **changes):
    rng = np.random.default_rng([seed, round(ns)])
    return [timed(cell, launch, [ns * rng.normal(1, 0.01)] * 3, **changes) for launch in range(count)]


def recorded(records, name, started=1.0, suite="", **changes):
    cells = list({record.cell.key(): record.cell for record in records}.values())
    plan = msgspec.Raw(msgspec.json.encode({"cells": cells, "options": {"launches": len(records), "suite": suite}}))
    return msgspec.structs.replace(make_run(cells, name=name, started=started), plan=plan, **changes), records


def two_runs():
    """The later is slower in one cell, the same in one, faster in one and wrong in one; and what takes as long takes more memory."""
    peaks = [{"memory": Memory(process_peak=mib << 20, process_source="s")} for mib in (200, 300)]
    before = [*launches(SAME, 1e6, **peaks[0]), *launches(SLOWER, 2e6), *launches(FASTER, 3e6), *launches(WRONG, 4e6)]
    after = [*launches(SAME, 1.001e6, seed=1, **peaks[1]), *launches(SLOWER, 2.6e6, seed=1), *launches(FASTER, 2e6, seed=1)]
    return recorded(before, "a"), recorded([*after, *launches(WRONG, 4e6, seed=1, status="wrong", reason="off")], "b", started=2.0)


def compared(folder, base, candidate, **options):
    return page(folder, comparison_path(base[0].id, candidate[0].id), base, candidate, **options)


def test_its_numbers_and_verdicts_are_those_of_the_command(tmp_path):
    base, candidate = two_runs()
    root = compared(tmp_path, base, candidate)
    found = comparison_report.data(compare(base, candidate), naming)["cells"]
    rows = grid(root, "cells")
    assert [row[0][0] for row in rows] == [f"w {cell['name']} · torch-cpu · fused" for cell in found]
    assert [[row[1][1], row[2][1]] for row in rows] == [cell["median_ns"] for cell in found]
    told = [(row[3][1], row[4][0].lower()) for row in rows]
    assert told == [(cell["time"]["ratio"], cell["time"]["verdict"]) if cell["time"] else (None, "–") for cell in found]
    assert [row[4][0] for row in rows] == ["–", "SLOWER", "SAME", "FASTER"]
    slower = found[1]["time"]
    assert rows[1][3][0] == f"{slower['ratio']:.3f}× ({slower['low']:.3f} … {slower['high']:.3f})"
    assert [row[5][0] for row in rows] == ["ok → wrong", "ok", "ok", "ok"]
    memory = found[2]["memory"]
    assert (rows[2][6][0], rows[2][6][1]) == ("1.50× larger process", memory["ratio"])
    assert [row[6][1] for row in rows if row is not rows[2]] == [None] * 3
    assert [row[0][2] for row in rows] == [f"../../{cell_path('b', cell)}" for cell in (WRONG, SLOWER, SAME, FASTER)]
    (figure,) = root.iter("figure")
    drawn = json.loads(figure.find("script").text)["datasets"]["cells"]
    assert [(row["ratio"], row["verdict"]) for row in drawn] == [
        (pytest.approx(cell["time"]["ratio"], rel=1e-4), cell["time"]["verdict"]) for cell in found if cell["time"]
    ]
    assert facts(root)["verdicts"] == "1 slower, 1 faster, 1 same, 1 not timed on both sides, 1 larger in memory, 1 of another status"


def test_it_leads_to_both_runs_and_to_the_other_way_round(tmp_path):
    root = compared(tmp_path, *two_runs())
    links = [link.get("href").removeprefix("../../") for link in root.find(".//p[@class='links']")]
    assert links == [run_path("a"), run_path("b"), comparison_path("b", "a")]
    assert [row[4][0] for row in grid(page(tmp_path, links[2]), "cells")] == ["SLOWER", "SAME", "–", "FASTER"]
    only = page(tmp_path, comparison_path("a", "b"), exists=lambda path: path.startswith("run/"))
    assert [text(link) for link in only.find(".//p[@class='links']")] == ["Base a", "Candidate b"]


def test_all_cells_are_on_the_page_however_many(tmp_path, monkeypatch):
    monkeypatch.setattr(comparison_report, "LONGEST", 2)
    root = compared(tmp_path, *two_runs())
    assert len(grid(root, "cells")) == 4
    assert "shown" not in facts(root)


def test_what_one_side_lacks_is_listed_as_not_compared(tmp_path):
    base = recorded([*launches(SAME, 1e6), *launches(SLOWER, 1e6)], "a")
    root = compared(tmp_path, base, recorded(launches(SAME, 1e6, seed=1), "b", started=2.0))
    assert len(grid(root, "cells")) == 1
    assert [[field[0] for field in row] for row in grid(root, "missing")] == [["w size=1 · torch-cpu · fused", "base only"]]


def test_runs_that_may_not_be_compared_are_refused_in_a_sentence(tmp_path):
    """As a ratio would tell of two machines."""
    base, candidate = two_runs()
    other = msgspec.structs.replace(candidate[0], host=Host(key="other", facts={"chip": "M9"}))
    root = compared(tmp_path, base, (other, candidate[1]))
    assert "differ in the machine (M5 and M9)" in text(root)
    assert "--across" in text(root)
    assert list(root.iter("table")) == []
    assert [link.get("href") for link in root.find(".//p[@class='links']")] == ["../../run/a.html", "../../run/b.html"]


def test_runs_without_a_cell_in_common_say_so(tmp_path):
    root = compared(tmp_path, recorded(launches(SAME, 1e6), "a"), recorded(launches(SLOWER, 1e6), "b", started=2.0))
    assert "no cell" in text(root)
    assert len(grid(root, "missing")) == 2
    assert list(root.iter("figure")) == []


def test_two_runs_of_failures_have_their_statuses_and_no_chart(tmp_path):
    failed = [Record(cell=SAME, launch=0, started=1.0, measurement=Measurement(status=status)) for status in ("failed", "crashed")]
    root = compared(tmp_path, recorded(failed[:1], "a"), recorded(failed[1:], "b", started=2.0))
    ((_, base, candidate, ratio, verdict, status, *_),) = grid(root, "cells")
    assert [field[0] for field in (base, candidate, ratio, verdict)] == ["–"] * 4
    assert status[0] == "failed → crashed"
    assert list(root.iter("figure")) == []


def test_a_run_that_is_not_there_has_no_comparison(tmp_path):
    with pytest.raises(NoPageError, match="There is no run c"):
        page(tmp_path, comparison_path("a", "c"), *two_runs())


# Which pairs are offered


def plain(name, started, **changes):
    return recorded(launches(SAME, 1e6, count=1), name, started=started, **changes)


def offered(folder, *runs):
    return [[field[0] for field in row] for row in grid(page(folder, "compare/index.html", *runs), "pairs")]


def test_each_run_is_paired_with_the_one_before_it_of_its_suite_and_host(tmp_path):
    updated = Host(key="updated", facts=HOST.facts | {"system": "25.1"})
    runs = [
        plain("a", 1, suite="quick", label="main"),
        plain("b", 2, suite="large"),
        plain("c", 3, suite="quick"),
        plain("d", 4, suite="quick", host=updated),
        plain("e", 5, suite="large", label="mine"),
        plain("f", 6, suite="quick"),
        (plain("empty", 7, suite="quick")[0], []),
    ]
    assert [row[:4] for row in offered(tmp_path, *runs)] == [
        ["f", "c", "one after the other", ""],
        ["e", "b", "one after the other", "none → mine"],
        ["c", "a", "one after the other", "main → none"],
    ]
    for path in ("compare/c/f.html", "compare/b/e.html", "compare/a/c.html"):
        assert len(grid(page(tmp_path, path), "cells")) == 1


def test_runs_measured_in_turn_come_first_and_are_paired_with_nothing_else(tmp_path):
    runs = [
        plain("a", 1),
        plain("turn-base", 2, beside="turn-candidate"),
        plain("turn-candidate", 3, beside="turn-base"),
        plain("half", 4, beside="a"),
        plain("b", 5),
    ]
    assert [row[:3] for row in offered(tmp_path, *runs)] == [["turn-candidate", "turn-base", "in turn"], ["b", "a", "one after the other"]]


def test_of_very_many_runs_the_newest_are_paired(tmp_path, monkeypatch):
    other = Host(key="other", facts={"chip": "M9"})
    monkeypatch.setattr(compare_page, "LOOKED_AT", 8)
    runs = [plain(f"{name}{place}", place, host=host) for place in range(6) for name, host in (("a", HOST), ("b", other))]
    assert sorted(row[0] for row in offered(tmp_path, *runs)) == ["a3", "a4", "a5", "b3", "b4", "b5"]
    monkeypatch.setattr(compare_page, "SHOWN", 1)
    assert sorted(row[0] for row in offered(tmp_path)) == ["a5", "b5"]


def served(folder, *runs):
    """The page of pairs with a server behind it."""
    with open_store(str(folder / "store.sqlite")) as store:
        for run, records in runs:
            store.receive(run, records)
        return parsed(Site(Source(store, naming), live=True).page("compare/index.html"))


def options(root, name):
    (label,) = [label for label in root.iter("label") if text(label) == name]
    (select,) = [select for select in root.iter("select") if select.get("id") == label.get("for")]
    assert select.get("name") == name.lower()
    return [(option.get("value"), "selected" in option.attrib) for option in select]


def test_a_server_compares_any_two_of_the_newest_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(compare_page, "OFFERED", 3)
    root = served(tmp_path, *(plain(name, place) for place, name in enumerate("abcde")))
    (form,) = root.iter("form")
    assert (form.get("method"), form.get("action")) == ("get", "../compare/index.html")
    assert options(root, "Base") == [("e", False), ("d", True), ("c", False)]
    assert options(root, "Candidate") == [("e", True), ("d", False), ("c", False)]
    assert "2 older runs are not among these" in text(root)


def test_without_a_server_there_is_no_form(tmp_path):
    root = page(tmp_path, "compare/index.html", plain("a", 1), plain("b", 2))
    assert list(root.iter("form")) == []
    assert len(grid(root, "pairs")) == 1


def test_without_two_runs_the_page_says_what_makes_them(tmp_path):
    for root in (page(tmp_path, "compare/index.html"), served(tmp_path), served(tmp_path, plain("a", 1))):
        assert "bench run" in text(root)
        assert list(root.iter("table")) == []


def test_text_stays_text_and_what_the_form_sends_is_a_page(tmp_path):
    words = dict.fromkeys(("backend", "variant", "environment", "workload", "protocol", "policy"), HOSTILE)
    cell, lacking = (make_cell(**words, case={HOSTILE: HOSTILE, "size": size}) for size in (1, 2))
    fields = dict.fromkeys(("label", "revision", "suite"), HOSTILE) | {"host": Host(key=HOSTILE, facts={"chip": HOSTILE})}
    base = recorded([*launches(cell, 1e6, facts={HOSTILE: HOSTILE}), *launches(lacking, 1e6)], HOSTILE, **fields)
    candidate = recorded(launches(cell, 2e6, facts={HOSTILE: f"2{HOSTILE}"}, reason=HOSTILE), f"2{HOSTILE}", started=2.0, **fields)
    root = served(tmp_path, base, candidate)
    assert_inert(root)
    one, other = (value for value, _ in options(root, "Base"))
    found = page(tmp_path, comparison_path(other, one))
    assert_inert(found)
    assert [row[4][0] for row in grid(found, "cells")] == ["SLOWER"]
    assert len(grid(found, "missing")) == 1
