"""The JSON of Google Benchmark (``--benchmark_format=json``), read only.

Its repetitions are launches, for want of better: they share a process. Aggregates are left aside where the repetitions are there; where
only aggregates were reported, the median, else the mean, is the single sample of a single launch, and the facts say so. Files before
version 1.5 tell aggregates by their names only. A date without an offset, as older versions write it, is taken for UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from metalbench.results.formats.base import Reading
from metalbench.results.formats.foreign import decoded, document, foreign_cell, foreign_run, mapping, moment, number, spans, texts
from metalbench.results.record import Cell, Measurement

TOOL = "google-benchmark"
NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
#: members that are not the user's counters and label
OWN = {
    *("name", "run_name", "run_type", "family_index", "per_family_instance_index", "repetitions", "repetition_index", "threads"),
    *("iterations", "real_time", "cpu_time", "time_unit", "aggregate_name", "aggregate_unit"),
}


def recognises(text: str) -> bool:
    return '"context"' in text and '"benchmarks"' in text and '"machine_info"' not in text  # which pytest-benchmark has


def read(data: bytes) -> Reading:
    """One run; what is called alike is a cell, its arguments and threads being part of the name."""
    text, problems = decoded(data)
    found = document(text, "benchmarks", {"name"}, ("context",))
    problems += found.problems
    context = mapping(found.head.get("context"))
    started = moment(context.get("date"))
    if started is None:
        problems.append(f"context.date: {context.get('date')!r} is no time, so the run is dated 1970")
    build = {TOOL: str(context.get("library_version", context.get("library_build_type", "unknown"))), **texts(context)}
    measured: list[tuple[Cell, float, Measurement]] = []
    for place, item in _chosen(found.items):
        try:
            measurement = _measurement(item, build, place)
        except ValueError as error:
            problems.append(str(error))
        else:
            measured.append((foreign_cell(TOOL, {"benchmark": _name(item)}), started or 0.0, measurement))
    if not measured:
        return Reading([], problems)
    machine = texts({"name": context.get("host_name"), "cores": context.get("num_cpus")})  # no chip is named: the computer's name must do
    return Reading([foreign_run(TOOL, data, machine, measured)], problems)


def _chosen(items: Iterable[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """The repetitions of each benchmark; of one that has aggregates only, its median, else its mean."""
    chosen: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    aggregates: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {}
    for place, item in items:
        kind = _aggregate(item)
        if kind:
            aggregates.setdefault(_name(item), {})[kind] = (place, item)
        else:
            chosen.setdefault(_name(item), []).append((place, item))
    for name, kinds in aggregates.items():
        middle = kinds.get("median") or kinds.get("mean")
        if name not in chosen and middle is not None:
            chosen[name] = [middle]
    return [pair for pairs in chosen.values() for pair in pairs]


def _aggregate(item: dict[str, Any]) -> str:
    """Which aggregate it is: mean, median, stddev …; nothing for a repetition."""
    if item.get("run_type") == "aggregate":
        return str(item.get("aggregate_name", "unknown"))
    suffix = re.search(r"_(mean|median|stddev|cv|BigO|RMS)$", str(item["name"])) if "run_type" not in item else None
    return suffix[1] if suffix else ""


def _name(item: dict[str, Any]) -> str:
    """The benchmark's, without the aggregate's."""
    if "run_name" in item:
        return str(item["run_name"])
    return str(item["name"]).removesuffix(f"_{_aggregate(item)}")


def _measurement(item: dict[str, Any], build: dict[str, str], place: str) -> Measurement:
    """Raises ValueError where there is neither a time nor a reason for having none."""
    if item.get("error_occurred"):
        return Measurement(status="failed", reason=texts(item).get("error_message", ""), facts=build)
    if item.get("skipped"):
        return Measurement(status="unsupported", reason=texts(item).get("skip_message", ""), facts=build)
    unit = str(item.get("time_unit", "ns"))
    if unit not in NANOSECONDS:
        raise ValueError(f"{place}.time_unit: {unit!r} is none of {', '.join(NANOSECONDS)}")
    kind = _aggregate(item)
    calls = 1 if kind else round(number(item.get("iterations")) or 1)  # an aggregate's iterations are the repetitions
    time = number(item.get("real_time"))
    kept = spans([None if time is None else time * NANOSECONDS[unit]], calls)
    if not kept:
        raise ValueError(f"{place}.real_time: {item.get('real_time')!r} is no positive time")
    counters = texts({name: value for name, value in item.items() if name not in OWN})
    sample = {"sample": f"{kind} of {item.get('repetitions', item.get('iterations'))} repetitions"} if kind else {}
    return Measurement(
        status="ok",
        default_variant=True,
        spans_ns=kept,
        calls_per_sample=calls,
        facts=build | counters | sample,
    )
