"""What the page of a cell says in names and values, most of which a table of many cells has no room for."""

from __future__ import annotations

from collections.abc import Sequence

from metalbench.results.quantities import Quantity, figure
from metalbench.results.record import Run
from metalbench.results.summary import DRIFT, Summary

Facts = list[tuple[str, str]]  #: names and what they are; a name without a value is left out


def sections(run: Run, summary: Summary, share: float | None) -> list[tuple[str, Facts]]:
    """Title and facts of each section that has any. ``share``: the fraction of the measured peak that the cell reaches."""
    found = (
        ("Work", _work(summary, share)),
        ("Answer", _answer(summary)),
        ("Memory", _memory(summary)),
        ("Energy", _energy(summary)),
        ("What ran", _ran(run, summary)),
        ("State of the machine", _conditions(summary)),
    )
    return [(title, known(facts)) for title, facts in found if known(facts)]


def known(facts: Facts) -> Facts:
    return [(name, value) for name, value in facts if value]


def doubts(summary: Summary) -> Facts:
    """What casts doubt on the time, with the mark that it has in tables."""
    return [
        ("~", f"The machine's speed changed by more than {100 * DRIFT:.0f} % across the cell." if summary.drifted else ""),
        ("!", "Less than an empty call takes: not to be believed." if summary.incredible else ""),
    ]


def _work(summary: Summary, share: float | None) -> Facts:
    seconds = summary.median / 1e9 if summary.median else None
    flops = Quantity(summary.flops / seconds if summary.flops and seconds else None, "flops")
    bandwidth = Quantity(summary.bytes / seconds if summary.bytes and seconds else None, "bandwidth")
    rates = [(unit, f"{Quantity((n / seconds, unit), 'rate')}, {n} a call") for unit, n in summary.amounts.items() if seconds]
    return [
        *rates,
        ("fraction of the measured peak", _percent(share) if share is not None else ""),
        ("arithmetic", f"{flops}, {summary.flops} operations a call" if summary.flops else ""),
        ("traffic", f"{bandwidth}, {Quantity(summary.bytes, 'bytes')} a call at the least" if summary.bytes else ""),
        ("between events on the device", f"{Quantity(summary.device_time, 'duration')}, median of a call" if summary.device_time else ""),
    ]


def _percent(share: float) -> str:
    """Two digits, however little it is."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def _answer(summary: Summary) -> Facts:
    error = f"{Quantity(summary.max_error, 'error')} of {Quantity(summary.tolerance, 'error')} that is tolerated, against float64"
    figures = [(name.replace("_", " "), str(figure(name, value))) for name, value in summary.figures.items()]
    return [("error", error if summary.tolerance is not None else ""), *figures]


def _memory(summary: Summary) -> Facts:
    memory = summary.memory
    if memory is None:
        return []
    shared = ["shared: the process had measured other cells before"] if memory.process_shared else []
    return [
        ("device, at the peak", _sourced(summary.device_peak, [memory.device_source])),
        ("held by the allocator", _sourced(memory.allocator_held, []) if memory.allocator_held is not None else ""),
        ("process, at the peak", _sourced(memory.process_peak, [memory.process_source, *shared])),
    ]


def _sourced(count: int | None, sources: Sequence[str]) -> str:
    source = "; ".join(filter(None, sources))
    return f"{Quantity(count, 'bytes')} ({source})" if source else str(Quantity(count, "bytes"))


def _energy(summary: Summary) -> Facts:
    energy = summary.energy
    if energy is None:
        return []
    return [
        ("a call", f"{Quantity(energy.joules_per_call, 'energy')}, with the machine's idle power"),
        ("counted by", f"{energy.source}, over {energy.calls} calls in {energy.seconds:.3g} s"),
    ]


def _ran(run: Run, summary: Summary) -> Facts:
    cell = summary.cell
    return [
        ("case", " ".join(f"{name}={value}" for name, value in cell.case.items())),
        ("variant", f"{cell.variant}, the backend's own choice" if summary.default else cell.variant),
        ("what the framework says that it ran", summary.ran),
        ("environment", cell.environment),
        *((name.replace("_", " "), value) for name, value in summary.facts.items()),
        ("precision policy", cell.policy),
        ("protocol", cell.protocol),
        ("version of the workload", str(cell.version)),
        ("git revision", run.revision),
    ]


def _conditions(summary: Summary) -> Facts:
    """Of what varied between launches, each value that it had."""
    seen: dict[str, dict[str, None]] = {}
    for name, value in (item for found in summary.measurements for item in found.conditions.items()):
        seen.setdefault(name, {})[value] = None
    return [(name.replace("_", " "), " / ".join(values)) for name, values in seen.items()]
