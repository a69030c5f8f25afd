"""One launch of one cell inside a worker: build, check, warm up, sample, check again, then memory."""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from metalbench.backends.base import Device, Outputs, StatefulStep, Step, Unsupported
from metalbench.harness import stopping
from metalbench.harness.catalog import Catalog
from metalbench.harness.inputs import load
from metalbench.harness.measure import LEAST_SPAN, Timing, measure
from metalbench.harness.memory import memory_of
from metalbench.harness.protocol import Measure
from metalbench.harness.sampling import Work, empty_call, flush, latency, rotation, sentinel_step, throughput
from metalbench.results.record import Measurement
from metalbench.workloads.base import Array, Case, Check, Workload

THROUGHPUT_SPAN = 20_000_000  #: ns; long against the wait that closes it
THROUGHPUT_CALLS = 8
OUTPUT_LIMIT = 1 << 30  #: bytes of outputs that a throughput sample may hold at once


class Subject(NamedTuple):
    """What is measured: a step, and what its outputs are held against."""

    workload: Workload[Any]
    case: Case
    inputs: Mapping[str, Array]
    reference: Mapping[str, Array]
    step: Step

    def check(self, outputs: list[dict[str, Array]]) -> Check:
        return self.workload.check(self.case, self.inputs, outputs, self.reference)


def run_trial(job: Measure, framework: str, device: Device, catalog: Catalog, stage: Callable[[str], None]) -> Measurement:
    """Measure the cell; whatever the framework raises becomes a status with its own words as the reason."""
    try:
        subject = _build(job, framework, device, catalog, stage)
        return _memory_only(subject, device, stage) if job.memory == "only" else _measure(job, subject, device, stage)
    except Unsupported as error:
        return Measurement(status="unsupported", reason=str(error), facts=device.facts())
    except MemoryError as error:
        return Measurement(status="oom", reason=f"the host has no memory left: {error}", facts=device.facts())
    except Exception as error:  # noqa: BLE001 - frameworks raise what they like; the run goes on
        return Measurement(status=device.diagnose(error), reason=_words(error), facts=device.facts())
    finally:
        gc.collect()  # compiled functions hold arrays in cycles
        device.release()


def _build(job: Measure, framework: str, device: Device, catalog: Catalog, stage: Callable[[str], None]) -> Subject:
    stage("preparing")
    workload = catalog.workload(job.workload)
    case = msgspec.convert(job.case, workload.case_type)
    implementation = catalog.implementation(framework, job.workload)
    if implementation is None:
        raise Unsupported(f"{framework} has no implementation of {job.workload}")
    if job.variant not in implementation.variants:
        raise Unsupported(f"{framework} has no variant {job.variant!r} of {job.workload}")
    inputs, reference = load(Path(job.data))
    build = partial(implementation.variants[job.variant], device, case, inputs)
    step = rotation(build, workload.cost(case, job.variant).bytes) if job.throughput and job.cold else build()
    return Subject(workload, case, inputs, reference, step)


def _measure(job: Measure, subject: Subject, device: Device, stage: Callable[[str], None]) -> Measurement:
    workload, case, step = subject.workload, subject.case, subject.step
    work = (throughput if job.throughput else latency)(device, step)
    before = flush(device) if job.cold and not job.throughput else None
    empty = empty_call(device)
    sentinel = sentinel_step(device)
    sentinel_before = sentinel()

    stage("first call")
    first_call, cache, first = _first_call(device, step)
    stage("check")
    fetched = [first, *(_fetch(device, step()) for _ in range(workload.checked_calls - 1))]
    check = subject.check(fetched)

    stage("sampling")
    timing = measure(
        work,
        stopping.rules(job.budget),
        warmup=max(0.1, job.budget / 2),
        calls=_calls(job, subject, sum(array.nbytes for array in first.values())),
        least_span=THROUGHPUT_SPAN if job.throughput else LEAST_SPAN,
        before=before,
    )
    stage("second check")
    again = subject.check(_timed_outputs(work, before, subject, timing, device))
    sentinel_after = sentinel()
    del sentinel, before  # their arrays are not the cell's
    stage("memory")
    memory = None if job.memory == "none" else memory_of(device, lambda: device.wait(step()), shared=True)

    failed = next((result for result in (check, again) if not result.ok), None)
    cost = workload.cost(case, job.variant)
    return Measurement(
        status="wrong" if failed else "ok",
        reason=f"{failed.detail}{'' if failed is check else ' (on an output of the timed calls)'}" if failed else "",
        spans_ns=timing.spans,
        calls_per_sample=timing.calls,
        rejected=timing.rejected,
        first_call_ns=first_call,
        compile_cache=cache,
        empty_call_ns=empty,
        warmup_calls=timing.warmup_calls,
        warmup_settled=timing.warmup_settled,
        stop=timing.stop,
        max_error=_finite(max(check.error, again.error)),
        tolerance=check.tolerance,
        figures={name: value for name, value in (check.figures | again.figures).items() if math.isfinite(value)},
        flops=cost.flops,
        bytes=cost.bytes,
        sentinel_before_ns=sentinel_before,
        sentinel_after_ns=sentinel_after,
        memory=memory,
        facts=device.facts(),
    )


