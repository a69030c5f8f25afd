"""A device that counts what is alive and no peak is sampled, and its figure says so."""

import time

from metalbench.backends.base import DeviceMemory
from metalbench.harness.memory import memory_of

MIB = 1 << 20


class Counting:
    def __init__(self, peak):
        self.live, self.peak = 3 * MIB, peak

    def memory(self):
        return DeviceMemory(live=self.live, peak=self.peak, held=8 * MIB, source="its counters")

    def reset_peak(self):
        pass

    def call(self):
        self.live = 40 * MIB
        until = time.perf_counter() + 0.1  # a hundred times the sampler's interval
        while time.perf_counter() < until:
            time.sleep(0.001)
        self.live = 3 * MIB


def test_a_peak_is_sampled_where_there_is_no_counter():
    device = Counting(None)
    found = memory_of(device, device.call, shared=True)
    assert found.device_peak == 40 * MIB
    assert found.device_source.startswith("its counters; sampled every 1 ms")
    assert found.allocator_held == 8 * MIB


def test_a_counter_is_believed_where_there_is_one():
    device = Counting(55 * MIB)
    found = memory_of(device, device.call, shared=True)
    assert (found.device_peak, found.device_source) == (55 * MIB, "its counters")
