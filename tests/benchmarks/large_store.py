"""How long commands take on a store of a million records of 30 samples, beyond their start. Fails beyond what they may take.

python tests/benchmarks/large_store.py [FILE]      (made where it isn't there: 2 GB, some minutes)
"""

import json
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np

from metalbench.harness.host import host
from metalbench.results.record import Cell, Measurement, Memory, Record, Run
from metalbench.results.store import open_store

BENCH = str(Path(sys.executable).with_name("bench"))
CELLS, LAUNCHES, RUNS, SAMPLES = 500, 5, 300, 30
LONG = 2000  #: points of one series, with a launch each
FILLING = 125  #: cells of each of the runs that it has a point in
BOUNDS = {"compare": 1.0, "history": 2.0, "list": 0.3}


def cell(index):
    return Cell(
        workload="attention",
        version=1,
        case={"dtype": "float32", "batch": 1, "heads": 8, "queries": index},
        backend=f"backend-{index % 4}",
        environment="current",
        variant="fused",
        protocol="latency",
        policy="ieee-float32",
    )


def measurement():
    """Of the size of a real one: facts, memory, conditions, a line of log."""
    facts = {"torch": "2.13.0", "device": "CPU", "threads": "2", "mkldnn": "on", "float32": "highest", "kernel": "flash"}
    conditions = {"power": "mains", "load": "0.03", "governor": "performance", "temperature": "nominal"}
    memory = Memory(device_source="not counted", process_peak=400 << 20, process_source="resident set", process_shared=True)
    return Measurement(
        status="ok", default_variant=True, calls_per_sample=3, first_call_ns=10**8, compile_cache="none", empty_call_ns=900.0,
        warmup_calls=40, warmup_settled=True, stop="precision", max_error=1e-7, tolerance=1e-6, flops=10**8, bytes=10**6, sentinel_size=512,
        sentinel_before_ns=210_000, sentinel_after_ns=211_000, memory=memory, facts=facts, conditions=conditions, log="one line\n" * 5,
    )  # fmt: skip


def fill(place):
    """Runs of 500 cells in five launches, and two thousand runs of 125 cells in one, among which is the long series."""
    cells = [cell(index) for index in range(CELLS)]
    rng = np.random.default_rng(0)
    here, began = host(), time.time() - 3600 * (RUNS + LONG)
    with open_store(place) as store:
        first = Run(id="first", started=began - 1, label="", host=here, plan=msgspec.Raw(msgspec.json.encode({"cells": cells})))
        records = [Record(cell=own, launch=0, started=began, measurement=measurement()) for own in cells]
        store.receive(first, records)
    text = msgspec.json.encode(measurement()).decode()
    db = sqlite3.connect(place)
    db.execute("PRAGMA synchronous = OFF")
    keys = [own.key() for own in cells]
    plans = {count: msgspec.json.encode({"cells": cells[:count]}).decode() for count in (CELLS, FILLING)}
    for number in range(RUNS + LONG):
        count, launches = (FILLING, 1) if number < LONG else (CELLS, LAUNCHES)
        name, started = f"run{number:05}", began + 3600 * number
        db.execute(
            "INSERT INTO run (id, started, label, host, plan, state, revision, beside) VALUES (?, ?, ?, ?, ?, 'finished', ?, '')",
            (name, started, "", here.key, plans[count], f"{number:040x}"),
        )
        spans = (3e5 * np.exp(rng.normal(0, 0.02, (count, launches, SAMPLES)))).astype(np.int64)
        rows = [
            (name, keys[place], launch, here.key, started + place, struct.pack(f"<{SAMPLES}q", *spans[place, launch]), text)
            for launch in range(launches)
            for place in range(count)
        ]
        db.executemany("INSERT INTO record (run, cell, launch, host, started, spans, measurement) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    db.commit()
    count = db.execute("SELECT count(*) FROM record").fetchone()[0]
    db.close()
    return count


def fill_small(place):
    """Two runs of one cell: what a command takes on it, it takes on any store."""
    only = cell(0)
    with open_store(place) as store:
        for number in range(2):
            plan = msgspec.Raw(msgspec.json.encode({"cells": [only]}))
            records = [
                Record(
                    cell=only, launch=launch, started=float(launch), measurement=msgspec.structs.replace(measurement(), spans_ns=[10**6])
                )
                for launch in range(LAUNCHES)
            ]
            store.receive(Run(id=f"run{number}", started=float(number), label="", host=host(), plan=plan, state="finished"), records)


def seconds(*arguments):
    """The median of five, with the files in the system's cache."""
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        answer = subprocess.run([BENCH, *arguments], check=False, capture_output=True, text=True)
        times.append(time.perf_counter() - begin)
        assert answer.returncode == 0, answer.stderr
    return sorted(times)[2], answer.stdout


def compared(out):
    assert len(json.loads(out)["cells"]) == CELLS


def traced(out):
    (series,) = json.loads(out)
    assert len(series["points"]) >= LONG


def listed(out):
    assert len(out.splitlines()) == 20


LAST = (f"run{RUNS + LONG - 2:05}", f"run{RUNS + LONG - 1:05}")
COMMANDS = {
    "compare": (("compare", *LAST, "--format", "json"), ("compare", "run0", "run1", "--format", "json")),
    "history": (("history", "--case", "queries=7", "--format", "json"), ("history", "--format", "json")),
    "list": (("list", "runs"), ("list", "runs")),
}
EXPECTED = {"compare": compared, "history": traced, "list": listed}

if __name__ == "__main__":
    folder = Path(tempfile.mkdtemp())
    place, small = sys.argv[1] if len(sys.argv) > 1 else str(folder / "large.sqlite"), str(folder / "small.sqlite")
    if not Path(place).exists():
        print(f"{fill(place)} records in {place}")
    fill_small(small)
    good = True
    for name, (large_arguments, small_arguments) in COMMANDS.items():
        (taken, out), (least, _) = (
            seconds(*arguments, "--store", where) for arguments, where in ((large_arguments, place), (small_arguments, small))
        )
        EXPECTED[name](out)
        print(f"bench {name:8} {taken:.2f} s; {taken - least:.2f} s more than with two runs of one cell, at most {BOUNDS[name]} s")
        good &= taken - least <= BOUNDS[name]
    sys.exit(not good)
