"""Interchange formats: what is written is read back bit for bit, and by others' rules; what others wrote is read as they meant it."""

import codecs
import csv
import io
import json
import math
import statistics
import time
from datetime import datetime
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metalbench.results import interchange
from metalbench.results.formats import foreign
from metalbench.results.formats.base import FormatError, cell_name
from metalbench.results.record import Cell, Energy, Host, Measurement, Memory, Record, Run
from metalbench.results.store import open_store
from metalbench.results.summary import Summary

SAMPLES = Path(__file__).parent.parent / "data" / "formats"
FOREIGN = sorted(path.name for path in SAMPLES.iterdir())


def make_cell(size=8, **changes):
    fields = {
        "workload": "w", "version": 1, "case": {"size": size, "causal": True}, "backend": "torch-cpu", "environment": "current",
        "variant": "fused", "protocol": "latency", "policy": "ieee-float32",
    }  # fmt: skip
    return Cell(**(fields | changes))


def make_run(cells, name="r", host="k", **changes):
    fields = {"started": 1.7e9, "label": "", "state": "finished"} | changes
    return Run(id=name, host=Host(key=host, facts={"chip": "M5", "cores": "10"}), plan=plan_of(cells), **fields)


def plan_of(cells):
    return msgspec.Raw(msgspec.json.encode({"cells": cells, "more": 1}))


def timed(cell, launch, spans, **changes):
    fields = {"status": "ok", "spans_ns": spans, "flops": 4000, "facts": {"torch": "2.13"}} | changes
    return Record(cell=cell, launch=launch, started=1.7e9 + launch, measurement=Measurement(**fields))


def written(name, *runs):
    return b"".join(interchange.formats("write")[name].write(iter(runs)))


def sample(name, format_name=None):
    found, reading = interchange.read((SAMPLES / name).read_bytes(), format_name)
    assert found == name.rpartition(".")[0].rstrip("_.0123456789").replace("_", "-")
    return reading


def strict(data):
    """JSON as the standard has it: no NaN, no Infinity."""
    return json.loads(data, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


CELL, WRONG = make_cell(), make_cell(16)
LAUNCHES = ([100, 110, 900], [130], [120])  #: spans in ns; the median of their medians is 120
MEASURED = (
    make_run([CELL, WRONG], revision="ab" * 20 + "-dirty"),
    [timed(CELL, launch, spans, memory=Memory(device_peak=1000, process_peak=5000)) for launch, spans in enumerate(LAUNCHES)]
    + [timed(WRONG, 0, [5], status="wrong", reason="off")],
)  # fmt: skip

scalars = st.one_of(st.text(max_size=9), st.integers(-(2**63), 2**63 - 1), st.booleans(), st.floats(allow_nan=False, allow_infinity=False))
finite = st.floats(allow_nan=False, allow_infinity=False)
words = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)
measurements = st.builds(
    Measurement,
    status=st.sampled_from(["ok", "wrong", "crashed", "oom"]),
    reason=st.text(max_size=30),
    spans_ns=st.lists(st.integers(1, 2**63 - 1), max_size=9),
    calls_per_sample=st.integers(1, 10**6),
    device_spans_ns=st.lists(finite, max_size=3),
    first_call_ns=st.none() | st.integers(0, 2**62),
    max_error=st.none() | finite,
    figures=st.dictionaries(st.text(max_size=5), finite, max_size=3),
    memory=st.none() | st.builds(Memory, device_peak=st.none() | st.integers(0, 2**60), process_shared=st.booleans()),
    energy=st.none() | st.builds(Energy, joules_per_call=finite, calls=st.integers(1), seconds=finite, source=st.text(max_size=5)),
    conditions=words,
    facts=words,
    log=st.text(max_size=30),
)


@st.composite
def recorded(draw, name):
    cells = [
        make_cell(case=case) for case in draw(st.lists(st.dictionaries(st.text(max_size=5), scalars, max_size=3), min_size=1, max_size=3))
    ]
    cells = list({cell.key(): cell for cell in cells}.values())
    kept = draw(st.lists(st.tuples(st.sampled_from(cells), st.integers(0, 3)), unique_by=lambda pair: (pair[0].key(), pair[1]), max_size=5))
    records = [Record(cell=cell, launch=n, started=draw(st.sampled_from([1.5, 2.0])), measurement=draw(measurements)) for cell, n in kept]
    facts, label = draw(words), draw(st.text(max_size=9))
    run = Run(
        id=name, started=draw(st.floats(0, 2e9)), label=label, host=Host(key=name, facts=facts), plan=plan_of(cells), state="interrupted"
    )
    return msgspec.structs.replace(run, revision=draw(st.sampled_from(["", "c" * 40]))), records


