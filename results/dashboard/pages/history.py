"""Each cell from run to run on a machine: which series there are, and of one the runs at which its level changed."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator

from metalbench.results.charts import history as chart
from metalbench.results.dashboard.source import Source, cell_path, comparison_path, history_path, run_path
from metalbench.results.dashboard.view import Entry, Grid, NoPageError, View, shown, words
from metalbench.results.history import Change, History, Point
from metalbench.results.layout import full_name
from metalbench.results.machines import described, same_machine
from metalbench.results.quantities import Quantity
from metalbench.results.record import Cell, Host
from metalbench.results.series import Count, counts
from metalbench.results.statistics import estimate

LISTED = 1000  #: series in the table, those with most launches
POINTS = 500  #: runs in the table of a series, the newest
NOTHING = Entry(["–"], None)
SERIES = ["series", "backend", "variant", "launches", "last (UTC)", "machine", "work"]
CHANGES = ["run", "began (UTC)", "change", "from", "to", "state", "compared", "revision", "versions"]
RUNS = ["run", "began (UTC)", "time of a call", "launches", "status", "revision", "versions that changed"]


def index(source: Source) -> View:
    """What there is a series of, those with most launches first. No record is read for it."""
    hosts = {host.key: host for host in source.store.hosts()}
    found = sorted(_by_machine(counts(source.store.database), hosts), key=_place)
    rows = [_listed(count, hosts[count.host], source) for count in found[:LISTED]]
    return View("history_index.html", "History", {"series": Grid("series", "Series", SERIES, rows), "more": len(found) - len(rows)})


def _by_machine(found: Iterable[Count], hosts: dict[str, Host]) -> list[Count]:
    """The systems that a machine had together, under the one of which the newest record is."""
    first = {host.key: next(other.key for other in hosts.values() if same_machine(host, other)) for host in hosts.values()}
    whole: dict[tuple[str, str], Count] = {}
    for count in sorted(found, key=lambda count: count.newest):
        place = first[count.host], count.cell.key()
        launches = whole[place].launches if place in whole else 0
        whole[place] = count._replace(launches=count.launches + launches)
    return list(whole.values())


def _place(count: Count) -> tuple[object, ...]:
    cell = count.cell
    return -count.launches, cell.workload, cell.case_text(), cell.column_name, cell.variant, -count.newest


def _listed(count: Count, host: Host, source: Source) -> list[Entry]:
    cell = count.cell
    return [
        words(f"{cell.workload} {source.naming(cell)}", history_path(count.host, cell)),
        words(cell.column_name),
        words(cell.variant),
        shown(Quantity(count.launches)),
        words(_minute(count.newest)),
        words(described(host)),
        words(_work(cell)),
    ]


def view(source: Source, machine: str, key: str) -> View:
    """One series: the machine whose host has this slug, and the cell with this key."""
    hosts = source.hosts(machine)
    history = next(iter(source.histories(hosts, lambda cell: cell.key() == key)), None)
    if history is None:
        raise NoPageError(f"There is no series of the cell {key} on this machine.")
    since = next((change for change in reversed(history.changes) if change.state == "confirmed"), None)
    level = f"{Quantity(history.level, 'duration')}{f', since run {since.run}' if since and history.level else ''}"
    right = f", {len(history.timed)} of them with a right answer" if len(history.timed) < len(history.points) else ""
    host = next(host for host in hosts if host.key == history.points[-1].host)
    content = {
        "facts": [
            ("machine", described(host)),
            ("work", _work(history.cell)),
            ("level now", level),
            ("runs", f"{len(history.points)}{right}"),
        ],
        "figure": chart.figure(history, source.naming),
        "changes": Grid("changes", "Changes of level", CHANGES, [_changed(change) for change in reversed(history.changes)]),
        "points": Grid("points", "Runs", RUNS, list(_points(history))[::-1][:POINTS]),
        "more": max(0, len(history.points) - POINTS),
        "suspect": history.suspect is not None,
        "command": _command(history.cell),
    }
    return View("history.html", f"History of {full_name(history.cell, source.naming)}", content)


def _changed(change: Change) -> list[Entry]:
    versions = ", ".join(f"{name} {old or 'none'} → {new or 'none'}" for name, (old, new) in change.versions.items())
    revisions = f"{_short(change.revision_before) or 'none'} → {_short(change.revision) or 'none'}"
    return [
        words(change.run, run_path(change.run)),
        words(_minute(change.started)),
        Entry([f"{_percent(change.ratio)} {'slower' if change.slower else 'faster'}"], change.ratio),
        *(Entry([_percent(bound)], bound) if bound is not None else NOTHING for bound in (change.low, change.high)),
        words(change.state),
        words(f"with {change.previous_run}", comparison_path(change.previous_run, change.run)),
        words(revisions if change.revision != change.revision_before else ""),
        words(versions),
    ]


def _points(history: History) -> Iterator[list[Entry]]:
    """A row a run, the oldest first, each with what is another version than in the last run that said."""
    known: dict[str, str] = {}
    for point in history.points:
        changed = [f"{name} {known[name]} → {value}" for name, value in point.facts.items() if known.get(name, value) != value]
        known |= point.facts  # a run that failed before the framework was there says little
        yield _point(history.cell, point, ", ".join(changed))


def _point(cell: Cell, point: Point, versions: str) -> list[Entry]:
    return [
        words(point.run, cell_path(point.run, cell)),
        words(_minute(point.started)),
        shown(Quantity(tuple(estimate(point.medians)), "estimate")) if point.time is not None else NOTHING,
        shown(Quantity(len(point.medians))),
        words(point.status),
        Entry([_short(point.revision)], point.revision),
        words(versions),
    ]


def _command(cell: Cell) -> str:
    """What prints the series in a terminal of its machine; a value that an option can't express is left out."""
    case = ",".join(f"{name}={str(value).lower()}" for name, value in cell.case.items() if str(value).strip() and "," not in str(value))
    given = [*("--workload", cell.workload), *(("--case", case) if case else ()), *("--backend", cell.backend)]
    return shlex.join(["bench", "history", *given, "--variant", cell.variant])


def _work(cell: Cell) -> str:
    """What of a series neither its case nor its backend tells."""
    return f"{cell.protocol}, {cell.policy}, version {cell.version}"


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %".replace("-", "\N{MINUS SIGN}")


def _short(revision: str) -> str:
    """Seven digits of a commit, as git shows it."""
    commit, dirty, _ = revision.partition("-dirty")
    return commit[:7] + dirty


def _minute(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))
