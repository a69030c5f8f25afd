"""How long the dashboard takes on a store of a million records of 30 samples. Fails beyond what it may take.

python tests/benchmarks/large_pages.py [FILE]      (made where it isn't there: 2 GB, some minutes)
"""

import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np
from large_store import BENCH, CELLS, LONG, RUNS, cell, fill

from metalbench.harness.host import host
from metalbench.results.dashboard.source import cell_path, history_path

RUN = f"run{RUNS + LONG - 1:05}"  #: the newest, of 500 cells
PAGES = {"first": ("index.html", 1.0), "cell": (cell_path(RUN, cell(7)), 0.5), "history": (history_path(host(), cell(7)), 2.0)}
SECONDS, MEGABYTES = 20.0, 15.0  #: of a static build of one run


def served(place):
    """Seconds for each page, the first time after the server's start and then the median of five; its name → both."""
    process = subprocess.Popen([BENCH, "dashboard", "--port", "0", "--no-open", "--store", place], stdout=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http://\S+/", process.stdout.readline()).group()
        return {name: [asked(address + path) for _ in range(6)] for name, (path, _) in PAGES.items()}
    finally:
        process.kill()
        process.communicate()


def asked(address):
    begin = time.perf_counter()
    with urllib.request.urlopen(address) as answer:
        answer.read()
    return time.perf_counter() - begin


def built(place, folder):
    """(seconds, megabytes) of the pages of one run; Vega's script is there already."""
    begin = time.perf_counter()
    subprocess.run([BENCH, "dashboard", "build", str(folder), "--run", RUN, "--store", place], check=True, capture_output=True)
    taken = time.perf_counter() - begin
    assert len(list((folder / "cell").rglob("*.html"))) == CELLS
    return taken, sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6


if __name__ == "__main__":
    scratch = Path(tempfile.mkdtemp())
    place = sys.argv[1] if len(sys.argv) > 1 else str(scratch / "large.sqlite")
    if not Path(place).exists():
        print(f"{fill(place)} records in {place}")
    good = True
    for name, (first, *others) in served(place).items():
        bound = PAGES[name][1]
        print(f"page {name:8} {first:.2f} s at first, then {np.median(others):.2f} s; at most {bound} s", flush=True)
        good &= first <= bound
    taken, size = built(place, scratch / "site")
    print(f"static build of {CELLS} cells {taken:.1f} s and {size:.1f} MB; at most {SECONDS:.0f} s and {MEGABYTES:.0f} MB")
    sys.exit(not (good and taken <= SECONDS and size <= MEGABYTES))
