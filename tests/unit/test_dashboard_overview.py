"""The overview and the page of a run: which runs are shown, what a square of the heat map says, and which backend is advised."""

import statistics
from importlib.resources import files

import msgspec
import pytest
from support.pages import HOSTILE, SHOWN, assert_inert, facts, grid, page, text
from support.records import HOST, make_cell, make_run, timed

from metalbench.results.dashboard.heatmap import STEPS, look
from metalbench.results.dashboard.pages import overview
from metalbench.results.dashboard.source import Source
from metalbench.results.record import Host, Measurement, Record
from metalbench.results.store import open_store

OTHER = Host(key="other", facts={"chip": "M2", "cores": "8", "system": "Darwin 24"})


def launches(cell, ns, count=5, **changes):
    return [timed(cell, launch, [ns + launch, ns + launch + 1, ns + launch + 5], **changes) for launch in range(count)]


def absent(cell, status, reason="why"):
    return [Record(cell=cell, launch=0, started=1.0, measurement=Measurement(status=status, reason=reason))]


def recorded(records, name="r", suite="", **changes):
    cells = list({record.cell.key(): record.cell for record in records}.values())
    plan = msgspec.Raw(msgspec.json.encode({"cells": cells, "options": {"launches": 5, "suite": suite}}))
    return msgspec.structs.replace(make_run(cells, name=name), plan=plan, **changes), records


def simple(name="r", **changes):
    return recorded(launches(make_cell(), 1e6), name, **changes)


def shown_runs(folder, *runs):
    with open_store(str(folder / "store.sqlite")) as store:
        for run, records in runs:
            store.receive(run, records)
        return [run.id for run in overview.runs(Source(store, str))]


def squares(root):
    """The rows of the heat map: name and variant, and of each square its text, its class and its link."""
    found = {}
    for row in root.findall(".//section[@id='heatmap']//tr[@class='row']"):
        fields = [
            (text(field), field.get("class"), field.find("a").get("href") if field.find("a") is not None else "") for field in row[1:]
        ]
        found[text(row[0])] = fields
    return found


def words(root):
    """Of each row only what its squares say."""
    return {name: [said for said, _, _ in fields] for name, fields in squares(root).items()}


def test_the_newest_run_of_each_machine_and_suite_is_shown(tmp_path):
    runs = [
        simple("old", suite="standard", started=1.0),
        simple("new", suite="standard", started=2.0),
        simple("quick", suite="quick", started=1.5),
        simple("elsewhere", suite="standard", started=0.5, host=OTHER),
        simple("in turn", suite="standard", started=9.0, beside="x"),
        (recorded(launches(make_cell(), 1e6), "empty", suite="full", started=9.0)[0], []),
    ]
    assert shown_runs(tmp_path, *runs) == ["new", "quick", "elsewhere"]


def test_an_update_of_the_system_makes_no_other_machine(tmp_path):
    updated = Host(key="k2", facts=HOST.facts | {"system": "Darwin 26"})
    assert shown_runs(tmp_path, simple("before", started=1.0), simple("after", started=2.0, host=updated)) == ["after"]


def test_a_machine_that_was_long_not_used_is_still_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(overview, "LISTED", 3)
    runs = [simple(f"r{day}", started=10.0 + day) for day in range(5)] + [simple("elsewhere", started=0.5, host=OTHER)]
    assert shown_runs(tmp_path, *runs) == ["r4", "elsewhere"]


def test_no_more_runs_than_a_dozen_stand_side_by_side(tmp_path):
    hosts = [Host(key=f"h{place}", facts={"chip": f"M{place}"}) for place in range(15)]
    runs = [simple(f"r{place}", started=float(place + 1), host=host) for place, host in enumerate(hosts)]
    assert shown_runs(tmp_path, *runs) == [f"r{place}" for place in range(14, 2, -1)]


def test_a_square_has_the_time_the_ratio_the_star_and_leads_to_its_cell(tmp_path):
    best, tie, slow = (make_cell(backend=name) for name in ("torch-cpu", "jax-cpu", "mlx-cpu"))
    run, records = recorded([*launches(best, 1e6), *launches(tie, 1.001e6), *launches(slow, 2e6, facts={"mlx": "0.32", "numpy": "2"})])
    root = page(tmp_path, "index.html", (run, records))
    assert squares(root) == {
        "size=8": [
            ("★ 1.00×", "even", f"cell/r/{best.key()}.html"),
            ("★ 1.00×", "even", f"cell/r/{tie.key()}.html"),
            ("2.00×", "slower-2", f"cell/r/{slow.key()}.html"),
        ]
    }
    field = root.findall(".//tr[@class='row']/td")[2]
    medians = [statistics.median(record.measurement.samples_ns()) for record in records if record.cell == slow]
    assert float(field.get("data-ns")) == statistics.median(medians)
    assert field.get("data-version") == "mlx 0.32"
    assert field.find("a").get("title").startswith("2.00 ms (2.00 … 2.00), fused, mlx 0.32")


