"""``bench export`` and ``bench import`` as a user runs them, and the readers of the tools that the files are for."""

import csv
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from support.command import only_sentence

from metalbench.harness.uv import uv
from metalbench.results.record import Cell, Host, Measurement, Record, Run
from metalbench.results.store import open_store

SAMPLES = Path(__file__).parent.parent / "data" / "formats"
CELL = Cell(
    workload="fft", version=1, case={"length": 1009}, backend="torch-cpu", environment="current", variant="fused", protocol="latency",
    policy="ieee-float32",
)  # fmt: skip
DAY = 86400


def keep(folder, name, started, medians, **changes):
    """A finished run of one cell, its launches having these medians in ns."""
    plan = msgspec.Raw(msgspec.json.encode({"cells": [CELL]}))
    run = Run(
        id=name, started=started, host=Host(key="k", facts={"chip": "M5"}), plan=plan, **({"label": "", "state": "finished"} | changes)
    )
    with open_store(str(folder / "s.sqlite")) as store:
        store.begin(run)
        for launch, median in enumerate(medians):
            measurement = Measurement(status="ok", spans_ns=[median - 1, median, median + 7], facts={"torch": "2.13"})
            store.add(name, Record(cell=CELL, launch=launch, started=started + launch, measurement=measurement))


def export(bench, *arguments, store="s.sqlite"):
    result = bench("export", *arguments, "--store", store)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


def runs(bench, store):
    return [line.split()[0] for line in bench("list", "runs", "--store", store).stdout.splitlines()]


def test_a_store_is_carried_over_whole(bench):
    keep(bench.folder, "old", 1.6e9, [100, 200], revision="c" * 40)
    keep(bench.folder, "new", 1.7e9, [300], label="später", state="interrupted")
    export(bench, "jsonl", "--all", "-o", "all.jsonl")
    result = bench("import", "all.jsonl", "--store", "t.sqlite")
    assert (result.returncode, result.stdout) == (0, "all.jsonl: jsonl, 2 runs, 3 records, 3 new\n")
    assert export(bench, "jsonl", "old", "später", store="t.sqlite") == (bench.folder / "all.jsonl").read_text("utf-8")
    again = bench("import", "all.jsonl", "--store", "t.sqlite")
    assert (again.returncode, again.stdout) == (0, "all.jsonl: jsonl, 2 runs, 3 records, 0 new\n")
    assert runs(bench, "t.sqlite") == ["new", "old"]
    assert "torch-cpu" in bench("show", "old", "--store", "t.sqlite").stdout


def test_what_was_cut_off_is_made_up_for_by_the_whole_file(bench):
    keep(bench.folder, "r", 1.6e9, [100, 200])
    text = export(bench, "jsonl")
    (bench.folder / "r.jsonl").write_text(text[:-30], "utf-8")
    result = bench("import", "r.jsonl", "--store", "t.sqlite")
    assert (result.returncode, result.stdout) == (2, "r.jsonl: jsonl, 1 run, 1 record, 1 new\n")
    assert only_sentence(result).startswith("bench: r.jsonl: line 3: ")
    (bench.folder / "r.jsonl").write_text(text, "utf-8")
    assert bench("import", "r.jsonl", "--store", "t.sqlite").stdout == "r.jsonl: jsonl, 1 run, 2 records, 1 new\n"


def test_every_foreign_sample_is_stored_once_and_shown(bench):
    samples = [str(path) for path in sorted(SAMPLES.iterdir())]
    result = bench("import", *samples, "--store", "t.sqlite", "--label", "theirs")
    assert result.returncode == 2
    assert result.stderr.splitlines() == [
        f"bench: {SAMPLES / 'pytest_benchmark_3.1.json'}: benchmarks[0].stats.data: 1 of 5 are no positive times."
    ]
    assert not re.search(r"[^\d]0 (runs?|records?|new)", result.stdout)
    before = runs(bench, "t.sqlite")
    again = bench("import", *samples, "--store", "t.sqlite")
    assert len(re.findall(r", 0 new$", again.stdout, re.MULTILINE)) == len(samples)
    assert runs(bench, "t.sqlite") == before
    for name in before:
        shown = bench("show", name, "--store", "t.sqlite")
        assert (shown.returncode, shown.stderr) == (0, "")
        assert "theirs" in shown.stdout


def test_files_that_give_nothing_stop_no_others(bench):
    (bench.folder / "notes.txt").write_text("not a benchmark", "utf-8")
    (bench.folder / "empty.json").write_text('{"machine_info": {}, "benchmarks": [], "datetime": "2026-01-01T00:00:00"}', "utf-8")
    good = str(SAMPLES / "llama_bench.jsonl")
    result = bench("import", "missing.json", "notes.txt", "empty.json", good, "--store", "t.sqlite")
    assert result.returncode == 2
    assert [line.split(": ")[1:2] for line in result.stderr.splitlines()] == [["missing.json"], ["notes.txt"], ["empty.json"]]
    assert "llama-bench" in result.stderr, "the formats that there are"
    assert "Traceback" not in result.stderr
    assert f"{good}: llama-bench, 1 run, 3 records, 3 new\n" in result.stdout


