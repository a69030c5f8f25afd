"""The pages of histories: which series there are, what one shows of its runs and changes, and the commands that it names."""

import json
import shlex

import msgspec
import numpy as np
import pytest
from support.pages import HOSTILE, assert_inert, facts, grid, page, text
from support.records import HOST, make_cell, make_run, timed

from metalbench.results.dashboard.pages import history as history_page
from metalbench.results.dashboard.source import cell_path, comparison_path, history_path, run_path
from metalbench.results.dashboard.view import NoPageError
from metalbench.results.history import History, document
from metalbench.results.record import Host
from metalbench.results.series import series
from metalbench.results.store import open_store

DAY = 86400.0
CELL = make_cell(workload="fft", case={"n": 1024, "inverse": True, "dtype": "float32"})
STEP = [100] * 12 + [130] * 8


def runs(*levels, cells=(CELL,), first=0, host=HOST, launches=3, changes=None, **fields):
    """A run a level, in µs, one a day; ``changes``: place of the run → what is other in its measurements."""
    made = []
    for place, level in enumerate(levels, first):
        rng = np.random.default_rng(place)
        began = 1.75e9 + DAY * place
        found = {"facts": {"torch": "2.12.1" if place < 12 else "2.13.0", "device": "cpu"}} | (changes or {}).get(place, {})
        times = [(cell, launch, 1e3 * level * np.exp(rng.normal(0, 0.004))) for launch in range(launches) for cell in cells]
        records = [msgspec.structs.replace(timed(cell, n, [ns] * 3, **found), started=began + n) for cell, n, ns in times]
        run = make_run(list(cells), name=f"run{place:04}", started=began)
        made.append((msgspec.structs.replace(run, host=host, revision=f"{place:040x}", **fields), records))
    return made


def shown(folder, *levels, **options):
    return page(folder, history_path(HOST, CELL), *runs(*levels, **options))


def printed(folder):
    """What `bench history --format json` prints of the only series."""
    with open_store(str(folder / "store.sqlite")) as store:
        ((cell, points),) = series(store.database, store.hosts(), lambda cell: cell == CELL)
    (found,) = msgspec.to_builtins(document([History(cell, points)]))
    return found


def links(root):
    return [link.get("href") for link in root.find(".//main").iter("a")]


def test_its_numbers_are_those_of_the_command(tmp_path):
    root = shown(tmp_path, *STEP, changes={5: {"status": "wrong"}})
    found = printed(tmp_path)
    rows = grid(root, "points")
    assert [(row[0][0], row[2][1], row[4][0]) for row in rows] == [
        (point["run"], point["median_ns"], point["status"]) for point in found["points"][::-1]
    ]
    assert [row[5][1] for row in rows] == [point["revision"] for point in found["points"][::-1]]
    (change,) = found["changes"]
    ((run, _, size, low, high, state, *_),) = grid(root, "changes")
    assert (run[0], size[1], low[1], high[1], state[0]) == (change["run"], change["ratio"], change["low"], change["high"], "confirmed")
    assert size[0] == f"+{100 * (change['ratio'] - 1):.1f} % slower"
    assert facts(root)["level now"] == f"{found['level_ns'] / 1e3:.0f} µs, since run run0012"
    assert facts(root)["runs"] == "20, 19 of them with a right answer"
    (figure,) = root.iter("figure")
    drawn = json.loads(figure.find("script").text)["datasets"]["runs"]
    assert [row["run"] for row in drawn] == [point["run"] for point in found["points"] if point["status"] == "ok"]


def test_a_change_leads_to_its_run_and_to_what_it_is_compared_with(tmp_path):
    root = shown(tmp_path, *STEP)
    ((run, *_, compared, revision, versions),) = grid(root, "changes")
    assert run[2] == f"../../{run_path('run0012')}"
    assert compared[::2] == ("with run0011", f"../../{comparison_path('run0011', 'run0012')}")
    assert revision[0] == "0000000 → 0000000"
    assert versions[0] == "torch 2.12.1 → 2.13.0"
    assert [row[0][2] for row in grid(root, "points")] == [f"../../{cell_path(f'run{place:04}', CELL)}" for place in range(19, -1, -1)]


