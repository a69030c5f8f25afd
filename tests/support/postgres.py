"""A PostgreSQL server of the tests' own, from whatever installation there is; a cluster that runs already is left alone."""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

USER, PASSWORD = "bench", "s3cr:et/@%"
DEBIAN = Path("/usr/lib/postgresql")


def programs():
    """The folder of the server's programs, the newest release's; None where none is installed."""
    found = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).resolve().parent if on_path else None


class Server:
    """Listens on the loopback device and a Unix socket. ``folder`` belongs to ``owner``, for the server refuses to be root."""

    def __init__(self, folder, owner):
        self.folder, self._owner = folder, owner
        self._programs = programs()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        password = folder / "password"
        password.write_text(PASSWORD)
        if owner:
            shutil.chown(folder, owner, owner)
            shutil.chown(password, owner, owner)
        secured = ("--auth", "scram-sha-256", "--username", USER, "--pwfile", str(password))
        self._do("initdb", "-D", str(folder / "data"), "--encoding", "UTF8", "--locale", "C", "--no-sync", *secured)

    def _do(self, program, *arguments):
        command = [str(self._programs / program), *arguments]
        owner = {"user": self._owner, "group": self._owner, "extra_groups": []} if self._owner else {}
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=self.folder, timeout=120, **owner)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self):
        options = f"-p {self.port} -k {self.folder} -h 127.0.0.1"
        self._do("pg_ctl", "-D", str(self.folder / "data"), "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self, mode="immediate"):
        """``immediate``: as if it had crashed."""
        self._do("pg_ctl", "-D", str(self.folder / "data"), "-w", "-m", mode, "stop")

    def url(self, database="postgres", **changes):
        parts = {"username": USER, "password": PASSWORD, "host": "127.0.0.1", "port": self.port} | changes
        return sa.URL.create("postgresql+psycopg", database=database, **parts).render_as_string(hide_password=False)

    def do(self, statement, database="postgres"):
        """Run a statement outside of any transaction; the first column of its rows, where it has some."""
        parts = {"user": USER, "password": PASSWORD, "host": "127.0.0.1", "port": self.port, "dbname": database, "client_encoding": "utf8"}
        with psycopg.connect(**parts, autocommit=True) as db:
            found = db.execute(statement)
            return [row[0] for row in found] if found.description else []

    def database(self, name, options="LOCALE_PROVIDER icu ICU_LOCALE 'de'"):
        """The URL of a new, empty database, of a server whose users want texts in the order of their dictionary."""
        self.do(f"CREATE DATABASE {name} TEMPLATE template0 {options}")
        return self.url(name)


def running():
    """A server while the fixture lives. Without an installation tests are skipped, or fail where they are said to be required."""
    if programs() is None:
        if os.environ.get("POSTGRES_TESTS") == "required":
            pytest.fail("no PostgreSQL server is installed, and POSTGRES_TESTS=required")
        pytest.skip("no PostgreSQL server is installed")
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # the tests' own folder is closed to others, and too long for a socket
    server = Server(folder, _unprivileged())
    try:
        server.start()
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder)


def _unprivileged():
    """Whom a server is run as; None for whoever runs the tests, unless that is root."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return None
    names = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
