"""The pages as a folder of files, for GitHub Pages, a mail's attachment, or no server at all."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from metalbench import __version__
from metalbench.results.dashboard.pages import compare, overview
from metalbench.results.dashboard.site import Site
from metalbench.results.dashboard.source import Source, cell_path, comparison_path, history_path, run_path
from metalbench.results.layout import Naming
from metalbench.results.machines import same_machine
from metalbench.results.series import counts
from metalbench.results.store import Store

MARK = "site.json"  #: by which a folder is known for one of ours, to be made anew
KINDS = ("run", "scaling", "roofline", "operators", "claims")  #: the pages of a run


class BuildError(Exception):
    """The folder can't be written; the message is one sentence that says why and what to do."""


def build(store: Store, naming: Naming, files: Mapping[str, bytes], folder: Path, named: Sequence[str] = ()) -> tuple[int, int]:
    """Write the pages, whole or not at all; how many files they are and how many bytes. Raises BuildError.

    They are those of the runs that are ``named``, by their ids, or else of those on the overview. Comparisons are with the run before,
    whichever that is, and series have a page where they have more than one point. ``files``: what pages need below ``assets/``.
    """
    if folder.exists() and not folder.is_dir():
        raise BuildError(f"{folder} is a file; name a folder.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MARK).is_file():
        raise BuildError(f"{folder} holds something else than a dashboard; name a folder that is new or empty.")
    source = Source(store, naming)
    runs = [*named] or [run.id for run in overview.runs(source)]
    paths = list(dict.fromkeys(_paths(source, runs)))
    site = Site(source, live=False, exists=set(paths).__contains__)
    try:
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".building-", dir=folder.absolute().parent) as scratch:
            whole = Path(scratch) / "site"
            for name, content in files.items():
                _write(whole / "assets" / name, content)
            for path in paths:
                _write(whole / path, site.page(path).encode())
            _write(whole / ".nojekyll", b"")  # GitHub Pages takes the files as they are
            _write(whole / MARK, msgspec.json.encode({"metalbench": __version__, "runs": runs}))
            if folder.exists():
                folder.rename(Path(scratch) / "before")
            shutil.move(whole, folder)
    except OSError as error:
        raise BuildError(f"{folder} can't be written: {error.strerror}; name another place.") from error
    sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file()]
    return len(sizes), sum(sizes)


def _paths(source: Source, runs: Sequence[str]) -> Iterator[str]:
    """Where the site has a page."""
    yield from ("index.html", "compare/index.html", "history/index.html")
    for run_id in runs:
        yield from (run_path(run_id, kind) for kind in KINDS)
        _, summaries = source.measured(run_id)
        yield from (cell_path(run_id, summary.cell) for summary in summaries)
    yield from (comparison_path(pair.base.id, pair.candidate.id) for pair in compare.pairs(source) if pair.candidate.id in runs)
    yield from _series(source, runs)


def _series(source: Source, runs: Sequence[str]) -> Iterator[str]:
    """Of the runs' cells, those that other runs of the same machine have too, whatever its system was then."""
    found = counts(source.store.database)
    hosts = {host.key: host for host in source.store.hosts()}
    for run_id in runs:
        run, summaries = source.measured(run_id)
        alike = {key for key, host in hosts.items() if same_machine(host, run.host)}
        launches: Counter[str] = Counter()
        for count in found:
            if count.host in alike:
                launches[count.cell.key()] += count.launches
        series = [own.cell for own in summaries if launches[own.cell.key()] > len(own.records)]
        yield from (history_path(host, cell) for cell in series for host in alike)


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
