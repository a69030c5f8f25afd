"""Cells, runs and records as they might have been measured."""

import msgspec

from metalbench.results.record import Cell, Host, Measurement, Record, Run

HOST = Host(key="k", facts={"chip": "M5", "cores": "10"})


def make_cell(backend="torch-cpu", variant="fused", size=8, **changes):
    fields = {
        "workload": "w", "version": 1, "case": {"size": size}, "backend": backend, "environment": "current", "variant": variant,
        "protocol": "latency", "policy": "ieee-float32",
    }  # fmt: skip
    return Cell(**(fields | changes))


def make_run(cells, name="r", label="", started=1.0, launches=0):
    return Run(
        id=name,
        started=started,
        label=label,
        host=HOST,
        plan=msgspec.Raw(msgspec.json.encode({"cells": cells, "more": 1, "options": {"launches": launches}})),
    )


def timed(cell, launch, medians, **changes):
    spans = {"spans_ns": [round(value) for value in medians], "status": "ok", "flops": 100, "bytes": 50} | changes
    return Record(cell=cell, launch=launch, started=10.0 + launch, measurement=Measurement(**spans))
