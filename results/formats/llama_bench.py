"""What llama.cpp's ``llama-bench`` prints with ``-o jsonl``, ``json`` or ``csv``, read only, by the names of its columns, which drift.

A row is a cell; rows of the same one are its launches. JSON has the samples of a row, CSV only their mean, which then is the single
sample, and the facts say so. The case is the model's file and the settings that most depend on; another setting takes part where the
file has it in several values, so that rows of different settings are never taken for launches of one.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from typing import Any

from metalbench.results.formats.base import Reading
from metalbench.results.formats.foreign import decoded, foreign_cell, foreign_run, moment, number, objects, spans, texts
from metalbench.results.record import Cell, Measurement, Scalar

TOOL = "llama-bench"
NEEDED = {"model_filename", "avg_ns"}
CASE = ("n_prompt", "n_gen", "n_depth", "n_batch", "n_ubatch", "n_threads", "type_k", "type_v", "n_gpu_layers", "flash_attn")
RESULTS = {"test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts", "samples_ns", "samples_ts"}
#: each a column of its own that is true or false, before there was the column ``backends``
BACKENDS = ("cuda", "opencl", "vulkan", "kompute", "metal", "sycl", "rpc", "gpu_blas", "blas")
#: columns that say what was measured on, or belong to the model's file
GIVEN = {"build_commit", "build_number", "cpu_info", "gpu_info", "backends", *BACKENDS}
GIVEN |= {"model_filename", "model_type", "model_size", "model_n_params"}

Row = tuple[str, dict[str, Any]]  #: its place and its fields


def recognises(text: str) -> bool:
    return all(column in text for column in NEEDED)


def read(data: bytes) -> Reading:
    """A run for each machine in the file."""
    text, problems = decoded(data)
    rows, damage = objects(text, NEEDED) if text.lstrip()[:1] in {"{", "["} else _csv(text)
    problems += damage
    cases = _cases(row for _, row in rows)
    machines: dict[tuple[str, str], list[tuple[Cell, float, Measurement]]] = {}
    for (place, row), case in zip(rows, cases, strict=True):
        measurement = _measurement(row, place, problems)
        started = moment(row.get("test_time"))
        if started is None:
            problems.append(f"{place}: its test_time {row.get('test_time')!r} is no time, so it is dated 1970")
        if measurement is not None:
            machine = (str(row.get("cpu_info") or ""), str(row.get("gpu_info") or ""))
            cell = foreign_cell(TOOL, case, f"llama.cpp-{_backends(row)}")
            machines.setdefault(machine, []).append((cell, started or 0.0, measurement))
    runs = [foreign_run(TOOL, data, texts({"chip": cpu, "gpu": gpu}), found) for (cpu, gpu), found in machines.items()]
    return Reading(runs, problems)


def _csv(text: str) -> tuple[list[Row], list[str]]:
    """The rows, line by line: no field holds a line break, so that a missing quote costs no other line."""
    rows: list[Row] = []
    problems: list[str] = []
    header: list[str] = []
    for number_, line in enumerate(text.splitlines(), 1):
        try:
            fields = next(csv.reader([line], strict=True), [])
        except csv.Error as error:
            problems.append(f"line {number_}: {error}")
            continue
        if set(fields) >= NEEDED:
            header = fields  # again, where several outputs were put into one file
        elif not header:
            problems.append(f"line {number_}: a line before the header")
        elif len(fields) == len(header) and fields[-1]:
            rows.append((f"line {number_}", dict(zip(header, fields, strict=True))))
        elif fields:  # the last column is a number: where it is empty, the line was cut before it
            problems.append(f"line {number_}: {len(fields) - (not fields[-1])} fields under a header of {len(header)}")
    return rows, problems


def _cases(rows: Iterable[dict[str, Any]]) -> list[dict[str, Scalar]]:
    """The case of each row, in their order."""
    rows = list(rows)
    columns = {column for row in rows for column in row}
    varying = {column for column in columns if len({str(row.get(column)) for row in rows}) > 1}
    telling = [*CASE, *sorted(varying - GIVEN - RESULTS - set(CASE))]
    return [
        {"model": re.split(r"[/\\]", str(row["model_filename"]))[-1]}
        | {column: _setting(row[column]) for column in telling if row.get(column) is not None}
        for row in rows
    ]


def _setting(value: Any) -> Scalar:
    """Alike in JSON, which has true, and in CSV, which has 1."""
    if isinstance(value, int):
        return int(value)
    return int(value) if re.fullmatch(r"-?\d{1,18}", str(value)) else str(value)


def _backends(row: dict[str, Any]) -> str:
    named = str(row.get("backends") or "").lower().replace(",", "+")
    return named or "+".join(name for name in BACKENDS if _setting(row.get(name, 0)) == 1) or "cpu"


def _measurement(row: dict[str, Any], place: str, problems: list[str]) -> Measurement | None:
    """None, with the reason among the problems, where there is no time in it."""
    samples = row.get("samples_ns")
    listed = isinstance(samples, list) and bool(samples)
    times = [number(value) for value in samples] if isinstance(samples, list) and samples else [number(row["avg_ns"])]
    kept = spans(times, 1)
    if not kept:
        problems.append(f"{place}: neither its samples_ns nor its avg_ns is a positive time")
        return None
    if len(kept) < len(times):
        problems.append(f"{place}: {len(times) - len(kept)} of its {len(times)} samples_ns are no positive times")
    build = {"llama.cpp": f"{row.get('build_commit', 'unknown')} ({row.get('build_number', 'unknown')})"}
    more = {name: value for name, value in row.items() if name not in {"samples_ns", "samples_ts", "cpu_info", "gpu_info"}}
    return Measurement(
        status="ok",
        default_variant=True,
        spans_ns=kept,
        rejected=len(times) - len(kept),
        facts=build | texts(more) | ({} if listed else {"sample": "mean of the repetitions"}),
    )