def in_order(records):
    return sorted(records, key=lambda record: (record.started, record.cell.key(), record.launch))


@settings(max_examples=40)
@given(runs=st.tuples(recorded("a"), recorded("b")))
def test_json_lines_come_back_bit_for_bit(tmp_path_factory, runs):
    data = written("jsonl", *runs)
    name, reading = interchange.read(data)
    assert (name, reading.problems) == ("jsonl", [])
    for (run, records), (again, found) in zip(runs, reading.runs, strict=True):
        assert msgspec.json.encode(again) == msgspec.json.encode(run)
        assert bytes(again.plan) == bytes(run.plan)
        assert found == in_order(records)
    with open_store(str(tmp_path_factory.mktemp("store") / "s.sqlite")) as store:
        for run, records in reading.runs:
            store.begin(run)
            for record in records:
                store.add(run.id, record)
        assert written("jsonl", *((store.run(name), store.records(name)) for name in ("a", "b"))) == data


@given(runs=st.tuples(recorded("a"), recorded("b")), data=st.data())
def test_damage_costs_what_is_damaged(runs, data):
    whole = written("jsonl", *runs)
    at = data.draw(st.integers(0, len(whole) - 1))
    tail = data.draw(st.sampled_from([whole[at + 1 :], whole[at:], b""]))
    damaged = whole[:at] + data.draw(st.binary(max_size=3)) + tail
    reading = interchange.formats("read")["jsonl"].read(damaged)
    intact = set(damaged.split(b"\n"))
    for run, records in runs:
        lines = written("jsonl", (run, records)).split(b"\n")[:-1]
        if lines[0] in intact:
            kept = next(found for again, found in reading.runs if again.id == run.id)
            assert all(record in kept for record, line in zip(in_order(records), lines[1:], strict=True) if line in intact)
    if not set(whole.split(b"\n")) <= intact and len(damaged.split(b"\n")) == len(whole.split(b"\n")):
        assert len(set(whole.split(b"\n")) - intact) == 1


def test_a_cut_file_says_where_and_keeps_the_rest():
    data = written("jsonl", MEASURED)
    (run, records), *others = interchange.read(data[:-40])[1].runs
    assert (run.id, len(records), others) == ("r", 3, [])
    (problem,) = interchange.read(data[:-40])[1].problems
    assert problem.startswith("line 5: ")


def test_records_are_never_given_to_another_run():
    other = (make_run([CELL], name="other"), [timed(CELL, 0, [7])])
    lines = written("jsonl", other, MEASURED).split(b"\n")
    lines[2] = lines[2][:50]
    reading = interchange.read(b"\n".join(lines))[1]
    assert [(run.id, len(records)) for run, records in reading.runs] == [("other", 1)]
    assert reading.problems[0].startswith("line 3: ")
    assert reading.problems[1].startswith("4 records are of the run 'r'")


@pytest.mark.parametrize(
    "change",
    [
        (b'"launch":0', b'"launch":99999999999999999999'),
        (b"[130]", b"[99999999999999999999]"),
        (b'"cells"', b'"sells"'),
        (b'"started":17', b'"started":17e99'),
    ],
)
def test_what_no_store_could_hold_is_damage(change):
    reading = interchange.read(written("jsonl", MEASURED).replace(*change))[1]
    assert reading.problems


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("encode", [lambda text: codecs.BOM_UTF8 + text.encode(), lambda text: text.encode("utf-16"),
                                    lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
                                    lambda text: text.replace("\n", "\r\n").encode("utf-16")])  # fmt: skip
def test_any_encoding_is_read_alike(name, encode):
    text = (SAMPLES / name).read_text("utf-8")
    assert measured(interchange.read(encode(text))[1]) == measured(sample(name))


