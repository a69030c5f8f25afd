"""Every test runs in a home of its own: no cache, store or lock of the user's is read or written."""

import itertools
import os
import signal
import uuid
from pathlib import Path

import pytest
from hypothesis import settings
from support.command import MARK, Bench

# A shell that starts the tests in the background has its children ignore Ctrl-C, and theirs: tests of it need it back.
signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("metalbench", deadline=None)  # how long an example takes is the machine's affair
settings.load_profile("metalbench")


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    downloads = os.environ.get("UV_CACHE_DIR", str(Path("~/.cache/uv").expanduser()))  # packages are fetched once, not once a session
    settings = {
        "UV_CACHE_DIR": downloads,
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "TMPDIR": str(folder),
        MARK: uuid.uuid4().hex,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        for name in ("BENCH_STORE", "NO_COLOR", "PYTHONPATH", "PGPASSWORD"):
            patch.delenv(name, raising=False)
        yield folder


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


@pytest.fixture(scope="session")
def postgres():
    from support.postgres import running  # needs what a framework's environment, where contracts are tested too, has not

    yield from running()


_numbers = itertools.count()


@pytest.fixture
def database(postgres):
    """The URL of an empty database of the server."""
    return postgres.database(f"store{next(_numbers)}")


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    """Where a store may be made: what one kind of database promises, the other does."""
    return str(tmp_path / "store.sqlite") if request.param == "sqlite" else request.getfixturevalue("database")
