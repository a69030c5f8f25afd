"""What the pytest fixture ``metalbench`` gives a test: pytest-benchmark times the calls, we wait for the device and check the answers.

The calls go through ``benchmark(...)`` and not through its pedantic mode, which would choose the rounds itself: so every option of
pytest-benchmark means what its users know. A step with a state trains on from call to call, as in a worker.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from metalbench import __version__
from metalbench.backends.base import PRECISION_POLICY, Device, Unsupported
from metalbench.harness.catalog import Catalog, installed_plugins
from metalbench.harness.config import load_config
from metalbench.harness.environments import cache_folder
from metalbench.harness.errors import UsageError, unknown
from metalbench.harness.inputs import prepare
from metalbench.harness.measure import LEAST_WARMUP, Timing
from metalbench.harness.outputs import arrays, owners
from metalbench.harness.protocol import Measure
from metalbench.harness.recipe import CURRENT
from metalbench.harness.sampling import latency
from metalbench.harness.subject import build, first_call, further_calls, timed_outputs
from metalbench.harness.witness import Witness
from metalbench.results.record import Cell, Scalar
from metalbench.workloads.base import Case, Check, Suite, Workload

T = TypeVar("T")
SEED = 0  #: of the inputs; that of a run by default, so that both share the cache


class MetalbenchFixture:
    """Measures one workload or one function; like ``benchmark``, once a test. ``root``: where ``bench.toml`` is looked for, and above."""

    def __init__(self, benchmark: BenchmarkFixture, root: Path) -> None:
        self._benchmark, self._root = benchmark, root

    def __call__(self, workload: str, *, backend: str, case: Mapping[str, Scalar] | None = None, variant: str | None = None) -> None:
        """Measure a workload on a backend. Parameters that ``case`` leaves out are of the first case of ``quick``, or else of ``standard``.

        The test fails where an answer misses its tolerance, before the timing or after it, and is skipped where the backend or the
        variant is not to be had here. ``variant`` is the backend's own choice where it isn't given.
        """
        with self._told():
            catalog = _catalog(self._root)
            own = catalog.workload(workload)
            chosen = _case(own, case or {})
            if variant is not None and variant not in own.variants:
                raise unknown("variant", variant, own.variants)
            device = self._open(backend)
            try:
                self._measure(own, chosen, backend, variant, device)
            except Exception as error:
                if not isinstance(error, Unsupported) and device.diagnose(error) == "unsupported":
                    raise Unsupported(f"{type(error).__name__}: {error}") from error
                raise
            finally:
                gc.collect()  # compiled functions hold arrays in cycles
                device.release()

    def function(self, function: Callable[..., T], *arguments: object, backend: str | None = None) -> T:
        """Measure ``function(*arguments)`` and return its last outputs: device arrays, alone or in tuples, lists and mappings.

        The arrays say which backend to wait for, unless ``backend`` does. Its device is opened, which sets the framework to the common
        precision policy: before the first call where ``backend`` is given, else after it. Then the first call has no time of its own,
        since the device may have gone on working meanwhile.
        """
        benchmark = self._benchmark
        with self._told():
            device = self._open(backend) if backend is not None else None
            begin: int | None = time.perf_counter_ns()
            returned = function(*arguments) if benchmark.enabled else benchmark(function, *arguments)  # disabled, it is called once
            found = owners(returned, _catalog(self._root).frameworks.values())
            if device is None:
                begin, (backend, device) = None, self._open_first(found)
            elif backend not in found:
                raise UsageError(f"The function returned arrays of {found[0]}, not of {backend}; correct the function or `backend`.")
            device.wait(arrays(returned))
            first_span = None if begin is None else time.perf_counter_ns() - begin
            if benchmark.disabled:
                return returned
            single = not isinstance(returned, Mapping | list | tuple)

            def call() -> T:
                outputs = function(*arguments)
                device.wait({"out": outputs} if single else arrays(outputs))  # to take one array apart would cost a microsecond
                return outputs

            self._inform(backend=backend, protocol="latency", first_call_ns=first_span, facts=device.facts())
            return self._timed(call)

    def _measure(self, workload: Workload[Any], case: Case, backend: str, variant: str | None, device: Device) -> None:
        catalog = _catalog(self._root)
        framework, _ = catalog.backend(backend)
        implementation = catalog.implementation(framework.name, workload.name)
        taken = variant or (implementation.default if implementation else "")
        data = prepare(workload, case, SEED, catalog.workload_files[workload.name], cache_folder() / "inputs")
        cell = Cell(
            workload=workload.name,
            version=workload.version,
            case=case.parameters(),
            backend=backend,
            environment=CURRENT,
            variant=taken,
            protocol="latency",
            policy=PRECISION_POLICY,
        )
        job = Measure(
            workload=cell.workload, case=cell.case, variant=taken, data=str(data), throughput=False, cold=False, budget=0, memory="none"
        )
        with Witness(catalog.frameworks.values()) as witness:
            subject = build(job, framework.name, device, catalog)
            work = latency(device, subject.step)
            first_span, _, first = first_call(device, subject.step)
            check = _passed(cell, subject.check([first, *further_calls(subject, device, witness)]))
            self._benchmark.group = self._benchmark.group or f"{workload.name} {case.label()}"
            self._timed(lambda: work(1))
            again = _passed(cell, subject.check(timed_outputs(work, None, subject, Timing(), device)))
        status, reason = witness.verdict()
        if status == "failed":
            pytest.fail(f"{workload.name} on {backend}: {reason}", pytrace=False)
        cost = workload.cost(case, taken)
        self._inform(
            **msgspec.to_builtins(cell),
            status=status,
            reason=reason,
            first_call_ns=first_span,
            max_error=max(check.error, again.error),
            tolerance=check.tolerance,
            figures=subject.figures(check, again),
            flops=cost.flops,
            bytes=cost.bytes,
            amounts=cost.amounts,
            ran=subject.ran,
            facts=device.facts(),
        )

    def _timed(self, call: Callable[[], T]) -> T:
        """What pytest-benchmark makes of the call, once the device's clock has had its time to rise; disabled, one call."""
        end = time.perf_counter_ns() + LEAST_WARMUP
        while self._benchmark.enabled and time.perf_counter_ns() < end:
            call()
        result: T = self._benchmark(call)
        return result

    def _inform(self, **facts: object) -> None:
        self._benchmark.extra_info |= {"metalbench": __version__} | facts

    def _open(self, backend: str) -> Device:
        """The device, opened anew for every test: a framework has one at a time, and another test may have changed its settings."""
        catalog = _catalog(self._root)
        framework, kind = catalog.backend(backend)
        # Not the device's, which may shut out the framework's other devices, and no folders for compiled code: they outlive the session.
        os.environ.update({name: value for name, value in framework.variables.items() if "{cache}" not in value})
        try:
            return catalog.open_device(framework.name, kind)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.split(".")[0] != framework.package.split(".")[0]:
                raise
            raise Unsupported(f"{framework.title} is not installed in {sys.prefix}") from error

    def _open_first(self, backends: Sequence[str]) -> tuple[str, Device]:
        """The first of the backends that can be opened."""
        *others, last = backends
        for name in others:
            with suppress(Unsupported):
                return name, self._open(name)
        return last, self._open(last)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """A finding skips the test, a mistake fails it in one sentence, and the figures of a test that failed are not kept."""
        try:
            yield
        except Unsupported as error:
            pytest.skip(str(error))
        except BaseException as error:
            self._benchmark.has_error = True
            if isinstance(error, UsageError):
                raise pytest.fail.Exception(str(error), pytrace=False) from None
            raise


@cache
def _catalog(root: Path) -> Catalog:
    return Catalog([*installed_plugins(), *map(Path, load_config(root).plugins)])


def _case(workload: Workload[Any], given: Mapping[str, Scalar]) -> Case:
    suites: tuple[Suite, ...] = ("quick", "standard")  # the first has none of many a workload
    parameters = next(case for suite in suites for case in workload.cases(suite)).parameters()
    for name in given:
        if name not in parameters:
            raise unknown("case parameter", name, parameters)
    try:
        case: Case = msgspec.convert(parameters | dict(given), workload.case_type)
    except msgspec.ValidationError as error:
        raise UsageError(f"{workload.name} has no such case: {error}; correct `case`.") from error
    return case


def _passed(cell: Cell, check: Check) -> Check:
    if not check.ok:
        pytest.fail(f"{cell.workload} on {cell.backend} is wrong: {check.detail}", pytrace=False)
    return check
