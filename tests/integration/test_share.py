"""`bench share`, and `bench show` of what several people shared, as a user runs them."""

import csv
import io
import json
import os
import statistics

import msgspec
import pytest
from support.command import only_sentence
from support.records import make_cell, make_run, timed

from metalbench.results.formats import jsonl
from metalbench.results.record import Host
from metalbench.results.store import open_store

USER, COMPUTER = "zqanna", "zqannas-macbook"


def put(bench, name, chip, times, **cell):
    """A run on someone's Mac; ``times``: backend → ns a call."""
    cells = [(make_cell(backend, **cell), ns) for backend, ns in times.items()]
    log = f"/Users/{USER}/work/x.py: {USER} on {COMPUTER}.local"
    records = [timed(own, launch, [ns + launch] * 3, log=log) for own, ns in cells for launch in range(5)]
    facts = {"name": f"{COMPUTER}.local", "chip": chip, "cores": "10", "memory_gib": "16", "system": "Darwin 25.1.0"}
    planned = [own for own, _ in cells]
    plan = {"cells": planned, "options": {"launches": 5, "plugins": [str(bench.folder / "plugin.py")]}}
    run = make_run(planned, name=name, label=f"{USER}'s", started=1e9)
    run = msgspec.structs.replace(run, host=Host(key=chip, facts=facts), plan=msgspec.Raw(msgspec.json.encode(plan)), state="finished")
    with open_store(str(bench.folder / "results.sqlite")) as store:
        store.receive(run, records)
    return run, records


@pytest.fixture
def shared(bench):
    """Files of two machines, shared by who owns neither, and an empty store."""
    bench.configure('store = "results.sqlite"')
    put(bench, "first", "Apple M4", {"mlx-metal": 1e6, "torch-mps": 2e6})
    put(bench, "second", "Apple M2", {"mlx-metal": 3e6})
    for name in ("first", "second"):
        result = bench("share", name, "-o", f"{name}.jsonl", env=os.environ | {"LOGNAME": "zqben"})
        assert result.returncode == 0, result.stderr
        (line,) = result.stdout.splitlines()
        assert line.startswith(f"{name}.jsonl: run {name} of Apple M")
        for known in (USER, COMPUTER, "zqben"):
            assert known in line
    bench.configure('store = "empty.sqlite"')
    return bench


def test_nothing_in_the_file_tells_whose_it_is(shared, home):
    for name in ("first", "second"):
        data = (shared.folder / f"{name}.jsonl").read_bytes().lower()
        for secret in (USER, COMPUTER, "/users/", str(home), home.name, str(shared.folder), "zqben"):
            assert secret.lower().encode() not in data
        assert b"plugin.py" in data


def test_the_measurements_are_all_there(shared):
    with open_store(str(shared.folder / "results.sqlite")) as store:
        mine, records = store.run("first"), store.records("first")
    ((run, read),) = jsonl.read((shared.folder / "first.jsonl").read_bytes()).runs
    assert [cell.key() for cell in run.cells()] == [cell.key() for cell in mine.cells()]
    assert sorted((r.cell.key(), r.launch, r.measurement.spans_ns) for r in read) == sorted(
        (r.cell.key(), r.launch, r.measurement.spans_ns) for r in records
    )
    assert (run.host.key, run.state, run.launches()) == (mine.host.key, "finished", 5)


def test_shared_files_stand_side_by_side(shared):
    text = shared("show", "first.jsonl", "second.jsonl").stdout
    for words in ("2 runs side by side", "mlx-metal · Apple M4", "torch-mps · Apple M4", "mlx-metal · Apple M2", "user's", "3.00×"):
        assert words in text
    assert "3.00×" not in shared("show", "first.jsonl").stdout
    told = shared("show", "first.jsonl", "second.jsonl", "--relative-to", "mlx-metal · Apple M2").stdout
    assert "0.67×" in told
    assert "ratios are to mlx-metal · Apple M2" in " ".join(told.split())
    page = shared("show", "first.jsonl", "second.jsonl", "--format", "html").stdout
    assert '<th scope="col">mlx-metal · Apple M2</th>' in page


def test_json_is_a_document_a_line_and_csv_names_the_machine(shared):
    documents = [json.loads(line) for line in shared("show", "second.jsonl", "first.jsonl", "--format", "json").stdout.splitlines()]
    assert [(found["format"], found["host"]["chip"], len(found["cells"])) for found in documents] == [
        ("metalbench/1", "Apple M2", 1),
        ("metalbench/1", "Apple M4", 2),
    ]
    medians = {cell["backend"]: cell["median_ns"] for cell in documents[1]["cells"]}
    assert medians["torch-mps"] == statistics.median(2e6 + launch for launch in range(5))
    alone = json.loads(shared("show", "first.jsonl", "--format", "json").stdout)
    assert alone == documents[1]
    rows = list(csv.DictReader(io.StringIO(shared("show", "first.jsonl", "second.jsonl", "--format", "csv").stdout)))
    assert [(row["run"], row["machine"], row["backend"]) for row in rows] == [
        ("first", "Apple M4", "mlx-metal"),
        ("first", "Apple M4", "torch-mps"),
        ("second", "Apple M2", "mlx-metal"),
    ]


def test_a_shared_file_is_imported_and_compared(shared):
    assert "10 records, 10 new" in shared("import", "first.jsonl").stdout
    assert "5 records, 5 new" in shared("import", "second.jsonl").stdout
    both = shared("show", "first", "second", "first.jsonl")
    assert "2 runs side by side" in both.stdout, both.stderr
    assert shared("compare", "first.jsonl", "second", "--backend", "mlx-metal", "--across").stdout.count("SLOWER") == 1


def test_another_version_of_the_work_has_a_row_of_its_own(bench):
    bench.configure('store = "results.sqlite"')
    put(bench, "first", "Apple M4", {"mlx-metal": 1e6})
    put(bench, "second", "Apple M2", {"mlx-metal": 3e6}, version=2)
    text = bench("show", "first", "second").stdout
    assert "(version 1)" in text
    assert "(version 2)" in text
    assert "3.00×" not in text


def test_a_mistake_is_one_sentence(shared):
    assert "several columns of mlx-metal" in only_sentence(shared("show", "first.jsonl", "second.jsonl", "--relative-to", "mlx-metal"))
    assert "no column called 'mlx'" in only_sentence(shared("show", "first.jsonl", "second.jsonl", "--relative-to", "mlx"))
    assert "no format that can be imported" in only_sentence(shared("show", "first.jsonl", "bench.toml"))
    assert "can't be written" in only_sentence(shared("share", "first.jsonl", "-o", "no/where.jsonl"))
    run, records = put(shared, "first", "Apple M1", {"mlx-metal": 1e6})
    (shared.folder / "other.jsonl").write_bytes(b"".join(jsonl.write([(run, records)])))
    assert "Two machines have a run called first" in only_sentence(shared("show", "first.jsonl", "other.jsonl"))
