"""Arrays carried between the host's memory and the device's: what unified memory is said to make needless.

A copy leaves the data in two places; what is shared is read by both sides where it stands. Whether that is so is found out, not believed:
of an array that went to the device, by a later write to the host's; of one that came to the host, by whether it comes as the same memory
again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from metalbench.workloads.base import Array, Arrays, Case, Check, Cost, Suite, Workload

PAGE = 1 << 14  #: bytes; Apple's, and a multiple of all others
STAMPS = 1 << 20  #: the stamps there are, all of them exact in float32

Direction = Literal["to_device", "to_host"]
Move = Callable[[Any], Any]  #: gives one side's array for the other's


class TransferCase(Case, frozen=True, kw_only=True):
    """x [size], float32."""

    direction: Direction
    size: int

    def label(self) -> str:
        size = 4 * self.size
        amount = f"{size / 2**20:g} MiB" if size >= 1 << 20 else f"{size / 2**10:g} KiB"
        return f"{amount} {self.direction.replace('_', ' ')}"


class Transfer(Workload[TransferCase]):
    """Outputs of a call: ``out`` [size], where it was to go, and ``stamp`` [1], what the first element of the source was in this call.

    Every element is compared, bit for bit: a transfer rounds nothing, and the tolerance is 0. The first is another one in every call, so
    that no framework can hand out what it brought before.
    """

    name = "transfer"
    version = 1
    case_type = TransferCase
    variants = {
        "copy": "the framework's ordinary way, after which the data are there twice",
        "share": "the framework's way that shares memory where it can; the figure `places` tells whether it did",
    }

    def cases(self, suite: Suite) -> Iterable[TransferCase]:
        """4 KiB to 256 MiB. None in ``quick``: where host and device are one CPU, little is learnt from it."""
        powers = {"quick": (), "documents": (22,), "standard": range(10, 27, 4), "large": range(10, 27, 4)}[suite]
        directions: tuple[Direction, ...] = ("to_device", "to_host")
        return [TransferCase(direction=direction, size=1 << power) for direction in directions for power in powers]

    def inputs(self, case: TransferCase, rng: np.random.Generator) -> dict[str, Array]:
        return {"x": rng.standard_normal(case.size, dtype=np.float32)}

    def reference(self, case: TransferCase, inputs: Arrays) -> dict[str, Array]:  # noqa: ARG002 - what arrives is what was sent
        return {}

    def calls_checked(self, case: TransferCase) -> int:  # noqa: ARG002 - for all the same
        return 2

    def cost(self, case: TransferCase, variant: str) -> Cost:
        """Bytes: those that change sides, once, as the speed of a transfer is customarily given; none where memory is shared."""
        size = 4 * case.size
        return Cost(flops=0, bytes=0 if variant == "share" else size, footprint=5 * size)

    def tolerance(self, case: TransferCase) -> float:  # noqa: ARG002 - it is the same for all
        return 0.0

    def check(self, case: TransferCase, inputs: Arrays, outputs: Sequence[Arrays], reference: Arrays) -> Check:  # noqa: ARG002 - see there
        """Error: the share of elements that are not the source's, the largest of all calls."""
        differing = max(_differing(stamped(inputs["x"], out["stamp"][0]), out["out"]) for out in outputs)
        detail = f"{differing:.2g} of the elements are not those that the source held at that call" if differing else ""
        return Check(ok=not differing, error=differing, tolerance=0.0, detail=detail)


class Sending:
    """A step of what goes to the device: ``move`` gives a device's array for the host's, which begins at a page, as any device wants it.

    ``device`` is the backend's. ``figures``: ``places``, 1 where the two arrays are one, 2 where it was copied.
    """

    ran = ""

    def __init__(self, device: Any, x: Array, move: Move) -> None:
        self._host, self._move = paged(x), move
        self._stamps, self._stamp = itertools.cycle(range(1, STAMPS)), np.zeros(1, np.float32)
        self.figures: Mapping[str, float] = {"places": self._places(device)}

    def _places(self, device: Any) -> float:
        sent = self._move(self._host)
        device.wait({"out": sent})
        kept = self._host[-1]
        self._host[-1] = kept + 1
        shown = device.get(sent)[-1] == kept + 1
        self._host[-1] = kept
        return 1.0 if shown else 2.0

    def __call__(self) -> dict[str, Any]:
        self._host[0] = self._stamp[0] = next(self._stamps)
        return {"out": self._move(self._host), "stamp": self._stamp}


class Receiving:
    """A step of what comes to the host: ``move`` gives a NumPy array for the device's. There are two of these, taken in turn.

    ``device`` and ``figures`` as in ``Sending``: there is one place where two readings of one array share memory, which is then its own.
    """

    ran = ""

    def __init__(self, device: Any, x: Array, move: Move) -> None:
        stamps = [np.full(1, stamp, np.float32) for stamp in (1, 2)]
        sources = [device.put(stamped(x, stamp[0])) for stamp in stamps]
        self._move, self._turn = move, itertools.cycle(zip(sources, stamps, strict=True))
        self.figures: Mapping[str, float] = {"places": 1.0 if np.shares_memory(move(sources[0]), move(sources[0])) else 2.0}

    def __call__(self) -> dict[str, Any]:
        source, stamp = next(self._turn)
        return {"out": self._move(source), "stamp": stamp}


def paged(x: Array) -> Array:
    """A copy that begins at a page of memory."""
    memory = np.empty(x.nbytes + PAGE, np.uint8)
    start = -memory.ctypes.data % PAGE
    copy: Array = memory[start : start + x.nbytes].view(x.dtype)
    copy[:] = x
    return copy


def stamped(x: Array, stamp: float) -> Array:
    """A copy with another first element."""
    copy = np.array(x)
    copy[0] = stamp
    return copy


def _differing(sent: Array, out: Array) -> float:
    """The share of elements that are not the same, bit for bit."""
    if out.shape != sent.shape or out.dtype != sent.dtype:
        return 1.0
    return float(np.mean(out.view(np.uint32) != sent.view(np.uint32)))


WORKLOAD = Transfer()
