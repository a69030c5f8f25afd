"""The page of a cell: its numbers, what stands beside it, what it says of a failure, and text that wants to be markup."""

import json
import statistics

import msgspec
import pytest
from support.pages import HOSTILE, SHOWN, assert_inert, facts, grid, page, parsed, text
from support.records import HOST, make_cell, make_run, timed

from metalbench.results.dashboard.pages import cell as cell_page
from metalbench.results.dashboard.site import Site
from metalbench.results.dashboard.source import Source, cell_path, slug
from metalbench.results.dashboard.view import NoPageError
from metalbench.results.formats import native
from metalbench.results.record import Energy, Measurement, Memory, Record
from metalbench.results.store import open_store

FUSED, COMPOSED = make_cell(), make_cell(variant="composed")
OTHER = make_cell(backend="mlx-cpu")
ELSEWHERE = make_cell(size=16)


def launches(cell, ns, count=3, **changes):
    return [timed(cell, launch, [ns * (1 + 0.01 * launch), ns * 1.02, ns * 0.99], **changes) for launch in range(count)]


def planned(cells, **changes):
    options = {"launches": 3, "suite": "quick", "budget": 0.2}
    return msgspec.structs.replace(make_run(cells), plan=msgspec.Raw(msgspec.json.encode({"cells": cells, "options": options})), **changes)


def shown(folder, records, cell=FUSED, **options):
    cells = list({record.cell.key(): record.cell for record in records}.values())
    run = planned(cells)
    return page(folder, cell_path(run.id, cell), (run, records), **options)


def test_its_numbers_are_those_of_the_command(tmp_path):
    records = launches(FUSED, 1e6, calls_per_sample=7, first_call_ns=5_000_000) + launches(OTHER, 2e6, status="wrong", reason="off")
    run = planned([FUSED, OTHER])
    root = page(tmp_path, cell_path("r", FUSED), (run, records))
    (mine, other) = json.loads(native.export(run, records))["cells"]
    assert [(row[0][0], row[2][1]) for row in grid(root, "alike")] == [
        ("torch-cpu this cell", mine["median_ns"]),
        ("mlx-cpu", other["median_ns"]),
    ]
    rows = grid(root, "launches")
    assert [row[1][1] for row in rows] == [pytest.approx(statistics.median(launch["samples_ns"])) for launch in mine["launches"]]
    assert [[row[place][1] for place in (0, 2, 3, 4)] for row in rows] == [[launch, 3, 7, 5e6] for launch in range(3)]
    low, high = (f"{mine[bound] / 1e3:.0f}" for bound in ("low_ns", "high_ns"))
    assert facts(root)["median time a call"] == f"144 µs ({low} … {high}), 95 % interval over 3 launches"


def test_it_stands_beside_all_that_do_the_same_and_links_to_them(tmp_path):
    records = [
        *launches(FUSED, 1.5e6),
        *launches(COMPOSED, 1e6),
        *launches(OTHER, 1e5, status="wrong", reason="off"),
        *launches(ELSEWHERE, 1e3),
    ]
    root = shown(tmp_path, records)
    assert facts(root)["standing"] == "1.50× the time of torch-cpu composed; 2 of 2 for this case"
    rows = [[text for text, _, _ in row] for row in grid(root, "alike")]
    assert [row[:2] + row[3:5] for row in rows] == [
        ["torch-cpu this cell", "fused", "1.50×", "ok"],
        ["torch-cpu", "composed", "1.00× ★", "ok"],
        ["mlx-cpu", "fused", "–", "wrong off"],
    ]
    links = [row[0][2] for row in grid(root, "alike")]
    assert links == [None, f"../../cell/r/{COMPOSED.key()}.html", f"../../cell/r/{OTHER.key()}.html"]
    assert "../../run/r.html" in [link.get("href") for link in root.iter("a")]


def test_a_tie_is_told_and_a_single_launch_makes_none(tmp_path):
    assert "tied with it" in facts(shown(tmp_path, launches(FUSED, 1.005e6) + launches(OTHER, 1e6)))["standing"]
    (tmp_path / "single").mkdir()
    single = facts(shown(tmp_path / "single", launches(FUSED, 1.005e6, count=1) + launches(OTHER, 1e6, count=1)))
    assert "tied" not in single["standing"]
    assert single["median time a call"].endswith("from a single launch")


