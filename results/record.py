"""What is stored: the cell, and what one launch measured of it. Raw; every derived figure is computed when it is read."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

import msgspec

Positive = Annotated[int, msgspec.Meta(gt=0)]
Scalar = str | int | float | bool
RunState = Literal["running", "finished", "interrupted"]
Status = Literal["ok", "wrong", "fallback", "unsupported", "unavailable", "failed", "crashed", "timeout", "oom"]
#: The statuses that say something went wrong with the measuring, not that the framework was found wanting.
BROKEN: frozenset[str] = frozenset({"failed", "crashed", "timeout", "oom"})
#: The status of a cell is the gravest of its launches'.
GRAVITY: tuple[Status, ...] = ("crashed", "oom", "timeout", "failed", "unavailable", "unsupported", "wrong", "fallback", "ok")
#: The statuses that carry a time.
TIMED: frozenset[str] = frozenset({"ok", "wrong", "fallback"})

OWN_KERNEL = "kernel:"  #: begins the variant that a user's own kernel is, before the name of its folder


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the table. With the machine these fields are the series key; versions are annotations, not part of it."""

    workload: str
    version: int
    case: dict[str, Scalar]
    backend: str
    environment: str
    variant: str
    protocol: str  #: "latency" or "throughput", with "-cold" where caches were defeated
    policy: str

    @property
    def column(self) -> tuple[str, str]:
        """Backend and environment: what a column of a table is."""
        return self.backend, self.environment

    @property
    def environment_name(self) -> str:
        """As it is shown beside the backend; nothing for those that are taken by themselves."""
        short = self.environment.removeprefix(f"{self.backend}:").removeprefix("python:")
        return "" if self.environment in {"current", self.backend} else short

    @property
    def column_name(self) -> str:
        """The backend, and its environment where that goes by another name than the one that is taken by itself."""
        return f"{self.backend} ({self.environment_name})" if self.environment_name else self.backend

    def case_text(self) -> str:
        """The case in one line, the same for equal cases whatever the order of their parameters."""
        return msgspec.json.encode(self.case, order="deterministic").decode()

    def key(self) -> str:
        """A stable name for the cell, the same in every run and store: a hash of all its fields."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()[:20]


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Peaks in bytes from a pass of their own, outside the timing. Each says where it comes from, or why it is None."""

    device_peak: int | None = None
    device_source: str = ""
    allocator_held: int | None = None
    process_peak: int | None = None
    process_source: str = ""
    process_shared: bool = False  #: True where the process had measured other cells before (suite ``quick``)


class Energy(msgspec.Struct, frozen=True, kw_only=True):
    """What calls took from the power supply, counted over a window in which the work was repeated; idle power is part of it."""

    joules_per_call: float
    calls: int
    seconds: float
    source: str


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker found out about a cell in one launch. Times in nanoseconds by the monotonic host clock."""

    status: Status
    reason: str = ""
    default_variant: bool = False  #: the backend's own choice for this workload
    spans_ns: list[Positive] = []  #: raw samples, each over ``calls_per_sample`` calls
    calls_per_sample: Positive = 1
    turns: list[Positive] = []  #: how many samples were taken at a time, where that was in turn with another cell's; the first so many
    rejected: int = 0  #: samples thrown away because the clock did not advance
    slept: int = 0  #: samples thrown away because the machine was asleep meanwhile
    device_spans_ns: list[float] = []  #: of single calls, by events on the device; empty where it has none that can be trusted
    first_call_ns: int | None = None
    compile_cache: str = ""  #: "filled" by the first call, "unchanged", or "none" where there is nothing in it
    empty_call_ns: float | None = None
    warmup_calls: int = 0
    warmup_settled: bool = False
    stop: str = ""  #: "precision", "noise" or "budget"
    max_error: float | None = None
    tolerance: float | None = None
    figures: dict[str, float] = {}
    flops: int | None = None
    bytes: int | None = None
    amounts: dict[str, int] = {}  #: what else a call gets through, by unit, such as tokens
    sentinel_size: int = 0  #: rows of the matrices that the sentinel multiplies; 0 where it isn't known
    sentinel_before_ns: int | None = None
    sentinel_after_ns: int | None = None
    memory: Memory | None = None
    energy: Energy | None = None
    ran: str = ""  #: what the framework says that it really ran, where an operator chooses among kernels
    conditions: dict[str, str] = {}  #: the machine's state before the worker started
    facts: dict[str, str] = {}
    log: str = ""

    def samples_ns(self) -> list[float]:
        """Time per call, one entry a sample."""
        return [span / self.calls_per_sample for span in self.spans_ns]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One launch of one cell in a run. ``started`` is seconds since 1970, UTC."""

    cell: Cell
    launch: int
    started: float
    measurement: Measurement


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """The machine, as far as comparisons depend on it. ``key`` names it in series: chip, cores, memory, system build."""

    key: str
    facts: dict[str, str]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Cells measured together on one host, with everything needed to repeat them. ``plan`` is the expanded plan as JSON.

    ``revision``: the commit of the git repository it was started in, with ``-dirty`` where that had uncommitted changes; else empty.
    """

    id: str
    started: float
    label: str
    host: Host
    plan: msgspec.Raw
    state: RunState = "running"
    revision: str = ""
    beside: str = ""  #: the run that was measured in turn with this one, launch by launch; empty for most

    def cells(self) -> list[Cell]:
        """The plan's cells, in its order."""
        return msgspec.json.decode(self.plan, type=_Planned).cells

    def launches(self) -> int:
        """How many launches of each cell were planned at most; 0 where the plan doesn't say."""
        return msgspec.json.decode(self.plan, type=_Asked).options.launches

    def suite(self) -> str:
        """The suite that its cells were chosen from; empty where the plan doesn't say."""
        return msgspec.json.decode(self.plan, type=_Asked).options.suite


class _Options(msgspec.Struct, frozen=True):
    launches: int = 0
    suite: str = ""


class _Planned(msgspec.Struct, frozen=True):
    """Of a plan, what a reader of results needs."""

    cells: list[Cell]


class _Asked(msgspec.Struct, frozen=True):
    """And, without reading every cell, what was asked for."""

    options: _Options = _Options()