@pytest.mark.parametrize(("crashed", "noted"), [(14, "run0012"), (12, "run0013")])
def test_a_version_stands_at_the_first_run_that_says_it_and_one_that_says_none_changed_nothing(tmp_path, crashed, noted):
    root = shown(tmp_path, *STEP, changes={crashed: {"status": "crashed", "spans_ns": [], "facts": {}}})
    said = {row[0][0]: row[6][0] for row in grid(root, "points") if row[6][0]}
    assert said == {noted: "torch 2.12.1 → 2.13.0"}


def test_a_suspect_is_told_with_the_command_that_confirms_it(tmp_path):
    root = shown(tmp_path, *[100] * 15, 130)
    ((run, _, _, low, high, state, *_),) = grid(root, "changes")
    assert (run[0], low[1], high[1], state[0]) == ("run0015", None, None, "unconfirmed")
    (line,) = [text(line) for line in root.iter("code") if "--confirm" in text(line)]
    assert shlex.split(line)[:3] == ["bench", "history", "--workload"]
    (tmp_path / "quiet").mkdir()
    quiet = shown(tmp_path / "quiet", *[100] * 15)
    assert "has not changed" in text(quiet)
    assert not [line for line in quiet.iter("code") if "--confirm" in text(line)]


def test_the_command_prints_this_series_alone(tmp_path, bench):
    others = [make_cell(workload="fft", case=CELL.case | change) for change in ({"n": 2048}, {"inverse": False})]
    root = shown(tmp_path, 100, 101, 102, cells=(CELL, *others, make_cell(), make_cell(workload="fft", case=CELL.case, variant="composed")))
    (command,) = [shlex.split(text(line)) for line in root.iter("code")]
    assert "inverse=true" in command[command.index("--case") + 1]
    result = bench(*command[1:], "--format", "json", "--store", "store.sqlite")
    assert result.returncode == 0, result.stderr
    (found,) = json.loads(result.stdout)
    assert found["cell"]["case"] == CELL.case
    assert [row[2][1] for row in grid(root, "points")] == [point["median_ns"] for point in found["points"][::-1]]


def test_a_series_without_a_right_answer_says_so(tmp_path):
    failed = {place: {"status": "crashed", "reason": "killed", "spans_ns": []} for place in range(3)}
    root = shown(tmp_path, 1, 1, 1, changes=failed)
    assert facts(root)["runs"] == "3, 0 of them with a right answer"
    assert facts(root)["level now"] == "–"
    assert [(row[2][:2], row[4][0]) for row in grid(root, "points")] == [(("–", None), "crashed")] * 3
    assert "has not changed" in text(root)


def test_a_single_run_is_a_series(tmp_path):
    root = shown(tmp_path, 100, launches=1)
    ((run, _, time, *_),) = grid(root, "points")
    assert (run[0], time[1]) == ("run0000", printed(tmp_path)["points"][0]["median_ns"])


def test_the_newest_runs_are_in_the_table_and_all_in_the_chart(tmp_path, monkeypatch):
    monkeypatch.setattr(history_page, "POINTS", 3)
    root = shown(tmp_path, *[100] * 8)
    assert [row[0][0] for row in grid(root, "points")] == ["run0007", "run0006", "run0005"]
    assert "5 earlier runs are in the chart" in text(root)
    drawn = json.loads(next(root.iter("figure")).find("script").text)["datasets"]["runs"]
    assert len(drawn) == 8


@pytest.mark.parametrize("path", [f"history/k/{'0' * 20}.html", f"history/other/{CELL.key()}.html"])
def test_what_there_is_no_series_of_has_no_page(tmp_path, path):
    with pytest.raises(NoPageError, match="There is no"):
        page(tmp_path, path, *runs(100))


MAC = Host(key="mac 25.0", facts={"chip": "M5", "cores": "10", "memory_gib": "24", "system": "Darwin 25.0"})
UPDATED = Host(key="mac 25.1", facts=MAC.facts | {"system": "Darwin 25.1"})
LARGER = Host(key="larger", facts=MAC.facts | {"memory_gib": "48"})


