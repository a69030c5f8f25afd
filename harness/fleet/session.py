"""Under one scheduler: tasks given to Dask, again where a machine came back, and given up where it stays away."""

from __future__ import annotations

import queue
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec
from distributed import Client, Future, KilledWorker

from metalbench.harness.fleet import machine as station
from metalbench.harness.fleet.messages import Errand, Event, Result, Started
from metalbench.harness.fleet.serving import backend_token, own_token

LOOK = 0.5  #: seconds between looks at who is there
PATIENCE = 60.0  #: seconds that a machine or the scheduler may be away


class Task(NamedTuple):
    """An errand for the machine that ``parts`` names; or ``anywhere``, of the errand's backend, for whichever of several is free.

    ``parts``: the machine's key → the errand as it is put to it. ``name`` is the cell's key where it is for any machine.
    """

    name: str
    backend: str
    parts: dict[str, Errand]
    anywhere: bool


class Session:
    """Tasks under one scheduler: iterates over events and results until all tasks are done, given up, or the scheduler is lost."""

    def __init__(self, client: Client, topic: str, left: dict[str, Task], lost: dict[str, str]) -> None:
        self._client, self._left, self._lost = client, left, lost
        self._news: queue.Queue[Event | tuple[str, Future]] = queue.Queue()
        self._futures: dict[str, Future] = {}
        self._at: dict[str, str] = {}  #: cell → the machine that is at it, or was
        self._there: dict[str, str] = {}
        self._last_seen: dict[str, float] = {}
        client.subscribe_topic(topic, lambda event: self._news.put(msgspec.json.decode(event[1], type=Event)))

    def __iter__(self) -> Iterator[Event | tuple[Task, Result]]:
        look = 0.0
        while self._left:
            if time.monotonic() > look:
                if self._client.status != "running":
                    return
                self._look()
                look = time.monotonic() + LOOK
            try:
                arrived = self._news.get(timeout=LOOK)
            except queue.Empty:
                continue
            if not isinstance(arrived, tuple):
                if isinstance(arrived, Started):
                    self._at[arrived.cell.key()] = arrived.machine
                yield arrived
                continue
            name, future = arrived
            if name not in self._futures or self._futures[name] is not future:  # given out anew meanwhile
                continue
            if future.status in {"cancelled", "lost"}:  # which is how a lost scheduler shows
                return
            del self._futures[name]
            look = 0.0  # whose machine is free now
            task, result = self._left.pop(name), self._result(name, future)
            if result is not None:
                yield task, result

    def close(self) -> None:
        """Take back what is not done; machines stop after the cell they are at."""
        with suppress(OSError, TimeoutError):
            self._client.cancel(list(self._futures.values()))
        self._futures.clear()

    def _result(self, name: str, future: Future) -> Result | None:
        if future.status == "finished":
            return msgspec.json.decode(future.result(), type=Result)
        error = future.exception()
        died = isinstance(error, KilledWorker)
        self._lost[name] = "its worker died over it again and again" if died else f"{type(error).__name__}: {error}"
        return None

    def _look(self) -> None:
        """See who is there: give out what waits for machines that came, and give up what waits for those that stay away."""
        try:
            there = addresses(self._client)
        except (OSError, TimeoutError):
            return
        now = time.monotonic()
        came = {key for key, place in there.items() if self._there.get(key) != place}
        self._there = there
        self._last_seen |= dict.fromkeys(there, now)
        for task in list(self._left.values()):
            if all(now - self._last_seen.setdefault(key, now) > PATIENCE for key in task.parts):
                self._lost[task.name] = "its machine left the fleet"
                del self._left[task.name]
                if (future := self._futures.pop(task.name, None)) is not None:
                    future.cancel()
            elif self._has_room(task) if task.name not in self._futures else came & set(task.parts) and self._waits(task, came):
                self._give(task)

    def _has_room(self, task: Task) -> bool:
        """Whether one of its machines may be free. More would wait at one of them, and stay there when another has nothing to do."""
        given = sum(self._left[name].parts.keys() == task.parts.keys() for name in self._futures)
        return not task.anywhere or given < sum(key in self._there for key in task.parts)

    def _waits(self, task: Task, came: set[str]) -> bool:
        """Whether a task that any of several machines may do was begun by none of those that are still the same."""
        return task.anywhere and self._at.get(task.name, next(iter(came))) in came

    def _give(self, task: Task) -> None:
        """Hand the task to Dask, again where it was handed over for other machines."""
        if (former := self._futures.pop(task.name, None)) is not None:
            former.cancel()
        places = [self._there[key] for key in task.parts if key in self._there]
        if task.anywhere and not places:
            return  # until one of its machines comes
        future = self._client.submit(
            station.measure,
            {key: msgspec.json.encode(errand) for key, errand in task.parts.items()},
            key=f"{task.name}-{secrets.token_hex(4)}",
            resources={"accelerator": 1, (backend_token(task.backend) if task.anywhere else own_token(next(iter(task.parts)))): 1},
            workers=places if task.anywhere else None,
        )
        self._futures[task.name] = future
        future.add_done_callback(lambda done: self._news.put((task.name, done)))


def addresses(client: Client) -> dict[str, str]:
    """The key of each machine that is there → where its worker is."""
    return {worker["name"]: place for place, worker in client.scheduler_info(n_workers=-1)["workers"].items()}
