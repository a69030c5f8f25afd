"""Energy by the counters of the chip: joules a call, over a window long against the counters' own pace.

Needs a small package beside the framework, ``nvidia-ml-py`` or ``zeus-apple-silicon``; where it or the counter is missing there is no
figure.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Protocol

from metalbench.harness.wakefulness import LEAST_SLEEP, asleep_ns
from metalbench.results.record import Energy

WINDOW = 1.0  #: seconds at least; NVIDIA's counter moves every 20 to 100 ms


class Meter(Protocol):
    source: str

    def begin(self) -> None: ...

    def end(self) -> float:
        """Joules since ``begin``."""


class Nvml:
    """The whole board, as NVIDIA's driver counts it since it was loaded (nvmlDeviceGetTotalEnergyConsumption, mJ)."""

    source = "NVML, the whole GPU board, idle power included"

    def __init__(self) -> None:
        import pynvml  # noqa: PLC0415 - may not be there

        pynvml.nvmlInit()
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"
        by_index = visible.isdecimal()
        handle = pynvml.nvmlDeviceGetHandleByIndex(int(visible)) if by_index else pynvml.nvmlDeviceGetHandleByUUID(visible)
        self._count: Callable[[], float] = lambda: float(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle))
        self._start = self._count()

    def begin(self) -> None:
        self._start = self._count()

    def end(self) -> float:
        return (self._count() - self._start) / 1e3


class AppleSilicon:
    """The chip's CPU, GPU, neural engine and memory, as IOReport counts them (mJ)."""

    source = "IOReport, the chip's CPU, GPU, ANE and DRAM, idle power included"
    PARTS = ("cpu_total_mj", "gpu_mj", "ane_mj", "dram_mj")

    def __init__(self) -> None:
        from zeus_apple_silicon import AppleEnergyMonitor  # noqa: PLC0415 - may not be there

        self._monitor: Any = AppleEnergyMonitor()

    def begin(self) -> None:
        self._monitor.begin_window("calls")

    def end(self) -> float:
        found = self._monitor.end_window("calls")
        return float(sum(getattr(found, part, None) or 0 for part in self.PARTS)) / 1e3


METERS: dict[str, type[Nvml] | type[AppleSilicon]] = {"cuda": Nvml, "metal": AppleSilicon}


def meter(accelerator: str) -> Meter | None:
    """The meter for a device of this kind; None where there is none, or it doesn't count here."""
    if accelerator not in METERS:
        return None
    try:
        return METERS[accelerator]()
    except Exception:  # noqa: BLE001 - not installed, no driver, no permission, an old GPU: no figure
        return None


def energy_of(work: Callable[[int], object], calls: int, counted: Meter) -> Energy | None:
    """Repeat ``work`` of so many calls for ``WINDOW``. ``work`` returns when its calls are finished.

    None where the counter stood still, the machine was asleep meanwhile, or the meter fails.
    """
    done, asleep = 0, asleep_ns()
    try:
        counted.begin()
        start = time.perf_counter()
        while (seconds := time.perf_counter() - start) < WINDOW:
            work(calls)
            done += calls
        joules = counted.end()
    except Exception:  # noqa: BLE001 - what the cell has been measured at must not be lost to its meter
        return None
    if joules <= 0 or asleep_ns() - asleep > LEAST_SLEEP:
        return None
    return Energy(joules_per_call=joules / done, calls=done, seconds=seconds, source=counted.source)