def test_a_single_launch_gets_no_star(tmp_path):
    cells = [make_cell(backend=name) for name in ("torch-cpu", "jax-cpu")]
    root = page(tmp_path, "index.html", recorded([*launches(cells[0], 1e6, 1), *launches(cells[1], 3e6, 1)]))
    assert words(root) == {"size=8": ["1.00×", "3.00×"]}
    ((*_, sure, _),) = grid(root, "best")
    assert sure[0] == "not sure, from a single launch"


def test_what_is_not_right_has_its_status_and_is_compared_with_nothing(tmp_path):
    statuses = {
        "wrong": "⚠ wrong", "fallback": "⚠ fallback", "unsupported": "– unsupported", "unavailable": "– unavailable", "failed": "✕ failed",
        "crashed": "✕ crashed", "timeout": "✕ timeout", "oom": "✕ oom",
    }  # fmt: skip
    records = launches(make_cell(), 1e6)
    for status in statuses:
        cell = make_cell(backend=f"b-{status}")
        records += launches(cell, 10.0, status=status, reason="why") if status in {"wrong", "fallback"} else absent(cell, status)
    root = page(tmp_path, "index.html", recorded(records))
    assert words(root) == {"size=8": ["★ 1.00×", *statuses.values()]}
    for field in root.findall(".//tr[@class='row']/td")[1:]:
        assert "data-ns" not in field.attrib
        assert "why" in field.find("a").get("title")


def test_a_run_with_failures_alone_has_its_squares_and_no_advice(tmp_path):
    root = page(tmp_path, "index.html", recorded(absent(make_cell(), "crashed")))
    assert words(root) == {"size=8": ["✕ crashed"]}
    assert root.find(".//section[@id='best']") is None


def test_a_time_less_than_an_empty_call_and_a_changed_machine_are_marked(tmp_path):
    records = [
        *launches(make_cell(), 1e6, empty_call_ns=2e6),
        *launches(make_cell(backend="b"), 5e6, sentinel_before_ns=100, sentinel_after_ns=150),
    ]
    assert words(page(tmp_path, "index.html", recorded(records))) == {"size=8": ["★! 1.00×", "~ 5.00×"]}


@pytest.mark.parametrize("change", [{"version": 2}, {"protocol": "throughput"}, {"policy": "tf32"}])
def test_other_work_has_a_row_of_its_own(tmp_path, change):
    records = [*launches(make_cell(), 1e6), *launches(make_cell(backend="b", **change), 3e6)]
    found = words(page(tmp_path, "index.html", recorded(records)))
    assert list(found.values()) == [["★ 1.00×", ""], ["", "★ 1.00×"]]
    (name, value), *_ = change.items()
    assert f"{name} {value}" in list(found)[1]


def test_variants_have_rows_below_that_of_each_backends_own_choice(tmp_path):
    def cell(backend, variant):
        return make_cell(backend=backend, variant=variant)

    records = [
        *launches(cell("a", "composed"), 4e6),
        *launches(cell("a", "fused"), 2e6, default_variant=True),
        *launches(cell("b", "composed"), 1e6, default_variant=True),
    ]
    root = page(tmp_path, "index.html", recorded(records))
    assert words(root) == {"size=8": ["2.00×", "★ 1.00×"], "size=8composed": ["4.00×", "★ 1.00×"], "size=8fused": ["★ 1.00×", ""]}
    rows = [(row.get("data-variant"), "data-split" in row.attrib) for row in root.findall(".//tr[@class='row']")]
    assert rows == [("", True), ("composed", True), ("fused", True)]


def test_a_square_is_compared_with_its_own_machine(tmp_path):
    runs = [
        recorded([*launches(make_cell(), 1e6), *launches(make_cell(backend="b"), 2e6)], "one", started=2.0),
        recorded([*launches(make_cell(), 5e6), *launches(make_cell(backend="b"), 6e7)], "two", host=OTHER),
    ]
    root = page(tmp_path, "index.html", *runs)
    assert words(root) == {"size=8": ["★ 1.00×", "2.00×", "★ 1.00×", "12×"]}
    heads = [(text(head), head.find("a").get("href"), head.get("colspan")) for head in root.findall(".//tr[@class='parts']/th")[1:]]
    assert [(said.split("1970")[0], *rest) for said, *rest in heads] == [("M5", "run/one.html", "2"), ("M2", "run/two.html", "2")]


