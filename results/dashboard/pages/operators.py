"""The coverage matrix of a run: what each backend can do of what was asked, with the gravest finding of each kind a link away.

A row is a workload, its case in words and a variant. The words are those parameters that say what is done, not how much of it: texts,
and the names of switches that are on; sizes are numbers and left out, and the dtype stands last. So the rows of ``attention`` are
``causal bfloat16`` and ``bfloat16``, of ``fft`` ``complex forward float32``, of ``int4_matmul`` and ``amp_step`` the dtype alone, and a
workload whose cases name an operator has a row for each operator and dtype.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from metalbench.results.dashboard.facts import Facts
from metalbench.results.dashboard.source import Source, cell_path
from metalbench.results.dashboard.view import Entry, Grid, View, words
from metalbench.results.record import GRAVITY, Run, Scalar, Status
from metalbench.results.summary import Summary

REASON = 120  #: letters of a reason in a field
NOTHING = Entry(["–"], None)
MEANING: Mapping[Status, str] = {
    "ok": "the answer is right, and timed",
    "fallback": "the answer is right, but the framework ran something elsewhere than on the device: timed, not ranked",
    "wrong": "the answer is further from float64 than is tolerated: timed, not ranked",
    "unsupported": "the backend has no such operator, dtype or variant",
    "unavailable": "the framework or its device isn't there",
    "failed": "the framework raised an error",
    "timeout": "the worker didn't answer in time and was killed",
    "oom": "there wasn't enough memory",
    "crashed": "the worker process died",
}


def view(source: Source, name: str) -> View:
    run, summaries = source.measured(source.run_called(name))
    columns = list(dict.fromkeys(summary.column for summary in summaries))
    rows: dict[tuple[str, str, str], dict[str, list[Summary]]] = {}
    for summary in summaries:
        row = rows.setdefault((summary.cell.workload, in_words(summary.cell.case), summary.cell.variant), {})
        row.setdefault(summary.column, []).append(summary)
    entries = [[*map(words, row), *(_entry(run, found.get(column, [])) for column in columns)] for row, found in rows.items()]
    title = f"Operators of run {run.id}{f' “{run.label}”' if run.label else ''}"
    matrix = Grid("operators", "What each backend can do", ["workload", "case", "variant", *columns], entries)
    return View("operators.html", title, {"run": run, "counts": _counts(run, summaries), "matrix": matrix, "legend": _legend(summaries)})


def in_words(case: Mapping[str, Scalar]) -> str:
    """``{"dtype": "float16", "keys": 8, "causal": True}`` is ``causal float16``."""
    said = {name: name if value is True else value for name, value in case.items() if value is True or isinstance(value, str)}
    return " ".join(said[name] for name in sorted(said, key=lambda name: name == "dtype"))


def _entry(run: Run, summaries: Sequence[Summary]) -> Entry:
    """A status, or where cells differ how many have each; and why, of the gravest, to which it leads."""
    if not summaries:
        return NOTHING
    counts = Counter(summary.status for summary in summaries)
    said = summaries[0].status if len(counts) == 1 else _counted(counts)
    gravest = min(summaries, key=lambda summary: GRAVITY.index(summary.status))
    reason = gravest.reason if len(gravest.reason) <= REASON else f"{gravest.reason[:REASON]} …"
    return Entry([said, reason] if reason else [said], said, cell_path(run.id, gravest.cell))


def _counted(counts: Mapping[Status, int]) -> str:
    """``7 ok, 1 wrong``."""
    return ", ".join(f"{counts[status]} {status}" for status in reversed(GRAVITY) if status in counts)


def _counts(run: Run, summaries: Sequence[Summary]) -> str:
    """Of the run's cells, and how many of them have no record."""
    planned, missing = len(run.cells()), len(run.cells()) - len(summaries)
    said = _counted(Counter(summary.status for summary in summaries))
    return f"{planned} cells: {', '.join(filter(None, [said, f'{missing} not measured' if missing else '']))}"


def _legend(summaries: Sequence[Summary]) -> Facts:
    """What the statuses that occur mean."""
    there = {summary.status for summary in summaries}
    return [*((status, meaning) for status, meaning in MEANING.items() if status in there), ("–", "not measured")]
