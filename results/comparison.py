"""Two runs side by side: which cells belong together, whether they may be compared at all, and a verdict on each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from metalbench.results import evidence, sequential
from metalbench.results.evidence import Pair
from metalbench.results.record import GRAVITY, Cell, Record, Run
from metalbench.results.summary import Summary, summarise
from metalbench.results.verdicts import THRESHOLD, Judgement, judge

#: what must agree between two cells, beside their being the same one, and how it is called
AGREEMENT = {"version": "version of the workload", "policy": "precision policy", "protocol": "protocol"}

MEMORY_VERDICTS = {"slower": "larger", "faster": "smaller", "same": "same", "unsure": "unsure"}


class IncomparableError(Exception):
    """The runs can't be compared as asked; the message is one sentence that says what differs and the remedy."""


class Change(NamedTuple):
    """A cell on both sides. ``time`` is None unless both gave right answers, ``memory`` unless both have a peak of one kind."""

    base: Summary
    candidate: Summary
    time: Judgement | None
    memory: Judgement | None
    memory_kind: str

    @property
    def status(self) -> str:
        """``ok → wrong`` where the status changed, the status where it is another than ok on both sides; else empty."""
        before, after = self.base.status, self.candidate.status
        return f"{before} → {after}" if before != after else "" if after == "ok" else after

    @property
    def worsened(self) -> bool:
        return GRAVITY.index(self.candidate.status) < GRAVITY.index(self.base.status)

    @property
    def versions(self) -> str:
        """What differs between the facts of both, such as ``torch 2.12.1 → 2.13.0``."""
        before, after = self.base.facts, self.candidate.facts
        names = [name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)]
        return ", ".join(f"{name} {before.get(name, 'none')} → {after.get(name, 'none')}" for name in names)

    @property
    def memory_verdict(self) -> str:
        """``larger``, ``smaller``, ``same`` or ``unsure``; empty where there is nothing to compare."""
        return MEMORY_VERDICTS[self.memory.verdict] if self.memory else ""

    def outcomes(self) -> frozenset[str]:
        """What ``--fail-on`` may name: the verdict on the time, larger or smaller memory, and a status that was not there before."""
        arrived = self.candidate.status if self.base.status != self.candidate.status else ""
        return frozenset({self.time.verdict if self.time else "", self.memory_verdict, arrived} - {"", "same", "unsure"})


class Comparison(NamedTuple):
    """``changes`` are the worst first. ``missing``: cells that were not measured on both sides, and where they were.

    ``in_turn``: whether the launches of one number were measured in turn. ``shifts``: column of the base → by how much, as a logarithm,
    the machine was another for the candidate; none where they were in turn.
    """

    base: Run
    candidate: Run
    changes: list[Change]
    missing: list[tuple[Cell, str]]
    threshold: float
    in_turn: bool
    shifts: Mapping[tuple[str, str], float]


def compare(
    base: tuple[Run, Sequence[Record]],
    candidate: tuple[Run, Sequence[Record]],
    *,
    wanted: Callable[[Cell], bool] = lambda _: True,
    threshold: float = THRESHOLD,
    across: bool = False,
) -> Comparison:
    """Every cell that ``wanted`` admits, judged together.

    Raises IncomparableError where the machine, a workload's version, the precision policy or the protocol differ, unless ``across`` them.
    """
    sides = [[summary for summary in summarise(run, records) if wanted(summary.cell)] for run, records in (base, candidate)]
    in_turn = base[0].beside == candidate[0].id and candidate[0].beside == base[0].id
    planned = [[cell for cell in run.cells() if wanted(cell)] for run, _ in (base, candidate)]
    pairs, missing = _in_one_place(planned, sides) if in_turn else _match(planned, sides)
    if not across:
        _agree(base[0], candidate[0], pairs, in_turn=in_turn)
    ranked = {place: (a, b) for place, (a, b) in enumerate(pairs) if a.ranked and b.ranked}
    if in_turn:
        shifts: dict[tuple[str, str], float] = {}
        together = {place: pair for place, pair in ranked.items() if evidence.comparable(pair)}
        times = sequential.verdicts(together, base[0].launches(), threshold=threshold, family=len(base[0].cells()))
    else:
        shifts = evidence.sentinel_shifts(list(ranked.values()))
        times = dict(zip(ranked, judge(evidence.of_runs(list(ranked.values()), shifts), threshold=threshold), strict=True))
    return Comparison(base[0], candidate[0], changes(pairs, times, threshold), missing, threshold, in_turn, shifts)