def test_suites_of_one_machine_are_told_apart(tmp_path):
    root = page(tmp_path, "index.html", simple("a", suite="quick", started=2.0), simple("b", suite="standard"))
    assert [text(head).split("1970")[0] for head in root.findall(".//tr[@class='parts']/th")[1:]] == ["M5, quick", "M5, standard"]
    columns = [head.attrib for head in root.findall(".//tr[@class='columns']/th")]
    assert [(head["data-machine"], head["data-suite"]) for head in columns] == [("M5", "quick"), ("M5", "standard")]


def test_colours_are_as_strong_for_half_the_time_as_for_twice():
    assert look(1.0) == look(1.04) == look(1 / 1.04) == "even"
    ratios = [1.1, 2.0, 5.0, 50.0]
    assert [look(ratio) for ratio in ratios] == [f"slower-{step}" for step in (1, 2, 3, 4)]
    assert [look(1 / ratio) for ratio in ratios] == [f"faster-{step}" for step in (1, 2, 3, 4)]
    assert len(STEPS) == 4


def advice(folder, *backends, count=5, workload="w"):
    """What is said of a workload; ``backends``: the times of one in the cases 0, 1, …, None for a wrong answer."""
    records = [
        record
        for name, times in zip("abc", backends, strict=False)
        for size, ns in enumerate(times)
        for record in launches(
            make_cell(backend=name, size=size, workload=workload), ns or 1.0, count, status="ok" if ns else "wrong", reason="off"
        )
    ]
    root = page(folder, "index.html", recorded(records))
    return [[field[0] for field in row[2:]] for row in grid(root, "best")], root


def test_the_backend_that_leads_in_most_cases_is_advised(tmp_path):
    found, root = advice(tmp_path, [1e6, 1e6, 4e6], [2e6, 2e6, 1e6])
    assert found == [["a", "in 2 of 3 cases", "b, 1.00× the time"]]
    assert text(root.find(".//ul[@class='answers']")) == "M5: a for w"


def test_one_that_leads_everywhere_and_its_distance(tmp_path):
    found, _ = advice(tmp_path, [4e6, 2e6], [1e6, 1e6], [9e6, 9e6])
    assert found == [["b", "in all 2 cases", "a, 2.83× the time"]]


def test_those_that_tie_everywhere_are_both_advised(tmp_path):
    found, root = advice(tmp_path, [1e6, 1e6], [1.001e6, 1e6], [3e6, 3e6])
    assert found == [["a or b", "in all 2 cases, all of them tied", "c, 3.00× the time"]]
    assert "a or b for w" in text(root.find(".//ul[@class='answers']"))


def test_a_tie_in_one_case_is_told(tmp_path):
    found, _ = advice(tmp_path, [1e6, 1e6, 1e6], [1.001e6, 2e6, 2e6])
    assert found == [["a", "in all 3 cases, 1 of them tied", "b, 1.59× the time"]]


def test_wrong_answers_are_never_advised(tmp_path):
    found, _ = advice(tmp_path, [1e6], [None])
    assert found == [["a", "the only one with right answers", "–"]]


def test_the_peaks_are_no_work_to_choose_a_backend_for(tmp_path):
    found, root = advice(tmp_path, [1e6], [2e6], workload="roofline")
    assert found == []
    assert list(words(root).values()) == [["★ 1.00×", "2.00×"]]


def test_an_empty_store_says_how_to_fill_it(tmp_path):
    root = page(tmp_path, "index.html")
    assert "The store holds no runs yet. bench run" in text(root.find(".//main"))
    assert list(root.iter("table")) == []


def test_the_newest_runs_are_listed_and_older_ones_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(overview, "LISTED", 2)
    root = page(tmp_path, "index.html", *(simple(f"r{day}", started=86400.0 * day, label=f"day {day}", suite="quick") for day in range(5)))
    rows = grid(root, "runs")
    assert [[field[0] for field in row] for row in rows] == [
        [f"r{day}", f"day {day}", "M5, 10 cores, ? GiB, ?", f"1970-01-0{day + 1} 00:00", "quick", "running", "5"] for day in (4, 3)
    ]
    assert rows[0][0][2] == "run/r4.html"
    assert "3 older runs are not in this table" in text(root)


