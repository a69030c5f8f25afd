"""How long ``bench`` takes to answer, over the least it could: importing Typer and Rich. Fails beyond 2.5.

python tests/benchmarks/startup.py
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

BENCH = str(Path(sys.executable).with_name("bench"))
COMMANDS = {"bench --help": [BENCH, "--help"], "bench list workloads": [BENCH, "list", "workloads"]}
LEAST = [sys.executable, "-c", "import typer, rich"]
ROUNDS = 21
BOUND = 2.5


def seconds(command):
    begin = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - begin


if __name__ == "__main__":
    good = True
    for name, command in COMMANDS.items():
        pairs = [(seconds(command), seconds(LEAST)) for _ in range(ROUNDS)]
        ratio = statistics.median(ours / least for ours, least in pairs)
        print(f"{name:22}  {statistics.median(ours for ours, _ in pairs) * 1e3:.0f} ms  {ratio:.2f} × import typer, rich")
        good &= ratio <= BOUND
    sys.exit(not good)
