"""What a store promises, in SQLite and in PostgreSQL alike."""

import subprocess
import sys
import threading

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.records import HOST, make_cell, make_run, timed

from metalbench.results import schema
from metalbench.results.addresses import connect
from metalbench.results.record import Host, Measurement, Memory, Record
from metalbench.results.series import counts, series
from metalbench.results.store import StoreError, open_store

texts = st.text(max_size=50) | st.text("\0\1\2a'%\\", max_size=9)
finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.one_of(st.text(max_size=20), st.integers(-(2**53), 2**53), st.booleans(), finite)
measurements = st.builds(
    Measurement,
    status=st.sampled_from(["ok", "wrong", "crashed", "oom"]),
    reason=texts,
    spans_ns=st.lists(st.integers(1, 2**63 - 1), max_size=30),
    calls_per_sample=st.integers(1, 10**6),
    first_call_ns=st.one_of(st.none(), st.integers(0, 2**62)),
    max_error=st.one_of(st.none(), st.floats(0, 1e300)),
    figures=st.dictionaries(st.text(max_size=5), finite, max_size=3),
    facts=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
    memory=st.one_of(st.none(), st.builds(Memory, device_peak=st.one_of(st.none(), st.integers(0, 2**60)), process_shared=st.booleans())),
    log=texts,
)
cases = st.dictionaries(st.text(min_size=1, max_size=8), scalars, max_size=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # one store for all examples, each with a run of its own
@given(data=st.data())
def test_what_is_stored_comes_back(place, data):
    run, cell = data.draw(texts.filter(bool)), make_cell(case=data.draw(cases))
    label, launch, started = data.draw(texts), data.draw(st.integers(0, 2**63 - 1)), data.draw(finite)
    record = Record(cell=cell, launch=launch, started=started, measurement=data.draw(measurements))
    host = Host(key=f"host of {run}", facts=data.draw(st.dictionaries(texts, texts, max_size=2)))
    with open_store(place) as store:
        if store.find(run) is not None and store.find(run).id == run:
            return
        made = msgspec.structs.replace(make_run([cell], name=run, label=label, started=started), host=host, beside=label)
        store.begin(made)
        store.add(run, record)
        assert store.records(run) == [record]
        assert store.load([run]) == [made]
        assert store.run(run).cells() == [cell]


def test_a_record_is_kept_once_and_takes_the_mark_away(place):
    cell = make_cell()
    with open_store(place) as store:
        store.begin(make_run([cell]))
        store.mark("r", cell.key(), 7, "other boot")
        store.mark("r", cell.key(), 0, "boot")
        assert store.marked("r") == (cell.key(), 0, "boot")
        store.add("r", timed(cell, 0, [100]))
        assert store.marked("r") is None
        store.add("r", timed(cell, 0, [999]))
        assert [record.measurement.spans_ns for record in store.records("r")] == [[100]]
        store.mark("r", cell.key(), 1, "boot")
        store.clear_mark("r")
        assert store.marked("r") is None


def test_a_run_that_is_received_twice_is_there_once(place):
    cells = [make_cell(size=size) for size in range(3)]
    run = make_run(cells)
    with open_store(place) as store:
        assert store.receive(run, [timed(cell, 0, [1]) for cell in cells[:2]]) == 2
        assert store.receive(msgspec.structs.replace(run, state="finished"), [timed(cell, 0, [9]) for cell in cells]) == 1
        assert store.count("r") == 3
        assert store.run("r").state == "finished"


def test_runs_are_found_by_id_label_and_age(place):
    with open_store(place) as store:
        for index, label in enumerate(["nightly", "latest~9", "nightly", "oddly'; drop table run; --"]):
            store.begin(make_run([make_cell()], name=f"id{index}", label=label, started=float(index)))
        assert store.run("nightly").id == "id2"
        assert store.run("id0").id == "id0"
        assert store.run("latest").id == "id3"
        assert store.run("latest~3").id == "id0"
        assert store.run("oddly'; drop table run; --").id == "id3"
        with pytest.raises(StoreError, match="did you mean nightly"):
            store.run("nigthly")
        with pytest.raises(StoreError, match="no run called 'latest~4'"):
            store.run("latest~4")
        store.become("id3", "finished")
        assert store.unfinished([HOST]).id == "id2"
        another = Host(key="other", facts={})
        store.begin(msgspec.structs.replace(make_run([make_cell()], name="elsewhere", started=9.0), host=another))
        assert store.unfinished([HOST]).id == "id2"
        assert store.unfinished([another, HOST]).id == "elsewhere"
        assert store.unfinished([]) is None
        store.become("elsewhere", "finished")
        assert [run.id for run in store.runs(3)] == ["elsewhere", "id3", "id2"]
        assert [run.state for run in store.runs(3)] == ["finished", "finished", "running"]


def test_a_run_is_found_by_its_revision(place):
    with open_store(place) as store:
        for name, revision, beside in (("a", "c1", ""), ("b", "c1", ""), ("c", "c1", "b"), ("d", "c2", "")):
            run = make_run([make_cell()], name=name, started=float(ord(name)))
            store.begin(msgspec.structs.replace(run, revision=revision, beside=beside))
        assert store.at_revision("c1").id == "b"
        assert store.at_revision("c3") is None


NAMES = ["a", "B", "ä", "Z", "_", "-", "10", "9", "\0", "\1", "\2", "\U0001f600", "\uffff"]


def test_what_began_at_one_moment_is_in_the_order_of_its_names_code_points(place):
    """Whatever language a server sorts by; a plain sort of Python's is the other way to find it."""
    with open_store(place) as store:
        for name in NAMES:
            store.begin(make_run([make_cell()], name=name))
        assert [run.id for run in store.runs()] == sorted(NAMES, reverse=True)
        cells = [make_cell(size=size) for size in range(10)]
        for cell in cells:
            for launch in (2, 0, 1):
                store.add("a", msgspec.structs.replace(timed(cell, launch, [1]), started=5.0))
        found = [(record.cell.key(), record.launch) for record in store.records("a")]
        assert found == sorted((cell.key(), launch) for cell in cells for launch in range(3))


def test_series_and_counts_of_several_machines(place):
    cell, machines = make_cell(), [HOST, Host(key="other", facts={"chip": "M1"})]
    with open_store(place) as store:
        for number, name in enumerate(["one", "two", "three"]):
            run = msgspec.structs.replace(make_run([cell], name=name, started=float(number)), host=machines[number % 2])
            store.receive(run, [timed(cell, launch, [100 + number]) for launch in range(2)])
        ((found, points),) = series(store.database, [machines[0]], lambda _: True)
        assert found == cell
        assert [(point.run, point.medians) for point in points] == [("one", [100.0, 100.0]), ("three", [102.0, 102.0])]
        assert sorted((count.host, count.launches, count.newest) for count in counts(store.database)) == [
            ("k", 4, 11.0),
            ("other", 2, 11.0),
        ]
        assert {host.key for host in store.hosts()} == {"k", "other"}


def test_a_reader_is_not_kept_waiting_by_a_writer(place):
    cells = [make_cell(size=size) for size in range(40)]
    with open_store(place) as store:
        store.begin(make_run(cells))

    def write():
        with open_store(place) as writer:
            for cell in cells:
                writer.add("r", timed(cell, 0, [1]))

    thread = threading.Thread(target=write)
    thread.start()
    with open_store(place) as reader:
        seen = []
        while thread.is_alive():
            seen.append(len(reader.records("r")))
        thread.join()
        assert seen == sorted(seen)
        assert len(reader.records("r")) == len(cells)


def test_a_view_stays_as_it_was(place):
    """While something else is written: what several questions find out belongs together."""
    with open_store(place) as store:
        store.begin(make_run([make_cell()]))
        with store.database.reading() as db:
            assert db.execute(schema.run.select()).all()
            with open_store(place) as other:
                other.begin(make_run([make_cell()], name="another"))
            assert [row.id for row in db.execute(schema.run.select())] == ["r"]
        assert len(store.runs()) == 2


@pytest.mark.parametrize("_", range(5))
def test_a_store_half_made_is_made_whole(place, _):
    """Eight first runs at once: each finds a whole store."""
    failures = []

    def first():
        try:
            with open_store(place) as store:
                store.runs(1)
        except StoreError as error:
            failures.append(error)

    threads = [threading.Thread(target=first) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_store_of_before_is_brought_up_to_date(place):
    with open_store(place) as store:
        store.begin(make_run([make_cell()]))
        with store.database.writing() as db:
            for name in ("revision", "beside"):
                db.exec_driver_sql(f"ALTER TABLE run DROP COLUMN {name}")
            db.execute(schema.meta.update().values(value="1"))
    with open_store(place) as store:
        assert store.run("r") == make_run([make_cell()])
    with open_store(place) as store:
        assert store.run("latest").id == "r"


def test_a_database_of_something_else_is_refused(place):
    open_store(place).database.close()
    database = connect(place)
    with database.writing() as db:
        schema.metadata.drop_all(db)
        db.exec_driver_sql("CREATE TABLE recipes (name text)")
    database.close()
    for make in (True, False):
        with pytest.raises(StoreError, match="a database of something else"):
            open_store(place, make=make)


def test_a_newer_store_is_refused(place):
    with open_store(place) as store, store.database.writing() as db:
        db.execute(schema.meta.update().values(value="999"))
    with pytest.raises(StoreError, match="was written by a newer metalbench"):
        open_store(place)
    with pytest.raises(StoreError, match="was written by a newer metalbench"):
        open_store(place, make=False)


def test_a_store_that_must_be_there_is_not_made(place):
    for _ in range(2):
        with pytest.raises(StoreError, match=r"^There is no store .*; name one that is there\.$"):
            open_store(place, make=False)
    open_store(place).database.close()
    open_store(place, make=False).database.close()


WRITER = """
import sys
from support.records import make_cell, make_run, timed
from metalbench.results.store import open_store
place, me, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with open_store(place) as store:
    sys.stdin.readline()
    store.receive(make_run([make_cell()], name="shared"), [])
    store.begin(make_run([make_cell()], name=f"own{me}"))
    for number in range(count):
        cell = make_cell(size=number)
        store.mark(f"own{me}", cell.key(), 0, "boot")
        store.add(f"own{me}", timed(cell, 0, [1000 * me + number + 1]))
        store.add("shared", timed(cell, me, [1000 * me + number + 1]))
        store.add("shared", timed(cell, 99, [5]))
    store.become(f"own{me}", "finished")
"""


def test_eight_programs_write_at_once_and_nothing_is_lost(place):
    """From the first moment on, when there is no store yet; into runs of their own and into a common one, and all of them one record."""
    eight, each = range(8), 12
    path = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    command = [sys.executable, "-c", WRITER, place]
    writers = [
        subprocess.Popen([*command, str(me), str(each)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=path) for me in eight
    ]
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    assert [(writer.communicate(timeout=240)[1], writer.returncode) for writer in writers] == [("", 0)] * 8
    with open_store(place) as store:
        assert {run.id: (run.records, run.state) for run in store.runs()} == {
            "shared": (9 * each, "running"),
            **{f"own{me}": (each, "finished") for me in eight},
        }
        found = {(record.cell.case["size"], record.launch, *record.measurement.spans_ns) for record in store.records("shared")}
        assert found == {(size, me, 1000 * me + size + 1) for size in range(each) for me in eight} | {(size, 99, 5) for size in range(each)}
        assert [store.marked(f"own{me}") for me in eight] == [None] * 8
