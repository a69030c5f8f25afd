"""What is measured: a step, called and looked at. Everything here is outside the timed samples, but for those that a check keeps."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from metalbench.backends.base import Device, Factory, Outputs, StatefulStep, Step, TellingStep, Unsupported, WatchedDevice
from metalbench.harness.catalog import Catalog
from metalbench.harness.inputs import load
from metalbench.harness.measure import Timing
from metalbench.harness.protocol import Measure, OwnKernel
from metalbench.harness.sampling import Work, rotation
from metalbench.harness.wakefulness import LEAST_SLEEP, asleep_ns
from metalbench.harness.witness import Witness
from metalbench.kernels.binding import variant
from metalbench.workloads.base import Array, Case, Check, Workload


class Subject(NamedTuple):
    """What is measured: a step, and what its outputs are held against."""

    workload: Workload[Any]
    case: Case
    inputs: Mapping[str, Array]
    reference: Mapping[str, Array]
    step: Step
    kernel: OwnKernel | None = None

    @property
    def facts(self) -> dict[str, str]:
        """What is worth knowing of a user's own kernel: which of its versions this was."""
        return {"kernel": self.kernel.source} if self.kernel else {}

    @property
    def calls_checked(self) -> int:
        return self.workload.calls_checked(self.case)

    def check(self, outputs: list[dict[str, Array]]) -> Check:
        return self.workload.check(self.case, self.inputs, outputs, self.reference)

    @property
    def ran(self) -> str:
        """The kernel that the step says it runs, if it does."""
        return self.step.ran if isinstance(self.step, TellingStep) else ""

    def figures(self, *checks: Check) -> dict[str, float]:
        """What the step tells, and what the checks found."""
        figures = dict(self.step.figures) if isinstance(self.step, TellingStep) else {}
        for check in checks:
            figures |= check.figures
        return figures


def build(job: Measure, framework: str, device: Device, catalog: Catalog) -> Subject:
    """The step of a job, its inputs on the device. Raises Unsupported, or whatever the framework does."""
    workload = catalog.workload(job.workload)
    case = msgspec.convert(job.case, workload.case_type)
    factory = _factory(job, framework, catalog)
    inputs, reference = load(Path(job.data))
    one = partial(factory, device, case, inputs)
    step = rotation(one, workload.cost(case, job.variant).bytes) if job.throughput and job.cold else one()
    return Subject(workload, case, inputs, reference, step, job.kernel)


def _factory(job: Measure, framework: str, catalog: Catalog) -> Factory:
    if job.kernel is not None:
        return variant(job.kernel.kernel, framework, Path(job.kernel.folder))
    implementation = catalog.implementation(framework, job.workload)
    if implementation is None:
        raise Unsupported(f"{framework} has no implementation of {job.workload}")
    if job.variant not in implementation.variants:
        raise Unsupported(f"{framework} has no variant {job.variant!r} of {job.workload}")
    return implementation.variants[job.variant]


def first_call(device: Device, step: Step) -> tuple[int, str, dict[str, Array]]:
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


def further_calls(subject: Subject, device: Device, witness: Witness) -> list[dict[str, Array]]:
    """The outputs of the calls after the first that the check wants, one of them watched for operators that run elsewhere."""
    fetched: list[dict[str, Array]] = []
    wanted = subject.calls_checked - 1
    for turn in range(wanted if isinstance(subject.step, StatefulStep) else max(wanted, 1)):

        def call() -> None:
            outputs = subject.step()
            device.wait(outputs)
            fetched.append(_fetch(device, outputs))

        if turn == 0 and isinstance(device, WatchedDevice):
            witness.note(device.watch(call))
        else:
            call()
    return fetched[:wanted]


def timed_outputs(
    work: Work, before: Callable[[], object] | None, subject: Subject, timing: Timing, device: Device
) -> list[dict[str, Array]]:
    """Outputs of further samples, taken as all others were and kept with them.

    A trajectory starts from a fresh state and is looked at after every call; to read a whole state in between slows the call after it,
    so that these are no samples.
    """
    stateful = isinstance(subject.step, StatefulStep)
    if isinstance(subject.step, StatefulStep):
        subject.step.reset()
    fetched: list[dict[str, Array]] = []
    for _ in range(subject.calls_checked):
        if before is not None:
            before()
        asleep, begin = asleep_ns(), time.perf_counter_ns()
        outputs = work(1 if stateful else timing.calls)
        span = time.perf_counter_ns() - begin
        if not stateful and span > 0 and asleep_ns() - asleep <= LEAST_SLEEP:
            timing.spans.append(span)
        fetched.append(_fetch(device, outputs))
    return fetched
