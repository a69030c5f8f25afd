"""A comparison as it is shown: one table, the worst first; as data for programs; as GitHub's annotations."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from metalbench.results.comparison import Change, Comparison
from metalbench.results.layout import Field, Naming, Report, Table, full_name, text
from metalbench.results.quantities import Quantity, printable
from metalbench.results.record import Run
from metalbench.results.shuffles import least_share
from metalbench.results.verdicts import FALSE_DISCOVERY, Judgement

FORMAT = "metalbench-comparison/1"
LONGEST = 300  #: rows; a comment on GitHub holds 65 536 characters
NO_TIME: Field = [[Quantity(None)]]


def report(comparison: Comparison, naming: Naming) -> Report:
    changes = comparison.changes
    table = Table("Cells, the worst first", ["cell", "base", "candidate", "ratio", "verdict", "peak memory"], [])
    table.rows.extend(_row(change, naming) for change in changes[:LONGEST])
    tables = [table] if changes else []
    if comparison.missing:
        rows = [[text(full_name(cell, naming)), text(side)] for cell, side in comparison.missing]
        tables.append(Table("Cells that were not compared", ["cell", "measured"], rows))
    return Report("Comparison", _facts(comparison), _legend(comparison), tables)


def _facts(comparison: Comparison) -> list[tuple[str, str]]:
    changes = comparison.changes
    counts = Counter(change.time.verdict if change.time else "not timed on both sides" for change in changes)
    told = [f"{count} {verdict}" for verdict, count in sorted(counts.items(), key=lambda item: _ORDER.get(item[0], 9))]
    broken = sum(change.base.status != change.candidate.status for change in changes)
    memory = Counter(change.memory_verdict for change in changes)
    told += [f"{memory[verdict]} {verdict} in memory" for verdict in ("larger", "smaller") if memory[verdict]]
    told += [f"{broken} of another status"] if broken else []
    return [
        ("base", _run(comparison.base)),
        ("candidate", _run(comparison.candidate)),
        ("verdicts", ", ".join(told) or "none"),
        *(("versions", versions) for versions in _versions(changes)),
        *([("launches", few)] if (few := _few(comparison)) else []),
        *(("machine", told) for told in _machine(comparison)),
        *([("shown", f"the worst {LONGEST} of {len(changes)} cells")] if len(changes) > LONGEST else []),
    ]


def _few(comparison: Comparison) -> str:
    """Where the launches are too few for shuffling to tell anything."""
    sizes = [(len(change.base.medians), len(change.candidate.medians)) for change in comparison.changes if change.time]
    few = [size for size in sizes if least_share(*size) > FALSE_DISCOVERY]
    if comparison.in_turn or not few:
        return ""
    return "some cells have {} and {} launches; fewer than 5 a side can't tell a change from chance".format(*min(few))


def _machine(comparison: Comparison) -> list[str]:
    """By how much the machine was another, where that was added to the intervals."""
    told = []
    for (backend, _), shift in comparison.shifts.items():
        if math.isinf(shift):
            told.append(f"{backend}'s fixed product is of another size, so different was the machine's speed: nothing can be told")
        elif abs(shift) > 0.01:
            took = f"took {math.exp(shift):.3f}× as long as in the base"
            told.append(f"{backend}'s fixed product {took}, which is not held against the cells: `bench ab` would tell")
    return told


_ORDER = {"slower": 0, "faster": 1, "same": 2, "unsure": 3}


def _run(run: Run) -> str:
    began = time.strftime("%Y-%m-%d %H:%M", time.gmtime(run.started))
    words = [run.id, f"“{run.label}”" if run.label else "", f"{began} UTC", f"revision {run.revision}" if run.revision else ""]
    return ", ".join(filter(None, [*words, run.host.facts.get("chip", "")]))


def _versions(changes: Iterable[Change]) -> list[str]:
    return list(dict.fromkeys(f"{change.candidate.cell.backend}: {change.versions}" for change in changes if change.versions))


def _legend(comparison: Comparison) -> str:
    change = f"beyond {comparison.threshold:.3g}"
    if comparison.in_turn:
        how, same = "medians over pairs measured in turn", "the interval shown lies within that"
    else:
        how, same = "medians over launches", "the 90 % interval lies within that"
    return (
        f"Ratios are candidate over base, of {how}; intervals are adjusted for all cells. Slower and faster: the interval excludes 1, the "
        f"change is {change}, and shuffling the two sides hardly ever shows as much; of all such verdicts at most {FALSE_DISCOVERY:.0%} "
        f"are false. Same: {same}. Unsure: neither can be said."
    )


def _row(change: Change, naming: Naming) -> list[Field]:
    base, candidate, judged = change.base, change.candidate, change.time
    times: list[Field] = [[[Quantity(side.median, "duration")]] for side in (base, candidate)]
    verdict = change.status or (judged.verdict.upper() if judged else "–")
    memory = NO_TIME
    if change.memory:
        words = [Quantity(change.memory_verdict.upper())] if change.memory_verdict in {"larger", "smaller"} else []
        memory = [[Quantity(change.memory.ratio, "ratio"), *words, Quantity(f"({change.memory_kind})")]]
    return [text(full_name(candidate.cell, naming)), *times, [[Quantity(interval(judged))]], text(verdict), memory]


def interval(judged: Judgement | None) -> str:
    """``1.062× (1.041 … 1.083)``; the interval is left out where nothing is known of the spread."""
    if judged is None:
        return "–"
    known = f" ({judged.low:.3f} … {judged.high:.3f})" if judged.low > 0 and judged.high < 1e6 else ""
    return f"{judged.ratio:.3f}×{known}"


def data(comparison: Comparison, naming: Naming) -> dict[str, Any]:
    """For JSON. Bounds that aren't known are null."""
    return {
        "format": FORMAT,
        "base": _run_data(comparison.base),
        "candidate": _run_data(comparison.candidate),
        "threshold": comparison.threshold,
        "false_discovery": FALSE_DISCOVERY,
        "cells": [_change_data(change, naming) for change in comparison.changes],
        "missing": [{"cell": full_name(cell, naming), "side": side} for cell, side in comparison.missing],
    }


