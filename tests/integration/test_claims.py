"""`bench claims` as a user runs it: on a store of known contents, and measuring what is missing."""

import json

import msgspec
import numpy as np
import pytest
from support.cases import CATALOG
from support.command import only_sentence
from support.records import make_cell, make_run, timed

from metalbench.harness.host import host
from metalbench.results.record import Memory
from metalbench.results.store import open_store
from metalbench.workloads.attention import AttentionCase

PREFILL = AttentionCase(dtype="float32", batch=1, heads=8, kv_heads=8, queries=512, keys=512, head_size=64, causal=True)


def attention(variant, backend="torch-cpu"):
    return make_cell(backend, variant, workload="attention", case=PREFILL.parameters())


def put(bench, name, times, *, started, machine=None, **changes):
    """A run on this machine with these times of cells, in ns."""
    rng = np.random.default_rng(round(started))
    cells = [cell for cell, _ in times]
    records = [
        timed(cell, launch, [ns * rng.normal(1, 0.01)] * 3, default_variant=True, **changes) for cell, ns in times for launch in range(5)
    ]
    run = msgspec.structs.replace(make_run(cells, name=name, started=started), host=machine or host(), state="finished")
    with open_store(str(bench.folder / "results.sqlite")) as store:
        store.receive(run, records)


@pytest.fixture
def stored(bench):
    bench.configure('store = "results.sqlite"')
    put(bench, "old", [(attention("fused"), 4e6), (attention("composed"), 2e6)], started=1.0)
    put(bench, "new", [(attention("fused"), 1e6), (attention("composed"), 3e6)], started=2.0)
    put(bench, "half", [(attention("fused"), 1e6)], started=3.0)
    put(bench, "jax", [(attention("fused", "jax-cpu"), 2e6), (attention("composed", "jax-cpu"), 1e6)], started=4.0)
    put(
        bench,
        "theirs",
        [(attention("fused"), 9e6), (attention("composed"), 1e6)],
        started=5.0,
        machine=msgspec.structs.replace(host(), key="another"),
    )
    return bench


def test_the_newest_run_of_this_machine_that_has_both_sides_decides(stored):
    answer = stored("claims", "--format", "json")
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)["findings"]
    assert [(one["id"], one["backend"], one["verdict"]) for one in found] == [
        ("S10-prefill", "jax-cpu", "does not hold"),
        ("S10-prefill", "torch-cpu", "holds"),
    ]
    assert found[1]["measured"] == pytest.approx(3.0, rel=0.03)
    assert found[1]["low"] < 3.0 < found[1]["high"]


def test_it_is_printed_for_people_too_and_for_the_backends_that_they_name(stored):
    text = stored("claims", "--backend", "torch-cpu").stdout
    assert "holds" in text
    assert "fused with composed, 1×8×512×64 causal float32" in text
    assert "jax-cpu" not in text
    assert "| S10-prefill: " in stored("claims", "--format", "markdown").stdout.replace("\\", "")


def test_claims_are_asked_for_by_name(stored):
    assert len(json.loads(stored("claims", "S10-prefill", "--format", "json").stdout)["findings"]) == 2
    assert "S10-prefill" in stored("claims", "S10").stdout
    assert only_sentence(stored("claims", "S1")).startswith("bench: There is no claim called 'S1'; ")
    assert "bench claims --run" in only_sentence(stored("claims", "S6"))


def test_a_store_without_anything_that_a_claim_compares_says_what_measures_it(bench):
    assert "bench claims --run" in only_sentence(bench("claims"))
    assert "--run" in only_sentence(bench("claims", "--env", "torch-cpu:current"))


def test_what_is_missing_is_measured_and_what_is_there_is_not_measured_again(bench):
    """All but the claim on decoding is answered by what the store holds."""
    pytest.importorskip("torch")
    bench.configure('store = "results.sqlite"')
    amp = [case.parameters() for case in CATALOG.workload("amp_step").cases("documents")]
    cells = [attention("fused"), attention("composed")]
    cells += [make_cell(variant="eager", workload="amp_step", case=case) for case in amp]
    put(bench, "there", [(cell, 1e6) for cell in cells], started=2.0)
    claimed = ("claims", "S6", "S10", "--run", "--backend", "torch-cpu", "--format", "json", "--quiet")
    answer = bench(*claimed)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    (decode,) = [one for one in found["findings"] if one["id"] == "S10-decode"]
    assert decode["measured"] > 0
    assert len(found["runs"]) == 2
    with open_store(str(bench.folder / "results.sqlite")) as store:
        run = store.run("claims")
        assert {cell.case["queries"] for cell in run.cells()} == {1}
        assert all(record.measurement.memory.process_shared for record in store.records(run.id) if record.launch == 0)
    assert json.loads(bench(*claimed).stdout)["runs"] == found["runs"]


def test_for_a_claim_on_memory_peaks_are_taken_in_processes_of_their_own(bench):
    """Also where both sides were measured for their times, in a process that they shared with others."""
    pytest.importorskip("torch")
    bench.configure('store = "results.sqlite"')
    *_, longest = CATALOG.workload("kv_cache").cases("documents")
    cells = [make_cell(variant=variant, workload="kv_cache", case=longest.parameters()) for variant in ("in_place", "concatenate")]
    shared = Memory(process_peak=1 << 30, process_shared=True)
    put(bench, "shared", [(cell, 1e6) for cell in cells], started=2.0, memory=shared)
    answer = bench("claims", "S11-concatenate", "--run", "--backend", "torch-cpu", "--format", "json", "--quiet")
    assert answer.returncode == 0, answer.stderr
    found = {one["id"]: one["measured"] for one in json.loads(answer.stdout)["findings"]}
    assert found["S11-concatenate-memory"] > 1
    with open_store(str(bench.folder / "results.sqlite")) as store:
        records = [record for record in store.records(store.run("claims").id) if record.launch == 0]
    assert [record.measurement.memory.process_shared for record in records] == [False, False]
