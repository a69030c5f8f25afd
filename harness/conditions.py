"""What state the machine is in now, and what of it makes a measurement worth little."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from metalbench.harness import macos
from metalbench.harness.host import load

INTERVAL = 0.25  #: s over which other processes are watched
HEAVY = 0.2  #: of a core; a lighter process isn't named
NAMED = 3
BUSY = 0.5  #: of a core taken by the named processes together
CROWDED = 1.0  #: runnable processes per hardware thread over the last minute: many small ones; less may be work that has just ended

#: The bits by which NVIDIA's driver says that it holds the clocks below what was asked; idling and chosen clocks are other bits.
THROTTLES = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}

Processes = Mapping[int, tuple[str, float]]  #: by process id: name, CPU seconds so far


class Doubt(NamedTuple):
    """A reason to distrust a measurement made now, and what to do about it: a sentence each."""

    problem: str
    remedy: str


def conditions() -> dict[str, str]:
    """The machine's state now, by name; only what is known. Takes ``INTERVAL`` and the time of some small commands."""
    found = {"load": f"{load():.2f}"}  # first: what follows is work too
    processes = macos.processes if sys.platform == "darwin" else _processes
    before, start = processes(), time.monotonic()
    time.sleep(INTERVAL)
    after, seconds = processes(), time.monotonic() - start
    if busy := heaviest(before, after, seconds, _family()):
        found["busy_processes"] = ", ".join(f"{name} {100 * share:.0f} %" for name, share in busy)
    found |= macos.conditions() if sys.platform == "darwin" else _power()
    governors = set()
    for file in Path("/sys/devices/system/cpu").glob("cpu*/cpufreq/scaling_governor"):
        with suppress(OSError):  # a core may be off
            governors.add(file.read_text("ascii").strip())
    found |= {"governor": " ".join(sorted(governors))} if governors else {}
    return found | gpu_state(_nvidia_smi())


def doubts(conditions: Mapping[str, str]) -> list[Doubt]:
    """Where a measurement under these ``conditions`` would be worth little or nothing."""
    at = conditions.get
    found = []
    if at("power") in {"battery", "ups"}:
        found.append(Doubt("The machine runs on battery.", "Connect it to mains power."))
    if at("low_power_mode") == "on":
        found.append(Doubt("Low Power Mode is on, which slows the CPU and the GPU.", "Turn it off with `sudo pmset -a lowpowermode 0`."))
    if heat := _heat(conditions):
        found.append(Doubt(f"The machine slows itself down to cool: {heat}.", "Let it rest until it has cooled."))
    if busy := _busyness(conditions):
        found.append(Doubt(f"The machine is busy with other work: {busy}.", "Quit that work or wait for its end."))
    if at("governor") and "powersave" in conditions["governor"].split():
        found.append(Doubt("The powersave governor keeps the CPU's clock low.", "Run `sudo cpupower frequency-set -g performance`."))
    if at("gpu_throttle", "none") != "none":
        found.append(Doubt(f"The GPU's clock is held down: {conditions['gpu_throttle']}.", "Let the GPU cool, or raise its power limit."))
    if at("rosetta") == "yes":
        found.append(Doubt("This Python is an Intel build under Rosetta, which has no Metal.", "Install metalbench in an arm64 Python."))
    if at("command_line_tools") == "missing":
        problem = "The Command Line Tools are missing, whose compiler mx.compile and torch.compile need on the CPU."
        found.append(Doubt(problem, "Install them with `xcode-select --install`."))
    if at("virtual_machine") == "yes":
        found.append(Doubt("This macOS runs in a virtual machine, whose GPU is not the chip's own.", "Measure outside it."))
    return found


def heaviest(before: Processes, after: Processes, seconds: float, own: Collection[int]) -> list[tuple[str, float]]:
    """The names and cores' worth of the ``NAMED`` processes that took most CPU in between, ``HEAVY`` at least, but for our ``own``."""
    shares = [
        (name, (spent - before.get(pid, (name, 0.0))[1]) / seconds)  # one that is new has spent it all in between
        for pid, (name, spent) in after.items()
        if pid not in own
    ]
    return sorted((use for use in shares if use[1] >= HEAVY), key=lambda use: -use[1])[:NAMED]


def gpu_state(text: str) -> dict[str, str]:
    """``nvidia-smi``'s line a GPU of throttle bits, temperature and power: the latter two as "gpu", the bits in words or "none"."""
    figures, reasons, known = [], [], False
    for line in text.splitlines():
        bits, temperature, power = (*line.split(", "), "", "", "")[:3]
        if temperature.isdigit():
            figures.append(f"{temperature} °C {power}" if power.endswith("W") else f"{temperature} °C")
        if re.fullmatch(r"0x[0-9a-fA-F]+", bits):
            known = True
            reasons += [name for bit, name in THROTTLES.items() if int(bits, 16) & bit and name not in reasons]
    return ({"gpu": ", ".join(figures)} if figures else {}) | ({"gpu_throttle": ", ".join(reasons) or "none"} if known else {})


def _heat(conditions: Mapping[str, str]) -> str:
    signs = [f"thermal pressure is {conditions['thermal']}"] if conditions.get("thermal", "nominal") != "nominal" else []
    for name, calm in (("cpu_speed_limit", "100 %"), ("cpu_scheduler_limit", "100 %"), ("thermal_warning", "0")):
        if conditions.get(name, calm) != calm:
            signs.append(f"{name.replace('_', ' ').replace('cpu', 'CPU')} is {conditions[name]}")
    return ", ".join(signs)


def _busyness(conditions: Mapping[str, str]) -> str:
    processes = conditions.get("busy_processes", "")
    if sum(int(percent) for percent in re.findall(r"(\d+) %(?:,|$)", processes)) >= 100 * BUSY:
        return processes
    return f"the load is {conditions['load']} per hardware thread" if float(conditions.get("load", 0)) > CROWDED else ""


def _processes() -> Processes:
    infos = (process.info for process in psutil.process_iter(["pid", "name", "cpu_times"]))
    return {info["pid"]: (info["name"], info["cpu_times"].user + info["cpu_times"].system) for info in infos if info["cpu_times"]}


def _family() -> set[int]:
    """This process and its descendants."""
    return {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}


def _power() -> dict[str, str]:
    battery = psutil.sensors_battery()
    if battery is None or battery.power_plugged is None:
        return {}
    return {"power": "mains" if battery.power_plugged else "battery", "battery": f"{battery.percent:.0f} %"}


def _nvidia_smi() -> str:
    """Its answer by the old name of the throttle bits, which new drivers know too; empty where there is none."""
    query = ["nvidia-smi", "--query-gpu=clocks_throttle_reasons.active,temperature.gpu,power.draw", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout if answer.returncode == 0 else ""
