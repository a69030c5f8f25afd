"""A fleet on this machine: a scheduler and workers as processes, which end with the test."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from support.command import Bench

MACHINE = Path(__file__).with_name("machine.py")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(condition, patience=60):
    deadline = time.monotonic() + patience
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
    return found


class Fleet:
    """``folder`` is the working folder of all, and holds each machine's own data and logs. ``port`` stays over restarts."""

    def __init__(self, folder, certificates=None):
        self.folder, self.port, self.processes = folder, free_port(), {}
        self.bench = Bench(folder)
        self.scheme = "tls" if certificates else "tcp"
        self.tls = ["--tls", str(certificates)] if certificates else []

    @property
    def address(self):
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def log(self, name):
        return (self.folder / f"{name}.log").read_text("utf-8")

    def start(self, name, command, variables=None):
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, *command],
                cwd=self.folder,
                env=os.environ | (variables or {}),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def start_scheduler(self, *options):
        program = ["-m", "metalbench.harness.cli.main", "fleet", "scheduler"]
        self.start("scheduler", [*program, "--port", str(self.port), "--dashboard", "0", *self.tls, *options])
        wait_for(lambda: "Scheduler at" in self.log("scheduler") or self.processes["scheduler"].poll() is not None)

    def start_machine(self, name, *options):
        home = self.folder / name
        home.mkdir(exist_ok=True)
        variables = {"XDG_DATA_HOME": str(home / "data"), "XDG_CACHE_HOME": str(home)}
        self.start(name, [str(MACHINE), name, *options, "worker", self.address, *self.tls], variables)

    def joined(self, *names):
        wait_for(lambda: all("has joined" in self.log(name) for name in names))
        return [re.search(r"(\w{12}) has joined", self.log(name))[1] for name in names]

    def kill(self, name, how=signal.SIGKILL):
        process = self.processes.pop(name)
        process.send_signal(how)
        process.wait(30)

    def close(self):
        for name in list(self.processes):
            self.kill(name)