def test_a_machine_is_one_under_all_its_systems(tmp_path):
    measured = [*runs(100, 100, host=MAC), *runs(100, first=2, host=UPDATED), *runs(100, first=3, host=LARGER)]
    rows = grid(page(tmp_path, "history/index.html", *measured), "series")
    assert [(row[3][1], row[5][0]) for row in rows] == [
        (9, "M5, 10 cores, 24 GiB, Darwin 25.1"),
        (3, "M5, 10 cores, 48 GiB, Darwin 25.0"),
    ]
    for host in (MAC, UPDATED):
        root = page(tmp_path, history_path(host, CELL))
        assert [row[0][0] for row in grid(root, "points")] == ["run0002", "run0001", "run0000"]
        assert [row[6][0] for row in grid(root, "points")] == ["system Darwin 25.0 → Darwin 25.1", "", ""]
        assert facts(root)["machine"] == "M5, 10 cores, 24 GiB, Darwin 25.1"


def test_the_index_has_the_longest_series_first_and_each_leads_to_its_page(tmp_path):
    late, other = make_cell(backend="mlx-cpu"), make_cell(variant="composed", protocol="throughput")
    root = page(tmp_path, "history/index.html", *runs(100, 100, cells=(CELL, other)), *runs(100, first=2, cells=(late, CELL)))
    rows = grid(root, "series")
    assert [(row[0][0], row[1][0], row[2][0], row[3][1]) for row in rows] == [
        ("fft n=1024 inverse=True dtype=float32", "torch-cpu", "fused", 9),
        ("w size=8", "torch-cpu", "composed", 6),
        ("w size=8", "mlx-cpu", "fused", 3),
    ]
    assert rows[0][4][0] == "2025-06-17 15:06"
    assert [row[6][0] for row in rows] == [f"{protocol}, ieee-float32, version 1" for protocol in ("latency", "throughput", "latency")]
    for row, cell in zip(rows, (CELL, other, late), strict=True):
        assert cell.variant in text(page(tmp_path, row[0][2].removeprefix("../")).find(".//h1"))


def test_what_was_only_measured_beside_another_run_is_no_series(tmp_path):
    alone = make_cell(size=3)
    made = [*runs(100, 100, launches=2), *runs(100, first=2, cells=(CELL, alone), beside="other")]
    root = page(tmp_path, "history/index.html", *made)
    assert [(row[0][0], row[3][1]) for row in grid(root, "series")] == [("fft n=1024 inverse=True dtype=float32", 4)]
    with pytest.raises(NoPageError):
        page(tmp_path, history_path(HOST, alone))


def test_of_very_many_series_the_longest_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(history_page, "LISTED", 2)
    cells = [make_cell(size=size) for size in range(5)]
    root = page(tmp_path, "history/index.html", *runs(100, cells=cells), *runs(100, first=1, cells=cells[3:]))
    assert [row[0][0] for row in grid(root, "series")] == ["w size=3", "w size=4"]
    assert "3 series with fewer launches are not in this table" in text(root)


def test_an_empty_store_says_how_series_begin(tmp_path):
    root = page(tmp_path, "history/index.html")
    assert "bench run" in text(root)
    assert list(root.iter("table")) == []


def test_text_stays_text(tmp_path):
    words = dict.fromkeys(("backend", "variant", "environment", "workload", "protocol", "policy"), HOSTILE)
    cell = make_cell(**words, case={HOSTILE: HOSTILE})
    made = []
    for place, (run, records) in enumerate(runs(*STEP, cells=(cell,), host=msgspec.structs.replace(HOST, key=HOSTILE, facts={}))):
        facts_ = {HOSTILE: f"{HOSTILE}{place // 12}"}
        renamed = [msgspec.structs.replace(own, measurement=msgspec.structs.replace(own.measurement, facts=facts_)) for own in records]
        made.append((msgspec.structs.replace(run, id=f"{HOSTILE}{place}", revision=f"{HOSTILE}{place}"), renamed))
    index = page(tmp_path, "history/index.html", *made)
    assert_inert(index)
    (row,) = grid(index, "series")
    root = page(tmp_path, row[0][2].removeprefix("../"))
    assert_inert(root)
    assert len(grid(root, "changes")) == 1
    (line,) = [line.text for line in root.iter("code")]
    assert shlex.split(line)[:2] == ["bench", "history"]
    assert all(option in {"--workload", "--case", "--backend", "--variant"} for option in shlex.split(line)[2::2])