MISTAKES = {
    "unknown export format": (["export", "pytest-benchmrk"], ["no export format called 'pytest-benchmrk'", "pytest-benchmark"]),
    "a format that is only written": (["import", "x.csv", "--format", "bencher"], ["no import format called 'bencher'"]),
    "all and some": (["export", "jsonl", "r", "--all"], ["not both"]),
    "no such run": (["export", "jsonl", "q"], ["no run called 'q'"]),
    "too many runs": (["export", "bencher", "r", "r2"], ["bencher", "one run"]),
    "nothing to export": (["export", "bencher", "--all", "--store", "empty.sqlite"], ["no runs yet"]),
    "nowhere to write": (["export", "jsonl", "-o", "nowhere/x.jsonl"], ["nowhere/x.jsonl", "--output"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_one_sentence_names_the_thing_and_the_remedy(bench, mistake):
    keep(bench.folder, "r", 1.6e9, [100])
    keep(bench.folder, "r2", 1.7e9, [100])
    arguments, words = MISTAKES[mistake]
    sentence = only_sentence(bench(*arguments, *([] if "--store" in arguments else ["--store", "s.sqlite"])))
    for word in words:
        assert word in sentence
    assert not list(bench.folder.glob("*.new"))


def test_an_export_that_fails_leaves_the_file_that_was_there(bench):
    keep(bench.folder, "r", 1.6e9, [])
    (bench.folder / "out.json").write_text("before", "utf-8")
    only_sentence(bench("export", "bencher", "-o", "out.json", "--store", "s.sqlite"))
    assert (bench.folder / "out.json").read_text("utf-8") == "before"
    assert sorted(path.name for path in bench.folder.glob("out*")) == ["out.json"]


def test_pytest_benchmark_compares_our_files(bench):
    for name, factor in (("before", 1), ("after", 2)):
        keep(bench.folder, name, 1.7e9, [2_100_000 * factor, 2_345_600 * factor, 9_000_000 * factor])
        export(bench, "pytest-benchmark", name, "-o", f"{name}.json")
    command = [
        sys.executable,
        "-m",
        "pytest_benchmark",
        "compare",
        "before.json",
        "after.json",
        "--columns=median,rounds",
        "--csv=table.csv",
    ]
    result = subprocess.run(command, cwd=bench.folder, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    assert "fft.v1/length=1009" in result.stdout
    assert "2.3456 (1.0)" in result.stdout, "in ms, the best"
    assert "4.6912 (2.00)" in result.stdout
    with (bench.folder / "table.csv").open(newline="", encoding="utf-8") as file:
        assert [(float(row["median"]), row["rounds"]) for row in csv.DictReader(file)] == [(0.0023456, "3"), (0.0046912, "3")]


@pytest.fixture(scope="module")
def otava(tmp_path_factory):
    """Otava in an environment of its own: it pins packages that nothing else should have to live with."""
    folder = tmp_path_factory.mktemp("otava")
    uv("venv", "--python", sys.executable, str(folder))
    uv("pip", "install", "--python", str(folder / "bin" / "python"), "apache-otava==0.8.0")
    return folder / "bin" / "otava"


def test_otava_finds_the_step_in_our_history(bench, otava):
    first = time.time() // DAY * DAY - 60 * DAY  # by default it looks back a year
    for day in range(40):
        level = 1_000_000 if day < 25 else 1_100_000
        jitter = (day * 7919 % 13 - 6) * 500
        keep(
            bench.folder,
            f"r{day:02}",
            first + day * DAY,
            [level + jitter, level + jitter + 900, level + jitter + 5],
            revision=f"{day:040x}",
        )
    export(bench, "csv", "--all", "-o", "history.csv")
    header, *rows = csv.reader((bench.folder / "history.csv").read_text("utf-8").splitlines())
    assert header[3:] == ["fft.v1/length=1009/torch-cpu@current/fused/latency/ieee-float32 on k (ns)"]
    assert [row[2] for row in rows] == [f"r{day:02}" for day in range(40)]
    test = {
        "type": "csv",
        "file": "history.csv",
        "time_column": "time",
        "attributes": ["commit", "run"],
        "metrics": {"fft": {"column": header[3], "direction": -1}},
    }
    (bench.folder / "otava.yaml").write_text(json.dumps({"tests": {"history": test}}), "utf-8")
    result = subprocess.run(
        [otava, "analyze", "history", "--config-file", "otava.yaml", "--output", "json"],
        cwd=bench.folder, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    (step,) = json.loads(result.stdout[result.stdout.index("{") :])["history"]
    assert step["time"] == first + 25 * DAY
    assert step["attributes"]["commit"] == f"{25:040x}"
