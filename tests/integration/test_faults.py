"""A worker that dies, hangs or grows costs its cell and nothing else."""

import json

import pytest
from support.command import workers

EXPECTED = {
    "none": ("ok", ""),
    "kill": ("crashed", "SIGKILL"),
    "abort": ("crashed", "SIGABRT"),
    "hang": ("timeout", "no answer within 8 s"),
    "hog": ("oom", "past the limit of 1.0 GiB"),
    "wrong": ("wrong", "out is off by"),
    "nan": ("wrong", "NaN"),
    "raise": ("failed", "the framework was not amused"),
    "exit": ("crashed", "status 7"),
    "slow": ("ok", ""),
    "late": ("wrong", "on an output of the timed calls"),
    "huge": ("oom", "would need about"),
}


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    from support.command import Bench

    bench = Bench(tmp_path_factory.mktemp("faults"))
    bench.configure("memory_limit_gib = 1\ntimeout = 8", plugins=["faulty.py"])
    arguments = ("run", "--workload", "faults", "--backend", "numpy-cpu", "--launches", "2", "--budget", "0.05", "--seed", "1")
    result = bench(*arguments, "--json", "out.json", "--store", "results.sqlite")
    assert result.returncode == 1, result.stderr
    return json.loads((bench.folder / "out.json").read_text("utf-8")), result, bench


@pytest.mark.parametrize("fault", EXPECTED)
def test_each_fault_is_a_status_with_its_reason(document, fault):
    cells = {cell["case"]["fault"]: cell for cell in document[0]["cells"]}
    status, reason = EXPECTED[fault]
    assert cells[fault]["status"] == status, cells[fault]["reason"]
    assert reason in cells[fault]["reason"]


def test_all_other_cells_complete_in_every_launch(document):
    cells = {cell["case"]["fault"]: cell for cell in document[0]["cells"]}
    assert len(cells) == len(EXPECTED)
    for fault in ("none", "slow"):
        assert [launch["launch"] for launch in cells[fault]["launches"]] == [0, 1]
        assert all(launch["samples_ns"] for launch in cells[fault]["launches"])


def test_wrong_answers_are_shown_and_not_ranked(document):
    out = document[1].stdout
    assert "What ran and is not ranked, and why" in out
    assert "What did not run, and why" in out
    line = next(line for line in out.splitlines() if line.strip().startswith("dtype=float32 fault=wrong"))
    assert "★" not in line


def test_what_the_framework_printed_is_kept(document):
    from metalbench.results.store import open_store

    with open_store(str(document[2].folder / "results.sqlite")) as store:
        records = store.records(store.run("latest").id)
    log = next(record.measurement.log for record in records if record.cell.case["fault"] == "abort")
    assert "about to abort" in log


def test_no_worker_is_left(document):
    assert workers() == []


def test_an_alarm_is_only_raised_where_it_was_asked_for(bench):
    bench.configure(plugins=["faulty.py"])
    arguments = (
        "run",
        "--workload",
        "faults",
        "--backend",
        "numpy-cpu",
        "--case",
        "fault=wrong",
        "--launches",
        "1",
        "--budget",
        "0.02",
        "-q",
    )
    assert bench(*arguments).returncode == 0
    assert bench(*arguments, "--fail-on", "wrong").returncode == 1


def test_a_workload_that_breaks_costs_its_own_cells(bench):
    bench.configure(plugins=["faulty.py", "broken_inputs.py"])
    only = ("--workload", "broken_inputs", "--backend", "numpy-cpu")
    result = bench("run", *only, "--launches", "2", "--budget", "0.02", "--json", "out.json")
    assert result.returncode == 1, result.stderr
    cells = json.loads((bench.folder / "out.json").read_text("utf-8"))["cells"]
    found = {cell["case"]["at"]: (cell["status"], cell["reason"]) for cell in cells}
    assert found["nowhere"] == ("ok", "")
    for at, error in (("inputs", "KeyError"), ("reference", "ZeroDivisionError"), ("cost", "ValueError")):
        assert found[at][0] == "failed"
        assert error in found[at][1]