def measured(reading):
    return [[(record.cell, record.launch, record.measurement) for record in records] for _, records in reading.runs]


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_that_is_read_again_is_the_same_run_of_the_same_machine(name):
    first, second = sample(name), sample(name)
    assert [run.id for run, _ in first.runs] == [run.id for run, _ in second.runs]
    data = (SAMPLES / name).read_bytes()
    other = interchange.read(data.replace(b"2", b"3", 1))[1] if b"2" in data else None
    assert other is None or [run.id for run, _ in other.runs] != [run.id for run, _ in first.runs]
    for run, records in first.runs:
        assert run.host.key.startswith("foreign-")
        assert {record.cell.key() for record in records} == {cell.key() for cell in run.cells()}
        assert {(record.cell.environment, record.cell.policy) for record in records} == {("imported", "unknown")}


@pytest.mark.parametrize("name", FOREIGN)
@settings(max_examples=50)
@given(data=st.data())
def test_a_damaged_foreign_file_raises_nothing_and_hides_nothing(name, data):
    text = (SAMPLES / name).read_bytes()
    at = data.draw(st.integers(0, len(text) - 1))
    cut = data.draw(st.booleans())
    damaged = text[:at] if cut else text[:at] + data.draw(st.binary(max_size=3)) + text[at + 1 :]
    format_name = interchange.read(text)[0]
    reading = interchange.read(damaged, format_name)[1]
    if cut and damaged.strip() != text.strip():
        assert reading.problems or sum(len(records) for _, records in reading.runs) < sum(len(r) for _, r in sample(name).runs)
    for run, records in reading.runs:
        assert interchange.read(written("jsonl", (run, records)))[1].problems == []


@pytest.fixture
def in_tokyo():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


def test_pytest_benchmark_before_it_stored_data(in_tokyo):
    reading = sample("pytest_benchmark_2.5.json")
    ((run, (record,)),) = reading.runs
    assert reading.problems == []
    assert record.measurement.samples_ns() == [pytest.approx(250.0)]
    assert record.measurement.calls_per_sample == 400
    assert record.measurement.facts["sample"] == "median of 9000 rounds"
    assert run.started == datetime.fromisoformat("2015-09-01T10:20:30.25+00:00").timestamp(), "in UTC, wherever it is read"
    assert run.revision == "0123456789abcdef0123456789abcdef01234567-dirty"
    assert run.host.facts == {"chip": "x86_64", "machine": "x86_64", "system": "Linux 3.13.0-55-generic"}


def test_pytest_benchmark_with_data_of_which_some_is_missing():
    reading = sample("pytest_benchmark_3.1.json")
    ((run, (record,)),) = reading.runs
    assert (record.measurement.samples_ns(), record.measurement.rejected) == ([2e6, 1e6, 3e6, 4e6], 1)
    assert reading.problems == ["benchmarks[0].stats.data: 1 of 5 are no positive times"]
    assert run.revision == ""
    assert run.host.facts["chip"] == "Intel(R) Core(TM) i7-4790 CPU @ 3.60GHz"
    assert {"lines": "7", "group": "parse"}.items() <= record.measurement.facts.items()


def test_pytest_benchmark_today():
    ((run, (parse, dump)),) = sample("pytest_benchmark_5.3.json").runs
    assert [record.cell.case for record in (parse, dump)] == [
        {"test": "tests/test_parse.py::test_parse[small]"},
        {"test": "tests/test_parse.py::test_dump"},
    ]
    assert parse.measurement.samples_ns() == [1000, 2000, 3000]
    assert dump.measurement.samples_ns() == [5e8]
    assert run.host.facts == {"chip": "Apple M4", "cores": "10", "machine": "arm64", "system": "Darwin 24.5.0"}
    old = sample("pytest_benchmark_2.5.json").runs[0][1][0]
    assert old.cell.key() == parse.cell.key(), "one test is one series in every version"


@pytest.mark.parametrize("cut", ['"name": "test_dump"', '"rounds": 1,'])
def test_a_cut_pytest_benchmark_file_keeps_its_whole_benchmarks(cut):
    text = (SAMPLES / "pytest_benchmark_5.3.json").read_text("utf-8")
    reading = interchange.read(text[: text.index(cut)].encode())[1]
    ((run, (record,)),) = reading.runs
    assert record.measurement.samples_ns() == [1000, 2000, 3000]
    assert run.host.facts["chip"] == "Apple M4"
    line = text[: text.index(cut)].rstrip().count("\n") + 1
    assert reading.problems[0].startswith(f"line {line}, column ")
    assert reading.problems[0].endswith("of its benchmarks, 1 are whole")


