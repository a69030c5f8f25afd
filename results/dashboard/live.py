"""How the run that is being measured goes, as far as the store tells."""

from __future__ import annotations

import statistics
import time
from itertools import pairwise

import msgspec

from metalbench.results.dashboard.source import Source, run_path, slug
from metalbench.results.quantities import format_wait
from metalbench.results.record import RunState
from metalbench.results.tally import Tally

RECENT = 50  #: records whose pace tells how long the rest takes
PAUSE = 60.0  #: seconds between two records beyond which the run stood still, and was perhaps resumed
SILENCE = 600.0  #: seconds without a record after which whoever measured may be gone


class Progress(msgspec.Struct, frozen=True):
    """``done`` and ``total`` are launches of cells; ``left`` is in words, empty where it isn't known yet."""

    run: str  #: as it stands in paths
    path: str
    title: str
    state: RunState
    done: int
    total: int
    left: str
    silent: bool  #: whether no record has come for so long that the run may have died


def progress(source: Source) -> Progress | None:
    """Of the newest run; None where there is none. Raises StoreError."""
    newest = source.store.runs(limit=1)
    if not newest:
        return None
    run, summaries = source.measured(newest[0].id)
    tally = Tally(run.cells(), run.launches())
    records = sorted((record for summary in summaries for record in summary.records), key=lambda record: record.started)
    for record in records:
        tally.finished(record.cell.key(), record.launch, record.measurement.status)
    gaps = [min(after.started - before.started, PAUSE) for before, after in pairwise(records[-RECENT:])]
    pace = statistics.fmean(gaps) if len(gaps) >= 5 else None
    last = max((record.started for record in records), default=run.started)
    return Progress(
        run=slug(run.id),
        path=run_path(run.id),
        title=f"{run.id} “{run.label}”" if run.label else run.id,
        state=newest[0].state,
        done=tally.done,
        total=tally.total,
        left=format_wait(pace * tally.left) if pace is not None and tally.left else "",
        silent=newest[0].state == "running" and time.time() - last > SILENCE,
    )