def changes(pairs: Sequence[Pair], times: Mapping[int, Judgement], threshold: float) -> list[Change]:
    """The worst first. ``times``: place in ``pairs`` → the verdict on its time; those on memory are made here."""
    peaks = {place: found for place, (a, b) in enumerate(pairs) if a.ranked and b.ranked and (found := evidence.of_peaks(a, b))}
    memory = dict(zip(peaks, judge([found for found, _ in peaks.values()], threshold=threshold), strict=True))
    kinds = {place: kind for place, (_, kind) in peaks.items()}
    return sorted((Change(a, b, times.get(n), memory.get(n), kinds.get(n, "")) for n, (a, b) in enumerate(pairs)), key=_badness)


def _badness(change: Change) -> tuple[int, int, float]:
    """Orders changes, the worst first: what broke, then by verdict on the time, memory and ratio."""
    if change.base.status != change.candidate.status:
        return (0 if change.worsened else 5, 0, 0.0)
    grew = change.memory_verdict == "larger"
    if change.time is None:
        return (2 if grew else 6, 0, 0.0)
    place = {"slower": 1, "unsure": 3, "same": 4, "faster": 5}[change.time.verdict]
    return (min(place, 2) if grew else place, 1, -change.time.ratio)


def _match(planned: Sequence[Sequence[Cell]], sides: Sequence[Sequence[Summary]]) -> tuple[list[Pair], list[tuple[Cell, str]]]:
    """Cells of both that are the same one; a backend that each side has in one environment is the same in both.

    And those that were planned and have no record on one side, or on either.
    """
    alone = [_single_environments(cells) for cells in planned]
    ours, theirs = ({_identity(summary.cell, single): summary for summary in side} for side, single in zip(sides, alone, strict=True))
    wanted = {_identity(cell, single): cell for cells, single in zip(planned, alone, strict=True) for cell in cells}
    pairs = [(ours[key], theirs[key]) for key in wanted if key in ours and key in theirs]
    return pairs, [(cell, _whose(key in ours, key in theirs)) for key, cell in wanted.items() if not (key in ours and key in theirs)]


def _whose(ours: bool, theirs: bool) -> str:
    return "base only" if ours else "candidate only" if theirs else "measured by neither"


def _in_one_place(planned: Sequence[Sequence[Cell]], sides: Sequence[Sequence[Summary]]) -> tuple[list[Pair], list[tuple[Cell, str]]]:
    """Cells at one place of both plans, which may be of two variants or environments."""
    if len(planned[0]) != len(planned[1]):
        raise IncomparableError("The two runs were measured in turn, but their plans have not as many cells; import them whole.")
    ours, theirs = ({summary.cell.key(): summary for summary in side} for side in sides)
    pairs, missing = [], []
    for one, other in zip(*planned, strict=True):
        before, after = ours.get(one.key()), theirs.get(other.key())
        if before is not None and after is not None:
            pairs.append((before, after))
        else:
            missing.append((one, _whose(before is not None, after is not None)))
    return pairs, missing


def _single_environments(cells: Sequence[Cell]) -> set[str]:
    """The backends that a run has in one environment only."""
    columns = {cell.column for cell in cells}
    backends = [backend for backend, _ in columns]
    return {backend for backend in backends if backends.count(backend) == 1}


def _identity(cell: Cell, single: set[str]) -> tuple[str, ...]:
    return cell.workload, cell.case_text(), cell.backend, "" if cell.backend in single else cell.environment, cell.variant


def _agree(base: Run, candidate: Run, pairs: Sequence[Pair], *, in_turn: bool) -> None:
    differences = []
    if not in_turn and (base.beside or candidate.beside):
        differences.append("how they were measured (by `bench ab` in turn with another, and alone)")
    if base.host.key != candidate.host.key:
        names = [run.host.facts.get("chip", run.host.key) for run in (base, candidate)]
        differences.append(f"the machine ({names[0]} and {names[1]})" if names[0] != names[1] else "the machine or its system's build")
    for field, name in AGREEMENT.items():
        values = {(str(getattr(a.cell, field)), str(getattr(b.cell, field))) for a, b in pairs}
        differences += [f"the {name} ({one} and {other})" for one, other in sorted(values) if one != other]
    if differences:
        raise IncomparableError(
            f"Runs {base.id} and {candidate.id} differ in {', '.join(differences)}, so that a ratio would not be the work's; "
            "give --across to have it nevertheless."
        )
