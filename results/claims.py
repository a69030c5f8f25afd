"""What the source documents claim, and whether it holds for what was measured. Pure.

``claims.toml`` has an entry a claim: two sides of one workload on one backend, the metric, and how large the documents say the ratio is.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

import msgspec

from metalbench.results.record import Cell, Scalar
from metalbench.results.summary import Summary

Verdict = Literal["holds", "does not hold", "can't tell here"]
CONFIDENCE = 0.95


class Side(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What tells one of the two cells from the other."""

    variant: str = ""  #: empty for the backend's own choice
    case: dict[str, Scalar] = {}


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``metric``: "time", "memory", or a figure of a cell. What is measured is the ratio of the metric of ``than`` to that of ``better``.

    It holds if the ratio is ``at_least`` or ``at_most`` so much, or ``within`` so much of 1 (0.05: 5 %). With ``over``, a parameter of
    which ``than`` has more, it is an exponent instead: the e of metric ~ parameter^e, log of the ratio of metrics over log of that of
    the parameters. ``case``: parameters of both sides; every parameter that a claim doesn't name is equal on both.
    """

    id: str
    source: str
    says: str
    workload: str
    case: dict[str, Scalar] = {}
    better: Side
    than: Side
    metric: str = "time"
    over: str = ""
    at_least: float | None = None
    at_most: float | None = None
    within: float | None = None

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the most with which it holds."""
        if self.within is not None:
            return 1 / (1 + self.within), 1 + self.within
        return -math.inf if self.at_least is None else self.at_least, math.inf if self.at_most is None else self.at_most


class Finding(NamedTuple):
    """A claim on a column of a run. ``measured`` None where a side is missing; no interval where the metric doesn't vary.

    ``reason`` says why nothing can be told, and is empty where something can.
    """

    claim: Claim
    column: str
    better: Summary | None
    than: Summary | None
    verdict: Verdict
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""

    @property
    def whole(self) -> bool:
        """Whether both sides are there; for a claim on memory, with peaks of nothing else."""
        sides = [side for side in (self.better, self.than) if side is not None]
        return len(sides) == 2 and (self.claim.metric != "memory" or not any(_only_shared(side) for side in sides))


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    claim: list[Claim]


@cache
def claims() -> list[Claim]:
    """All of them, in the order of the documents."""
    return read(files("metalbench.results").joinpath("claims.toml").read_text("utf-8"))


def read(text: str) -> list[Claim]:
    """Claims from TOML. Raises msgspec.ValidationError where that is none."""
    found = msgspec.convert(tomllib.loads(text), _File).claim
    for claim in found:
        if (claim.at_least, claim.at_most, claim.within).count(None) != 2:
            raise msgspec.ValidationError(f"claim {claim.id} needs one of at_least, at_most and within")
        if claim.over and not _size(claim.over, claim.better) < _size(claim.over, claim.than):
            raise msgspec.ValidationError(f"claim {claim.id} needs more {claim.over} in the case of `than` than in that of `better`")
    return found


def _size(name: str, side: Side) -> float:
    """Of a parameter by which something grows; NaN where it is none."""
    value = side.case.get(name)
    return float(value) if isinstance(value, int | float) and value > 0 else math.nan


def wanted(claim: Claim, cell: Cell, side: Side, *, default: bool) -> bool:
    """Whether a cell can be this side of the claim. ``default``: whether it is the backend's own choice of variant."""
    case = claim.case | side.case
    same = all(cell.case.get(name) == value for name, value in case.items())
    return cell.workload == claim.workload and same and (cell.variant == side.variant if side.variant else default)


def check(claims: Sequence[Claim], summaries: Sequence[Summary]) -> list[Finding]:
    """Every claim on every column, in this order; on several cases where the claim leaves some open and they were measured."""
    columns = list(dict.fromkeys(summary.column for summary in summaries))
    return [found for claim in claims for column in columns for found in _on(claim, column, [s for s in summaries if s.column == column])]


def _on(claim: Claim, column: str, summaries: Sequence[Summary]) -> list[Finding]:
    sides = [
        {_rest(claim, summary.cell): summary for summary in summaries if wanted(claim, summary.cell, side, default=summary.default)}
        for side in (claim.better, claim.than)
    ]
    cases = list(dict.fromkeys([*sides[0], *sides[1]]))
    return [_judged(claim, column, sides[0].get(case), sides[1].get(case)) for case in cases or [""]]


