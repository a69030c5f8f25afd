"""What a user may call a run by: an id, a label, ``latest~1``, a git revision, a file, another store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from metalbench.harness.errors import UsageError

if TYPE_CHECKING:
    from metalbench.results.record import Record, Run
    from metalbench.results.store import Store

SQLITE = b"SQLite format 3\0"
HOW = "An id, a label, latest, latest~1, a git revision, a file, or a store as PLACE or PLACE#RUN."


def measured(name: str, results: Store) -> tuple[Run, list[Record]]:
    """The run called ``name`` with its records; a store's or file's newest run where only that is named.

    UsageError where there is none, or where the name stands for a revision that no run was made at.
    """
    if (run := results.find(name)) is not None:
        return run, results.records(run.id)
    place, _, inner = name.partition("#")
    if "://" in place or _is_store(Path(place)):
        return _from_store(place, inner or "latest")
    if _is_file(Path(place)):
        return _from_file(Path(place), inner)
    if (run := _at_revision(name, results)) is not None:
        return run, results.records(run.id)
    return results.run(name), []  # raises, with the nearest names


def all_measured(name: str, results: Store) -> list[tuple[Run, list[Record]]]:
    """As ``measured``; all runs of a fleet where the name stands for more than one of them."""
    return [(run, results.records(run.id)) for run in results.fleet(name) if run.id != name] or [measured(name, results)]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name too long for one
        return False


def _is_store(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE)) == SQLITE
    except OSError:
        return False


def _from_store(place: str, name: str) -> tuple[Run, list[Record]]:
    from metalbench.results.store import open_store

    with open_store(place, make=False) as other:
        run = other.run(name)
        return run, other.records(run.id)


def _from_file(path: Path, name: str) -> tuple[Run, list[Record]]:
    """The newest run of a file in any format that can be imported, or the one of this id or label in it."""
    from metalbench.results import interchange
    from metalbench.results.formats.base import FormatError

    try:
        _, reading = interchange.read(path.read_bytes())
    except (FormatError, OSError) as error:
        raise UsageError(f"{path}: {error.strerror if isinstance(error, OSError) else error}.") from error
    runs = [(run, records) for run, records in reading.runs if name in {"", run.id, run.label}]
    if reading.problems or not runs:
        problem = reading.problems[0] if reading.problems else f"there is no run called {name!r} in it" if name else "it holds no results"
        raise UsageError(f"{path}: {problem}; `bench import` takes what is whole of it into the store.")
    return max(runs, key=lambda found: found[0].started)


def _at_revision(name: str, results: Store) -> Run | None:
    """The newest run made at a commit; None where ``name`` is no commit of the repository here."""
    from metalbench.harness.revisions import DIRTY, resolve

    commit = resolve(name, Path.cwd())
    if not commit:
        return None
    if (run := results.at_revision(commit)) is not None:
        return run
    changed = results.at_revision(commit + DIRTY) is not None
    how = "only with uncommitted changes" if changed else "by no run of this store"
    raise UsageError(f"Revision {name} ({commit[:12]}) was measured {how}; check it out and `bench run` there, or use `bench ab`.")
