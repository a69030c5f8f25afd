"""What a fleet gains and costs, with cells that sleep: four machines against one, and one against a run without a fleet.

python tests/benchmarks/fleet.py
"""

import os
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from support.fleets import MACHINE, Fleet

from metalbench.results.store import open_store

PAIRS = 3
MEASURE = ["--workload", "sleeper", "--launches", "1", "--store", "results.sqlite"]
LONG = ["--budget", "2", "--case", "milliseconds=3000"]  # long against the start of a worker, when "machines" share a processor
SHORT = ["--budget", "0.2", "--case", "milliseconds=100"]
HOME = "local"  #: the machine that measures without a fleet


def span(folder):
    """Seconds from when the newest run began to its last record, of all machines; and how many cells they measured."""
    with open_store(str(folder / "results.sqlite")) as store:
        runs = store.fleet("latest") or [store.run("latest")]
        ends = [record.started for run in runs for record in store.records(run.id)]
    return max(ends) - runs[0].started, len(ends)


def measured(fleet, *options, machine=None):
    if machine is None:
        result = fleet.bench("run", "--fleet", fleet.address, *MEASURE, *options, timeout=900)
        good = result.returncode == 0
        said = result.stdout + result.stderr
    else:
        fleet.start_local(machine, "run", *MEASURE, *options)
        good = fleet.processes.pop(machine).wait(900) == 0
        said = fleet.log(machine)
    assert good, said
    return span(fleet.folder)


class Bed(Fleet):
    def start_local(self, name, *arguments):
        home = self.folder / name
        home.mkdir(exist_ok=True)
        variables = {"XDG_DATA_HOME": str(home / "data"), "XDG_CACHE_HOME": str(home)}
        self.start(name, [str(MACHINE), name, *arguments], variables)


def gain(bed):
    """How many times as fast four machines are."""
    (one, cells), (four, _) = (measured(bed, *LONG, "--any-machine", "--machine", pattern) for pattern in ("m1", "*"))
    print(f"{cells} cells: one machine {one:.1f} s, four {four:.1f} s, {one / four:.2f} times as fast", flush=True)
    return one / four


def cost(bed):
    """Milliseconds that a cell takes more on a machine of a fleet than by ``bench run`` there."""
    (there, cells), (here, _) = measured(bed, *SHORT, "--machine", "m1"), measured(bed, *SHORT, machine=HOME)
    each = (there - here) / cells * 1e3
    print(f"{cells} cells: one of a fleet {there:.2f} s, by itself {here:.2f} s, {each:.0f} ms a cell more", flush=True)
    return each


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"XDG_DATA_HOME": f"{folder}/data", "XDG_CACHE_HOME": f"{folder}/cache", "METALBENCH_TEST": folder}
        bed = Bed(Path(folder))
        bed.bench.configure('backends = ["numpy-cpu"]', plugins=["faulty.py", "sleeper.py"])
        try:
            bed.start_scheduler()
            names = ["m1", "m2", "m3", "m4"]
            for name in names:
                bed.start_machine(name)
            bed.joined(*names)
            for machine in (None, HOME):  # probes and inputs are kept from here on
                measured(bed, *SHORT, machine=machine)
            gains = [gain(bed) for _ in range(PAIRS)]
            costs = [cost(bed) for _ in range(PAIRS)]
        finally:
            bed.close()
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"medians: {statistics.median(gains):.2f} times as fast, {statistics.median(costs):.0f} ms a cell; {load}")


if __name__ == "__main__":
    main()
