"""What macOS says of itself: readings of its command output, each by a function of the text, so that they can be tested anywhere.

No command here needs a password. One that is missing, fails or hangs costs its facts, never the run.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import subprocess
from pathlib import Path

TIMEOUT = 5  #: s a command; each takes some 20 ms when all is well
PRESSURE_LEVELS = ("nominal", "moderate", "heavy", "trapping", "sleeping")  #: as powermetrics calls them
POWER_MODES = {"0": "automatic", "1": "low", "2": "high"}
LIMITS = {  #: what ``pmset -g therm`` calls them, and we
    "CPU_Speed_Limit": "cpu_speed_limit",
    "CPU_Scheduler_Limit": "cpu_scheduler_limit",
    "Thermal Warning Level": "thermal_warning",
}
FACTS = ("hw.model", "hw.memsize", "machdep.cpu.brand_string", "iogpu.wired_limit_mb", "debug.iogpu.wired_limit")


def hardware() -> dict[str, str]:
    """What stays the same until the next start: model, chip, memory, system, GPU cores, GPU memory limit; only what is known."""
    kernel = sysctl_values(_output("sysctl", "-i", *FACTS))
    memory = kernel.get("hw.memsize", "")
    known = {
        "model": kernel.get("hw.model"),
        "chip": kernel.get("machdep.cpu.brand_string"),
        "memory_gib": f"{int(memory) / 2**30:.0f}" if memory.isdigit() else None,
        "version": _output("sw_vers", "-productVersion").strip(),
        "build": _output("sw_vers", "-buildVersion").strip(),
        "gpu_cores": gpu_cores(_output("ioreg", "-r", "-d", "1", "-w", "0", "-c", "IOAccelerator")),
        "gpu_limit_mib": gpu_limit_mib(kernel),
    }
    return {name: value for name, value in known.items() if value}


def conditions() -> dict[str, str]:
    """What a measurement depends on and a user can change: power, heat, and how this Python runs; only what is known."""
    kernel = sysctl_values(_output("sysctl", "-i", "sysctl.proc_translated", "kern.hv_vmm_present"))
    battery, settings = _output("pmset", "-g", "batt"), _output("pmset", "-g")
    mode = power_mode(settings)
    known = {
        "power": power_source(battery),
        "battery": battery_level(battery),
        "low_power_mode": mode and ("on" if mode == "low" else "off"),
        "high_power_mode": "on" if mode == "high" else None,
        "thermal": thermal_state(),
        **thermal_limits(_output("pmset", "-g", "therm")),
        "rosetta": translated(kernel, platform.machine()),
        "command_line_tools": _command_line_tools(),
        "virtual_machine": {"0": "no", "1": "yes"}.get(kernel.get("kern.hv_vmm_present", "")),
    }
    return {name: value for name, value in known.items() if value}


def sysctl_values(text: str) -> dict[str, str]:
    """``sysctl -i name…``: the values by name. Unknown names are left out there, which ``-n`` would not let us see."""
    lines = (line.partition(": ") for line in text.splitlines())
    return {name: value.strip() for name, separator, value in lines if separator}


def gpu_cores(text: str) -> str | None:
    """``ioreg -c IOAccelerator``: the cores of Apple's GPU; other makers' drivers have no such entry."""
    if found := re.search(r'"gpu-core-count" = (?:(\d+)|<([0-9a-f]{8})>)', text):
        decimal, data = found.groups()
        return decimal or str(int.from_bytes(bytes.fromhex(data), "little"))
    return None


def gpu_limit_mib(kernel: dict[str, str]) -> str | None:
    """The memory that the GPU may wire, in MiB, where a user has set it; "default" where none has. macOS 13 counted it in bytes."""
    limit, in_bytes = kernel.get("iogpu.wired_limit_mb"), kernel.get("debug.iogpu.wired_limit")
    if limit is None and in_bytes is not None and in_bytes.isdigit():
        limit = str(int(in_bytes) >> 20)
    if limit is None or not limit.isdigit():
        return None
    return "default" if limit == "0" else limit


def power_source(text: str) -> str | None:
    """``pmset -g batt``: "mains", "battery" or "ups". A desktop says no more than that line."""
    found = re.search(r"drawing from '(AC|Battery|UPS) Power'", text)
    return {"AC": "mains", "Battery": "battery", "UPS": "ups"}[found[1]] if found else None


def battery_level(text: str) -> str | None:
    """``pmset -g batt``: how full the machine's own battery is; a UPS has a line of the same form."""
    found = re.search(r"-InternalBattery-\d.*?(\d+)%", text)
    return f"{found[1]} %" if found else None


