"""Peak memory of one call, in a pass of its own: reading counters and sampling must not disturb the clock.

Three figures that are often confused: what the framework's allocator says was alive at the peak, what the allocator holds, and the
process's resident peak. Each is stored with its source, or None and why.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from metalbench.backends.base import Device
from metalbench.harness.footprint import NAME, footprint
from metalbench.results.record import Memory

SAMPLING_INTERVAL = 0.001  #: seconds


def memory_of(device: Device, call: Callable[[], object], *, shared: bool) -> Memory:
    """The peaks while ``call`` runs once and is waited for. ``shared``: this process measured other cells before."""
    device.reset_peak()
    with process_peak() as peak, sampled_peak(device) as sampled:
        call()
    on_device = device.memory()
    return Memory(
        device_peak=on_device.peak if on_device.peak is not None else sampled.bytes,
        device_source=on_device.source + (f"; {sampled.source}" if sampled.source else ""),
        allocator_held=on_device.held,
        process_peak=peak.bytes,
        process_source=peak.source,
        process_shared=shared,
    )


class Peak:
    bytes: int | None = None
    source: str = ""


@contextmanager
def process_peak() -> Iterator[Peak]:
    """The resident peak of this process inside the block: the kernel's own mark where it can be reset, else sampled."""
    peak = Peak()
    if _reset_high_water():
        yield peak
        peak.bytes = _high_water()
        peak.source = "VmHWM, reset before the call"
        return
    with _sampled(lambda: footprint(os.getpid()), peak):
        yield peak
    peak.source = f"{NAME}, sampled every {SAMPLING_INTERVAL * 1e3:g} ms"


@contextmanager
def sampled_peak(device: Device) -> Iterator[Peak]:
    """The most that was alive on a device which counts what is alive and no peak; nothing on others."""
    peak, counted = Peak(), device.memory()
    if counted.peak is not None or counted.live is None:
        yield peak
        return
    with _sampled(lambda: device.memory().live or 0, peak):
        yield peak
    peak.source = f"sampled every {SAMPLING_INTERVAL * 1e3:g} ms: a shorter peak may be missed"


@contextmanager
def _sampled(count: Callable[[], int], peak: Peak) -> Iterator[None]:
    """Keep the largest ``count`` of the block in ``peak``, its ends included."""
    done = threading.Event()
    peak.bytes = count()

    def sample() -> None:
        while not done.wait(SAMPLING_INTERVAL):
            peak.bytes = max(peak.bytes or 0, count())

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield
    finally:
        done.set()
        sampler.join()
    peak.bytes = max(peak.bytes or 0, count())


def _reset_high_water() -> bool:
    """Linux: writing 5 to clear_refs sets VmHWM back to the present resident set. Other systems have no such file."""
    try:
        Path("/proc/self/clear_refs").write_text("5", "ascii")
        return _high_water() is not None
    except OSError:
        return False


def _high_water() -> int | None:
    for line in Path("/proc/self/status").read_text("ascii", errors="replace").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None