def test_where_it_links_there_is_a_page(tmp_path):
    root = shown(tmp_path, launches(FUSED, 1e6) + launches(OTHER, 1e6), exists=lambda path: path.startswith("run/"))
    (links,) = [each for each in root.iter("p") if each.get("class") == "links"]
    assert [text(link) for link in links] == ["Run r"]
    assert [row[0][2] for row in grid(root, "alike")] == [None, None]


def roof(kind, ns, **changes):
    cell = make_cell(workload="roofline", variant="native", case={"kind": kind, "dtype": "float32", "size": 64}, **changes)
    return launches(cell, ns, flops=0 if kind == "copy" else 10**6, bytes=10**6 if kind == "copy" else 10**3)


def test_the_fraction_of_the_peak_is_of_its_own_column_in_its_own_run(tmp_path):
    """A copy of 10⁶ bytes and a product of 10⁶ operations in 1 ms: 10⁵ bytes want 0.1 ms, which is a quarter of the 0.4 ms measured."""
    cell = make_cell(case={"dtype": "float32", "size": 8})
    own = launches(cell, 4e5, flops=10**4, bytes=10**5)
    quicker = [record for kind in ("copy", "matmul") for record in roof(kind, 1e3, backend="mlx-cpu")]
    root = shown(tmp_path, [*own, *roof("copy", 1e6), *roof("matmul", 1e6), *quicker], cell)
    assert facts(root)["fraction of the measured peak"] == "25 %"
    assert not [line for line in root.iter("code") if "roofline" in text(line)]


def test_it_says_how_many_tokens_a_second(tmp_path):
    assert facts(shown(tmp_path, launches(FUSED, 7e6, amounts={"tokens": 512})))["tokens"] == "72400 tokens/s, 512 a call"
    (tmp_path / "without").mkdir()
    assert "tokens" not in facts(shown(tmp_path / "without", launches(FUSED, 7e6)))


def test_without_peaks_the_page_says_what_measures_them(tmp_path):
    root = shown(tmp_path, launches(FUSED, 1e6))
    assert "fraction of the measured peak" not in facts(root)
    (line,) = [text(line) for line in root.iter("code") if "roofline" in text(line)]
    assert line == "bench run --suite standard --workload w,roofline --backend torch-cpu"


def test_a_cell_that_did_not_run_says_why_and_opens_its_log(tmp_path):
    failed = Measurement(status="crashed", reason="killed by signal 9", log="\n  before\nthe end\n", facts={"torch": "2.13"})
    root = shown(tmp_path, [Record(cell=FUSED, launch=0, started=1.0, measurement=failed)])
    assert facts(root)["status"] == "crashed: killed by signal 9"
    assert list(root.iter("figure")) == []
    (details,) = root.iter("details")
    assert "open" in details.attrib
    assert details.find("pre").text == "  before\nthe end"
    (launch,) = grid(root, "launches")
    assert [field[0] for field in launch] == ["0", *["–"] * 12, "crashed killed by signal 9"]
    assert len(list(root.iter("code"))) == 2


def test_launches_of_one_log_share_it_and_a_long_one_loses_its_beginning(tmp_path):
    records = [*launches(FUSED, 1e6, log="the same"), timed(FUSED, 3, [1e6], log="x" * 5000 + "end")]
    root = shown(tmp_path, records)
    logs = [(text(log.find("summary")), log.find("pre").text) for log in root.iter("details")]
    assert logs == [("Launch 0, 1, 2", "the same"), ("Launch 3, without the first 3003 letters", "x" * 1997 + "end")]
    assert not [log for log in root.iter("details") if "open" in log.attrib]


def test_memory_energy_and_the_rest_name_their_sources(tmp_path):
    memory = Memory(
        process_peak=3 << 20, process_source="the kernel", process_shared=True, device_source="nothing counts it", allocator_held=2048
    )
    energy = Energy(joules_per_call=0.002, calls=50, seconds=0.5, source="a meter")
    found = {"max_error": 2e-7, "tolerance": 3e-6, "ran": "flash", "device_spans_ns": [5e5]}
    found["figures"] = {"skipped_steps": 1.0, "weight_bytes": 557056.0}
    versions = {"torch": "2.13", "threads": "2"}
    records = launches(FUSED, 1e6, default_variant=True, facts=versions, memory=memory, energy=energy, **found)
    records += [timed(FUSED, 3 + at, [1e6], conditions={"power_source": power}) for at, power in enumerate(("mains", "battery", "mains"))]
    said = facts(shown(tmp_path, records))
    assert said["process, at the peak"] == "3.00 MiB (the kernel; shared: the process had measured other cells before)"
    assert said["device, at the peak"] == "– (nothing counts it)"
    assert said["held by the allocator"] == "2.00 KiB"
    assert said["a call"].startswith("2.00 mJ")
    assert said["counted by"] == "a meter, over 50 calls in 0.5 s"
    assert said["error"] == "2.0e-07 of 3.0e-06 that is tolerated, against float64"
    assert said["skipped steps"] == "1"
    assert said["weight bytes"] == "544 KiB"
    assert said["what the framework says that it ran"] == "flash"
    assert (said["torch"], said["threads"]) == ("2.13", "2")
    assert said["variant"] == "fused, the backend's own choice"
    assert said["power source"] == "mains / battery"
    assert said["between events on the device"].startswith("500 µs")


