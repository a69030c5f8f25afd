"""`bench history --confirm`: what only the newest run says is measured again, and only that."""

import json

import msgspec
from support.command import only_sentence

from metalbench.results.record import Host
from metalbench.results.store import open_store


def series(result):
    assert result.returncode == 0, result.stderr
    return {one["cell"]["case"]["size"]: one for one in json.loads(result.stdout)}


def test_a_suspect_is_measured_once_more_and_confirmed(bench):
    """Ten earlier runs are made up of a real one's records: twice as fast for one of its two cells."""
    bench.configure('store = "results.sqlite"', plugins=["faulty.py", "paced.py"])
    measured = (
        "--workload",
        "paced",
        "--case",
        "size=12,size=32",
        "--backend",
        "numpy-cpu",
        "--launches",
        "2",
        "--budget",
        "0.05",
        "--quiet",
    )
    assert bench("run", *measured).returncode == 0
    with open_store(str(bench.folder / "results.sqlite")) as store:
        real = store.run("latest")
        records = store.records(real.id)
        for number in range(10):
            earlier = msgspec.structs.replace(real, id=f"earlier{number}", started=real.started - 1000 + number, state="finished")
            changed = []
            for record in records:
                factor = (0.5 if record.cell.case["size"] == 12 else 1.0) * (1 + number % 3 / 1000)
                spans = [round(span * factor) for span in record.measurement.spans_ns]
                changed.append(msgspec.structs.replace(record, measurement=msgspec.structs.replace(record.measurement, spans_ns=spans)))
            store.receive(earlier, changed)
    before = series(bench("history", "--format", "json"))
    assert [change["state"] for change in before[12]["changes"]] == ["unconfirmed"]
    assert before[32]["changes"] == []
    after = series(bench("history", "--confirm", "--format", "json"))
    assert [(change["state"], change["run"]) for change in after[12]["changes"]] == [("confirmed", real.id)]
    assert (len(after[12]["points"]), len(after[32]["points"])) == (12, 11)
    assert series(bench("history", "--confirm", "--format", "json")) == after, "there is nothing left to confirm"


def test_another_machine_s_history_can_be_read_and_not_confirmed(bench):
    bench.configure('store = "results.sqlite"', plugins=["faulty.py", "paced.py"])
    measured = ("--workload", "paced", "--case", "size=12", "--backend", "numpy-cpu", "--launches", "1", "--budget", "0.02", "--quiet")
    assert bench("run", *measured).returncode == 0
    with open_store(str(bench.folder / "results.sqlite")) as store:
        real = store.run("latest")
        records = store.records(real.id)
    there = Host(key="there", facts={"chip": "M9"})
    with open_store(str(bench.folder / "theirs.sqlite")) as store:
        for number in range(12):
            scale = 3 if number == 11 else 1
            own = [
                msgspec.structs.replace(
                    record,
                    measurement=msgspec.structs.replace(
                        record.measurement, spans_ns=[span * scale for span in record.measurement.spans_ns]
                    ),
                )
                for record in records
            ]
            store.receive(msgspec.structs.replace(real, id=f"r{number}", started=float(number), host=there, state="finished"), own)
    shown = series(bench("history", "--format", "json", "--store", "theirs.sqlite"))
    assert len(shown[12]["points"]) == 12
    assert "on another machine (M9)" in only_sentence(bench("history", "--confirm", "--store", "theirs.sqlite"))