def _run_data(run: Run) -> dict[str, Any]:
    return {"id": run.id, "label": run.label, "started": run.started, "revision": run.revision, "host": run.host.key}


def _change_data(change: Change, naming: Naming) -> dict[str, Any]:
    cell = change.candidate.cell
    return {
        "workload": cell.workload,
        "case": cell.case,
        "name": naming(cell),
        "backend": cell.backend,
        "environment": cell.environment,
        "variant": cell.variant,
        "status": [change.base.status, change.candidate.status],
        "median_ns": [change.base.median, change.candidate.median],
        "launches": [len(side.medians) for side in (change.base, change.candidate)],
        "time": _judgement_data(change.time),
        "memory": (_judgement_data(change.memory) or {}) | {"verdict": change.memory_verdict} if change.memory else None,
        "memory_kind": change.memory_kind or None,
        "versions": change.versions or None,
    }


def _judgement_data(judged: Judgement | None) -> dict[str, Any] | None:
    if judged is None:
        return None
    bounds = (judged.low if judged.low > 0 else None, judged.high if math.isfinite(judged.high) and judged.high < 1e300 else None)
    return {"verdict": judged.verdict, "ratio": judged.ratio, "low": bounds[0], "high": bounds[1]}


def github_annotations(changes: Sequence[Change], naming: Naming, failing: frozenset[str]) -> list[str]:
    """GitHub's workflow commands, one a cell that is slower, larger or worse off; errors where ``failing`` names what it is."""
    out = []
    for change in changes:
        outcomes = change.outcomes()
        if not (change.worsened or outcomes & {"slower", "larger"}):
            continue
        level = "error" if outcomes & failing else "warning"
        what = change.status if change.worsened else f"{interval(change.time)} {'/'.join(sorted(outcomes))}"
        out.append(f"::{level} title=metalbench::{_escaped(f'{full_name(change.candidate.cell, naming)}: {what}')}")
    return out


def _escaped(message: str) -> str:
    """As the runner unescapes it."""
    return printable(message).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