def _rest(claim: Claim, cell: Cell) -> str:
    """What both sides must have in common: the case without what tells them apart, and the protocol."""
    apart = {*claim.better.case, *claim.than.case}
    rest = {name: value for name, value in cell.case.items() if name not in apart}
    return msgspec.json.encode([rest, cell.protocol, cell.policy], order="deterministic").decode()


def _judged(claim: Claim, column: str, better: Summary | None, than: Summary | None) -> Finding:
    if better is None or than is None:
        sides = {"better": better, "than": than}
        missing = [_called(getattr(claim, name)) for name, summary in sides.items() if summary is None]
        return Finding(claim, column, better, than, "can't tell here", reason=f"not measured: {' and '.join(missing)}")
    for summary in (better, than):
        if summary.status not in {"ok", summary.cell.variant}:  # a fallback that is asked for is one
            why = f"{summary.cell.variant} is {summary.status}: {summary.reason}"
            return Finding(claim, column, better, than, "can't tell here", reason=why)
    measured = _measured(claim, better, than)
    if isinstance(measured, str):
        return Finding(claim, column, better, than, "can't tell here", reason=measured)
    value, low, high = measured
    verdict = _verdict(claim, value if low is None else low, value if high is None else high)
    reason = ""
    if verdict == "can't tell here":
        reason = "a single launch has no interval" if high == math.inf else "the interval holds both answers"
    elif claim.metric == "memory" and better.device_peak is None:
        verdict, reason = "can't tell here", "only the process's peak is known, and in it the framework's own memory and compiled programs"
    return Finding(claim, column, better, than, verdict, value, low, high, reason)


def _called(side: Side) -> str:
    return " ".join([*(f"{name}={value}" for name, value in side.case.items()), side.variant]).strip() or "the default variant"


Interval = tuple[float, float | None, float | None]  #: a value with its bounds, which are None where it doesn't vary


def _measured(claim: Claim, better: Summary, than: Summary) -> Interval | str:
    """The ratio or the exponent, or why there is none."""
    found = _times(better, than) if claim.metric == "time" else _others(claim.metric, better, than)
    if isinstance(found, str) or not claim.over:
        return found
    growth = math.log(_size(claim.over, claim.than) / _size(claim.over, claim.better))
    ratio, low, high = found
    return _log(ratio) / growth, None if low is None else _log(low) / growth, None if high is None else _log(high) / growth


def _log(ratio: float) -> float:
    return math.log(ratio) if ratio > 0 else -math.inf


def _times(better: Summary, than: Summary) -> Interval:
    from metalbench.results.contrast import unpaired  # noqa: PLC0415 - brings SciPy

    found = unpaired(better.medians, than.medians)
    ratio = math.exp(found.point)
    low, high = (math.exp(bound) if bound < 700 else math.inf for bound in found.interval(CONFIDENCE))
    return ratio, min(low, ratio), max(high, ratio)


def _others(metric: str, better: Summary, than: Summary) -> Interval | str:
    """Of what doesn't vary from launch to launch."""
    values = [_peak(summary) if metric == "memory" else summary.figures.get(metric) for summary in (better, than)]
    if values[0] is None or values[1] is None:
        return f"no {metric.replace('_', ' ')} is known"
    return (values[1] / values[0], None, None) if values[0] and values[1] else f"the {metric.replace('_', ' ')} is 0"


def _peak(summary: Summary) -> float | None:
    """Bytes on the device; else of the process, where it measured nothing else."""
    memory = summary.memory
    return summary.device_peak or (memory.process_peak if memory is not None and not memory.process_shared else None)


def _only_shared(summary: Summary) -> bool:
    """Whether all that is known of the memory is the peak of a process that measured other cells too."""
    return summary.device_peak is None and summary.memory is not None and summary.memory.process_shared


def _verdict(claim: Claim, low: float, high: float) -> Verdict:
    least, most = claim.bounds
    if least <= low and high <= most:
        return "holds"
    return "does not hold" if high < least or low > most else "can't tell here"