def test_damage_in_the_middle_of_a_document_leaves_what_comes_after():
    text = (SAMPLES / "pytest_benchmark_5.3.json").read_text("utf-8").replace('"mean": 2e-06', '"mean": 2e-06"')
    reading = interchange.read(text.encode())[1]
    assert [record.cell.case["test"] for record in reading.runs[0][1]] == ["tests/test_parse.py::test_dump"]


def test_google_benchmark():
    reading = sample("google_benchmark.json")
    assert reading.problems == []
    ((run, records),) = reading.runs
    found = {(record.cell.case["benchmark"], record.launch): record.measurement for record in records}
    assert {name: (each.status, each.samples_ns()) for name, each in found.items()} == {
        ("BM_sort/1024", 0): ("ok", [2500.0]), ("BM_sort/1024", 1): ("ok", [3500.0]), ("BM_merge", 0): ("ok", [1.5e6]),
        ("BM_open", 0): ("failed", []), ("BM_gpu", 0): ("unsupported", []),
    }  # fmt: skip
    assert found["BM_sort/1024", 0].facts["items_per_second"] == "400000000.0"
    assert "broken" not in found["BM_sort/1024", 0].facts
    assert found["BM_sort/1024", 1].facts["label"] == "warm"
    assert found["BM_sort/1024", 0].calls_per_sample == 1000
    assert found["BM_merge", 0].calls_per_sample == 1, "its iterations are repetitions"
    assert found["BM_merge", 0].facts["sample"] == "median of 9 repetitions"
    assert (found["BM_open", 0].reason, found["BM_gpu", 0].reason) == ("no such file", "no GPU here")
    assert run.started == datetime.fromisoformat("2026-05-01T12:00:00+00:00").timestamp()


def test_google_benchmark_before_it_named_aggregates():
    ((_, records),) = sample("google_benchmark_2016.json").runs
    assert [(record.cell.case["benchmark"], record.launch, record.measurement.samples_ns()) for record in records] == [
        ("BM_copy/8", 0, [50.0]),
        ("BM_copy/8", 1, [54.0]),
    ]


def test_llama_bench_rows_are_cells_and_differ_by_what_varies():
    reading = sample("llama_bench.jsonl")
    assert reading.problems == []
    ((run, records),) = reading.runs
    assert [(record.launch, record.measurement.spans_ns) for record in records] == [
        (0, [71000000, 73000000, 72000000]),
        (0, [1070000000]),
        (0, [1090000000]),
    ]
    assert run.host.facts == {"chip": "AMD Ryzen 7 7800X3D, 8 cores, 4.2 GHz", "gpu": "NVIDIA GeForce RTX 4080"}
    case = records[0].cell.case
    assert {name: case[name] for name in ("model", "n_prompt", "n_gen", "type_k", "flash_attn", "use_mmap")} == {
        "model": "tiny-Q4_0.gguf",
        "n_prompt": 512,
        "n_gen": 0,
        "type_k": "f16",
        "flash_attn": 1,
        "use_mmap": 1,
    }
    assert records[0].cell.backend == "llama.cpp-cuda"


def test_llama_bench_says_the_same_in_every_format():
    lines = (SAMPLES / "llama_bench.jsonl").read_text("utf-8").splitlines()[:2]
    as_lines, as_array = ("\n".join(lines), "[\n" + ",\n".join(lines) + "\n]")
    found = measured(interchange.read(as_lines.encode())[1])
    assert measured(interchange.read(as_array.encode())[1]) == found
    from_csv = measured(sample("llama_bench_2025.csv"))
    assert [cell for cell, _, _ in from_csv[0]] == [cell for cell, _, _ in found[0]]
    assert [measurement.spans_ns for _, _, measurement in from_csv[0]] == [[72000000], [1070000000]]
    assert all(measurement.facts["sample"] == "mean of the repetitions" for _, _, measurement in from_csv[0])