def test_links_lead_only_where_there_is_a_page(tmp_path):
    root = page(tmp_path, "index.html", simple("a", started=2.0), simple("b"), exists=lambda path: path == "run/a.html")
    assert [row[0][2] for row in grid(root, "runs")] == ["run/a.html", None]


def test_a_run_has_its_facts_its_map_and_every_table(tmp_path):
    records = [*launches(make_cell(), 1e6, facts={"torch": "2.13.0"}), *absent(make_cell(backend="b"), "oom")]
    root = page(tmp_path, "run/r.html", recorded(records, label="a label"))
    assert text(root.find(".//h1")) == "Run r “a label”"
    assert facts(root)["machine"] == "M5, 10 cores, ? GiB, ?"
    assert words(root) == {"size=8": ["★ 1.00×", "✕ oom"]}
    assert squares(root)["size=8"][0][2] == f"../cell/r/{make_cell().key()}.html"
    ids = [section.get("id") for section in root.iter("section") if section.get("class") == "grid"]
    assert ids == ["w", "peak-memory", "what-did-not-run-and-why", "errors-against-float64-of-what-is-tolera"]
    assert grid(root, "w")[0][1][1] == pytest.approx(1e6, rel=1e-4)
    assert root.find(".//main").get("data-run") == "run/r.html"


def test_a_run_leads_to_the_one_before_of_its_machine_and_suite(tmp_path):
    runs = [
        simple("this", suite="quick", started=9.0),
        simple("other suite", suite="full", started=8.0),
        simple("in turn", suite="quick", started=7.0, beside="x"),
        simple("elsewhere", suite="quick", started=6.0, host=OTHER),
        simple("before", suite="quick", started=5.0),
        simple("long before", suite="quick", started=4.0),
    ]
    root = page(tmp_path, "run/this.html", *runs)
    links = {text(link): link.get("href") for link in root.findall(".//p[@class='links']/a")}
    assert links["Compare with the one before, before"] == "../compare/before/this.html"
    assert links["Scaling"] == "../scaling/this.html"


def test_a_run_in_turn_leads_to_the_other(tmp_path):
    runs = [simple("base", beside="candidate"), simple("candidate", beside="base", started=1.1), simple("gone", beside="x")]
    assert "../compare/base/candidate.html" in [link.get("href") for link in page(tmp_path, "run/candidate.html", *runs).iter("a")]
    assert "Compare with" not in text(page(tmp_path, "run/gone.html"))


def test_a_run_without_records_has_a_page(tmp_path):
    root = page(tmp_path, "run/r.html", (make_run([make_cell()]), []))
    assert "Nothing is measured yet." in text(root)
    assert facts(root)["began"].endswith("(running, 1 of 1 cells not measured)")


@pytest.mark.parametrize("path", ["index.html", "run/r.html"])
def test_text_stays_text(tmp_path, path):
    names = dict.fromkeys(("backend", "variant", "environment", "workload"), HOSTILE)
    host = Host(key=HOSTILE, facts=dict.fromkeys(("chip", "cores", "memory_gib", "system"), HOSTILE))
    cells = [make_cell(**names, case={HOSTILE: HOSTILE, "dtype": HOSTILE}), make_cell(backend="b", workload=HOSTILE)]
    records = [*launches(cells[0], 1e6, facts={HOSTILE: HOSTILE}, reason=HOSTILE), *absent(cells[1], "failed", HOSTILE)]
    root = page(tmp_path, path, recorded(records, suite=HOSTILE, label=HOSTILE, host=host))
    if path != "index.html":
        assert_inert(root)
    assert not {element.tag for element in root.iter()} & {"img", "style", "iframe"}
    assert all(element.get("src", "assets/").replace("../", "").startswith("assets/") for element in root.iter("script"))
    assert SHOWN in [text(head.find("span")) for head in root.findall(".//tr[@class='group']/th")]
    (square,) = [field for field in root.findall(".//tr[@class='row']/td") if field.get("data-ns")][:1]
    assert square.get("data-variant") == SHOWN


def test_every_file_that_a_page_names_is_there(tmp_path):
    root = page(tmp_path, "index.html", simple())
    named = {element.get("src") or element.get("href") for element in (*root.iter("script"), *root.iter("link"))}
    own = {f"assets/{file.name}" for file in files("metalbench.results.dashboard").joinpath("assets").iterdir()}
    assert named - {None} == own
