"""What a backend is: a framework on a device, opened once in a worker, and the variants in which it can do each workload.

One folder a framework: ``backend.toml`` says what the parent must know without importing anything, ``device.py`` has
``open_device(kind)``, and each ``<workload>.py`` has ``VARIANTS`` and ``DEFAULT``. The grid of files is the support matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, NoReturn, Protocol, runtime_checkable

import msgspec

from metalbench.workloads.base import Array, Arrays, Case

DeviceArray = Any  #: a framework's own array; only its backend looks inside. NumPy's where the work ends on the host
Outputs = Mapping[str, DeviceArray]
Diagnosis = Literal["unsupported", "oom", "failed"]

PRECISION_POLICY = "ieee-float32"  #: float32 means IEEE float32: no TF32, no reduced-precision accumulation, on any backend


class DeviceKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One device a framework can drive. ``accelerator`` is what the machine must have: ``""`` for the CPU, ``metal`` or ``cuda``.

    ``variables`` are set before the framework is imported, over the framework's own. ``resets_peak``: its peak counter can be set back,
    so that a call's peak needs no process of its own.
    """

    accelerator: Literal["", "metal", "cuda"] = ""
    variables: dict[str, str] = {}
    resets_peak: bool = False


class Framework(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A framework's ``backend.toml``. A backend's id is ``<prefix>-<device>``.

    ``package`` is the module that must be importable, ``distributions`` those whose versions are recorded. In a variable's value
    ``{cache}`` stands for a folder of ours where compiled code may be kept.
    """

    name: str
    prefix: str
    title: str
    package: str
    distributions: list[str]
    install: str = ""  #: what to install to have it, as pip takes it
    builds: list[str] = []  #: the distributions that hold the package, of which an environment has one
    falls_back: list[str] = []  #: patterns of warnings that an operator ran elsewhere, which group 1 names
    gives_up: list[str] = []  #: patterns of warnings that what was asked for is not done
    variables: dict[str, str] = {}
    devices: dict[str, DeviceKind]


class DeviceMemory(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes on the device as the framework counts them: alive now, the peak since ``reset_peak``, and held by its allocator.

    None where it has no such counter; ``source`` names the counters, or says why there are none.
    """

    live: int | None = None
    peak: int | None = None
    held: int | None = None
    source: str


class Device(Protocol):
    """A live framework on a device. Worker only. Everything about synchronization and precision is decided here, once."""

    kind: str  #: as ``open_device`` was asked for it

    def put(self, array: Array, dtype: str | None = None) -> DeviceArray:
        """Copy to the device, converted to ``dtype`` ("float32", "bfloat16", …; None keeps NumPy's); complete on return."""

    def get(self, array: DeviceArray) -> Array:
        """Copy to the host; bfloat16 and float16 come back as float32, a NumPy array as it is."""

    def wait(self, outputs: Outputs) -> None:
        """Return when every output is computed and in memory, as a NumPy array is."""

    def product(self, a: DeviceArray, b: DeviceArray) -> DeviceArray:
        """The matrix product, as the framework does it by itself: the unit of work of the self-check and of the sentinel."""

    def memory(self) -> DeviceMemory: ...

    def reset_peak(self) -> None:
        """Start a new peak; nothing where there is no counter."""

    def release(self) -> None:
        """Give cached memory back, so that one cell does not burden the next."""

    def facts(self) -> dict[str, str]:
        """Versions, device name, threads, precision switches as they are in force."""

    def diagnose(self, error: Exception) -> Diagnosis:
        """What an exception of this framework means for a cell's status."""


class Step(Protocol):
    """One call of the work, inputs already on the device: ``step()`` returns its outputs, computed or merely promised."""

    def __call__(self) -> Outputs: ...


@runtime_checkable
class StatefulStep(Protocol):
    """A step that changes its own state, such as a training step. ``reset`` brings the initial state back, copied afresh."""

    def __call__(self) -> Outputs: ...

    def reset(self) -> None: ...


@runtime_checkable
class TellingStep(Protocol):
    """A step that says more than its outputs do. ``ran`` names the kernel that a fused operator chose for these inputs, or is empty.

    ``figures`` are numbers worth showing that only the adapter knows, such as the bytes that packed weights take as they are stored;
    they stand beside those of the check.
    """

    ran: str
    figures: Mapping[str, float]

    def __call__(self) -> Outputs: ...


class Told:
    """A pure function as a telling step."""

    def __init__(self, step: Callable[[], Outputs], ran: str = "", figures: Mapping[str, float] | None = None) -> None:
        self._step, self.ran, self.figures = step, ran, figures or {}

    def __call__(self) -> Outputs:
        return self._step()


@runtime_checkable
class EventDevice(Protocol):
    """A device that can time calls by itself, beside the host's clock."""

    def device_spans(self, call: Callable[[], object], count: int) -> list[float]:
        """ns of each of ``count`` calls between events on the device; none where such events can't be trusted."""


@runtime_checkable
class WatchedDevice(Protocol):
    """A device some of whose operators may run elsewhere instead, and that can tell which."""

    def watch(self, call: Callable[[], object]) -> list[str]:
        """Do the call, and name the operators that ran on another device."""


#: (device, case, inputs as NumPy arrays) → step. Puts the inputs on the device and repacks them as the framework wants.
Factory = Callable[[Any, Any, Arrays], Step]


class Implementation(NamedTuple):
    """How a framework does a workload: every variant by name, and the one that is its own choice."""

    variants: Mapping[str, Factory]
    default: str


class Unsupported(Exception):  # noqa: N818 - it is a finding, not an error
    """This framework, device or release can't do this; the message is the framework's own reason, or names the missing operator."""


def unsupported(reason: str) -> Factory:
    """A factory for a variant that the framework doesn't have at all, so that the table shows why instead of a gap."""

    def factory(device: Device, case: Case, inputs: Arrays) -> NoReturn:  # noqa: ARG001 - the contract's arguments
        raise Unsupported(reason)

    return factory
