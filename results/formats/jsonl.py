"""metalbench JSON lines: a run a line, and after it each of its records a line. Raw and lossless: what is read is what was written.

A record's line names its run, so that no damage gives it to another one; a line that is damaged costs itself, and a run's its records.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from metalbench.results.formats.base import Reading, Recorded
from metalbench.results.record import Record, Run


class _RunLine(msgspec.Struct, frozen=True, tag_field="format", tag="metalbench-run/1"):
    run: Run


class _RecordLine(msgspec.Struct, frozen=True, tag_field="format", tag="metalbench-record/1"):
    of: str  #: the run's id
    record: Record


def write(runs: Iterable[Recorded]) -> Iterator[bytes]:
    """Line by line. Equal runs give equal bytes: records stand in the order of their start, then of their cell's key."""
    for run, records in runs:
        yield msgspec.json.encode(_RunLine(run)) + b"\n"
        for record in sorted(records, key=lambda record: (record.started, record.cell.key(), record.launch)):
            yield msgspec.json.encode(_RecordLine(run.id, record)) + b"\n"


def recognises(text: str) -> bool:
    return re.search(r'^\{"format":"metalbench-(run|record)/', text, re.MULTILINE) is not None


def read(data: bytes) -> Reading:
    """Runs in the order of their lines. A run that comes twice is one."""
    runs: dict[str, Recorded] = {}
    problems: list[str] = []
    astray: Counter[str] = Counter()
    for place, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            found = _decode(line)
        except (ValueError, OverflowError, OSError, RecursionError) as error:
            problems.append(f"line {place}: {error}")
            continue
        if isinstance(found, _RunLine):
            runs.setdefault(found.run.id, (found.run, []))
        elif found.of in runs:
            runs[found.of][1].append(found.record)
        else:
            astray[found.of] += 1
    problems += [f"{count} records are of the run {name!r}, whose own line is missing or damaged" for name, count in astray.items()]
    return Reading(list(runs.values()), problems)


def _decode(line: bytes) -> _RunLine | _RecordLine:
    """Raises what is caught above for what is no such line, or has what no store or calendar holds."""
    line.decode()  # the plan is kept as it is, and nobody else looks at its text
    found = msgspec.json.decode(line, type=_RunLine | _RecordLine)
    if isinstance(found, _RunLine):
        found.run.cells()
        datetime.fromtimestamp(found.run.started, UTC)
    elif not all(-(2**63) <= whole < 2**63 for whole in (found.record.launch, *found.record.measurement.spans_ns)):
        raise ValueError("a number beyond 64 bits")
    return found
