"""The memory a process answers for: on macOS its physical footprint, in which compressed pages and a GPU's allocations count too."""

from __future__ import annotations

import ctypes
import struct
import sys

import psutil

NAME = "physical footprint" if sys.platform == "darwin" else "resident set"
RUSAGE_INFO_V0 = 0  #: <sys/resource.h>: a UUID of 16 bytes and ten counters of 8, the eighth of which is ri_phys_footprint
LAYOUT = struct.Struct("16x10Q")
PHYS_FOOTPRINT = 7


def footprint(pid: int) -> int:
    """Bytes now; 0 for a process that has ended or is not ours to ask."""
    if sys.platform == "darwin":
        counters = ctypes.create_string_buffer(LAYOUT.size)
        if ctypes.CDLL(None).proc_pid_rusage(pid, RUSAGE_INFO_V0, counters) == 0:
            return phys_footprint(counters.raw)
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def phys_footprint(counters: bytes) -> int:
    """Of what ``proc_pid_rusage`` fills in."""
    return int(LAYOUT.unpack(counters)[PHYS_FOOTPRINT])
