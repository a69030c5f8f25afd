"""A cell as a script that needs nothing of this package: the same work in its framework, timed in the same way, for a bug report."""

from __future__ import annotations

import shlex
import textwrap

import msgspec

from metalbench.harness.catalog import Catalog
from metalbench.harness.recipes import Recipes
from metalbench.harness.repro import installation
from metalbench.harness.repro.cutout import standalone
from metalbench.harness.repro.imports import blocks
from metalbench.harness.repro.modules import Import
from metalbench.harness.repro.program import WIDTH, literal, program
from metalbench.harness.repro.subject import sources, subject
from metalbench.results.layout import full_name
from metalbench.results.machines import described
from metalbench.results.quantities import printable
from metalbench.results.record import Cell, Run
from metalbench.results.summary import Summary

PLACES = "PYTHONPATH"  #: names folders of the machine


def script(run: Run, summary: Summary, catalog: Catalog, recipes: Recipes, name: str) -> str:
    """The source of the script, which is to be called ``name``. UsageError where the cell's code isn't here or can't be cut out."""
    modules, (framework, _) = sources(catalog), catalog.backend(summary.cell.backend)
    this = subject(summary.cell, catalog, modules)
    recorded = _recorded(summary)
    imports, definitions, main = standalone(program(this, summary, recorded), modules)
    variables = _variables(run, summary.cell, catalog)
    standard, others = blocks(imports | ({Import("os", None, "os")} if variables else set()))
    head = _comment(
        f"{full_name(summary.cell, lambda _: this.case.label())} · {summary.cell.protocol}",
        recorded,
        f"on {described(run.host)}",
        *([f"with {', '.join(f'{fact} {value}' for fact, value in summary.facts.items())}"] if summary.facts else []),
        "",
        f"    {installation.command(framework, summary.cell, summary.facts, run.host, recipes)}",
        f"    {shlex.join(['python', name])}",
    )
    return "\n\n".join(filter(None, [head, standard, _setting(variables), others])) + f"\n\n\n{definitions}\n\n\n{main}"


def _recorded(summary: Summary) -> str:
    """What the record says of the cell, in one line."""
    words = []
    if summary.time is not None:
        low, high = min(summary.medians) / 1e3, max(summary.medians) / 1e3
        of = f", the median of {len(summary.medians)} launches ({low:,.2f} … {high:,.2f})" if len(summary.medians) > 1 else ""
        words.append(f"{summary.time.median / 1e3:,.2f} µs a call{of}")
    if summary.status != "ok":
        words.append(f"{summary.status}: {printable(summary.reason)}" if summary.reason else summary.status)
    return f"recorded {'; '.join(words)}"


def _comment(*lines: str) -> str:
    """Comment lines, indented ones as they are and others folded. A record's words are anybody's: none may leave its comment."""
    out = []
    for line in lines:
        words, indented = printable(line), line.startswith(" ")
        folded = [f"    {words}"] if indented else textwrap.wrap(words, WIDTH, break_long_words=False, break_on_hyphens=False)
        out += [f"# {part}" for part in folded] or ["#"]
    return "\n".join(out)


class _Environment(msgspec.Struct, frozen=True):
    name: str = ""
    variables: dict[str, str] = {}


class _Column(msgspec.Struct, frozen=True):
    backend: str = ""
    environment: _Environment = _Environment()


class _Options(msgspec.Struct, frozen=True):
    columns: list[_Column] = []


class _Planned(msgspec.Struct, frozen=True):
    """Of a plan, what its environments set."""

    options: _Options = _Options()


def _variables(run: Run, cell: Cell, catalog: Catalog) -> dict[str, str]:
    """What was set before the framework was imported: its own, the device's and the environment's, but for places on the machine."""
    framework, kind = catalog.backend(cell.backend)
    columns = msgspec.json.decode(run.plan, type=_Planned).options.columns
    own = next((column.environment.variables for column in columns if (column.backend, column.environment.name) == cell.column), {})
    declared = framework.variables | framework.devices[kind].variables | own
    return {name: value for name, value in declared.items() if name != PLACES and not value.startswith("{cache}")}


def _setting(variables: dict[str, str]) -> str:
    if not variables:
        return ""
    pairs = "".join(f"    {literal(name)}: {literal(value)},\n" for name, value in variables.items())
    return f"os.environ |= {{  # before the framework is imported\n{pairs}}}"
