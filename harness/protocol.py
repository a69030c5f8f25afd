"""What parent and worker say to each other: one JSON object a line, on two pipes of their own.

Standard output and error belong to the framework. The parent sends jobs, the worker answers each with events, the last of which is
never a ``Stage``. A worker whose job pipe closes ends itself and all it started.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal

import msgspec

from metalbench.results.record import OWN_KERNEL, Measurement, Scalar

MemoryPass = Literal["shared", "only", "none"]
#: Why a backend can't be used; none where it can.
Cause = Literal["", "not installed", "no device", "mismatch", "wrong answer", "crash", "no answer", "broken"]


class Open(msgspec.Struct, frozen=True, tag=True):
    """Import the framework and open its device; answered by ``Opened`` or ``Refused``. First job of every worker."""

    framework: str
    kind: str
    plugins: list[str] = []


class Describe(msgspec.Struct, frozen=True, tag=True):
    """Run a tiny product, check it, and say what can be done; answered by ``Described`` or ``Refused``."""


class SelfCheck(msgspec.Struct, frozen=True, tag=True):
    """Does the clock see the work? Answered by ``SelfChecked``."""


class OwnKernel(msgspec.Struct, frozen=True, kw_only=True):
    """A user's own kernel, one more variant of ``workload``. ``folder``: a copy of theirs; ``source``: a hash of what is in it."""

    name: str
    kernel: str  #: which of those in ``kernels/`` it is another one of
    workload: str
    folder: str
    source: str

    @property
    def variant(self) -> str:
        return f"{OWN_KERNEL}{self.name}"


class Measure(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Measure one cell; answered by ``Measured``. ``data`` is the folder of its inputs and reference."""

    workload: str
    case: dict[str, Scalar]
    variant: str
    data: str
    throughput: bool
    cold: bool
    budget: float  #: seconds of sampling
    memory: MemoryPass  #: ``only``: nothing is timed, the process is fresh
    energy: bool = False  #: count joules too, where the device has a meter
    calls: int = 0  #: a sample; chosen after the warm-up where it isn't given
    kernel: OwnKernel | None = None  #: which ``variant`` is, where it is a user's own


class Begin(msgspec.Struct, frozen=True, tag=True):
    """Do all of ``measure`` that comes before its sampling; answered by ``Ready``, or by ``Measured`` where it comes to nothing."""

    measure: Measure


class Take(msgspec.Struct, frozen=True, tag=True):
    """Sample what was begun for so many ``seconds``, after a call that is not timed; answered like ``Begin``."""

    seconds: float


class Finish(msgspec.Struct, frozen=True, tag=True):
    """Do what comes after the sampling; answered by ``Measured``, with the samples of every ``Take``."""


Job = Open | Describe | SelfCheck | Measure | Begin | Take | Finish


class Opened(msgspec.Struct, frozen=True, tag=True):
    facts: dict[str, str]


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The backend can't be used here. ``unavailable``: not installed or no device; ``failed``: it should have worked."""

    status: Literal["unavailable", "failed"]
    reason: str
    cause: Cause = "broken"


class Offer(msgspec.Struct, frozen=True):
    """The variants of one workload in a backend, and the one it takes by itself."""

    variants: list[str]
    default: str


class Described(msgspec.Struct, frozen=True, tag=True):
    """``absent``: workload → why this release of the framework has no way to do it."""

    facts: dict[str, str]
    offers: dict[str, Offer]
    absent: dict[str, str] = {}


class SelfChecked(msgspec.Struct, frozen=True, tag=True):
    """``doubling``: time of 2n chained products over that of n. ``closed``: time waited for over time until read on the host."""

    ok: bool
    doubling: float
    closed: float
    reason: str = ""


class Stage(msgspec.Struct, frozen=True, tag=True):
    """What the worker is about to do, so that a hang can be named."""

    name: str


class Ready(msgspec.Struct, frozen=True, tag=True):
    """``calls``: of which each sample will have so many."""

    calls: int


class Measured(msgspec.Struct, frozen=True, tag=True):
    measurement: Measurement


Event = Opened | Refused | Described | SelfChecked | Stage | Ready | Measured


def send(fd: int, message: Job | Event) -> None:
    """Write one line whole. OSError if the other side is gone."""
    data = memoryview(msgspec.json.encode(message) + b"\n")
    while data:
        data = data[os.write(fd, data) :]


def jobs(fd: int) -> Iterator[Job]:
    """The jobs as they come, until the parent closes the pipe or dies."""
    with os.fdopen(fd, "rb") as pipe:
        for line in pipe:
            yield msgspec.json.decode(line, type=Job)


def decode_event(line: bytes) -> Event:
    return msgspec.json.decode(line, type=Event)
