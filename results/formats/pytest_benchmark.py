"""The JSON that pytest-benchmark stores and compares, of every version since its first, 3.0 (which calls itself 2.5 in its betas).

Written: a round is a launch and its datum the launch's median, so that the median which ``pytest-benchmark compare`` prints is the one
that we print, and its deviation is that between launches; the samples inside a launch depend on each other and would make it too small.
An iteration is a call, of which such a datum is one. A group is a workload and case, so that a table compares backends. Times in seconds.

Read: older versions lack ``ops``, ``total``, ``params`` and ``extra_info``, the time zone, and in ``machine_info`` the processor's name.
``data`` is there only where it was asked for; without it the median is the single sample of the single launch, and its facts say so.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from metalbench.results.formats.base import Reading, Recorded, cell_name, right_cells, work_name
from metalbench.results.formats.foreign import decoded, document, foreign_cell, foreign_run, mapping, moment, number, spans, texts
from metalbench.results.record import Cell, Measurement
from metalbench.results.summary import Summary

TOOL = "pytest-benchmark"
VERSION = "5.3.0"  #: the newest whose fields are all written


def write(runs: Iterable[Recorded]) -> Iterator[bytes]:
    """One run. Wrong answers and failures are left out: the format has nowhere to say that a time doesn't count."""
    run, summaries = right_cells(runs, TOOL)
    host = run.host.facts
    cores = host.get("cores", "")
    commit, _, dirty = run.revision.partition("-")
    document = {
        "machine_info": {
            "node": run.host.key,
            "machine": host.get("machine", ""),
            "system": host.get("system", ""),
            "cpu": {"brand_raw": host.get("chip", ""), "count": int(cores) if cores.isdecimal() else None},
        },
        "commit_info": {"id": commit or "unversioned", "dirty": bool(dirty)},
        "benchmarks": [_benchmark(summary) for summary in summaries],
        "datetime": datetime.fromtimestamp(run.started, UTC).isoformat(),
        "version": VERSION,
    }
    yield msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def _benchmark(summary: Summary) -> dict[str, Any]:
    cell = summary.cell
    name = cell_name(cell)
    return {
        "group": work_name(cell),
        "name": name,
        "fullname": name,
        "params": cell.case,
        "param": None,
        "extra_info": {"backend": cell.backend, "environment": cell.environment, "variant": cell.variant, **summary.facts},
        "options": {},
        "stats": _stats([median / 1e9 for median in summary.medians]),
    }


def _stats(data: list[float]) -> dict[str, Any]:
    """In seconds. Quartiles by linear interpolation; the counts of outliers are beyond one deviation and beyond 1.5 ranges."""
    mean, deviation = statistics.fmean(data), statistics.stdev(data) if len(data) > 1 else 0.0
    q1, median, q3 = statistics.quantiles(data, n=4, method="inclusive") if len(data) > 1 else data * 3
    low, high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)
    deviating, outlying = sum(abs(value - mean) > deviation for value in data), sum(not low <= value <= high for value in data)
    return {
        "min": min(data), "max": max(data), "mean": mean, "stddev": deviation, "rounds": len(data), "median": median,
        "iqr": q3 - q1, "q1": q1, "q3": q3, "iqr_outliers": outlying, "stddev_outliers": deviating, "outliers": f"{deviating};{outlying}",
        "ld15iqr": min(value for value in data if value >= low), "hd15iqr": max(value for value in data if value <= high),
        "ops": 1 / mean, "total": sum(data), "data": data, "iterations": 1,
    }  # fmt: skip


def recognises(text: str) -> bool:
    return '"machine_info"' in text and '"benchmarks"' in text


def read(data: bytes) -> Reading:
    """One run; a benchmark is a cell, known by its full name, which holds its parameters in every version."""
    text, problems = decoded(data)
    found = document(text, "benchmarks", {"fullname", "stats"}, ("machine_info", "commit_info", "datetime", "version"))
    problems += found.problems
    started = moment(found.head.get("datetime"))
    if started is None:
        problems.append(f"datetime: {found.head.get('datetime')!r} is no time, so the run is dated 1970")
    info, commit = mapping(found.head.get("machine_info")), mapping(found.head.get("commit_info"))
    python = {name: value for name, value in texts(info).items() if name.startswith("python_")}
    facts = {TOOL: str(found.head.get("version")), **python}
    measured: list[tuple[Cell, float, Measurement]] = []
    for place, item in found.items:
        try:
            measurement = _measurement(item, facts, f"{place}.stats", problems)
        except ValueError as error:
            problems.append(str(error))
        else:
            measured.append((foreign_cell(TOOL, {"test": str(item["fullname"])}), started or 0.0, measurement))
    if not measured:
        return Reading([], problems)
    return Reading([foreign_run(TOOL, data, _machine(info), measured, _revision(commit))], problems)


def _measurement(item: dict[str, Any], facts: dict[str, str], place: str, problems: list[str]) -> Measurement:
    """Raises ValueError where there is no time in it; of a list with some that are none, the others are kept."""
    stats = mapping(item["stats"])
    calls = round(number(stats.get("iterations")) or 1)
    data = stats.get("data")
    if isinstance(data, list) and data:
        times, sample = [number(value) for value in data], ""
    else:
        times, sample = [number(stats.get("median"))], f"median of {stats.get('rounds')} rounds"
    kept = spans([None if time is None else time * 1e9 for time in times], calls)
    if not kept:
        raise ValueError(f"{place}: neither data nor median has a positive time")
    if len(kept) < len(times):
        problems.append(f"{place}.data: {len(times) - len(kept)} of {len(times)} are no positive times")
    more = {"group": item.get("group") or "", "sample": sample} | mapping(item.get("extra_info"))
    return Measurement(
        status="ok",
        default_variant=True,
        spans_ns=kept,
        calls_per_sample=calls,
        rejected=len(times) - len(kept),
        facts=facts | {name: value for name, value in texts(more).items() if value},
    )


def _machine(info: dict[str, Any]) -> dict[str, str]:
    """What a comparison depends on: not the computer's name, which every container has anew, nor its present clock."""
    cpu = mapping(info.get("cpu"))
    chip = next((name for name in (cpu.get("brand_raw"), cpu.get("brand"), info.get("processor")) if name), "")
    system = f"{info.get('system', '')} {info.get('release', '')}".strip()
    known = {"chip": chip, "cores": cpu.get("count"), "machine": info.get("machine"), "system": system}
    return {name: value for name, value in texts(known).items() if value}


def _revision(commit: dict[str, Any]) -> str:
    if not re.fullmatch("[0-9a-f]{40}", str(commit.get("id"))):
        return ""
    return f"{commit['id']}-dirty" if commit.get("dirty") else str(commit["id"])