def test_llama_bench_with_the_columns_of_another_year():
    ((run, (record,)),) = sample("llama_bench_2023.csv").runs
    assert record.cell.backend == "llama.cpp-metal+gpu_blas+blas"
    assert record.cell.case == {"model": "tiny-Q4_0.gguf", "n_prompt": 512, "n_gen": 0, "n_batch": 512, "n_threads": 4, "n_gpu_layers": 99}
    assert run.host.facts == {"chip": "Apple M2, 8 cores", "gpu": ""}


def test_llama_bench_outputs_in_one_file_are_launches_and_machines_are_runs():
    text = (SAMPLES / "llama_bench_2025.csv").read_text("utf-8")
    twice = interchange.read((text + text).encode())[1]
    assert [record.launch for record in twice.runs[0][1]] == [0, 0, 1, 1]
    elsewhere = interchange.read((text + text.replace("4080", "5090")).encode())[1]
    assert len({run.id for run, _ in elsewhere.runs}) == len({run.host.key for run, _ in elsewhere.runs}) == 2


def test_a_damaged_line_of_csv_costs_itself():
    header, first, second = (SAMPLES / "llama_bench_2025.csv").read_text("utf-8").splitlines()
    reading = interchange.read(
        "\n".join(["load_backend: loaded CUDA", header, first[:-4], second, second.replace("1070000000", "1,07")]).encode()
    )[1]
    assert [record.measurement.spans_ns for record in reading.runs[0][1]] == [[1070000000]]
    assert [problem.partition(":")[0] for problem in reading.problems] == ["line 1", "line 3", "line 5"]


@pytest.mark.parametrize("data", [b"", b"\n", b"SQLite format 3\0\1\2", b'{"a": 1}', b"[" * 10**5, "naïve".encode("cp1252")])
def test_a_file_of_something_else_is_refused(data):
    with pytest.raises(FormatError, match=r"is empty|no format"):
        interchange.read(data)
    for name in interchange.formats("read"):
        assert interchange.read(data, name)[1].runs == []


@pytest.mark.parametrize("text", ["1e999", "NaN", '"x"', "1" * 5000, "true", "null", "-5", "0", '"1_000,5"'])
def test_times_that_are_none_are_told(text):
    data = (SAMPLES / "pytest_benchmark_5.3.json").read_text("utf-8").replace("[0.5]", f"[{text}]")
    reading = interchange.read(data.encode())[1]
    assert [len(records) for _, records in reading.runs] == [1]
    assert len(reading.problems) == 1


def test_half_characters_are_replaced():
    for name in FOREIGN:
        text = (SAMPLES / name).read_text("utf-8")
        if name.endswith(".csv"):
            continue
        for plain in ("test_parse", "5.3.0", "Apple", "CUDA", "8cf427ff", "BM_", "v1.9.1", '9000, "min"', "model", "bench-2"):
            escaped = text.replace(plain, '"\\ud800", "min"' if "min" in plain else f"{plain}\\ud800")
            for run, records in interchange.read(escaped.encode(), interchange.read(text.encode())[0])[1].runs:
                assert interchange.read(written("jsonl", (run, records)))[1].problems == []


@given(data=st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=20))
def test_our_statistics_are_pytest_benchmark_s(data):
    from pytest_benchmark.stats import Stats

    theirs = Stats()
    for value in data:
        theirs.update(value)
    ours = interchange.formats("write")["pytest-benchmark"]._stats(data)
    assert set(ours) == {*theirs.as_dict(), "data", "iterations"}
    for name in ("min", "max", "mean", "stddev", "median", "rounds", "ops", "total"):
        assert ours[name] == pytest.approx(theirs.as_dict()[name], rel=1e-9, abs=1e-12)
    assert [ours["q1"], ours["q3"]] == pytest.approx(list(np.percentile(data, [25, 75])))


def test_only_right_answers_are_exported_as_timings():
    for name in ("pytest-benchmark", "github-action-benchmark-smaller", "github-action-benchmark-bigger", "bencher"):
        data = written(name, MEASURED)
        strict(data)
        assert cell_name(CELL).encode() in data
        assert b"size=16" not in data
    with pytest.raises(FormatError, match="no cell with a right answer"):
        written("bencher", (MEASURED[0], MEASURED[1][-1:]))
    with pytest.raises(FormatError, match="holds one run"):
        written("bencher", MEASURED, MEASURED)


