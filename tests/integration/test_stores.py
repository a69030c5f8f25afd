"""A store on a server as a user meets it, and results moved between stores."""

import contextlib
import json
import os
import re
import sqlite3
import threading

import pytest
import sqlalchemy as sa
from support.command import only_sentence
from support.postgres import PASSWORD, running
from support.records import make_cell, make_run, timed
from support.stores import MAC_RUN, NIGHTS, fill, ordinary

from metalbench.results.store import open_store

SECRET = "s3cr"  #: of every password here, as it is and as it stands in a URL
assert PASSWORD.startswith(SECRET)


MISTAKES = {
    "nobody listens": ({"port": 1}, ["can't be reached", "127.0.0.1:1/"]),
    "no such host": ({"host": "nowhere.invalid"}, ["nowhere.invalid"]),
    "wrong password": ({"password": "s3cr-else"}, ["refuses this user or password", "PGPASSWORD"]),
    "no password": ({"password": None}, ["wants a password"]),
    "unknown user": ({"username": "somebody"}, ["refuses this user or password"]),
    "no such database": ({"database": "missing"}, ["does not exist", "createdb"]),
    "a mistyped parameter": ({"query": {"conect_timeout": "5"}}, ["does not know", "conect_timeout"]),
    "a password as a parameter": ({"password": None, "query": {"password": "s3cr"}}, ["refuses this user or password"]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_server_that_cannot_be_used_is_one_sentence_without_the_password(bench, postgres, mistake):
    changes, words = MISTAKES[mistake]
    url = sa.make_url(postgres.url()).set(**{name: value for name, value in changes.items() if value is not None})
    if changes.get("password", "") is None:
        url = sa.URL.create(url.drivername, url.username, None, url.host, url.port, url.database, url.query)
    result = bench("list", "runs", "--store", url.render_as_string(hide_password=False))
    sentence = only_sentence(result)
    for word in words:
        assert word in sentence
    assert SECRET not in sentence


@pytest.mark.parametrize(
    "place", ["postgresql://me:s3cr@host:port/db", "postgres://me:s3cr/@host/db", "mysql://me:s3cr@host/db?password=s3cr"]
)
def test_what_is_no_store_s_address_is_told_without_the_password(bench, place):
    sentence = only_sentence(bench("show", "--store", place))
    assert "postgresql://" in sentence
    assert SECRET not in sentence


def test_without_the_driver_it_says_what_to_install(bench):
    """A driver that can't be imported, before anything else is found wrong."""
    (bench.folder / "psycopg.py").write_text("raise ImportError('not here')")
    result = bench("list", "runs", "--store", "postgresql://me:s3cr@localhost/db", env={**os.environ, "PYTHONPATH": str(bench.folder)})
    sentence = only_sentence(result)
    assert "pip install 'metalbench[fleet]'" in sentence
    assert SECRET not in sentence


def test_a_database_that_cannot_hold_every_text_is_refused(bench, postgres):
    url = postgres.database("narrow", "ENCODING 'SQL_ASCII' LOCALE 'C'")
    assert "--encoding UTF8" in only_sentence(bench("list", "runs", "--store", url))
    assert postgres.do("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'", "narrow") == [0]


def test_a_user_who_may_only_read_shows_and_cannot_write(bench, postgres, database):
    name = sa.make_url(database).database
    fill(database, ordinary()[-1:])
    postgres.do("CREATE ROLE reader LOGIN PASSWORD 'r'", name)
    postgres.do("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", name)
    url = postgres.url(name, username="reader", password="r")
    assert "Apple M4 Pro" in bench("show", "--store", url).stdout
    bench("export", "jsonl", "--store", database, "-o", "runs.jsonl")
    assert "grant it to you" in only_sentence(bench("import", "runs.jsonl", "--store", url))


def test_a_commit_is_on_the_disk_whatever_the_server_s_configuration(postgres, database):
    name = sa.make_url(database).database
    postgres.do(f"ALTER DATABASE {name} SET synchronous_commit = off")
    with open_store(database) as store, contextlib.suppress(ZeroDivisionError), store.database.writing() as db:
        assert db.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
        raise ZeroDivisionError
    postgres.do(f"ALTER DATABASE {name} SET synchronous_commit = local")  # flushed here, which is what is promised
    with open_store(database) as store, store.database.reading() as db:
        assert db.exec_driver_sql("SHOW synchronous_commit").scalar() == "local"


@pytest.fixture
def restarting():
    """A server of the test's own, for others not to notice."""
    yield from running()


def test_a_server_that_goes_down_between_and_in_the_midst_of_records_costs_none(restarting):
    """It crashes and comes back three times while records are put in one after the other."""
    url, cells = restarting.database("store"), [make_cell(size=size) for size in range(120)]
    added, failures = threading.Semaphore(0), []

    def write():
        try:
            with open_store(url) as store:
                store.begin(make_run(cells))
                for cell in cells:
                    store.mark("r", cell.key(), 0, "boot")
                    store.add("r", timed(cell, 0, [cell.case["size"] + 1]))
                    added.release()
                store.become("r", "finished")
        except BaseException as error:
            failures.append(error)
            added.release(1000)
            raise

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(3):
        for _ in range(20):
            added.acquire()
        restarting.stop()
        restarting.start()
    writer.join()
    assert failures == []
    with open_store(url) as store:
        assert sorted(record.measurement.spans_ns for record in store.records("r")) == [[size + 1] for size in range(120)]
        assert store.run("r").state == "finished"
        assert store.marked("r") is None


def test_a_dashboard_s_store_is_read_again_after_a_restart(restarting):
    """The connection that was kept open is of no more use, and the reader doesn't notice."""
    with open_store(restarting.database("store")) as store:
        store.begin(make_run([make_cell()]))
        assert store.run("latest").id == "r"
        restarting.stop()
        restarting.start()
        assert store.run("latest").id == "r"


def test_a_run_is_measured_into_a_server_as_into_a_file(bench, database):
    bench.configure(f"store = {json.dumps(database)}", plugins=["faulty.py", "steady.py"])
    arguments = ("--workload", "steady", "--backend", "numpy-cpu", "--launches", "1", "--budget", "0.02", "--quiet")
    measured = bench("run", *arguments, "--label", "here")
    assert measured.returncode == 0, measured.stderr
    assert "here" in bench("list", "runs").stdout
    shown = bench("show", "here", "--format", "json").stdout
    assert {len(cell["launches"]) for cell in json.loads(shown)["cells"]} == {1}
    assert bench("show", f"{database}#here", "--format", "json", "--store", "empty.sqlite").stdout == shown
    assert bench("show", "here", "--format", "json", "--store", "other.sqlite", env={**os.environ, "BENCH_STORE": database}).returncode == 2
    bench.configure()
    assert bench("show", "here", "--format", "json", env={**os.environ, "BENCH_STORE": database}).stdout == shown


def contents(place):
    """Every row of a store by its tables, read without any of our code."""
    url = place if "://" in place else f"sqlite:///{place}"
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as db:
        names = sorted(sa.inspect(db).get_table_names())
        tables = {name: [tuple(row) for row in db.exec_driver_sql(f"SELECT * FROM {name}")] for name in names}
    return {
        name: sorted((tuple(bytes(v) if isinstance(v, memoryview) else v for v in row) for row in rows), key=repr)
        for name, rows in tables.items()
    }


def test_copied_to_a_server_and_back_it_is_the_same_and_a_second_time_nothing_is_new(bench, database):
    fill(bench.folder / "a.sqlite", ordinary())
    with open_store(str(bench.folder / "a.sqlite")) as store:
        cell = make_cell(case={"größe": "\0\1"})
        store.begin(make_run([cell], name="in work", label="Łódź 北京 🎉", started=1e9))
        store.mark("in work", cell.key(), 3, "boot")
        store.begin(make_run([], name="nothing in it"))
    runs = len(ordinary()) + 2
    there = bench("store", "copy", "a.sqlite", database)
    assert there.returncode == 0, there.stderr
    first = re.fullmatch(rf".*a\.sqlite → postgresql\+psycopg://bench:\*\*\*@\S+: {runs} runs, (\d+) records, (\d+) new\n", there.stdout)
    assert first
    assert first[1] == first[2] == str(sum(len(records) for _, records in ordinary()))
    assert bench("store", "copy", database, "b.sqlite").returncode == 0
    expected = contents(str(bench.folder / "a.sqlite"))
    assert contents(str(bench.folder / "b.sqlite")) == expected
    assert contents(database) == expected
    again = bench("store", "copy", "a.sqlite", database)
    assert again.stdout.endswith(f"{runs} runs, {first[1]} records, 0 new\n")
    assert contents(database) == expected


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_copy_that_is_interrupted_is_completed_by_the_next(bench, kind, request):
    """A run in the middle can't be read: those before it are whole in the target, it is not there at all, and then all are."""
    fill(bench.folder / "a.sqlite", ordinary())
    target = "b.sqlite" if kind == "sqlite" else request.getfixturevalue("database")
    there = str(bench.folder / target) if kind == "sqlite" else target
    with sqlite3.connect(bench.folder / "a.sqlite") as db:
        db.execute("PRAGMA foreign_keys = OFF")
        broken = db.execute("SELECT rowid, host FROM record WHERE run = ? ORDER BY started DESC", (NIGHTS[5],)).fetchone()
        db.execute("UPDATE record SET host = 'nobody' WHERE rowid = ?", broken[:1])
    assert bench("store", "copy", "a.sqlite", target).returncode == 2
    with open_store(there) as store:
        copied = {run.id: run.records for run in store.runs()}
    assert NIGHTS[4] in copied
    assert NIGHTS[5] not in copied
    assert all(copied.values())
    with sqlite3.connect(bench.folder / "a.sqlite") as db:
        db.execute("UPDATE record SET host = ? WHERE rowid = ?", broken[::-1])
    assert bench("store", "copy", "a.sqlite", target).returncode == 0
    assert contents(there) == contents(str(bench.folder / "a.sqlite"))


def test_copying_adds_and_takes_nothing_away(bench):
    """The target's own runs stay, a run that went on in the source goes on, and one that went on in the target is not set back."""
    cells = [make_cell(size=size) for size in range(3)]
    with open_store(str(bench.folder / "a.sqlite")) as a, open_store(str(bench.folder / "b.sqlite")) as b:
        for name in ("goes on", "went on"):
            a.begin(make_run(cells, name=name))
            a.add(name, timed(cells[0], 0, [1]))
            a.mark(name, cells[1].key(), 0, "boot")
        b.begin(make_run(cells, name="own"))
        assert bench("store", "copy", "a.sqlite", "b.sqlite").returncode == 0
        assert b.marked("went on") == a.marked("went on")
        b.add("went on", timed(cells[1], 0, [2]))
        b.become("went on", "finished")
        a.add("goes on", timed(cells[1], 0, [2]))
        a.become("goes on", "interrupted")
        assert "4 records, 1 new" not in bench("store", "copy", "b.sqlite", "b.sqlite").stdout
        assert bench("store", "copy", "a.sqlite", "b.sqlite").stdout.endswith("2 runs, 3 records, 1 new\n")
        found = {run.id: (run.state, run.records) for run in b.runs()}
        assert found == {"goes on": ("interrupted", 2), "went on": ("finished", 2), "own": ("running", 0)}
        assert b.marked("went on") is None


def test_two_runs_of_one_name_are_not_mixed(bench):
    with open_store(str(bench.folder / "a.sqlite")) as a, open_store(str(bench.folder / "b.sqlite")) as b:
        a.begin(make_run([make_cell()], started=1.0))
        b.begin(make_run([make_cell()], started=2.0))
    assert "another run that is called r" in only_sentence(bench("store", "copy", "a.sqlite", "b.sqlite"))


def test_a_copy_s_mistakes(bench, database):
    fill(bench.folder / "a.sqlite", [])
    (bench.folder / "link.sqlite").symlink_to("a.sqlite")
    for target in ("a.sqlite", "link.sqlite", f"sqlite:///{bench.folder}/a.sqlite"):
        assert "into itself" in only_sentence(bench("store", "copy", "a.sqlite", target))
    assert "There is no store" in only_sentence(bench("store", "copy", "missing.sqlite", "new.sqlite"))
    assert "There is no store" in only_sentence(bench("store", "copy", database, "new.sqlite"))
    assert not (bench.folder / "missing.sqlite").exists()
    assert not (bench.folder / "new.sqlite").exists()
    fill(database, [])
    sentence = only_sentence(bench("store", "copy", database, database.replace("postgresql+psycopg", "postgresql")))
    assert "into itself" in sentence
    assert SECRET not in sentence


def test_machines_side_by_side_from_one_server(bench, database):
    """What is shown of runs on two machines is the same from a server as from a file, and names both."""
    fill(bench.folder / "a.sqlite", ordinary())
    assert bench("store", "copy", "a.sqlite", database).returncode == 0
    pair = (MAC_RUN, NIGHTS[0])
    asked = [
        ("show", *pair),
        ("show", *pair, "--format", "csv"),
        ("compare", *NIGHTS[-2:], "--format", "json"),
        ("list", "runs"),
        ("history", "--format", "json"),
    ]
    for arguments in asked:
        from_file, from_server = (bench(*arguments, "--store", where) for where in ("a.sqlite", database))
        assert from_server.stdout == from_file.stdout
        assert (from_server.returncode, from_server.stderr) == (from_file.returncode, from_file.stderr)
    shown = bench("show", *pair, "--store", database).stdout
    listed = bench("list", "runs", "--store", database).stdout
    assert re.search(rf"{MAC_RUN} .* records   Apple M4 Pro, 14 cores, 48 GiB, Darwin 25.1.0   the new Mac\n", listed)
    assert "Apple M4 Pro" in shown
    assert "AMD EPYC" in shown
    for where, folder in (("a.sqlite", "file"), (database, "server")):
        built = bench("dashboard", "build", folder, "--store", where)
        assert built.returncode == 0, built.stderr
    pages = [
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*.html")}
        for root in (bench.folder / "file", bench.folder / "server")
    ]
    assert pages[0] == pages[1]
