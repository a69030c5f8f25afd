"""A device that counts what is alive and no peak is sampled, and its figure says so."""

import os
import struct
import time

from metalbench.backends.base import DeviceMemory
from metalbench.harness.footprint import footprint, phys_footprint
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


def test_a_process_answers_for_what_it_holds():
    before = footprint(os.getpid())
    held = b"x" * (64 * MIB)
    assert footprint(os.getpid()) - before >= 0.9 * len(held)
    assert footprint(2**22 + 1) == 0  # there is no such process


def test_the_footprint_is_the_eighth_counter_after_the_uuid():
    """struct rusage_info_v0 of <sys/resource.h>."""
    names = ("user_time", "system_time", "pkg_idle_wkups", "interrupt_wkups", "pageins", "wired_size", "resident_size", "phys_footprint")
    counters = struct.pack("=16s10Q", b"\0" * 16, *range(10))
    assert phys_footprint(counters) == names.index("phys_footprint")
