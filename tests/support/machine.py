"""``bench`` on a machine of its own, as far as it knows: another chip, and a measurement lock that others don't wait for.

Machines that share their cores time each other, so that none asks whether its clock can be believed.

python machine.py CHIP [--version VERSION] ARGUMENT...
"""

import os
import sys
from pathlib import Path

import filelock

import metalbench
from metalbench.harness import host, scheduler, station

chip, *arguments = sys.argv[1:]
if arguments[0] == "--version":
    metalbench.__version__ = arguments[1]
    del arguments[:2]
host._chip = lambda: chip
scheduler.measurement_lock = lambda: filelock.FileLock(Path(os.environ["XDG_CACHE_HOME"]) / "measurement.lock")


def opened(self, worker, column):
    self._checked[column.key] = ""
    return refusal(self, worker, column)


refusal, station.Station.refusal = station.Station.refusal, opened

if __name__ == "__main__":
    from metalbench.harness.cli.main import main

    sys.argv[1:] = arguments
    main()
