"""Scripts of cells as ``bench repro`` writes them, and scripts run where this package can't be imported."""

import functools
import os
import subprocess
import sys

from support.records import make_run, timed

from metalbench.harness.recipes import Recipes
from metalbench.harness.repro.script import script
from metalbench.results.record import Cell
from metalbench.results.summary import Summary

ALONE = "import runpy, sys; sys.modules |= dict.fromkeys(('metalbench', 'msgspec')); runpy.run_path(sys.argv[1], run_name='__main__')"


@functools.cache
def recipes():
    return Recipes()


def cell_of(catalog, backend, workload, case, variant, protocol="latency"):
    own = catalog.workload(workload)
    fields = {"workload": workload, "version": own.version, "case": case.parameters(), "backend": backend, "environment": "current"}
    return Cell(**fields, variant=variant, protocol=protocol, policy="ieee-float32")


def script_of(catalog, cell, *, run=None, name="repro.py", **measured):
    """The cell's script; its samples take no longer than a test can wait."""
    summary = Summary([timed(cell, launch, [4e5, 4.1e5, 4.2e5], **measured) for launch in range(3)])
    text = script(run or make_run([cell]), summary, catalog, recipes(), name)
    assert text.count("SECONDS = 2.0") == 1
    return text.replace("SECONDS = 2.0", "SECONDS = 0.02")


def run_alone(text, folder):
    """In a process of its own that has the installed packages, but neither this one nor what only this one needs."""
    file = folder / "repro.py"
    file.write_text(text, "utf-8")
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-c", ALONE, str(file)], cwd=folder, env=settings, capture_output=True, text=True, timeout=120, check=False
    )
