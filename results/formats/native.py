"""``metalbench/1``: a run as one strict JSON document, one entry a cell, samples per call. What isn't known is null, never NaN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from metalbench.results.record import Measurement, Record, Run
from metalbench.results.summary import Summary, summarise

FORMAT = "metalbench/1"


def export(run: Run, records: Sequence[Record]) -> bytes:
    """The document, UTF-8, indented."""
    document = {
        "format": FORMAT,
        "run": {"id": run.id, "label": run.label, "started": run.started},
        "host": {"key": run.host.key, **run.host.facts},
        "cells": [_cell(summary) for summary in summarise(run, records)],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


def _cell(summary: Summary) -> dict[str, Any]:
    cell, memory = summary.cell, summary.memory
    median, low, high = summary.time or (None, None, None)
    return {
        "workload": cell.workload,
        "case": cell.case,
        "backend": cell.backend,
        "environment": cell.environment,
        "variant": cell.variant,
        "protocol": cell.protocol,
        "status": summary.status,
        "reason": summary.reason,
        "median_ns": median,
        "low_ns": low,
        "high_ns": high,
        "max_error": summary.max_error,
        "tolerance": summary.tolerance,
        "flops": summary.flops,
        "bytes": summary.bytes,
        "amounts": summary.amounts,
        "device_peak_bytes": summary.device_peak,
        "process_peak_bytes": memory.process_peak if memory else None,
        "device_median_ns": summary.device_time,
        "joules_per_call": summary.energy.joules_per_call if summary.energy else None,
        "ran": summary.ran or None,
        "facts": {**summary.facts, **summary.figures},
        "launches": [_launch(record.launch, record.measurement) for record in summary.records],
    }


def _launch(launch: int, found: Measurement) -> dict[str, Any]:
    return {
        "launch": launch,
        "calls_per_sample": found.calls_per_sample,
        "samples_ns": found.samples_ns(),
        "first_call_ns": found.first_call_ns,
        "stop": found.stop or None,
        "memory": found.memory,
        "energy": found.energy,
        "device_spans_ns": found.device_spans_ns,
        "conditions": found.conditions,
    }
