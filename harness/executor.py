"""A worker process as the parent sees it: started, asked, watched, ended; whatever becomes of it is a status with a reason."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self

from metalbench.backends.base import Framework
from metalbench.harness.environments import Environment, worker_variables
from metalbench.harness.footprint import footprint
from metalbench.harness.protocol import Event, Job, Open, Opened, Refused, Stage, decode_event, send
from metalbench.results.record import Status

POLL = 0.05  #: seconds between looks at a silent worker
LOG_LIMIT = 64 << 10  #: bytes of a cell's log that are kept, the last ones
OPEN_TIMEOUT = 180.0  #: seconds to import a framework and open its device, on a cold disk
SELFCHECK_TIMEOUT = 180.0  #: seconds; it repeats itself on a busy machine


class Ended(NamedTuple):
    """The worker is no more: why, in words for the cell that was in work."""

    status: Status
    reason: str


class Worker:
    """One process with one device open. Use as a context manager: leaving it kills the whole process group."""

    def __init__(
        self, framework: Framework, kind: str, environment: Environment, folder: Path, *, plugins: list[str], memory_limit: int
    ) -> None:
        self._folder, self._memory_limit = folder, memory_limit
        self._log = folder / f"{framework.name}-{kind}-{time.monotonic_ns()}.log"
        self._stage = "starting"
        self._buffer = b""
        self._framework, self._kind, self._plugins = framework, kind, plugins
        job_read, self._jobs = os.pipe()
        self._events, event_write = os.pipe()
        try:
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    [environment.python, "-m", "metalbench.harness.worker", str(job_read), str(event_write)],
                    env=worker_variables(framework, kind, environment),
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=(job_read, event_write),
                    start_new_session=True,
                )
        finally:
            os.close(job_read)
            os.close(event_write)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def open(self, timeout: float = OPEN_TIMEOUT) -> Opened | Refused | Ended:
        """Import the framework and open the device."""
        answer = self.ask(Open(self._framework.name, self._kind, self._plugins), timeout)
        if isinstance(answer, Ended):
            return Ended(answer.status, f"{self._framework.title} did not open its {self._kind} device: {answer.reason}")
        assert isinstance(answer, Opened | Refused)
        return answer

    def ask(self, job: Job, timeout: float, on_stage: Callable[[str], None] = lambda _: None) -> Event | Ended:
        """Send a job and wait for its answer, at most ``timeout`` seconds. After ``Ended`` the worker is of no more use."""
        try:
            send(self._jobs, job)
        except BrokenPipeError:
            return self._ended()
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            selector.register(self._events, selectors.EVENT_READ)
            while True:
                ended = self._process.poll() is not None  # learnt from the process: a helper it started may hold the pipe open for ever
                events = self._read() if selector.select(0 if ended else POLL) else []
                for event in events:
                    if not isinstance(event, Stage):
                        return event
                    self._stage = event.name
                    on_stage(event.name)
                if ended and not events:
                    return self._ended()
                if (used := footprint(self._process.pid)) > self._memory_limit:
                    self.close()
                    return Ended(
                        "oom", f"grew to {used / 2**30:.1f} GiB, past the limit of {self._memory_limit / 2**30:.1f} GiB, in {self._stage!r}"
                    )
                if time.monotonic() > deadline:
                    self.close()
                    return Ended("timeout", f"no answer within {timeout:g} s, in {self._stage!r}")

    def log_size(self) -> int:
        return self._log.stat().st_size

    def log_since(self, offset: int) -> str:
        """What the process printed since its log was ``offset`` bytes long; the last ``LOG_LIMIT`` bytes of it."""
        with self._log.open("rb") as log:
            log.seek(max(offset, self.log_size() - LOG_LIMIT))
            return log.read().decode("utf-8", errors="replace")

    def kill(self) -> None:
        """End the process from another thread than the one that asks it, which is told so and closes it."""
        if self._process.poll() is None:
            self._process.kill()

    def close(self) -> None:
        """Kill the process and all that it started."""
        for fd in (self._jobs, self._events):
            if fd >= 0:
                os.close(fd)
        self._jobs = self._events = -1
        with contextlib.suppress(ProcessLookupError):  # all of the group is gone already
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _read(self) -> list[Event]:
        chunk = os.read(self._events, 1 << 20)
        if not chunk:  # every writer closed it: the process is about to end, or has
            time.sleep(POLL)
        self._buffer += chunk
        *lines, self._buffer = self._buffer.split(b"\n")
        return [decode_event(line) for line in lines]

    def _ended(self) -> Ended:
        code = self._process.wait()
        if code < 0:
            return Ended("crashed", f"killed by {signal.Signals(-code).name}, in {self._stage!r}")
        return Ended("crashed", f"exited with status {code}, in {self._stage!r}: {self._last_line()}")

    def _last_line(self) -> str:
        lines = self.log_since(0).strip().splitlines()
        return lines[-1][:300] if lines else "it printed nothing"
