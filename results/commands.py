"""The command lines that repeat what a run holds. Pure: lists of arguments, which ``shlex.join`` makes a line for a shell.

A run may be anybody's, and a line is there to be pasted: nothing of a record becomes an option, or a place to install packages from.
"""

from __future__ import annotations

import re

import msgspec

from metalbench.results.record import OWN_KERNEL, Cell, Run, Scalar

CURRENT = "current"  #: the environment that a backend runs in where no other is named
PEAKLESS, PEAKED = "quick", "standard"  #: a suite in which ``roofline`` has no case, and the one next to it in which it has
UNASKED = "default"  #: stands for the variant of a backend that couldn't be asked which one it takes
#: names of environments by which they are made again: a recipe's, or requirements …
_NAME = re.compile(r"\w[^\s/:@-]*(?:[ -][^\s/:@-]+)*")
_HASHED = re.compile(r"(?:^| )[0-9a-f]{6}$")  #: … but for those whose packages came from places, which are told apart by a hash
_PATH = re.compile(r"/(?:(?!\s-|://).)*")


def repeated(run: Run, cell: Cell) -> list[str]:
    """``bench run`` for this cell alone, as it was measured; empty where the run doesn't say from which suite its cases are, or where.

    Empty too for a user's own kernel: it is to be given by its folder, which may hold another one by now.
    A parameter that ``--case`` can't express, one that is empty or holds a comma, is left out: then cells that differ in it alone are
    measured too.
    """
    options = _options(run)
    column = _column(options, cell)
    if not options.suite or not column or cell.variant.startswith(OWN_KERNEL):
        return []
    case = ",".join(f"{name}={text}" for name, value in cell.case.items() if (text := _text(value)))
    return [
        *("bench", "run", "--suite", options.suite, "--workload", cell.workload),
        *(("--case", case) if case else ()),
        *column,
        *(("--variant", cell.variant) if cell.variant != UNASKED else ()),
        *("--protocol", cell.protocol),
        *(("--launches", str(options.launches)) if options.launches else ()),
        *(("--budget", f"{options.budget:g}") if options.budget else ()),
        *(("--seed", str(options.data_seed)) if options.data_seed else ()),
    ]


def with_peaks(run: Run, cell: Cell) -> list[str]:
    """``bench run`` for the cell's workload together with the peaks of its column; empty as ``repeated`` is."""
    options = _options(run)
    column = _column(options, cell)
    if not options.suite or not column:
        return []
    suite = PEAKED if options.suite == PEAKLESS else options.suite
    return ["bench", "run", "--suite", suite, "--workload", f"{cell.workload},roofline", *column]


def script(run: Run, cell: Cell) -> list[str]:
    """``bench repro`` for the cell; empty where another tool measured it, and for a user's own kernel, which is not ours to cut out."""
    theirs = not _options(run).suite or run.id.startswith("-") or cell.variant.startswith(OWN_KERNEL)
    return [] if theirs else ["bench", "repro", run.id, "--cell", cell.key()]


class _Environment(msgspec.Struct, frozen=True):
    name: str = ""
    python: str = ""


class _Column(msgspec.Struct, frozen=True):
    backend: str = ""
    environment: _Environment = _Environment()


class _Options(msgspec.Struct, frozen=True):
    suite: str = ""
    launches: int = 0
    budget: float = 0.0
    data_seed: int = 0
    columns: list[_Column] = []


class _Planned(msgspec.Struct, frozen=True):
    """Of a plan, what a command names again."""

    options: _Options = _Options()


def _options(run: Run) -> _Options:
    return msgspec.json.decode(run.plan, type=_Planned).options


def _text(value: Scalar) -> str:
    """As ``--case`` reads it; empty where it can't."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "" if "," in text or text != text.strip() else text


def _column(options: _Options, cell: Cell) -> list[str]:
    """The backend, and its environment where that isn't the one taken by itself; empty where that has neither a name nor a path."""
    if cell.environment == CURRENT:
        return ["--backend", cell.backend]
    named = cell.environment.removeprefix(f"{cell.backend}:")
    if not _NAME.fullmatch(named) or _HASHED.search(named):
        known = {(column.backend, column.environment.name): column.environment.python for column in options.columns}
        named = known.get(cell.column, "")
        if not _PATH.fullmatch(named):
            return []
    return ["--backend", cell.backend, "--env", f"{cell.backend}:{named}"]
