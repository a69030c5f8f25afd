"""A cell's script against its record, measured in turn: prints the ratio of medians for each framework, fails beyond 5 %.

    python tests/benchmarks/repro.py [framework …]

Each round has a launch by ``bench run`` and a run of the script that ``bench repro`` made of the first of them, each in a process of its
own. The pairs' middle ratio counts: launches of one and the same program differ by more than that.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = [sys.executable, "-m", "metalbench.harness.cli.main"]
CELL = ["--workload", "attention", "--case", "queries=256", "--case", "dtype=float32"]
BACKENDS = {"torch": "torch-cpu", "jax": "jax-cpu", "mlx": "mlx-cpu", "tensorflow": "tf-cpu"}
ROUNDS = 11
BOUND = 0.05


def called(*arguments, folder):
    return subprocess.run([*arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


def recorded(backend, folder):
    """Median µs a call of one launch."""
    called(*BENCH, "run", *CELL, "--backend", backend, "--launches", "1", "--budget", "0.5", "--quiet", folder=folder)
    (cell,) = json.loads(called(*BENCH, "show", "--format", "json", folder=folder))["cells"]
    assert cell["status"] == "ok", cell["reason"]
    return cell["median_ns"] / 1e3


def printed(script, folder):
    """Median µs a call that the script finds, alone: it sees neither this package nor the user's variables for it."""
    out = called(sys.executable, "-I", str(script), folder=folder)
    return float(re.search(r"^median ([\d,.]+) µs a call", out, re.MULTILINE)[1].replace(",", ""))


def compare(framework):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ["BENCH_STORE"] = str(folder / "results.sqlite")
        script = folder / "repro.py"
        recorded(BACKENDS[framework], folder)
        called(*BENCH, "repro", "-o", str(script), folder=folder)
        assert "metalbench" not in script.read_text("utf-8")
        pairs = []
        for index in range(ROUNDS):  # whoever goes second in a round goes first in the next
            if index % 2:
                record = recorded(BACKENDS[framework], folder)
                pairs.append((printed(script, folder), record))
            else:
                pairs.append((printed(script, folder), recorded(BACKENDS[framework], folder)))
    ratio = statistics.median(script / record for script, record in pairs)
    scripts, records = (statistics.median(side) / 1e3 for side in zip(*pairs, strict=True))
    print(f"{framework:10}  script {scripts:.3f} ms  record {records:.3f} ms  ratio {ratio:.3f}", flush=True)
    return abs(ratio - 1) <= BOUND


if __name__ == "__main__":
    beyond = [name for name in sys.argv[1:] or BACKENDS if not compare(name)]
    sys.exit(bool(beyond))
