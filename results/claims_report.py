"""The documents' claims as they are shown: a row for each on each backend; as data for programs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from metalbench.results.claims import Claim, Finding
from metalbench.results.layout import Naming, Report, Table, text
from metalbench.results.machines import described
from metalbench.results.quantities import Quantity
from metalbench.results.record import Run
from metalbench.results.summary import Summary

FORMAT = "metalbench-claims/1"
LEGEND = (
    "Ratios are of what the claim compares over what it praises; an exponent says how the metric grows with a size. Times have their 95 % "
    "interval over launches; memory and figures don't vary. Holds: all of the interval is as the documents say. Does not hold: none of it."
)


def report(runs: Sequence[Run], findings: Sequence[Finding], naming: Naming) -> Report:
    counts = Counter(found.verdict for found in findings)
    facts = [("machine", described(run.host)) for run in runs[:1]]
    facts += [("run" if len(runs) == 1 else "runs", ", ".join(run.id for run in runs))] if runs else []
    facts += [("verdicts", ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()) or "none")]
    rows = [
        [
            text(f"{found.claim.id}: {found.claim.says}"),
            text(found.column),
            text(compared(found, naming)),
            text(promised(found.claim)),
            [[Quantity(measured(found))]],
            text(f"{found.verdict}: {found.reason}" if found.reason else found.verdict),
        ]
        for found in findings
    ]
    header = ["claim", "backend", "compared", "documents", "measured", "verdict"]
    return Report("What the documents claim", facts, LEGEND, [Table("Claims", header, rows)])


def compared(found: Finding, naming: Naming) -> str:
    """``fused with composed, 1×8×512×64 causal float32``."""
    sides = [_called(found.better, naming, found), _called(found.than, naming, found)]
    either = found.better or found.than
    same = naming(either.cell) if either and not _cases_differ(found.claim) else ""
    metric = "" if found.claim.metric == "time" else found.claim.metric.replace("_", " ")
    return ", ".join(filter(None, [" with ".join(sides), same, metric]))


def _called(side: Summary | None, naming: Naming, found: Finding) -> str:
    if side is None:
        return "what is missing"
    return f"{naming(side.cell)} {side.cell.variant}" if _cases_differ(found.claim) else side.cell.variant


def _cases_differ(claim: Claim) -> bool:
    return bool(claim.better.case or claim.than.case)


def promised(claim: Claim) -> str:
    """``at least 1.9×``, or ``at most tokens^2``."""
    if claim.within is not None:
        return f"within {claim.within:.0%}"
    least, most = claim.bounds
    return f"at least {_value(claim, least)}" if math.isfinite(least) else f"at most {_value(claim, most)}"


def measured(found: Finding) -> str:
    """``1.9× (1.8 … 2.1)``, or ``tokens^1.9 (1.8 … 2.1)``."""
    if found.measured is None:
        return "–"
    said = _value(found.claim, found.measured)
    if found.low is None or found.high is None or not math.isfinite(found.high) or found.high > 1e6:
        return said
    return f"{said} ({found.low:.3g} … {found.high:.3g})"


def _value(claim: Claim, value: float) -> str:
    return f"{claim.over}^{value:.3g}" if claim.over else f"{value:.3g}×"


def data(runs: Sequence[Run], findings: Sequence[Finding]) -> dict[str, Any]:
    """For JSON. What isn't known is null."""
    return {"format": FORMAT, "runs": [run.id for run in runs], "findings": [_finding(found) for found in findings]}


def _finding(found: Finding) -> dict[str, Any]:
    claim = found.claim
    known = found.high is not None and math.isfinite(found.high)
    return {
        "id": claim.id,
        "source": claim.source,
        "says": claim.says,
        "backend": found.column,
        "workload": claim.workload,
        "metric": claim.metric,
        "over": claim.over or None,
        "at_least": claim.at_least,
        "at_most": claim.at_most,
        "within": claim.within,
        "better": found.better.cell if found.better else None,
        "than": found.than.cell if found.than else None,
        "measured": found.measured,
        "low": found.low if known else None,
        "high": found.high if known else None,
        "verdict": found.verdict,
        "reason": found.reason or None,
    }
