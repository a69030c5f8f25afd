"""What a user's function returned: the device arrays in it, and the backends that they may belong to."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping

from metalbench.backends.base import DeviceArray, Framework, Outputs
from metalbench.harness.errors import UsageError

PLAIN = (bool, int, float, complex, str, type(None))  #: may stand among the arrays, and is waited for by nobody


def arrays(returned: object) -> Outputs:
    """All that is not plain in nested tuples, lists and mappings, by its place."""
    return {str(place): array for place, array in enumerate(_leaves(returned))}


def owners(returned: object, frameworks: Iterable[Framework]) -> list[str]:
    """The backends whose device may have computed this, the likeliest first. UsageError where it is not of one framework."""
    found = list(_leaves(returned))
    if not found:
        raise UsageError("The function returned nothing to wait for; return the arrays that it computes.")
    framework = next((known for known in frameworks if all(_belongs(array, known) for array in found)), None)
    if framework is None:
        classes = " and ".join(sorted({f"{type(array).__module__}.{type(array).__qualname__}" for array in found}))
        raise UsageError(f"The function returned {classes}; return arrays of one framework, alone or in tuples, lists and mappings.")
    accelerators = ["metal" if sys.platform == "darwin" else "cuda"]
    devices = {str(getattr(array, "device", "")).lower() for array in found}
    if devices == {""}:  # MLX's arrays don't say
        accelerators.append("")
    elif all("cpu" in device for device in devices):
        accelerators = [""]
    return [f"{framework.prefix}-{kind}" for one in accelerators for kind, own in framework.devices.items() if own.accelerator == one]


def _leaves(returned: object) -> Iterator[DeviceArray]:
    if isinstance(returned, Mapping):
        returned = tuple(returned.values())
    if isinstance(returned, list | tuple):
        for part in returned:
            yield from _leaves(part)
    elif not isinstance(returned, PLAIN):
        yield returned


def _belongs(array: DeviceArray, framework: Framework) -> bool:
    """Whether the array's class, or one it derives from, is of the framework or of a distribution of its."""
    packages = {framework.package.partition(".")[0], *framework.distributions}
    return any(base.__module__.partition(".")[0] in packages for base in type(array).__mro__)