def test_the_marks_are_put_in_words(tmp_path):
    doubtful = launches(FUSED, 1e3, empty_call_ns=2e3, sentinel_before_ns=100, sentinel_after_ns=150)
    said = facts(shown(tmp_path, doubtful))
    assert "speed changed" in said["~"]
    assert "empty call" in said["!"]


def test_a_run_too_large_to_be_read_whole_gives_the_same_page(tmp_path, monkeypatch):
    records = [*launches(FUSED, 2e6), *launches(OTHER, 1e6), *launches(ELSEWHERE, 1e6), *roof("copy", 1e6), *roof("matmul", 1e6)]
    records += (others := roof("copy", 1e5, backend="mlx-cpu"))
    whole = shown(tmp_path, records)
    with open_store(str(tmp_path / "store.sqlite")) as store:
        asked = []
        read = store.records
        monkeypatch.setattr(store, "records", lambda run, cell=None: asked.append(cell) or read(run, cell))
        monkeypatch.setattr(cell_page, "FEW", 0)
        part = parsed(Site(Source(store, lambda cell: f"size={cell.case['size']}"), live=False).page(cell_path("r", FUSED)))
    assert asked
    assert {None, ELSEWHERE.key(), others[0].cell.key()} & {*asked} == set()
    assert [(each.tag, each.attrib, each.text) for each in part.iter()] == [(each.tag, each.attrib, each.text) for each in whole.iter()]


@pytest.mark.parametrize(
    ("path", "words"), [(f"cell/r/{'0' * 20}.html", "no record of the cell"), (f"cell/x/{FUSED.key()}.html", "no run x")]
)
def test_what_is_not_there_has_no_page(tmp_path, path, words):
    with pytest.raises(NoPageError, match=words):
        page(tmp_path, path, (planned([FUSED]), launches(FUSED, 1e6)))


def test_text_stays_text(tmp_path):
    words = dict.fromkeys(("backend", "variant", "environment", "workload", "protocol", "policy"), HOSTILE)
    cells = [make_cell(**words, case={HOSTILE: HOSTILE, "size": size}) for size in (1, 2)]
    sibling = msgspec.structs.replace(cells[0], variant=HOSTILE + "2")
    memory = Memory(process_peak=1, process_source=HOSTILE, device_source=HOSTILE)
    energy = Energy(joules_per_call=1, calls=1, seconds=1, source=HOSTILE)
    text_fields = dict.fromkeys(("reason", "compile_cache", "stop", "ran"), HOSTILE)
    pairs = {field: {HOSTILE: HOSTILE} for field in ("facts", "conditions")}
    records = [
        timed(cell, 0, [1e6, 2e6], **text_fields, **pairs, log=HOSTILE, memory=memory, energy=energy, figures={HOSTILE: 1.0}, tolerance=1.0)
        for cell in (*cells, sibling)
    ]
    run = planned([*cells, sibling], id=HOSTILE, label=HOSTILE, revision=HOSTILE, host=msgspec.structs.replace(HOST, key=HOSTILE))
    root = page(tmp_path, cell_path(HOSTILE, cells[0]), (run, records))
    assert_inert(root)
    assert root.find(".//details/pre").text == SHOWN
    assert facts(root)["status"] == f"ok: {SHOWN}"
    assert SHOWN in facts(root)
    (run_link, history) = (link.get("href") for link in root.iterfind(".//p[@class='links']/a"))
    assert run_link == f"../../run/{slug(HOSTILE)}.html"
    assert history == f"../../history/{slug(HOSTILE)}/{cells[0].key()}.html"
    assert "49" not in text(root.find(".//h1"))
