"""Quantities as people read them. A printer knows these kinds, not what was measured."""

from __future__ import annotations

from typing import Literal, NamedTuple

Hint = Literal["text", "duration", "estimate", "bytes", "ratio", "flops", "bandwidth", "rate", "error", "energy"]


class Quantity(NamedTuple):
    """A value and its kind: ``duration`` and ``estimate`` (point, low, high) in ns, ``flops``, ``bandwidth`` per second, ``energy`` J.

    A ``rate`` is (amount per second, its unit's plural).
    """

    value: object
    hint: Hint = "text"

    def __str__(self) -> str:  # noqa: C901, PLR0911 - one a kind
        match self.hint, self.value:
            case _, None:
                return "–"
            case "duration", float(value):
                return format_duration(value)
            case "estimate", (float(point), float() | None as low, float() | None as high):
                return _estimate(point, low, high)
            case "bytes", int(value) | float(value):
                return format_bytes(value)
            case "ratio", float(value):
                return f"{value:.2f}×" if value < 10 else f"{value:.0f}×"
            case "flops", float(value):
                return _scaled(value, (("TFLOP/s", 1e12), ("GFLOP/s", 1e9), ("MFLOP/s", 1e6)))
            case "bandwidth", float(value):
                return _scaled(value, (("GB/s", 1e9), ("MB/s", 1e6)))
            case "rate", (float(value), str(unit)):
                return f"{_digits(float(f'{value:.3g}'))} {printable(unit)}/s"
            case "energy", float(value):
                return _scaled(value, (("J", 1.0), ("mJ", 1e-3), ("µJ", 1e-6)))
            case "error", float(value):
                return f"{value:.1e}"
            case _, value:
                return printable(str(value))


def figure(name: str, value: float) -> Quantity:
    """A figure that a check or an adapter tells: bytes where its name ends so, else three digits."""
    return Quantity(value, "bytes") if name.endswith("bytes") else Quantity(f"{value:.3g}")


def format_duration(ns: float) -> str:
    """Three digits and the unit: ``4.21 ms``."""
    return _scaled(ns, _TIMES)


def format_wait(seconds: float) -> str:
    """Rough, for people who wait: ``40 s``, ``3 min``, ``1 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _estimate(point: float, low: float | None, high: float | None) -> str:
    """The point with its interval in the same unit: ``658 µs (450 … 1060)``."""
    if low is None or high is None:
        return format_duration(point)
    _, unit = _unit(point, _TIMES)
    return f"{format_duration(point)} ({_digits(low / unit)} … {_digits(high / unit)})"


def format_bytes(count: float) -> str:
    return _scaled(count, (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10), ("B", 1)))


def printable(text: str) -> str:
    """One line without control characters: labels and frameworks' messages are anybody's text."""
    return "".join(character if character.isprintable() else "�" for character in " ".join(text.split()))


_TIMES = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))


def _scaled(value: float, units: tuple[tuple[str, float], ...]) -> str:
    name, unit = _unit(value, units)
    return f"{_digits(value / unit)} {name}"


def _unit(value: float, units: tuple[tuple[str, float], ...]) -> tuple[str, float]:
    """The largest that the value reaches as it is printed: 999.7 of one unit are 1.00 of the next."""
    return next((pair for pair in units if value >= 0.9995 * pair[1]), units[-1])


def _digits(value: float) -> str:
    """Three significant digits, no exponent."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