def power_mode(text: str) -> str | None:
    """``pmset -g``: "low", "automatic" or "high". Some systems print ``powermode``, some ``lowpowermode``; low by either counts."""
    modes = [POWER_MODES.get(value) for value in re.findall(r"^\s*(?:low)?powermode\s+(\d)\s*$", text, re.MULTILINE)]
    return next((mode for mode in ("low", "high", "automatic") if mode in modes), None)


def thermal_limits(text: str) -> dict[str, str]:
    """``pmset -g therm``: the limits on the CPU in percent and the warning level, where they are recorded: hardly ever but on Intel.

    The absence of a record is no sign of a cool machine: Apple's chips leave none while they slow down.
    """
    known = {name: re.search(rf"{entry}\s*=\s*(\d+)", text) for entry, name in LIMITS.items()}
    return {name: f"{found[1]} %" if name.endswith("limit") else found[1] for name, found in known.items() if found}


def translated(kernel: dict[str, str], machine: str) -> str | None:
    """Whether this Python is an Intel build under Rosetta, by its own ``machine`` and what the kernel says of a child.

    The child alone would mislead: started below a translated shell, it is translated though this Python may not be.
    """
    answer = kernel.get("sysctl.proc_translated")
    return None if answer is None else "yes" if answer == "1" and machine == "x86_64" else "no"


def thermal_state() -> str | None:
    """The thermal pressure level that the kernel publishes now, one of ``PRESSURE_LEVELS``.

    Not ``NSProcessInfo.thermalState``: in a process without an event loop that keeps its first answer, and it calls heavy "fair".
    """
    token, level = ctypes.c_int(), ctypes.c_uint64()
    try:
        system = ctypes.CDLL(None)
        if system.notify_register_check(b"com.apple.system.thermalpressurelevel", ctypes.byref(token)) != 0:
            return None
        failure = system.notify_get_state(token, ctypes.byref(level))
        system.notify_cancel(token)
    except (OSError, AttributeError):
        return None
    return PRESSURE_LEVELS[level.value] if failure == 0 and level.value < len(PRESSURE_LEVELS) else None


def processes() -> dict[int, tuple[str, float]]:
    """Each process's name and its CPU seconds so far, to 10 ms. By ``ps``, which unlike psutil may look at those of other users."""
    return process_seconds(_output("ps", "-A", "-ww", "-o", "pid=,time=,comm="))


def process_seconds(text: str) -> dict[int, tuple[str, float]]:
    """``ps -o pid=,time=,comm=``: times are minutes:seconds.hundredths, however many minutes; names are paths and may hold spaces."""
    found: dict[int, tuple[str, float]] = {}
    for pid, minutes, seconds, path in re.findall(r"^\s*(\d+)\s+(\d+):([\d.]+)\s+(.+?)\s*$", text, re.MULTILINE):
        found[int(pid)] = (path.rpartition("/")[2], 60 * int(minutes) + float(seconds))
    return found


def _command_line_tools() -> str | None:
    """Either "installed" or "missing"; after an upgrade of macOS, ``xcode-select`` may name a folder that is gone."""
    answer = _run("xcode-select", "-p")
    if answer is None:
        return None
    return "installed" if answer.returncode == 0 and Path(answer.stdout.strip()).is_dir() else "missing"


def _output(*command: str) -> str:
    """What a command prints; empty where it failed."""
    answer = _run(*command)
    return answer.stdout if answer is not None and answer.returncode == 0 else ""


def _run(*command: str) -> subprocess.CompletedProcess[str] | None:
    """The command's end, in the C locale for its numbers; None where it couldn't be run or hung."""
    try:
        return subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            encoding="utf-8",
            errors="replace",
            timeout=TIMEOUT,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
