"""The program that a script is made of: one cell's work, timed as the harness times it, written against our modules."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from metalbench.harness.repro.subject import Subject
from metalbench.results.record import Measurement
from metalbench.results.summary import Summary

LEAST_SAMPLES = 30
UNTIMED_CALLS = 8  #: a sample, under the protocol throughput, where none was ever taken
WIDTH = 120

MAIN = '''\
import gc
import platform
import statistics
import time

import numpy as np

from {workload_at} import WORKLOAD
from {case_at} import {case_type}
from {device_at} import open_device
from {step_at} import {factory}
from metalbench.harness.sampling import {protocol}{cold}

CALLS = {calls}  # a sample
SAMPLES = {samples}
SECONDS = 2.0  # that sampling may take; the warm-up takes a quarter of it

device = open_device({kind})
for fact, value in device.facts().items():
    print(fact, value)
print(f"Python {{platform.python_version()}} on {{platform.platform()}}")

case = {case}
inputs = WORKLOAD.inputs(case, np.random.default_rng(0))
step = {step}
work = {protocol}(device, step)
{before}

def timed(calls):
    """Nanoseconds of so many calls, until the last is finished."""
{between}    begin = time.perf_counter_ns()
    work(calls)
    return time.perf_counter_ns() - begin


print(f"first call {{timed(1) / 1e3:,.2f}} µs")
gc.collect()
gc.disable()  # its pauses are Python's, not the framework's
end = time.perf_counter() + SECONDS / 4
while time.perf_counter() < end:
    timed(CALLS)
samples = []
end = time.perf_counter() + SECONDS
while len(samples) < SAMPLES and (len(samples) < 5 or time.perf_counter() < end):
    samples.append(timed(CALLS) / CALLS / 1e3)
low, median, high = statistics.quantiles(samples, n=4)
print(f"median {{median:,.2f}} µs a call (quartiles {{low:,.2f}} … {{high:,.2f}}; samples: {{len(samples)}}, calls each: {{CALLS}})")
print({recorded})
'''


def program(this: Subject, summary: Summary, recorded: str) -> str:
    """Python that imports from our modules. ``recorded``: what it prints last, for comparison."""
    protocol, _, cold = summary.cell.protocol.partition("-")
    timed = [found for found in summary.measurements if found.spans_ns]
    flushed, rotated = bool(cold) and protocol == "latency", bool(cold) and protocol == "throughput"
    made = f"{this.factory}(device, case, inputs)"
    touched = this.workload.cost(this.case, summary.cell.variant).bytes
    return MAIN.format(
        workload_at=this.workload_at,
        case_at=type(this.case).__module__,
        case_type=type(this.case).__name__,
        device_at=this.device_at,
        step_at=this.step_at,
        factory=this.factory,
        protocol=protocol,
        cold=", flush" if flushed else ", rotation" if rotated else "",
        calls=_typical(timed, lambda found: found.calls_per_sample) or (UNTIMED_CALLS if protocol == "throughput" else 1),
        samples=max(LEAST_SAMPLES, _typical(timed, lambda found: len(found.spans_ns)) or 0),
        kind=literal(this.kind),
        case=call(type(this.case).__name__, this.case.parameters()),
        step=f"rotation(lambda: {made}, {touched})  # bytes that a call touches" if rotated else made,
        before="before = flush(device)\n" if flushed else "",
        between="    before()\n" if flushed else "",
        recorded=literal(recorded),
    )


def literal(value: object) -> str:
    """As Python source, in double quotes where that is as plain."""
    text = repr(value)
    return f'"{text[1:-1]}"' if isinstance(value, str) and text[0] == "'" and '"' not in text else text


def call(name: str, arguments: Mapping[str, object]) -> str:
    """``name(key=value, …)``, one argument a line where they don't fit into one."""
    words = [f"{key}={literal(value)}" for key, value in arguments.items()]
    line = f"{name}({', '.join(words)})"
    return line if len(line) <= WIDTH else "\n".join([f"{name}(", *(f"    {word}," for word in words), ")"])


def _typical(timed: Sequence[Measurement], count: Callable[[Measurement], int]) -> int | None:
    """The middle one of a count over the launches."""
    return statistics.median_low(map(count, timed)) if timed else None
