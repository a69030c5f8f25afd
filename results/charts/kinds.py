"""The charts by name, and by what each is drawn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from metalbench.results.charts import distribution, heatmap, history, intervals, roofline, scaling, sequence
from metalbench.results.charts.figure import Figure
from metalbench.results.comparison import Comparison
from metalbench.results.history import History
from metalbench.results.layout import Naming
from metalbench.results.peaks import peaks
from metalbench.results.summary import Summary

OF_CELLS: Mapping[str, Callable[[Summary], Figure]] = {"distribution": distribution.figure, "sequence": sequence.figure}
#: from the cells that are wanted, what cases are called, and all cells of the run
OF_RUNS: Mapping[str, Callable[[Sequence[Summary], Naming, Sequence[Summary]], list[Figure]]] = {
    "scaling": lambda wanted, naming, _: scaling.figures(wanted, naming),
    "roofline": lambda wanted, naming, every: [roofline.figure(wanted, naming, peaks(every))],
    "heatmap": lambda wanted, naming, _: [heatmap.figure(wanted, naming)],
}
OF_SERIES: Mapping[str, Callable[[History, Naming], Figure]] = {"history": history.figure}
OF_PAIRS: Mapping[str, Callable[[Comparison, Naming], Figure]] = {"intervals": intervals.figure}
NAMES = (*OF_CELLS, *OF_RUNS, *OF_SERIES, *OF_PAIRS)
