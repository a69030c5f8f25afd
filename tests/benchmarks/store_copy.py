"""A million records from SQLite to PostgreSQL, back, and once more: seconds, memory, and whether all is the same.

python tests/benchmarks/store_copy.py [FILE]      (a store, made by large_store.py's rules where it isn't there: 2 GB, some minutes)

The server is one of its own, with PostgreSQL's own defaults. What is in the three stores is compared by ``digest``, without our reader.
"""

import hashlib
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import psycopg
import sqlalchemy as sa
from large_store import BENCH, fill

sys.path.append(str(Path(__file__).parent.parent))
from support.postgres import running

TABLES = {"meta": "key", "host": "key", "run": "id", "cell": "key", "record": "run, cell, launch", "mark": "run"}


def digest(read):
    """Of every row of every table in the order of its key. ``read``: a query → its rows."""
    found = hashlib.sha256()
    for table, key in TABLES.items():
        for row in read(f"SELECT * FROM {table} ORDER BY {key}"):
            found.update(repr(tuple(row)).encode())
    return found.hexdigest()


def of_file(place):
    return digest(sqlite3.connect(place).execute)


def of_server(url):
    plain = sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)

    def read(query):
        with db.cursor("rows") as cursor:
            yield from cursor.execute(query)

    with psycopg.connect(plain) as db:
        return digest(read)


def copy(source, target):
    """What `bench store copy` says, its seconds, and the most bytes that its process had resident."""
    begin = time.perf_counter()
    process = subprocess.Popen([BENCH, "store", "copy", source, target], stdout=subprocess.PIPE, text=True)
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, said
    return said.partition(": ")[2].strip(), time.perf_counter() - begin, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    folder = Path(tempfile.mkdtemp())
    first = sys.argv[1] if len(sys.argv) > 1 else str(folder / "first.sqlite")
    if not Path(first).exists():
        fill(first)
    with sqlite3.connect(first) as plain:
        count = plain.execute("SELECT count(*) FROM record").fetchone()[0]
    print(f"{count} records on {platform.machine()}, {os.cpu_count()} cores, {platform.system()}")
    back = str(folder / "back.sqlite")
    with contextmanager(running)() as server:
        url = server.database("benchmark")
        for name, source, target in (("to PostgreSQL", first, url), ("and back", url, back), ("once more", first, url)):
            said, seconds, peak = copy(source, target)
            print(f"{name:14} {seconds:6.0f} s, {count / seconds:7.0f} records/s, {peak / 1e6:4.0f} MB: {said}", flush=True)
        found = [of_file(first), of_server(url), of_file(back)]
    print("identical" if len(set(found)) == 1 else f"DIFFERENT: {found}")
    sys.exit(len(set(found)) != 1)
