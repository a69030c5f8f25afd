"""Which machine is which: what tells one from another, and short names for those that stand side by side."""

from __future__ import annotations

import re
from collections.abc import Sequence

from metalbench.results.record import Host, Run

IDENTITY = ("chip", "gpu", "gpu_cores", "cores", "memory_gib", "accelerators", "system", "build")  #: what makes a machine another one

MEMBER = re.compile(r"(\d{8}-\d{6}-[0-9a-f]{4})-[0-9a-f]{12}")  #: the name that all runs of a fleet share, and a machine's key


def member_name(fleet: str, machine: str) -> str:
    """The id of the run that a machine makes as one of a fleet."""
    return f"{fleet}-{machine}"


def fleet_name(run: str) -> str:
    """What the runs made together on several machines are called; empty for the id of any other run."""
    found = MEMBER.fullmatch(run)
    return found[1] if found else ""


def same_machine(one: Host, other: Host) -> bool:
    """Whether two hosts are alike but for the system that runs on them: its update is a step in a machine's history, not another one."""
    names = [name for name in IDENTITY if name not in {"system", "build"}]
    if "chip" not in one.facts or "chip" not in other.facts:  # of another tool's file, which knows little of its machine
        return one.key == other.key
    return [one.facts.get(name) for name in names] == [other.facts.get(name) for name in names]


def described(host: Host) -> str:
    """``Apple M4 Pro, 14 cores, 48 GiB, Darwin 25.1.0``; the key where another tool measured, which knows little of its machine."""
    if "chip" not in host.facts:
        return host.key
    return "{}, {} cores, {} GiB, {}".format(*(host.facts.get(name, "?") for name in ("chip", "cores", "memory_gib", "system")))


def short_names(runs: Sequence[Run]) -> dict[str, str]:
    """Run id → its machine in a few words: the chip, and of memory, system, label and id what tells it from the others."""
    names = {run.id: run.host.facts.get("chip") or run.host.key for run in runs}
    for words in (_memory, _system, lambda run: run.label, lambda run: run.id):
        alike: dict[str, list[Run]] = {}
        for run in runs:
            alike.setdefault(names[run.id], []).append(run)
        for name, group in alike.items():
            if len({words(run) for run in group}) > 1:
                names |= {run.id: f"{name}, {words(run)}" if words(run) else name for run in group}
    return names


def _memory(run: Run) -> str:
    return f"{run.host.facts.get('memory_gib', '?')} GiB"


def _system(run: Run) -> str:
    return run.host.facts.get("system", "")
