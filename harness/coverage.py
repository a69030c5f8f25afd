"""What of metalbench this machine can exercise, and what it can't: told plainly, since much of it is about machines of other kinds."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from metalbench.harness import provisioning
from metalbench.harness.capability import Capability
from metalbench.harness.catalog import Catalog
from metalbench.harness.host import accelerators
from metalbench.harness.recipe import SYSTEMS
from metalbench.harness.recipes import Recipes

NEEDS = {"metal": "a Mac with Apple Silicon", "cuda": "an NVIDIA GPU"}
#: What is tried on samples, recorded texts and the real packages' symbols where the machine itself is missing.
INSTRUMENT = {
    "darwin": {
        "chip, GPU cores, GPU memory limit": "tried on samples of sysctl and ioreg",
        "power source, low-power mode, thermal pressure": "tried on samples of pmset",
        "Rosetta, Command Line Tools, virtual machine": "tried on samples of sysctl and xcode-select",
        "power assertion": "tried with a stand-in for caffeinate",
        "quality of service": "tried nowhere else: it is one call into the system",
        "samples across a sleep discarded": "tried on clocks that are given",
        "energy by IOReport": "tried with a stand-in for zeus-apple-silicon",
        "CPU fallback on MPS": "tried on the warnings of real releases",
        "CPU fallback on TensorFlow Metal": "tried on what TensorFlow places on the CPU",
    },
    "cuda": {
        "device events": "measured on an NVIDIA H200: docs/h200.md",
        "energy by NVML": "measured on an NVIDIA H200: docs/h200.md",
        "throttled clocks": "tried on samples of nvidia-smi",
    },
}


class Covered(NamedTuple):
    """``here`` says whether this machine exercises it; ``otherwise`` what stands for that elsewhere, or what is missing."""

    what: str
    here: bool
    otherwise: str = ""


def coverage(catalog: Catalog, recipes: Recipes, capabilities: Mapping[tuple[str, str], Capability]) -> Iterator[Covered]:
    """Backends, environments, and the machine as an instrument."""
    for (backend, _), found in capabilities.items():
        needed = catalog.device_kind(backend).accelerator
        absent = f"needs {NEEDS[needed]}" if needed not in accelerators() | {""} else found.reason
        yield Covered(f"backend {backend}", found.status == "ok", absent)
    for name, recipe in recipes.by_name.items():
        wanted = " or ".join(SYSTEMS.get(system, system) for system in recipe.systems)
        absent = "its lock is checked to resolve" if recipe.locks else "not made"
        yield Covered(f"environment {name}", provisioning.made(name) is not None, absent if recipe.fits() else f"for {wanted}; {absent}")
    for kind, parts in INSTRUMENT.items():
        here = sys.platform == kind or kind in accelerators()
        for what, otherwise in parts.items():
            yield Covered(what, here, otherwise)
