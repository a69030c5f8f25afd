"""What machine this is. The key names it in series; the rest is shown and recorded."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

import psutil

from metalbench.harness import macos
from metalbench.results.machines import IDENTITY
from metalbench.results.record import Host

DEFAULT_CACHE = 64 << 20  #: bytes; assumed where the system doesn't say


@cache
def host() -> Host:
    """This machine's facts, and the key under which its measurements are comparable: chip, cores, memory, system build."""
    facts = {
        "name": platform.node(),
        "system": f"{platform.system()} {platform.release()}",
        "build": platform.version(),
        "machine": platform.machine(),
        "chip": _chip(),
        "cores": str(psutil.cpu_count(logical=False) or os.cpu_count() or 0),
        "threads": str(os.cpu_count() or 0),
        "memory_gib": f"{psutil.virtual_memory().total / 2**30:.0f}",
        "accelerators": " ".join(sorted(accelerators())) or "none",
        "python": platform.python_version(),
        **(macos.hardware() if sys.platform == "darwin" else _gpu()),
    }
    identity = "|".join(facts[name] for name in IDENTITY if name in facts)
    return Host(key=hashlib.sha256(identity.encode()).hexdigest()[:12], facts=facts)


@cache
def accelerators() -> frozenset[str]:
    """Which of "metal" and "cuda" this machine has, found out without importing a framework."""
    found = set()
    if sys.platform == "darwin" and platform.machine() == "arm64":
        found.add("metal")
    if Path("/dev/nvidiactl").exists():
        found.add("cuda")
    return frozenset(found)


def boot_id() -> str:
    """Changes with every start of the machine, and with nothing else."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return _command("sysctl", "-n", "kern.bootsessionuuid") or f"boot {psutil.boot_time():.0f}"


@cache
def last_level_cache() -> int:
    """Bytes of the largest cache that the system reports; ``DEFAULT_CACHE`` where it reports none or less."""
    sizes = [DEFAULT_CACHE]
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text("ascii").strip()
        sizes.append(int(text.rstrip("KM")) << {"K": 10, "M": 20}.get(text[-1], 0))
    return max(sizes)


def load() -> float:
    """Runnable processes per hardware thread over the last minute; work that has just ended is still in it."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def _gpu() -> dict[str, str]:
    names = _command("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines()
    return {"gpu": ", ".join(name.strip() for name in names)} if names else {}


def _chip() -> str:
    """Where the system says it in a file; macOS says it otherwise."""
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _command(*arguments: str) -> str:
    """The output of a small system command; empty where there is none such."""
    try:
        answer = subprocess.run(arguments, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""  # nvidia-smi prints its errors where its answers go
