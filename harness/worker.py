"""The child's entry point: opens one device and answers jobs about it until the parent closes the pipe.

Started as ``python -m metalbench.harness.worker JOBS EVENTS``, two descriptors it inherited. It needs numpy, msgspec, psutil and its
framework, nothing else.
"""

from __future__ import annotations

import gc
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from metalbench.backends.base import Device, Unsupported
from metalbench.harness.catalog import Catalog
from metalbench.harness.protocol import (
    Begin,
    Describe,
    Described,
    Event,
    Finish,
    Job,
    Measure,
    Measured,
    Offer,
    Open,
    Opened,
    Ready,
    Refused,
    SelfCheck,
    Stage,
    Take,
    jobs,
    send,
)
from metalbench.harness.selfcheck import selfcheck
from metalbench.harness.stopping import Budget, Rule
from metalbench.harness.trial import Trial, advance, make_trial, run_trial
from metalbench.harness.wakefulness import user_initiated


def main() -> None:
    job_fd, event_fd = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(job_fd, False)
    os.set_inheritable(event_fd, False)
    inbox: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(job_fd, inbox), daemon=True).start()
    user_initiated()  # before the framework starts threads of its own
    opening = inbox.get()
    if not isinstance(opening, Open):
        return
    catalog = Catalog([Path(path) for path in opening.plugins])
    device = _open(opening, catalog)
    if isinstance(device, Refused):
        send(event_fd, device)
        return
    gc.collect()
    gc.freeze()  # a framework's hundred thousand objects are there to stay; without them a collection takes no time
    send(event_fd, Opened(device.facts()))
    desk = Desk(opening, device, catalog, lambda name: send(event_fd, Stage(name)))
    while (job := inbox.get()) is not None:
        send(event_fd, desk.answer(job))
    os._exit(0)  # the parent is done with this process: frameworks take their time to tear down, and some crash in it


def _listen(fd: int, inbox: queue.SimpleQueue[Job | None]) -> None:
    """Hand jobs over; when the pipe closes while one is in work, the parent is gone and nobody waits for the answer."""
    try:
        for job in jobs(fd):
            inbox.put(job)
    except msgspec.DecodeError:  # a parent of another version; without this thread the worker would wait for ever
        traceback.print_exc()
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # compilers and other helpers that the framework started go too
    os._exit(0)


def _open(job: Open, catalog: Catalog) -> Device | Refused:
    framework = catalog.frameworks[job.framework]
    try:
        return catalog.open_device(job.framework, job.kind)
    except Unsupported as error:
        return Refused("unavailable", str(error), "no device")
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] == framework.package.split(".")[0]:
            return Refused("unavailable", f"{framework.title} is not installed in {sys.prefix}", "not installed")
        return Refused("failed", f"{framework.title} does not import: {error}")
    except Exception as error:  # noqa: BLE001 - a broken installation may raise anything
        return Refused("failed", f"{framework.title} does not open its {job.kind} device: {type(error).__name__}: {error}")


class Desk:
    """Answers jobs about one open device. ``stage`` hears what is about to be done."""

    def __init__(self, opening: Open, device: Device, catalog: Catalog, stage: Callable[[str], None]) -> None:
        self._opening, self._device, self._catalog, self._stage = opening, device, catalog, stage
        self._trial: Trial | None = None  #: the one that was begun and is not finished

    def answer(self, job: Job) -> Event:
        match job:
            case Measure():
                return Measured(run_trial(job, self._opening, self._device, self._catalog, self._stage))
            case Begin(measure):
                self._trial = make_trial(measure, self._opening, self._device, self._catalog, self._stage)
                return self._advanced(None)
            case Take() | Finish():
                return self._advanced([Budget(job.seconds * 1e9, least=1)] if isinstance(job, Take) else None)
            case SelfCheck():
                return selfcheck(self._device)
            case Describe():
                return _describe(self._opening.framework, self._device, self._catalog)
            case Open():
                return Refused("failed", "a worker opens one device in its life")

    def _advanced(self, rules: Sequence[Rule] | None) -> Event:
        if self._trial is None:
            return Refused("failed", "nothing was begun")
        found = advance(self._trial, rules)
        if isinstance(found, int):
            return Ready(found)
        self._trial = None
        return Measured(found)


def _describe(framework: str, device: Device, catalog: Catalog) -> Described | Refused:
    """The offers of every workload, after a product on the device that NumPy agrees with."""
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    if not np.allclose(device.get(device.product(device.put(a), device.put(a.T))), a @ a.T):
        return Refused("failed", "a product of two small matrices is wrong on this device", "wrong answer")
    offers, absent = {}, {}
    for name in catalog.workload_files:
        try:
            implementation = catalog.implementation(framework, name)
        except Exception as error:  # noqa: BLE001 - an old release may lack what the module imports
            absent[name] = f"not with this release: {type(error).__name__}: {error}"
            continue
        if implementation is not None:
            offers[name] = Offer(list(implementation.variants), implementation.default)
    return Described(device.facts(), offers, absent)


if __name__ == "__main__":
    main()
