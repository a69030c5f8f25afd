"""Joules a call, by stand-ins for the two packages: their counters are the chip's, which is not here."""

import sys
import time
from types import ModuleType, SimpleNamespace

import pytest

from metalbench.harness.energy import energy_of, meter

WATTS = 50


@pytest.fixture
def nvml(monkeypatch):
    """A board that draws ``WATTS`` all the time."""
    module = ModuleType("pynvml")
    module.asked = []
    module.nvmlInit = lambda: None
    module.nvmlDeviceGetHandleByIndex = lambda index: module.asked.append(index) or "handle"
    module.nvmlDeviceGetHandleByUUID = lambda name: module.asked.append(name) or "handle"
    module.nvmlDeviceGetTotalEnergyConsumption = lambda handle: round(time.perf_counter() * WATTS * 1e3)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return module


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr("metalbench.harness.energy.WINDOW", 0.2)


def busy(calls):
    until = time.perf_counter() + 0.002 * calls
    while time.perf_counter() < until:
        pass


@pytest.mark.usefixtures("nvml", "short")
def test_joules_a_call_are_power_times_time():
    found = energy_of(busy, 5, meter("cuda"))
    assert found.calls % 5 == 0
    assert found.joules_per_call == pytest.approx(WATTS * found.seconds / found.calls, rel=0.05)
    assert found.joules_per_call == pytest.approx(WATTS * 0.002, rel=0.5)
    assert "NVML" in found.source


@pytest.mark.parametrize(("visible", "asked"), [(None, 0), ("3,1", 3), ("GPU-8f2c", "GPU-8f2c")])
def test_the_board_that_is_measured_is_the_one_that_is_visible(nvml, monkeypatch, visible, asked):
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert meter("cuda") is not None
    assert nvml.asked == [asked]


@pytest.mark.usefixtures("short")
def test_a_macs_chip_is_counted_by_its_parts_and_a_missing_one_is_nothing(monkeypatch):
    module = ModuleType("zeus_apple_silicon")
    parts = SimpleNamespace(cpu_total_mj=1000, gpu_mj=2000, ane_mj=None, dram_mj=500, gpu_sram_mj=999)
    module.AppleEnergyMonitor = lambda: SimpleNamespace(begin_window=lambda name: None, end_window=lambda name: parts)
    monkeypatch.setitem(sys.modules, "zeus_apple_silicon", module)
    found = energy_of(busy, 1, meter("metal"))
    assert found.joules_per_call * found.calls == pytest.approx(3.5)


def test_no_meter_is_no_figure(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setitem(sys.modules, "zeus_apple_silicon", None)
    assert [meter(kind) for kind in ("", "cuda", "metal")] == [None] * 3
