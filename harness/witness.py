"""What a framework warned of while a cell was measured: an operator that ran elsewhere, or something asked for that is not done.

Both pass for the work that was asked for unless somebody looks. The patterns are the frameworks', in their ``backend.toml``; all are
looked for, since one framework may run on another.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from types import TracebackType
from typing import Self, TextIO

from metalbench.backends.base import Framework
from metalbench.results.record import Status


class Witness:
    """Reads what is said: as a context Python's warnings, and by ``read`` what was printed."""

    def __init__(self, frameworks: Iterable[Framework]) -> None:
        known = list(frameworks)
        self._falls_back = [pattern for framework in known for pattern in framework.falls_back]
        self._gives_up = [pattern for framework in known for pattern in framework.gives_up]
        self._caught = warnings.catch_warnings()
        self._elsewhere: dict[str, None] = {}
        self._refusals: dict[str, None] = {}

    def note(self, operators: list[str]) -> None:
        """What a device itself found to have run elsewhere."""
        self._elsewhere |= dict.fromkeys(operators)

    def __enter__(self) -> Self:
        self._caught.__enter__()
        for pattern in [*self._falls_back, *self._gives_up]:
            warnings.filterwarnings("always", message=f"(?s).*{pattern}")  # else a second cell in the process would not be warned of
        self._show = warnings.showwarning
        warnings.showwarning = self._read
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._caught.__exit__(kind, error, trace)

    def _read(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        """In the place of ``warnings.showwarning``."""
        if not self.read(str(message)):
            self._show(message, category, filename, lineno, file, line)

    def read(self, message: str) -> bool:
        """Whether the text says one of the two; then it is kept."""
        text = " ".join(message.split())
        found = [match.group(1) for pattern in self._falls_back for match in re.finditer(pattern, text, re.IGNORECASE)]
        given_up = any(re.search(pattern, text, re.IGNORECASE) for pattern in self._gives_up)
        self.note(found)
        if given_up:
            self._refusals[text] = None
        return bool(found) or given_up

    def verdict(self) -> tuple[Status, str]:
        """The status that follows from what was seen, and the reason: what was not done at all weighs more than where."""
        if self._refusals:
            return "failed", f"the framework did not do what was asked: {'; '.join(self._refusals)}"
        if self._elsewhere:
            return "fallback", f"ran on the CPU instead: {', '.join(self._elsewhere)}"
        return "ok", ""
