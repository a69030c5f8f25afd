"""Keeping the machine awake and this thread off the slow cores, and telling afterwards whether it slept all the same."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

QOS_CLASS_USER_INITIATED = 0x19  #: <sys/qos.h>: work that a user waits for
LEAST_SLEEP = 10_000_000  #: ns; a change of `asleep_ns` by more is a sleep, by less the jitter of its reading
LOOKS = 5
PATIENCE = 5  #: s for caffeinate to end


@contextmanager
def awake() -> Iterator[None]:
    """While the block runs, macOS lets neither the system nor the display nor the disks fall asleep; elsewhere nothing happens.

    A closed lid or a dying battery still put a Mac to sleep. Should this process be killed, caffeinate sees that and ends.
    """
    keeper = _caffeinate()
    try:
        yield
    finally:
        if keeper is not None:
            keeper.terminate()
            try:
                keeper.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                keeper.kill()
                keeper.wait()


def user_initiated() -> bool:
    """On macOS, give this thread the quality of service of work that a user waits for; says whether that was done.

    Threads of background quality may be kept on the efficiency cores. Only the calling thread changes, not those it starts.
    """
    if sys.platform == "darwin":
        with suppress(OSError, AttributeError):
            return bool(ctypes.CDLL(None).pthread_set_qos_class_self_np(QOS_CLASS_USER_INITIATED, 0) == 0)
    return False


def asleep_ns(read: Callable[[int], int] = time.clock_gettime_ns) -> int:
    """How long the machine has been asleep since it started, in ns; 0 where the system doesn't say.

    It is a clock that runs on in sleep less one that doesn't, read one after the other: the difference is too great by the time between,
    microseconds at worst unless the thread is interrupted on each of the looks, of which the smallest counts. Compare two results:
    only a change of more than ``LEAST_SLEEP`` is a sleep. Being stopped by a signal, or a hypervisor pausing the machine, is none.
    """
    if sys.platform == "darwin":
        # The raw clocks: CLOCK_MONOTONIC runs on in sleep here, unlike on Linux, and is adjusted besides.
        running, waking = time.CLOCK_MONOTONIC_RAW, time.CLOCK_UPTIME_RAW
    elif sys.platform == "linux":
        running, waking = time.CLOCK_BOOTTIME, time.CLOCK_MONOTONIC
    else:
        return 0
    return min(_difference(read, waking, running) for _ in range(LOOKS))


def _difference(read: Callable[[int], int], first: int, second: int) -> int:
    start = read(first)
    return read(second) - start


def _caffeinate() -> subprocess.Popen[bytes] | None:
    """Outside our process group, for Ctrl-C would end it before the cells that still finish; None where there is none."""
    if sys.platform == "darwin":
        command = ["caffeinate", "-dims", "-w", str(os.getpid())]
        with suppress(OSError):
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0
            )
    return None