def test_a_pytest_benchmark_file_of_ours():
    document = strict(written("pytest-benchmark", MEASURED))
    (benchmark,) = document["benchmarks"]
    assert benchmark["stats"]["data"] == [110e-9, 130e-9, 120e-9]
    assert (benchmark["stats"]["median"], benchmark["stats"]["rounds"]) == (120e-9, 3)
    assert document["commit_info"] == {"id": "ab" * 20, "dirty": True}
    ((again, (record,)),) = interchange.read(json.dumps(document).encode())[1].runs
    assert record.measurement.samples_ns() == [110, 130, 120]
    assert again.revision == MEASURED[0].revision


def test_github_action_benchmark_both_ways():
    smaller, bigger = (strict(written(f"github-action-benchmark-{way}", MEASURED)) for way in ("smaller", "bigger"))
    for entry in smaller + bigger:  # what the action's documentation asks for
        assert isinstance(entry["name"], str)
        assert isinstance(entry["unit"], str)
        assert math.isfinite(entry["value"])
        assert entry.keys() <= {"name", "unit", "value", "range", "extra"}
        assert all(isinstance(entry.get(name, ""), str) for name in ("range", "extra"))
    assert len({entry["name"] for entry in smaller}) == len(smaller) == 3
    assert [(entry["unit"], entry["value"]) for entry in smaller] == [("ns", 120), ("bytes", 1000), ("bytes", 5000)]
    assert [(entry["unit"], entry["value"]) for entry in bigger] == [
        ("calls/s", pytest.approx(1e9 / 120)),
        ("FLOP/s", pytest.approx(4000e9 / 120)),
    ]


def test_what_a_call_gets_through_is_a_rate_of_its_own():
    records = [timed(CELL, launch, spans, amounts={"tokens": 6}) for launch, spans in enumerate(LAUNCHES)]
    *_, entry = strict(written("github-action-benchmark-bigger", (make_run([CELL]), records)))
    assert entry["name"].endswith("/tokens")
    assert (entry["unit"], entry["value"]) == ("tokens/s", pytest.approx(6e9 / 120))


def test_bencher_metric_format():
    document = strict(written("bencher", MEASURED))
    (metrics,) = document.values()
    for metric in metrics.values():
        assert {"value"} <= metric.keys() <= {"value", "lower_value", "upper_value"}
        assert metric.get("lower_value", -math.inf) <= metric["value"] <= metric.get("upper_value", math.inf)
    median, low, high = Summary(MEASURED[1][:3]).time
    assert metrics["latency"] == {"value": median, "lower_value": low, "upper_value": high}
    assert metrics["throughput"]["lower_value"] == pytest.approx(1e9 / high)
    assert (metrics["device-peak-memory"]["value"], metrics["process-peak-memory"]["value"]) == (1000, 5000)


def test_csv_is_a_row_a_run_and_a_column_a_series():
    later = (make_run([CELL], name="later", started=1.8e9), [timed(CELL, 0, [50, 52])])
    elsewhere = (make_run([CELL], name="elsewhere", host="other", started=1.9e9), [timed(CELL, 0, [9])])
    header, *rows = csv.reader(io.StringIO(written("csv", MEASURED, later, elsewhere).decode(), newline=""))
    assert header == ["time", "commit", "run", f"{cell_name(CELL)} on k (ns)", f"{cell_name(CELL)} on other (ns)"]
    assert [row[1:] for row in rows] == [["ab" * 20 + "-dirty", "r", "120.0", ""], ["", "later", "51.0", ""], ["", "elsewhere", "", "9.0"]]
    assert [datetime.fromisoformat(row[0]).timestamp() for row in rows] == [1.7e9, 1.8e9, 1.9e9]


def test_names_of_cells_are_one_line_and_tell_them_apart():
    cells = [
        make_cell(),
        make_cell(9),
        *(make_cell(**{field: "other\nx"}) for field in ("backend", "environment", "variant", "protocol", "policy")),
    ]
    names = {cell_name(cell) for cell in [*cells, make_cell(version=2)]}
    assert len(names) == len(cells) + 1
    assert not any("\n" in name for name in names)


def test_spans_keep_the_time_per_call():
    assert foreign.spans([250.0, None, -1.0, 1e-3, 1e300], 4) == [1000]
    assert statistics.fmean(foreign.spans([2.17], 418)) / 418 == pytest.approx(2.17, rel=1e-3)
