"""One launch of one cell inside a worker: build, check, warm up, sample, check again, then memory.

It is a generator that stops at its sampling, so that two workers can take their samples in turn.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Generator, Sequence

from metalbench.backends.base import Device, EventDevice, StatefulStep, Unsupported
from metalbench.harness import stopping
from metalbench.harness.catalog import Catalog
from metalbench.harness.energy import Meter, energy_of, meter
from metalbench.harness.measure import LEAST_SPAN, Sampler
from metalbench.harness.memory import memory_of
from metalbench.harness.protocol import Measure, Open
from metalbench.harness.sampling import empty_call, flush, latency, make_sentinel, throughput
from metalbench.harness.stopping import Rule
from metalbench.harness.subject import Subject, build, first_call, further_calls, timed_outputs
from metalbench.harness.wakefulness import asleep_ns
from metalbench.harness.witness import Witness
from metalbench.results.record import Measurement, Status
from metalbench.workloads.base import Check

THROUGHPUT_SPAN = 20_000_000  #: ns; long against the wait that closes it
THROUGHPUT_CALLS = 8
DEVICE_SPANS = 50  #: calls timed by events on the device
OUTPUT_LIMIT = 1 << 30  #: bytes of outputs that a throughput sample may hold at once


#: One launch of a cell, up to its sampling: yields the calls a sample, is sent the rules by which to sample, as often as wanted, then None.
Trial = Generator[int, Sequence[Rule] | None, Measurement]


def advance(trial: Trial, rules: Sequence[Rule] | None = None) -> int | Measurement:
    """What the trial yields next, or the measurement that it ends with. To begin it, send None."""
    try:
        return trial.send(rules)
    except StopIteration as end:
        found: Measurement = end.value
        return found


def run_trial(job: Measure, opened: Open, device: Device, catalog: Catalog, stage: Callable[[str], None]) -> Measurement:
    """Measure the cell from beginning to end."""
    trial = make_trial(job, opened, device, catalog, stage)
    for rules in (None, stopping.rules(job.budget), None):
        found = advance(trial, rules)
        if isinstance(found, Measurement):
            return found
    raise AssertionError("a trial that is sent None again ends")


def make_trial(job: Measure, opened: Open, device: Device, catalog: Catalog, stage: Callable[[str], None]) -> Trial:
    """A launch of the cell, not begun; whatever the framework raises becomes a status with its own words as the reason."""
    framework = catalog.frameworks[opened.framework]
    with Witness(catalog.frameworks.values()) as witness:
        try:
            stage("preparing")
            subject = build(job, framework.name, device, catalog)
            if job.memory == "only":
                return _memory_only(subject, device, stage)
            counted = meter(framework.devices[opened.kind].accelerator) if job.energy else None
            return (yield from _measure(job, subject, device, stage, witness, counted))
        except Unsupported as error:
            return Measurement(status="unsupported", reason=str(error), facts=device.facts())
        except MemoryError as error:
            return Measurement(status="oom", reason=f"the host has no memory left: {error}", facts=device.facts())
        except Exception as error:  # noqa: BLE001 - frameworks raise what they like; the run goes on
            return Measurement(status=device.diagnose(error), reason=_words(error), facts=device.facts())
        finally:
            gc.collect()  # compiled functions hold arrays in cycles
            device.release()


def _measure(
    job: Measure, subject: Subject, device: Device, stage: Callable[[str], None], witness: Witness, counted: Meter | None
) -> Trial:
    workload, case, step = subject.workload, subject.case, subject.step
    work = (throughput if job.throughput else latency)(device, step)
    before = flush(device) if job.cold and not job.throughput else None
    empty = empty_call(device)
    sentinel = make_sentinel(device)
    sentinel_before = sentinel.time()

    stage("first call")
    first_span, cache, first = first_call(device, step)
    stage("check")
    check = subject.check([first, *further_calls(subject, device, witness)])

    stage("warm-up")
    sampler = Sampler(work, before=before, asleep=asleep_ns)
    sampler.warm_up(
        max(0.1, job.budget / 2),
        calls=_calls(job, subject, sum(array.nbytes for array in first.values())),
        least_span=THROUGHPUT_SPAN if job.throughput else LEAST_SPAN,
    )
    timing, turns = sampler.timing, list[int]()
    while (rules := (yield timing.calls)) is not None:
        stage("sampling")
        if timing.spans:
            work(timing.calls)  # in the pause the caches were another's
        before_it = len(timing.spans)
        sampler.sample(rules)
        turns.append(len(timing.spans) - before_it)
    stage("second check")
    again = subject.check(timed_outputs(work, before, subject, timing, device))
    sentinel_after = sentinel.time()
    sentinel_size = sentinel.size
    device_spans = device.device_spans(step, DEVICE_SPANS) if isinstance(device, EventDevice) and before is None else []
    stage("energy")
    energy = energy_of(work, timing.calls, counted) if counted is not None and before is None else None
    del sentinel, before  # their arrays are not the cell's
    stage("memory")
    memory = None if job.memory == "none" else memory_of(device, lambda: device.wait(step()), shared=True)

    status, reason = _verdict(check, again, witness)
    figures = subject.figures(check, again)
    cost = workload.cost(case, job.variant)
    return Measurement(
        status=status,
        reason=reason,
        spans_ns=timing.spans,
        calls_per_sample=timing.calls,
        turns=turns if len(turns) > 1 else [],
        rejected=timing.rejected,
        slept=timing.slept,
        device_spans_ns=device_spans,
        first_call_ns=first_span,
        compile_cache=cache,
        empty_call_ns=empty,
        warmup_calls=timing.warmup_calls,
        warmup_settled=timing.warmup_settled,
        stop=timing.stop,
        max_error=_finite(max(check.error, again.error)),
        tolerance=check.tolerance,
        figures={name: value for name, value in figures.items() if math.isfinite(value)},
        flops=cost.flops,
        bytes=cost.bytes,
        amounts=cost.amounts,
        sentinel_size=sentinel_size,
        sentinel_before_ns=sentinel_before,
        sentinel_after_ns=sentinel_after,
        memory=memory,
        energy=energy,
        ran=subject.ran,
        facts=device.facts() | subject.facts,
    )


def _verdict(check: Check, again: Check, witness: Witness) -> tuple[Status, str]:
    """(status, reason). What was not done at all weighs more than a wrong answer, and that more than where it was computed."""
    seen = witness.verdict()
    if seen[0] == "failed" or (check.ok and again.ok):
        return seen
    return "wrong", check.detail if not check.ok else f"{again.detail} (on an output of the timed calls)"


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
        calls = subject.calls_checked if job.throughput else 1
        return calls, calls
    if job.calls:
        return job.calls, job.calls
    if job.throughput:  # a rotation too is longer than its round, since a sample goes on where the last one stopped
        return THROUGHPUT_CALLS, max(THROUGHPUT_CALLS, OUTPUT_LIMIT // max(output_bytes, 1))
    return 1, 1 if job.cold else 1 << 30


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _words(error: Exception) -> str:
    """The framework's own words, on one line of bearable length."""
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text[:400]}{'…' if len(text) > 400 else ''}"
