"""Reading what other tools wrote: JSON that isn't quite, numbers that may be missing, machines and cells that aren't ours."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from metalbench.results.formats.base import Recorded
from metalbench.results.record import Cell, Host, Measurement, Record, Run, Scalar

#: Python and C++ write NaN and Infinity, which JSON has not: they are read as missing.
_JSON = json.JSONDecoder(parse_constant=lambda _: None)
_LARGEST = 2**63 - 1  #: of a span in ns
_BETWEEN = " \t\r\n,[]"  #: what stands between the objects of an array, or of a file of lines


class Document(NamedTuple):
    """``head``: the wanted members beside the list; ``items``: (place, item) of the list, those that are whole; ``problems``: the rest."""

    head: dict[str, Any]
    items: list[tuple[str, dict[str, Any]]]
    problems: list[str]


def document(text: str, items: str, needed: set[str], wanted: Iterable[str]) -> Document:
    """A JSON document whose list ``items`` has objects with the ``needed`` members. A damaged one is picked over for whole ones."""
    begin = len(text) - len(text.lstrip())
    try:
        found, end = _parsed(text, begin)
    except (ValueError, RecursionError) as error:
        return _remains(text, items, needed, wanted, _complaint(text, begin, error))
    problems = []
    if rest := text[end:].lstrip():
        problems.append(f"line {_line(text, len(text) - len(rest))}: more text after the document, which is not read")
    if not isinstance(found, dict) or not isinstance(found.get(items), list):
        return Document({}, [], [*problems, f"{items} is not a list"])
    whole = []
    for index, item in enumerate(found[items]):
        if isinstance(item, dict) and needed <= item.keys():
            whole.append((f"{items}[{index}]", item))
        else:
            problems.append(f"{items}[{index}] is not an object with {' and '.join(sorted(needed))}")
    return Document({name: found.get(name) for name in wanted}, whole, problems)


def objects(text: str, needed: set[str], start: int = 0) -> tuple[list[tuple[str, dict[str, Any]]], list[str]]:
    """(place, object) of each whole JSON object with the ``needed`` members, in an array or one a line; sentences on what else is there."""
    whole: list[tuple[str, dict[str, Any]]] = []
    problems: dict[str, None] = {}
    at, line, sound = start, _line(text, start), True  # sound: not inside the remains of an object
    while (begin := text.find("{", at)) >= 0:
        if sound and text[at:begin].strip(_BETWEEN):
            problems[f"line {line}: something that is not a JSON object"] = None
        line += text.count("\n", at, begin)
        try:
            found, end = _parsed(text, begin)
        except (ValueError, RecursionError) as error:
            problems[_complaint(text, begin, error)] = None
            at, sound = begin + 1, False
            line += text.count("\n", begin, at)
            continue
        if needed <= found.keys():
            whole.append((f"line {line}", found))
            sound = True
        elif sound:
            problems[f"line {line}: an object without {' and '.join(sorted(needed - found.keys()))}"] = None
        line += text.count("\n", begin, end)
        at = end
    if sound and text[at:].strip(_BETWEEN):
        problems[f"line {line}: something that is not a JSON object"] = None
    return whole, list(problems)


def decoded(data: bytes) -> tuple[str, list[str]]:
    """The text, and a sentence on where it isn't UTF-8, if it isn't: there it has the replacement character."""
    try:
        return data.decode(), []
    except UnicodeDecodeError as error:
        return data.decode(errors="replace"), [f"byte {error.start}: not UTF-8; what can't be read is shown as �"]


def number(value: object) -> float | None:
    """A finite number, also one written as text with a decimal point; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        out = float(value)
    except (ValueError, OverflowError):
        return None
    return out if math.isfinite(out) else None


def spans(times_ns: Iterable[float | None], calls: int) -> list[int]:
    """Spans over so many calls, from times per call in ns; those that are missing or no time are left out."""
    positive = (time * calls for time in times_ns if time is not None and time > 0)
    return [round(span) for span in positive if 0.5 < span <= _LARGEST]


def moment(value: object) -> float | None:
    """Seconds since 1970 of an ISO 8601 time; one without an offset is taken for UTC."""
    try:
        time = datetime.fromisoformat(str(value))
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def mapping(value: object) -> dict[str, Any]:
    """The object that should be there; an empty one where something else is."""
    return value if isinstance(value, dict) else {}


def texts(values: Mapping[str, Any]) -> dict[str, str]:
    """The members that are plain values, as text."""
    return {name: str(value) for name, value in values.items() if isinstance(value, str | int | float)}


def foreign_cell(tool: str, case: dict[str, Scalar], backend: str = "") -> Cell:
    """A cell that the tool measured by its own protocol, so that it is never compared with ours."""
    return Cell(
        workload=tool.replace("-", "_"), version=1, case=case,
        backend=backend or tool, environment="imported", variant="default", protocol=tool, policy="unknown",
    )  # fmt: skip


def foreign_run(
    tool: str, data: bytes, machine: dict[str, str], found: Iterable[tuple[Cell, float, Measurement]], revision: str = ""
) -> Recorded:
    """A run from (cell, start in seconds since 1970, measurement); those of the same cell are its launches, in their order.

    The machine's key and the run's id are made from the contents, so that a file that is read again is the same run of the same machine.
    """
    launches: Counter[str] = Counter()
    records = []
    for cell, started, measurement in found:
        records.append(Record(cell=cell, launch=launches[cell.key()], started=started, measurement=measurement))
        launches[cell.key()] += 1
    key = f"foreign-{_digest(msgspec.json.encode(machine, order='deterministic'))}"
    run = Run(
        id=f"{tool}-{_digest(key.encode() + data)}",
        started=min((record.started for record in records), default=0.0),
        label="",
        host=Host(key=key, facts=machine),
        plan=msgspec.Raw(msgspec.json.encode({"cells": list({record.cell.key(): record.cell for record in records}.values())})),
        state="finished",
        revision=revision,
    )
    return run, records


def _remains(text: str, items: str, needed: set[str], wanted: Iterable[str], complaint: str) -> Document:
    head = {}
    for name in wanted:
        for member in re.finditer(rf'"{name}"\s*:\s*', text):
            try:
                head[name] = _parsed(text, member.end())[0]
                break
            except (ValueError, RecursionError):
                continue
    opening = re.search(rf'"{items}"\s*:\s*\[', text)
    whole = objects(text, needed, opening.end())[0] if opening else []
    return Document(head, whole, [f"{complaint}; of its {items}, {len(whole)} are whole"])


def _complaint(text: str, at: int, error: Exception) -> str:
    """Where the JSON that begins there breaks off, and how."""
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    return f"line {_line(text, at)}: {'nested too deeply' if isinstance(error, RecursionError) else error}"


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def _parsed(text: str, at: int) -> tuple[Any, int]:
    """The JSON value that begins there and where it ends. Raises ValueError or RecursionError."""
    found, end = _JSON.raw_decode(text, at)
    return _sound(found), end


def _sound(value: Any) -> Any:
    """With half characters, which JSON can escape and UTF-8 can't say, replaced."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_sound(name): _sound(each) for name, each in value.items()}
    return [_sound(each) for each in value] if isinstance(value, list) else value