def _memory_only(subject: Subject, device: Device, stage: Callable[[str], None]) -> Measurement:
    """The peaks of one call in a process that has done nothing else, after a first one that compiles."""
    stage("first call")
    device.wait(subject.step())
    stage("memory")
    memory = memory_of(device, lambda: device.wait(subject.step()), shared=False)
    return Measurement(status="ok", memory=memory)


def _calls(job: Measure, subject: Subject, output_bytes: int) -> tuple[int, int]:
    """Bounds for the calls a sample. A trajectory is checked call by call; a flushed cache is cold for one call only."""
    if isinstance(subject.step, StatefulStep):
        calls = subject.workload.checked_calls if job.throughput else 1
        return calls, calls
    if job.throughput:  # a rotation too is longer than its round, since a sample goes on where the last one stopped
        return THROUGHPUT_CALLS, max(THROUGHPUT_CALLS, OUTPUT_LIMIT // max(output_bytes, 1))
    return 1, 1 if job.cold else 1 << 30


def _timed_outputs(
    work: Work, before: Callable[[], object] | None, subject: Subject, timing: Timing, device: Device
) -> list[dict[str, Array]]:
    """Outputs of further samples, taken as all others were and kept with them.

    A trajectory starts from a fresh state and is looked at after every call. Its samples are kept where all have one call, but for the
    first, in which a framework may compile for, or allocate, the state that is new.
    """
    stateful = isinstance(subject.step, StatefulStep)
    if isinstance(subject.step, StatefulStep):
        subject.step.reset()
    calls = 1 if stateful else timing.calls
    fetched: list[dict[str, Array]] = []
    for turn in range(subject.workload.checked_calls):
        if before is not None:
            before()
        begin = time.perf_counter_ns()
        outputs = work(calls)
        span = time.perf_counter_ns() - begin
        if calls == timing.calls and span > 0 and not (stateful and turn == 0):
            timing.spans.append(span)
        fetched.append(_fetch(device, outputs))
    return fetched


def _first_call(device: Device, step: Step) -> tuple[int, str, dict[str, Array]]:
    """(ns of the first call, what became of the compile cache, its outputs on the host)."""
    entries = _cache_entries()
    begin = time.perf_counter_ns()
    outputs = step()
    device.wait(outputs)
    span = time.perf_counter_ns() - begin
    now = _cache_entries()
    state = "filled" if now > entries else "unchanged" if now else "none"
    return span, state, _fetch(device, outputs)


def _cache_entries() -> int:
    folder = os.environ.get("METALBENCH_COMPILE_CACHE", "")
    return sum(len(files) for _, _, files in os.walk(folder)) if folder else 0


def _fetch(device: Device, outputs: Outputs) -> dict[str, Array]:
    """Host copies: a step may go on to change its outputs in place, and some adapters hand out views."""
    return {name: np.array(device.get(array)) for name, array in outputs.items()}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _words(error: Exception) -> str:
    """The framework's own words, on one line of bearable length."""
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text[:400]}{'…' if len(text) > 400 else ''}"
